"""Checks of the claims on the informative token's weight: its size, sign, rates, and what it costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...claims import Check, Outcome
from .checks_bulk import FAMILY, limit_free_energy
from .exact import Sizes, risks_each
from .mass_exponents import local_rates
from .masses import attention_at

STD = math.sqrt(0.5)  # γ unless said otherwise, so c = γ
# α, β/β_c, κ; five and more standard deviations of the logit from cκ = ψ at d = 500
PLACES = np.array(
    [
        (0.1, 0.7, 1.0), (0.1, 1.0, 1.0), (0.1, 1.8, 1.0), (0.1, 0.7, 0.3), (0.1, 1.0, 0.3),
        (0.1, 1.8, 0.3), (0.1, 1.8, -0.5), (0.3, 0.8, 0.5), (0.3, 1.5, 0.6), (0.05, 3.0, 0.9),
    ]
)  # fmt: skip


def printed_mass(beta: Any, dim: Any, gap: Any) -> Any:
    """`1/(1 + e^{(cκ - ψ)βd})`, as printed."""
    return 0.5 * (1 - np.tanh(gap * beta * dim / 2))


def corrected_mass(beta: Any, dim: Any, gap: Any) -> Any:
    """The same with the sign that `p = 1/(1 + e^{-β√d x·u} Z)` gives."""
    return 0.5 * (1 + np.tanh(gap * beta * dim / 2))


def attention_mass(preset: str, seed: int) -> Outcome:
    """Exact `E p` in both phases, found and lost, against the two signs."""
    alpha, cooling, kappa = PLACES.T
    beta = cooling * np.sqrt(2 * alpha)
    dims = np.array([100.0, 500.0, 1000.0])[:, None]
    gap = STD * kappa - limit_free_energy(beta, alpha)
    sizes = Sizes(dims, alpha, beta, STD)
    exact = attention_at(sizes, kappa, family=FAMILY)
    odds = beta * dims * STD * kappa - exact.log_partition
    right = corrected_mass(beta, dims, gap)
    error = np.abs(exact.mass - right).max(axis=1)
    found = gap > 0
    return Outcome(
        (
            Check.agreement(
                "E p at d = 1000 against the printed 1/(1 + e^{(cκ-ψ)βd})",
                exact.mass[-1], printed_mass(beta, dims[-1], gap), tolerance=0.02,
            ),
        ),
        corrected=(
            "p ≈ 1/(1 + e^{-(cκ - ψ)βd}) for a typical prompt: the exponent is minus the printed one, "
            "as p = 1/(1 + e^{-β√d x·u} Z) shows; attention is found where cκ > ψ."
        ),
        evidence=(
            Check.agreement("E p at d = 1000 against the corrected form", exact.mass[-1], right[-1], tolerance=0.01),
            Check.agreement("E log(p/(1-p)) / (βd) at d = 1000 against cκ - ψ", odds[-1] / (beta * 1000), gap, tolerance=0.01),
            Check.bound("largest error of E p: d = 1000 against 100", error[-1] / error[0], upper=0.2),
        ),
        notes=(
            f"Exact at {len(alpha)} places of the phase diagram, γ² = 1/2: E p >= "
            f"{exact.mass[-1][found].min():.4f} where cκ > ψ and <= {exact.mass[-1][~found].max():.1e} "
            "where cκ < ψ, the reverse of the print. The source derives the form from the right line "
            "before it; the print recurs in its definition of R. Error of the corrected form: "
            f"{error[0]:.3f}, {error[1]:.4f}, {error[2]:.1e} at d = 100, 500, 1000. As the logit "
            "fluctuates by γβ√d, the form describes typical prompts, not E p near cκ = ψ nor its rates."
        ),
    )  # fmt: skip


def printed_rate(beta: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """`β|cκ - ψ|`, at which the sigmoid vanishes or saturates."""
    return beta * np.abs(gap)


def mass_exponents(preset: str, seed: int) -> Outcome:
    """Exact rates of `E p` in the dark phase and of `E (1-p)` in retrieval at d = 800 to 1000."""
    from ... import theory

    alpha = 0.1
    critical = math.sqrt(2 * alpha)
    dark_kappa = np.array([-0.3, 0.0, 0.2, 0.4])
    dark_beta = np.full(4, 1.2 * critical)
    warm_beta = np.array([0.7, 0.95, 1.5, 3.0]) * critical
    dim = 800.0
    kappa, beta = np.append(dark_kappa, np.ones(4)), np.append(dark_beta, warm_beta)
    rates = local_rates(Sizes(dim, alpha, beta, STD), kappa, FAMILY)
    gap = STD * kappa - limit_free_energy(beta, np.full(8, alpha))
    printed = printed_rate(beta, gap)
    dark = slice(0, 4), slice(4, 8)
    exact = np.concatenate([rates["mass"][dark[0]], rates["missing"][dark[1]]])
    right = np.concatenate(
        [
            theory.mass_rate(dark_kappa, dark_beta, STD, STD, alpha),
            theory.missing_mass_rate(1.0, warm_beta, STD, STD, alpha),
        ]
    )
    square = theory.missing_mass_rate(1.0, warm_beta, STD, STD, alpha, 2.0)
    return Outcome(
        (
            Check.agreement(
                "rates of E p (dark) and E (1-p) (retrieval) against β|cκ - ψ|",
                exact, printed, relative_tolerance=0.1,
            ),
        ),
        corrected=(
            "β|cκ - ψ| is the rate of the typical prompt. The means are made by rare prompts whose "
            "informative logit is off by O(d): E p has the rate β(ψ-cκ) - β²γ²/2 where βγ² <= ψ - cκ, "
            "else (ψ-cκ)²/2γ²; E (1-p) the smaller of the same with cκ - ψ and of "
            "u cκ - α - u²(1+γ²)/2, u = min(β, cκ/(1+γ²)), which counts where u >= ψ."
        ),
        evidence=(
            Check.agreement("the same rates against the large deviations", exact, right, tolerance=2e-3),
            Check.agreement("rate of E (1-p)²", rates["missing_square"][dark[1]], square, tolerance=2e-3),
            Check.agreement("rate of the typical prompt, |E log(p/(1-p))|", rates["typical"], printed, tolerance=5e-3),
        ),
        notes=(
            f"Exact, α = {alpha}, γ² = 1/2, between d = {dim:.0f} and {1.25 * dim:.0f}. Dark phase, "
            f"κ = {dark_kappa.tolist()}: rates {np.round(exact[:4], 4).tolist()}, printed "
            f"{np.round(printed[:4], 4).tolist()}. Retrieval, β/β_c = 0.7, 0.95, 1.5, 3: "
            f"{np.round(exact[4:], 4).tolist()}, printed {np.round(printed[4:], 4).tolist()}; from "
            "β_c on no temperature speeds it up. Nor does p over the sigmoid tend to 1 in probability: "
            "the logarithm of that ratio fluctuates by γβ√d."
        ),
    )  # fmt: skip


def boundary(noise: np.ndarray) -> np.ndarray:
    """The largest learnable α, as stated: `(1 - γ²)/2`."""
    return (1 - noise) / 2


def learnability(preset: str, seed: int) -> Outcome:
    """The oracle's largest `E p` over β inside and outside, and where it is one half."""
    noise = np.array([0.3, 0.5, 0.64])
    dims = np.array([60.0, 125.0, 250.0, 500.0, 1000.0])
    edge = boundary(noise)
    beta = np.array([0.7, 1.0, 1.5, 2.0])
    std = np.sqrt(noise)
    share = np.array([0.6, 1.4])
    sizes = Sizes(1000.0, share[:, None, None] * edge[:, None], beta, std[:, None])
    family = FAMILY._replace(alpha=0.6)
    mass = attention_at(sizes, family=family).mass.max(axis=-1)
    half = np.stack([half_point(dims, float(each), family) for each in std])
    basis = np.stack([np.ones_like(dims), 1 / dims, np.log(dims) / dims], axis=1)
    limit = np.linalg.lstsq(basis, half.T, rcond=None)[0][0]
    return Outcome(
        (
            Check.bound("largest E p over β = 0.7 to 2, α = 0.6 of the boundary, d = 1000", mass[0], lower=0.999),
            Check.bound("largest E p over β = 0.7 to 2, α = 1.4 of the boundary, d = 1000", mass[1], upper=0.001),
            Check.agreement("α at which E p = ½, extrapolated in d, against (1-γ²)/2", limit, edge, tolerance=3e-3),
        ),
        notes=(
            f"Exact, γ² = {noise.tolist()}, β = {beta.tolist()}. α of half attention at β = 2: "
            f"{np.round(half[1], 4).tolist()} at d = {dims.astype(int).tolist()} for γ² = 0.5, where "
            "the boundary is 0.25: finite prompts are learnable a little beyond it. Extrapolated with "
            f"1/d and log d / d: {np.round(limit, 4).tolist()}."
        ),
    )  # fmt: skip


