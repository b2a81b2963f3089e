"""Where a run has ended: the names of the attractors, and the swapped minimum's exact place.

At small `λ` erf is linear and the student `λ Σ (x·k)(x·v)` is symmetric in its two vectors: with
each teacher comes a *swapped* student whose `k` has found `v*` and whose `v` reads `k*`. It lies on
`M' = {kappa = nu = rho = 0}`, which a symmetry of the risk keeps invariant as another one does M.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ...students import Overlaps
    from ...theory import SingleLocationRisk

KINDS = ("teacher", "mirrored teacher", "swapped roles", "tilted", "moving")
MEANING = {
    "teacher": "on M with ν = 1, κ > 0",
    "mirrored teacher": "on M with ν = -1, κ < 0: the same predictor",
    "swapped roles": "k = ±v*, v along ±k*",
    "tilted": "stationary, off M and M'",
    "moving": "not yet at a stationary point",
}


def end_states(
    risk: SingleLocationRisk, state: np.ndarray, *, close: float = 1e-3, still: float = 1e-4
) -> np.ndarray:
    """The kind of each end state in `state` `(runs, 5)`, an array of names from `KINDS`.

    A run counts as at the teacher once `|ν|` is 1 and the distance to M is 0, both to `close`, and
    κ has the sign of ν: from there κ grows for ever and nothing else changes, unless the teacher
    is a saddle (the caller's to know; see `critical_scale`). Others count as at rest when the
    Riemannian gradient is below `still`.
    """
    kappa, nu, theta, eta, rho = np.moveaxis(np.asarray(state, np.float64), -1, 0)
    distance = np.sqrt(theta**2 + eta**2 + rho**2)
    learned = (np.abs(nu) > 1 - close) & (distance < close) & (kappa * nu > 0)
    swapped = (np.abs(eta) > 1 - close) & (np.sqrt(kappa**2 + nu**2 + rho**2) < 4 * close)
    rest = gradient_norm(risk, state) < still
    kinds = np.where(rest, "tilted", "moving")
    kinds = np.where(swapped, "swapped roles", kinds)
    kinds = np.where(learned & (nu > 0), "teacher", kinds)
    return np.where(learned & (nu < 0), "mirrored teacher", kinds)


def gradient_norm(risk: SingleLocationRisk, state: np.ndarray) -> np.ndarray:
    """The norm of the Riemannian gradient in `R^d` at stacked overlaps `(runs, 5)`."""
    from ...students import Overlaps

    state = np.asarray(state, np.float64)
    r = np.asarray(risk.gradient(Overlaps.unstack(state)).stack())
    kappa, nu, theta, eta, rho = np.moveaxis(state, -1, 0)
    r_kappa, r_nu, r_theta, r_eta, r_rho = np.moveaxis(r, -1, 0)
    along_k = r_kappa * kappa + r_eta * eta + r_rho * rho
    along_v = r_nu * nu + r_theta * theta + r_rho * rho
    square_k = r_kappa**2 + r_eta**2 + r_rho**2 + 2 * r_rho * (r_kappa * theta + r_eta * nu)
    square_v = r_nu**2 + r_theta**2 + r_rho**2 + 2 * r_rho * (r_nu * eta + r_theta * kappa)
    square = square_k - along_k**2 + square_v - along_v**2
    return np.sqrt(np.maximum(square, 0.0))


def swapped_minimum(risk: SingleLocationRisk, points: int = 1001) -> Overlaps:
    """The lowest point of the swapped ray `eta = 1`, `0 <= theta <= 1`: by a grid, then bisection.

    `theta` is near `√π/(2λ c√d)`, which makes `erf(λ x·v*) · c√d θ` a unit-slope copy of the
    label, or 1 when that exceeds 1.
    """
    from ...students import Overlaps

    def slope(theta: float) -> float:
        return float(np.asarray(risk.gradient(Overlaps(0.0, 0.0, theta, 1.0, 0.0)).theta))

    grid = np.linspace(0.0, 1.0, points)
    best = int(np.argmin(np.asarray(risk(Overlaps(0.0, 0.0, grid, 1.0, 0.0)))))
    if best == points - 1 and slope(1.0) <= 0:
        return Overlaps(0.0, 0.0, 1.0, 1.0, 0.0)
    low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, points - 1)])
    for _ in range(50):  # values cannot tell neighbours apart to better than 1e-8, slopes can
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return Overlaps(0.0, 0.0, 0.5 * (low + high), 1.0, 0.0)


def stable_step(task: Any, scale: float) -> float:
    """A step size well inside the stable range at every attractor.

    Around M the risk is `((c√d + b) θ + b η)²` and smaller terms, `b = (L-1) λ · 2/√(π(1+2λ²))`:
    the largest curvature is `2 ((c√d + b)² + b²)`, and descent is stable below `2/curvature`.
    """
    shift = task.signal * math.sqrt(task.dim)
    bulk = (task.length - 1) * scale * 2 / math.sqrt(math.pi * (1 + 2 * scale**2))
    return min(0.05, 0.5 / ((shift + bulk) ** 2 + bulk**2))


def critical_scale(dim: int, length: int, token_std: float, signal: float) -> float:
    """The scale beyond which the teacher is a saddle, for a saturated score (`λ c√d >> 1`).

    A bulk token's `erf(λ x·k) x·v` has the variance `ζ + λ²ρ² · 4/(π(1+2λ²)) · (2/√(1+4λ²) - 1)`
    to second order in ρ, which falls with |ρ| when `λ > √3/2`. Tilting `v` towards `k*` pays for the
    mean that ρ brings with it, at the price `γ²θ²` of reading less of `v*`; the sum is a saddle when

        1 - 2/√(1 + 4λ²) > γ² (L - 1) / (c² d + γ²)

    Infinite when no scale fulfils it.
    """
    price = token_std**2 * (length - 1) / (signal**2 * dim + token_std**2)
    if price >= 1:
        return math.inf
    return 0.5 * math.sqrt((2 / (1 - price)) ** 2 - 1)
