"""Checks of the identities on one or two heads' weights: Stein's lemma, Lemma E.2, the RBF kernel.

With `p = softmax(ω X x_q)` and standard normal covariates, given `x_q`:

    E[Xᵀp]     = ω (1 - E|p|²) x_q
    E[p̃ᵀXXᵀp] = d E[p·p̃] + |x_q|² E[ωω̃ c - 2ω² c' - 2ω̃² c'']

    c = (1-|p|²)(1-|p̃|²) + p·p̃ - Σp²p̃ - Σpp̃² + (p·p̃)²,   c' = Σp²p̃ - |p|² p·p̃,   c'' = Σpp̃² - |p̃|² p·p̃

Both are tested on samples of all dimensions, where a difference has the mean 0, and for two tokens
as integrals over one variable, to rounding.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...claims import Check, Outcome


def stein_side(square: Any, omega: Any) -> Any:
    """The coefficient of `x_q` that is claimed, from `|p|²` or its mean."""
    return omega * (1 - square)


def product_side(p: Any, q: Any, omega: Any, other: Any, radius2: Any, dim: Any) -> Any:
    """The claimed value of `E[p̃ᵀXXᵀp]`, before the average; `q` is `p̃` and `other` is `ω̃`."""
    pq, pp, qq = np.sum(p * q, -1), np.sum(p * p, -1), np.sum(q * q, -1)
    ppq, pqq = np.sum(p * p * q, -1), np.sum(p * q * q, -1)
    mixed = (1 - pp) * (1 - qq) + pq - ppq - pqq + pq**2
    quadratic = omega * other * mixed
    quadratic -= 2 * omega**2 * (ppq - pp * pq) + 2 * other**2 * (pqq - qq * pq)
    return dim * pq + radius2 * quadratic


def stein_attention(preset: str, seed: int) -> Outcome:
    """Samples in all dimensions; the exact `E|p|²`; two tokens to rounding."""
    rng = np.random.default_rng(seed)
    settings, samples = (60, 40_000) if preset == "paper" else (30, 4_000)
    zscores, exact, precision = [], [], []
    for _ in range(settings):
        dim, length, xq, (omega, _) = _setting(rng)
        X = rng.standard_normal((samples, length, dim))
        p = _softmax(omega * X @ xq)
        mean = np.einsum("nl,nld->nd", p, X)
        radius = math.sqrt(xq @ xq)
        along = mean @ xq / radius
        aside = rng.standard_normal(dim)
        aside -= xq * (aside @ xq) / radius**2
        zscores += [_z(along - radius * stein_side(np.sum(p * p, -1), omega))]
        if dim > 1:
            zscores.append(_z(mean @ aside))
        exact.append(_z(along - radius * stein_side(_exact_square(omega * radius, length), omega)))
        precision.append(np.std(along) / math.sqrt(samples) / abs(np.mean(along)))
    scales = np.array([0.1, 0.7, 2.0, 6.0])
    left, square = np.array([_two_tokens(a, a)[:2] for a in scales]).T
    return Outcome(
        (
            Check.distribution("along x_q and across, the same samples on both sides", zscores),
            Check.distribution("along x_q, with the exact E|p|²", exact, minimum=30),
            Check.agreement(
                "two tokens, both sides as integrals", left, stein_side(square, scales),
                tolerance=1e-12,
            ),
        ),
        notes=(
            f"{settings} random settings (d <= 8, 4 <= L <= 60, |ω| |x_q| <= 1.5), {samples} samples "
            f"each, seed {seed}; the median standard error is {np.median(precision):.1%} of the "
            "left side. The identity needs Gaussian covariates, nothing else: any length, any ω."
        ),
    )  # fmt: skip


def lemma_e2(preset: str, seed: int) -> Outcome:
    """The expansion on samples; against the exact moments; two tokens to rounding."""
    rng = np.random.default_rng(seed)
    settings, samples = (80, 40_000) if preset == "paper" else (40, 3_000)
    zscores, exact, share = [], [], []
    for _ in range(settings):
        dim, length, xq, (omega, other) = _setting(rng)
        X = rng.standard_normal((samples, length, dim))
        scores = X @ xq
        p, q = _softmax(omega * scores), _softmax(other * scores)
        radius2 = float(xq @ xq)
        product = np.sum(np.einsum("nl,nld->nd", p, X) * np.einsum("nl,nld->nd", q, X), -1)
        claimed = product_side(p, q, omega, other, radius2, dim)
        zscores.append(_z(product - claimed))
        radius = math.sqrt(radius2)
        exact.append(_z(product - _exact_product(omega * radius, other * radius, length, dim)))
        leading = dim * np.sum(p * q, -1) + omega * other * radius2
        share.append(abs(np.mean(claimed - leading)) / abs(np.mean(claimed)))
    pairs = [(0.3, 0.3), (1.0, -0.5), (2.0, 3.0), (-4.0, 1.0)]
    left, right = np.array([_two_tokens(a, b)[2:] for a, b in pairs]).T
    return Outcome(
        (
            Check.distribution("the same samples on both sides", zscores),
            Check.distribution("samples against the exact moments", exact),
            Check.agreement("two tokens, both sides as integrals", left, right, tolerance=1e-12),
        ),
        notes=(
            f"{settings} random settings (d <= 8, 4 <= L <= 60, |ω| |x_q| <= 1.5 for both heads), "
            f"{samples} samples each, seed {seed}. What the approximate loss keeps, d E[p·p̃] + "
            f"ωω̃|x_q|², is off by {np.median(share):.0%} of the whole at the median of these "
            "settings, most of which are outside of its range."
        ),
    )


def nadaraya_watson(preset: str, seed: int) -> Outcome:
    """Weights and predictions on spheres; the bandwidth; where the equivalence ends."""
    rng = np.random.default_rng(seed)
    dims = (2, 5, 20, 100, 1000) if preset == "paper" else (2, 5, 20, 100)
    weights, predictions, bandwidths, literal, gaussian = [], [], [], [], []
    for dim in dims:
        omega = 1 / math.sqrt(dim)
        width = bandwidth(omega)
        bandwidths.append(width / dim**0.25)
        for radius in (1.0, math.sqrt(dim)):
            X = rng.standard_normal((50, 40, dim))
            xq = rng.standard_normal((50, dim))
            onto = radius / np.linalg.norm(X, axis=-1, keepdims=True)
            S, sq = onto * X, radius * xq / np.linalg.norm(xq, axis=-1, keepdims=True)
            y = np.einsum("nld,nd->nl", S, xq)
            head = _head_weights(omega, S, sq)
            rbf = _rbf_weights(S, sq, 1 / (2 * width**2))
            weights.append(np.abs(head - rbf).max())
            predictions.append(np.abs(np.sum((head - rbf) * y, -1)).max() / np.abs(y).max())
            literal.append(_variation(head, _rbf_weights(S, sq, omega)))
        gaussian.append(_variation(_head_weights(omega, X, xq), _rbf_weights(X, xq, omega / 2)))
    return Outcome(
        (
            Check.bound("largest difference of weights", np.array(weights), upper=1e-12),
            Check.bound("largest difference of predictions, relative", np.array(predictions), upper=1e-12),
            Check.agreement("bandwidth at ω = 1/√d, over d^(1/4)", np.array(bandwidths), 1.0, tolerance=1e-12),
        ),
        evidence=(
            Check.bound(
                "on spheres of radius √d, total variation to exp(-ω|x-x'|²)", np.array(literal[1::2]),
                lower=0.05,
            ),
            Check.bound("Gaussian covariates, total variation to the RBF", np.array(gaussian), lower=0.05),
        ),
        notes=(
            "The bandwidth is h = ω^(-1/2) in the convention exp(-|x-x'|²/(2h²)): the kernel is "
            "exp(-(ω/2)|x-x'|²), whatever the radius of the sphere. Appendix E.1 writes the RBF "
            "kernel as exp(-ω|x-x'|²) and says that both coincide on the unit sphere: they do with "
            "ω/2 in its place, and with the same ω the weights differ by "
            f"{literal[3]:.2f} in total variation (d = 5, radius √d). It also calls 1/ω the "
            "bandwidth, which is h². With Gaussian covariates of all lengths a head is not an RBF "
            f"regressor: it favours long x by e^(ω|x|²/2) ({gaussian[1]:.2f} in total variation at "
            "d = 5). A negative head is none anywhere, since h² = 1/ω < 0."
        ),
    )  # fmt: skip


def bandwidth(omega: float) -> float:
    """`h` of `exp(-|x-x'|²/(2h²))` for a head with that `ω`."""
    return omega**-0.5


def _head_weights(omega: float, X: np.ndarray, xq: np.ndarray) -> np.ndarray:
    import jax.numpy as jnp

    from ..._core.precision import float64, to_numpy
    from ...students import KernelHeads

    with float64():
        heads = KernelHeads(np.array([omega]), np.ones(1))
        return to_numpy(heads.attention(jnp.asarray(X), jnp.asarray(xq)))[:, 0]


def _rbf_weights(X: np.ndarray, xq: np.ndarray, precision: float) -> np.ndarray:
    """Weights of kernel regression with `exp(-precision |x - x_q|²)`."""
    return _softmax(-precision * np.sum((X - xq[:, None, :]) ** 2, -1))


def _variation(p: np.ndarray, q: np.ndarray) -> float:
    return float(np.mean(np.sum(np.abs(p - q), -1)) / 2)


def _setting(rng: Any) -> tuple[int, int, np.ndarray, np.ndarray]:
    """Dimension, length, query, and two `ω` with scores of a standard deviation up to 1.5."""
    dim, length = int(rng.integers(1, 9)), int(rng.integers(4, 61))
    xq = rng.standard_normal(dim)
    scores = rng.uniform(0.05, 1.5, 2) * rng.choice([-1, 1], 2)
    return dim, length, xq, scores / math.sqrt(xq @ xq)


def _softmax(scores: np.ndarray) -> np.ndarray:
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def _z(values: np.ndarray) -> float:
    return float(np.mean(values) / (np.std(values, ddof=1) / math.sqrt(len(values))))


def _exact_square(scale: float, length: int) -> float:
    from ...theory import softmax_moments

    return float(softmax_moments(scale, scale, math.log(length), rtol=1e-6).overlap)


def _exact_product(scale: float, other: float, length: int, dim: int) -> float:
    from ...theory import softmax_moments

    found = softmax_moments(scale, other, math.log(length), rtol=1e-6)
    return float(found.second + (dim - 1) * found.overlap)


def _two_tokens(a: float, b: float) -> tuple[float, float, float, float]:
    """For `L = 2` and `|x_q| = 1`: `E Σps`, `E|p|²`, and both sides of Lemma E.2 (d = 1).

    The weights depend on the difference of the two scores alone, `√2 u` with a normal `u`; their
    sum is `√2 v` with an independent one.
    """
    u = np.linspace(-12, 12, 4001)
    density = np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi) * (u[1] - u[0])
    p, q = (_softmax(c / math.sqrt(2) * np.stack([u, -u], -1)) for c in (a, b))
    first, second = (u * (w[:, 0] - w[:, 1]) / math.sqrt(2) for w in (p, q))
    # the common part v/√2 of both scores adds its variance ½
    product = 0.5 + density @ (first * second)
    claimed = density @ product_side(p, q, a, b, 1.0, 1)
    return (
        float(density @ first),
        float(density @ np.sum(p * p, -1)),
        float(product),
        float(claimed),
    )
