"""Checks of the diagonal term of the ReLU loss, and of the loss that the terms add up to.

The factor of `|A|²` in `E[g(xᵀAx_i)² |x_i|²]` is found for several `d`, and a line through it; the
constants of the loss are found likewise. Symbols are a second way to both. `|A|` is Frobenius' norm.

Source: note on ReLU attention, Proof; `docs/theory/relu-identities`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ...claims import Check, Outcome
from . import symbolic
from .checks_identities import KINDS, proof
from .identity_samples import Mean, least_squares, line, random_matrix, relu, sizes

_DIMS = range(1, 9)
_TASKS = ((3, 3), (3, 9), (5, 4), (5, 8))  # d and n
_INVARIANTS = ("tr A²", "(tr A)²", "the nuclear norm squared")  # that the loss could depend on


def diagonal_side(dim: Any, square: Any) -> Any:
    """`E[g_i² |x_i|²]` as printed, from `d` and `|A|²`."""
    return (dim + 2) * square


def loss_constants(dim: Any, length: Any) -> tuple[Any, Any, Any]:
    """`α`, `β` and the constant of `f(A) = α|A|² - β tr A + constant`, which the note leaves out."""
    return length * (length - 1) / 4 + length * (dim + 2) / 2, length, dim


def diagonal_term(preset: str, seed: int) -> Outcome:
    """The factor of `|A|²` for several `d`; the line through it, at new `A` and `d`."""
    rng = np.random.default_rng(seed)
    settings, samples = sizes(preset)
    repeats = settings // 8
    found = [
        together([diagonal_samples(rng, d, k, samples)[0] for k in range(repeats)]) for d in _DIMS
    ]
    slope, intercept = line(_DIMS, found)
    exact = np.polyfit(_DIMS, [_diagonal_factor(d) for d in _DIMS], 1)
    a, b = (Fraction(float(value)).limit_denominator(24) for value in exact)
    text = _in_words(a, b)
    larger = [int(d) for d in rng.integers(2, 13, settings)]
    new = [diagonal_samples(rng, d, k, samples) for k, d in enumerate(larger)]
    d, _, square, _ = symbolic.symbols()
    printed = symbolic.diagonal_term() - diagonal_side(d, square)
    line_of_d = symbolic.rational(a) * d + symbolic.rational(b)
    return Outcome(
        (
            Check.agreement(
                "factor of |A|², d = 1 to 8", [m.mean for m in found],
                [float(diagonal_side(d, 1.0)) for d in _DIMS],
                standard_error=[m.error for m in found],
            ),
            proof("as printed", printed, [("A", "x", "y"), ("A", "x", "y"), ("I", "y", "y")]),
        ),
        corrected=f"E[g(xᵀAx_i)² |x_i|²] = {text}.",
        evidence=(
            Check.condition(
                f"SymPy: it is {text} for any d",
                symbolic.vanishes(symbolic.diagonal_term() - line_of_d * square),
                "the fitted line, in a symbol d, less the integral over ReLU's half simplifies to 0",
            ),
            Check.agreement(
                "slope in d of the sampled factor", slope.mean, float(a), standard_error=slope.error,
            ),
            Check.agreement(
                "its intercept", intercept.mean, float(b), standard_error=intercept.error,
            ),
            Check.agreement(
                "the line through quadratures, rounded to fractions", exact, [float(a), float(b)],
                tolerance=1e-10,
            ),
            Check.distribution(
                "samples at new A and d up to 12",
                [m.z(a * n + b) for n, (m, _) in zip(larger, new, strict=True)],
            ),
            Check.distribution(
                "without ReLU, E[(xᵀAx_i)² |x_i|²] = (d + 2) |A|²",
                [m.z(n + 2) for n, (_, m) in zip(larger, new, strict=True)],
            ),
        ),
        notes=(
            f"{repeats} random A ({KINDS}; |A| = 1) for each d, {samples} samples each, seed {seed}: "
            f"slope {slope.mean:.4f} ± {slope.error:.4f} in d, intercept {intercept.mean:.3f} ± "
            f"{intercept.error:.3f}; the correction is the line through quadratures. The note is right "
            "up to its last but one display: as g(a)² + g(-a)² = a², the term is ½ E[(xᵀAx_i)² "
            "|x_i|²]. The last display begins with that, and goes on with E[x_iᵀAᵀAx_i |x_i|²], where "
            "the ½ is lost; d + 2 is right for the average without it. The lemma survives, with "
            "another constant."
        ),
    )  # fmt: skip


def quadratic_loss(preset: str, seed: int) -> Outcome:
    """Constants from the exact and the sampled loss; that nothing else enters; by symbols."""
    rng = np.random.default_rng(seed)
    count, samples = loss_sizes(preset)
    alphas, betas, levels, rest, others, residuals, zscores = ([] for _ in range(7))
    sampled, errors, scales = [], [], []
    for dim, length in _TASKS:
        alpha, beta, constant = (float(value) for value in loss_constants(dim, length))
        best = beta / (2 * alpha)
        matrices = [_near(rng, best, dim, k) for k in range(count)]
        design = np.array([_invariants(A / best) for A in matrices])
        losses = library_losses(matrices, length)
        fit = np.linalg.lstsq(design, losses, rcond=None)[0]
        alphas.append(fit[0] / best**2)
        betas.append(-fit[1] / best)
        levels.append(fit[2])
        others.append(fit[3:])
        residuals.append(np.max(np.abs(design @ fit - losses)))
        means = [sampled_loss(rng, A, length, samples) for A in matrices]
        stated = [alpha * np.sum(A**2) - beta * np.trace(A) + constant for A in matrices]
        zscores += [m.z(value) for m, value in zip(means, stated, strict=True)]
        coefficients, width = least_squares(design, means)
        rest.append(coefficients[3:])
        errors.append(width[3:])
        scales.append(np.full(3, abs(alpha) * best**2))
        coefficients, width = least_squares(design[:, :3], means)
        sampled.append(Mean(coefficients[0] / best**2, width[0] / best**2))
    dims, lengths = np.array(_TASKS, float).T
    plane = np.stack([lengths, dims, np.ones(len(dims))], 1)
    per_length = np.linalg.lstsq(plane, np.array(alphas) / lengths, rcond=None)[0]
    in_n, in_d, alone = (Fraction(float(value)).limit_denominator(24) for value in per_length)
    d, n, square, trace = symbolic.symbols()
    alpha, beta, constant = loss_constants(d, n)
    wanted = [[float(value) for value in loss_constants(*task)] for task in _TASKS]
    return Outcome(
        (
            Check.condition(
                "SymPy: the terms add up to α|A|² - β tr A + d for any d and n",
                symbolic.vanishes(symbolic.loss() - (alpha * square - beta * trace + constant)),
                "with α = n(n-1)/4 + n(d+2)/2, β = n; the difference simplifies to 0, in symbols for d, "
                "n and the two traces",
            ),
            Check.bound(
                "exact losses at random A: what is left of the fit", residuals, upper=1e-9,
            ),
            Check.agreement(
                f"exact losses: factors of {', '.join(_INVARIANTS)}", others, 0.0, tolerance=1e-8,
            ),
            Check.agreement(
                "exact losses: fitted α, β, constant", np.stack([alphas, betas, levels], 1), wanted,
                relative_tolerance=1e-8,
            ),
            Check.distribution("sampled losses at random A", zscores),
            Check.agreement(
                "sampled losses: α, fitted with β and the constant", [m.mean for m in sampled],
                [row[0] for row in wanted], standard_error=[m.error for m in sampled],
            ),
            Check.agreement(
                f"sampled losses: factors of {', '.join(_INVARIANTS)}, over that of |A|²",
                np.array(rest) / scales, 0.0, standard_error=np.array(errors) / scales, scale=1.0,
                resolution=0.5,
            ),
        ),
        answer=(
            f"α = n ({in_n} n + {in_d} d + {alone}) = n(n-1)/4 + n(d+2)/2, β = n, and the constant is d; "
            f"sampled at d, n = {_TASKS[-1]}: α = {sampled[-1].mean:.2f} ± {sampled[-1].error:.2f}, where "
            f"this is {wanted[-1][0]:g}. Hence c = β/2α = 2/(n + 2d + 3)."
        ),
        notes=(
            f"{count} random A (multiples of I and random ones) for each d, n of {_TASKS}, {samples} "
            f"prompts each and four w for each of them, seed {seed}. The exact losses are the library's risk; "
            "samples know nothing of it. That the form is quadratic is no matter of course: in ReLU it "
            "is only homogeneous, and the square of any norm would be. With the printed diagonal term "
            "α would be n(n-1)/4 + n(d+2), and the minimiser 2/(n + 4d + 7): of the same shape, and "
            "smaller."
        ),
    )  # fmt: skip


def loss_sizes(preset: str) -> tuple[int, int]:
    """Matrices for each task, and prompts for each of them."""
    return (120, 100_000) if preset == "paper" else (24, 12_000)


def diagonal_samples(rng: Any, dim: int, k: int, samples: int) -> tuple[Mean, Mean]:
    """`E[g² |x_i|²]` and `E[a² |x_i|²]` at a random `A` of norm 1, from independent samples."""
    A = random_matrix(rng, k, dim)
    x, y = rng.standard_normal((2, 2, samples, len(A)))
    scores, norms = np.sum(x @ A * y, -1), np.sum(y * y, -1)
    return Mean.of(relu(scores[0]) ** 2 * norms[0]), Mean.of(scores[1] ** 2 * norms[1])


def together(means: list[Mean]) -> Mean:
    """The mean of means."""
    m, e = np.array(means).T
    return Mean(float(m.mean()), float(np.sqrt(np.sum(e**2)) / len(m)))


def sampled_loss(rng: Any, A: np.ndarray, length: int, samples: int) -> Mean:
    """`f(A)` as the note defines it, on prompts that are drawn here, with four `w` for each."""
    x, *w = rng.standard_normal((5, samples, len(A)))
    X = rng.standard_normal((samples, length, len(A)))
    weights = relu(np.einsum("nid,nd->ni", X, x @ A))
    read = np.einsum("ni,nid->nd", weights, X)
    return Mean.of(np.mean(np.sum(w * (read - x), -1) ** 2, 0))


def library_losses(matrices: list[np.ndarray], length: int) -> np.ndarray:
    """The exact risks of the layers with these `A`."""
    from ...students import MergedAttention
    from ...tasks import InContextRegression
    from ...theory import population_risk

    dim = len(matrices[0])
    task = InContextRegression(dim, length, noise_std=0.0, prior=np.eye(dim))
    layers = [MergedAttention.sparse(A, normalization="relu-sum") for A in matrices]
    risk = population_risk(task, layers[0])
    return np.array([float(risk(layer)) for layer in layers])


def _diagonal_factor(dim: int) -> float:
    """By Gauss-Legendre quadrature: given the score, the rest of `|x_i|²` has the mean `d - 1`."""
    nodes, weights = np.polynomial.legendre.leggauss(120)
    z = 7 * (nodes + 1)
    density = 7 * weights * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return float(density @ (z**2 * (z**2 + dim - 1)))


def _in_words(slope: Fraction, intercept: Fraction) -> str:
    """`(d + 2)/2 |A|²` for ½ and 1."""
    if not slope:
        return f"{intercept} |A|²"
    times = "" if slope.numerator == 1 else f"{slope.numerator} "
    over = "" if slope.denominator == 1 else f"/{slope.denominator}"
    return f"{times}(d + {intercept / slope}){over} |A|²"


def _near(rng: Any, best: float, dim: int, k: int) -> np.ndarray:
    """A random matrix of the size of the best one."""
    spread = math.sqrt(dim) * rng.uniform(0.3, 1.5) * random_matrix(rng, k, dim)
    return best * (rng.uniform(-1, 2) * np.eye(dim) + spread)


def _invariants(A: np.ndarray) -> list[float]:
    """`|A|²`, `tr A`, 1, and those of `_INVARIANTS`."""
    trace = float(np.trace(A))
    nuclear = float(np.sum(np.linalg.svd(A, compute_uv=False)))
    return [float(np.sum(A**2)), trace, 1.0, float(np.sum(A * A.T)), trace**2, nuclear**2]