def half_point(dims: np.ndarray, std: float, family: Sizes) -> np.ndarray:
    """The α at which the oracle's `E p` is one half at β = 2, by two grids; NaN if not in 0.05 to 0.6."""
    low, high = np.full(len(dims), 0.05), np.full(len(dims), 0.6)
    for points in (20, 8):
        alphas = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, points)
        found = attention_at(Sizes(dims[:, None], alphas, 2.0, std), family=family)
        odds = np.log(found.mass / found.missing)
        crossed = (odds[:, 0] > 0) & (odds[:, -1] <= 0)
        index = np.clip(np.sum(odds > 0, axis=1) - 1, 0, points - 2)[:, None]
        low, high = (np.take_along_axis(alphas, index + i, 1)[:, 0] for i in (0, 1))
    first, second = (np.take_along_axis(odds, index + i, 1)[:, 0] for i in (0, 1))
    return np.where(crossed, low + (high - low) * first / (first - second), np.nan)


def printed_minimum() -> float:
    """`R_min`, as printed."""
    return 0.0


def minimum_zero(preset: str, seed: int) -> Outcome:
    """A lower bound for every predictor at finite size, and the rate at which the oracle nears it."""
    from ... import theory
    from ...students import Overlaps

    dim, length, samples = 10, 8, 20_000 if preset == "quick" else 1_000_000
    bound, error = bayes_risk(dim, length, STD, samples, seed)
    alpha = math.log(length) / dim
    dims = np.array([dim, 100.0, 400.0, 800.0, 1000.0])
    betas = np.array([0.9, 0.9, 0.9, 0.9, 0.9])
    alphas = np.array([alpha, 0.1, 0.1, 0.1, 0.1])
    teacher = risks_each(Sizes(dims, alphas, betas, STD), Overlaps.teacher(), family=FAMILY)
    rate = math.log(teacher[-2] / teacher[-1]) / (dims[-1] - dims[-2])
    predicted = float(theory.missing_mass_rate(1.0, 0.9, STD, STD, 0.1, 2.0))
    return Outcome(
        (
            Check.agreement(
                f"least risk of any predictor, d = {dim}, L = {length}, against the printed minimum",
                bound, printed_minimum(), standard_error=error, scale=STD**2,
            ),
        ),
        corrected=(
            "R_min > 0 at every finite size, also without label noise; for 1 - γ² > 2α it tends to 0 "
            "as d → ∞, exponentially fast: at the teacher like E (1-p)²."
        ),
        evidence=(
            Check.bound("the teacher's exact risk is above the bound", teacher[0], lower=bound - 5 * error),
            Check.agreement("rate of the teacher's risk, d = 800 to 1000", rate, predicted, tolerance=2e-3),
        ),
        notes=(
            f"The Bayes risk given the prompt and (k*, v*), by {samples} sampled prompts: {bound:.5f} "
            f"± {error:.5f} (variance of the label 0.5); no student gets below it. The teacher's "
            f"exact risk there, β = 0.9, is {teacher[0]:.4f}; at α = 0.1 it is {teacher[1]:.2e}, "
            f"{teacher[2]:.2e}, {teacher[4]:.2e} at d = 100, 400, 1000. The proof uses no more than "
            "R >= 0, so that its conclusion does not depend on this."
        ),
    )  # fmt: skip


def bayes_risk(dim: int, length: int, std: float, samples: int, seed: int) -> tuple[float, float]:
    """`E Var(y | X)` for the linear link without label noise, with its standard error.

    Given the prompt the label is `x_ℓ·v*` with the posterior probability that `ℓ` is the place.
    """
    rng = np.random.default_rng(seed)
    score, read = rng.standard_normal((2, samples, length))
    rest = rng.chisquare(dim - 2, (samples, length))
    shift = math.sqrt((1 - std**2) * dim)
    score[:, 0] = shift + std * score[:, 0]
    read[:, 0] *= std
    rest[:, 0] *= std**2
    square = score**2 + read**2 + rest
    log = square / 2 - (square - 2 * shift * score) / (2 * std**2)
    weights = np.exp(log - log.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    mean = (weights * read).sum(axis=1)
    variance = (weights * (read - mean[:, None]) ** 2).sum(axis=1)
    return float(variance.mean()), float(variance.std(ddof=1) / math.sqrt(samples))
