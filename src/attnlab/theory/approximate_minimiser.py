"""Minimisers of the approximate loss `L̃` of he2025, in closed form.

At fixed `ω` the loss is quadratic in `μ`. Its matrix is a Gram matrix of the power series
`Φ_kh = (√d ω_h)^k / √k!`, `exp(d ωωᵀ) = ΦᵀΦ`, and `ω = Φᵀe_1/√d`, which gives the minimum

    min_μ L̃ = 1 + σ² - s/(1+s),      s = |Pe_1|² L / (d (1+σ²)),

`P` the projection on the span of `Φ`'s columns. Since `|Pe_1| <= 1`, no heads of any number do
better than `1 + σ² - η*`. Source: Theorem 4.2 (ii), eq. (4.4)-(4.6) of he2025;
`docs/theory/solution-manifold`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Float

from .._core.errors import InvalidArgument
from ..students import KernelHeads
from ..tasks import InContextRegression
from .heads_risk import check_isotropic

_SMALLEST_PIVOT = 1e-13
_LARGEST_EXPONENT = 600.0


class OptimalOutputs(NamedTuple):
    """The minimiser of `L̃` over `μ` at given `ω`: `mu` `(*batch, H)` and the `value` `(*batch,)`."""

    mu: Float[np.ndarray, "*batch heads"]
    value: Float[np.ndarray, "*batch"]


def optimal_outputs(
    task: InContextRegression, omega: Float[ArrayLike, "*batch heads"]
) -> OptimalOutputs:
    """`μ*(ω) = (ωωᵀ + c exp(dωωᵀ))⁻¹ ω` and the loss there, `c = (1+σ²)/L`.

    Solved by an orthogonal factorisation of `Φ`, never of the matrix itself, which is singular in
    float64 long before two heads coincide. Raises `InvalidArgument` where heads do coincide
    (only their sum of `μ` matters then: give each `ω` once), or when `exp(dω²)` overflows.

    Source: Section 4.2 of he2025; `docs/theory/solution-manifold`.
    """
    check_isotropic(task)
    rows = _finite("omega", omega)
    if rows.ndim < 1 or 0 in rows.shape:
        raise InvalidArgument("omega", omega, "of shape (*batch, heads), with at least one head")
    if task.dim * np.max(rows**2) > _LARGEST_EXPONENT:
        allowed = f"small enough that exp(d ω²) stays finite: d ω² <= {_LARGEST_EXPONENT:g}"
        raise InvalidArgument("omega", omega, allowed)
    cost = (1 + task.noise_std**2) / task.length
    flat = rows.reshape(-1, rows.shape[-1])
    solved = [_solve(row, task.dim, cost) for row in flat]
    mu = np.array([m for m, _ in solved]).reshape(rows.shape)
    gain = np.array([g for _, g in solved]).reshape(rows.shape[:-1])
    return OptimalOutputs(mu, 1 + task.noise_std**2 - gain)


def optimal_mu(
    task: InContextRegression, omega: Float[ArrayLike, "*batch heads"]
) -> Float[np.ndarray, "*batch heads"]:
    """`optimal_outputs(task, omega).mu`."""
    return optimal_outputs(task, omega).mu


def optimal_effective_step(task: InContextRegression) -> float:
    """`η* = (1 + (1+σ²)d/L)⁻¹`, the limit of `2γμ_γ` as `γ -> 0`.

    It is also the exactly optimal step of debiased gradient descent at every `(d, L)`.
    Source: Theorem 4.2 (ii) of he2025; `docs/theory/solution-manifold`.
    """
    check_isotropic(task)
    return 1 / (1 + (1 + task.noise_std**2) * task.dim / task.length)


def effective_step(
    task: InContextRegression, gamma: Float[ArrayLike, "*batch"]
) -> Float[np.ndarray, "*batch"]:
    """`2γμ_γ = (1 + (1+σ²) sinh(dγ²)/(Lγ²))⁻¹`, decreasing in `γ²`; `η*` at `γ = 0`.

    The least loss over `μ` of heads with `|ω_h| = γ` is `1 + σ²` minus this number.
    Raises `InvalidArgument` when `dγ²` exceeds 600.
    """
    check_isotropic(task)
    scale = _finite("gamma", gamma)
    x = task.dim * scale**2
    if np.max(x, initial=0.0) > _LARGEST_EXPONENT:
        raise InvalidArgument("gamma", gamma, f"such that d γ² <= {_LARGEST_EXPONENT:g}")
    # sinh(x)/x by its series where the quotient is 0/0
    ratio = np.where(x < 1e-3, 1 + x**2 / 6 * (1 + x**2 / 20), np.sinh(x) / np.maximum(x, 1e-3))
    return 1 / (1 + (1 + task.noise_std**2) * task.dim / task.length * ratio)


def solution_manifold(task: InContextRegression, gamma: Float[ArrayLike, "*batch"]) -> KernelHeads:
    """The pair of heads `ω = (γ, -γ)`, `μ = (μ_γ, -μ_γ)` of the solution manifold, `(*batch, 2)`.

    More heads do the same when their `μ` add up to `μ_γ` over each sign of `ω` and dummies have
    `ω = μ = 0`. Raises `InvalidArgument` unless `γ > 0`.

    Source: eq. (4.5) of he2025; `docs/theory/solution-manifold`.
    """
    check_isotropic(task)
    scale = _finite("gamma", gamma)
    if not np.all(scale > 0):
        raise InvalidArgument("gamma", gamma, "positive")
    mu = effective_step(task, scale) / (2 * scale)
    return KernelHeads(np.stack([scale, -scale], -1), np.stack([mu, -mu], -1))


def single_head_minimiser(task: InContextRegression) -> KernelHeads:
    """The head `ω = 1/√d`, `μ = √d/(1 + e(1+σ²)d/L)` that minimises `L̃` for `H = 1`.

    Its mirror image `(-ω, -μ)` is as good. Source: Section 4.3 of he2025;
    `docs/theory/solution-manifold`.
    """
    check_isotropic(task)
    root = math.sqrt(task.dim)
    mu = root / (1 + math.e * (1 + task.noise_std**2) * task.dim / task.length)
    return KernelHeads(np.array([1 / root]), np.array([mu]))


def whitening(omega: Float[np.ndarray, " heads"], dim: int) -> Float[np.ndarray, "heads heads"]:
    """A matrix `T` with `Tᵀ exp(d ωωᵀ) T = I`: coordinates `μ = Tu` in which heads that are small
    or close to each other are told apart.

    Raises `InvalidArgument` where heads coincide.
    """
    from scipy.linalg import solve_triangular

    scale, triangle, columns, _ = _factor(omega, dim)
    inverse = solve_triangular(triangle, np.eye(len(omega)))
    rows = np.empty_like(inverse)
    rows[columns] = inverse
    return scale[:, None] * rows


def _solve(omega: np.ndarray, dim: int, cost: float) -> tuple[np.ndarray, float]:
    """The optimal `μ` and the gain `s/(1+s)` for one `ω` of shape `(H,)`."""
    from scipy.linalg import solve_triangular

    scale, triangle, columns, aligned = _factor(omega, dim)
    s = float(aligned @ aligned) / (cost * dim)
    solved = np.empty(len(omega))
    solved[columns] = solve_triangular(triangle, aligned)
    return scale * solved / (math.sqrt(dim) * cost * (1 + s)), s / (1 + s)


def _factor(omega: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """`Φ diag(scale) = QR` with columns reordered: the scale, `R`, the order, and `Qᵀe_1`."""
    from scipy.linalg import qr

    x = math.sqrt(dim) * omega
    count = math.ceil(float(np.max(x**2)) + 12 * float(np.max(np.abs(x)))) + 40
    powers = np.ones((count, len(x)))
    powers[0] = np.exp(-(x**2) / 2)  # unit columns: heads of different size weigh alike
    for k in range(1, count):
        powers[k] = powers[k - 1] * x / math.sqrt(k)
    # rows by size and columns by pivoting: then small ω keep their digits through the reflections
    order = np.argsort(-np.max(np.abs(powers), axis=1), kind="stable")
    basis, triangle, columns = qr(powers[order], mode="economic", pivoting=True)
    pivots = np.abs(np.diag(triangle))
    if pivots[-1] < _SMALLEST_PIVOT * pivots[0]:
        allowed = "of different heads (heads of equal omega act as one: give each value once)"
        raise InvalidArgument("omega", omega, allowed)
    return powers[0], triangle, columns, basis[int(np.flatnonzero(order == 1)[0])]


def _finite(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value, np.float64)
        good = not isinstance(value, bool) and bool(np.isfinite(array).all())
    except (TypeError, ValueError):
        good = False
    if not good:
        raise InvalidArgument(name, value, "finite numbers")
    return array
