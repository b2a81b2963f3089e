"""The least exact risk of opposite heads, and of one head. For more heads see `least_heads`.

Source: `docs/theory/two-head-flow`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..._core.search import interior_minimum
from ...tasks import InContextRegression
from .exact_heads import FINE, USUAL, opposite_heads, single_heads

_NODES = 16
_LARGEST = 6.0  # of |ω|√d, where searches end
_FINER = 2.5  # of that, beyond which a finer resolution is needed for ten digits


class BestOpposite(NamedTuple):
    """Where two opposite heads are best: `γ`, `η = 2γμ`, the risk there, and the risk at any `γ`
    (a polynomial in `γ²`, with the best `μ`)."""

    gamma: float
    eta: float
    risk: float
    profile: np.polynomial.Chebyshev


def best_opposite(task: InContextRegression) -> BestOpposite:
    """The minimiser of the exact risk over `γ` and `μ`.

    Searched for below a few times the scale that large `L` gives, where the risk is a polynomial in
    `γ²` to rounding, and further out while it falls to the end. All NaN but the profile where it
    still does at the largest scores.
    """
    noise = task.noise_std**2
    largest, most = min(4 * long_prompt_gamma(task) + 0.05, 0.6), _LARGEST / math.sqrt(task.dim)
    x = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
    while True:
        u = largest**2 * (x + 1) / 2
        risk, eta = opposite_heads(task, np.sqrt(u)).least(noise)
        domain = [0, largest**2]
        profile = np.polynomial.Chebyshev.fit(u, risk, _NODES - 1, domain)
        at = _least_inside(profile)
        if math.isfinite(at) or largest >= most:
            break
        largest = min(1.5 * largest, most)
    steps = np.polynomial.Chebyshev.fit(u, eta, _NODES - 1, domain)
    return BestOpposite(math.sqrt(at), float(steps(at)), float(profile(at)), profile)


def _least_inside(profile: np.polynomial.Chebyshev) -> float:
    """Where a polynomial is least on its domain; NaN if that is an end of it."""
    low, high = profile.domain
    roots = profile.deriv().roots()
    inside = roots[(abs(roots.imag) < 1e-12) & (roots.real > low) & (roots.real < high)].real
    grid = np.sort(np.concatenate([[low, high], inside]))
    return float(interior_minimum(grid, profile(grid)).at)


def long_prompt_gamma(task: InContextRegression) -> float:
    """The minimiser at large `L`: `γ² = 12/(L (d+4)((1+σ²)d + 3))`.

    There the least risk is that of debiased gradient descent, and `-4(d+2)γ²/L²`, the slope of
    `small_heads_risk_slope`, and `(d+2)(d+4)((1+σ²)d/6 + ½)γ⁴/L` from the expansion in `1/L`.
    """
    share = 1 + task.noise_std**2
    return math.sqrt(12 / (task.length * (task.dim + 4) * (share * task.dim + 3)))


class BestSingle(NamedTuple):
    """The head `(ω, μ)` with the least exact risk, and that risk."""

    omega: float
    mu: float
    risk: float


def best_single(task: InContextRegression) -> BestSingle:
    """The best single head with `ω > 0`; its mirror image `(-ω, -μ)` is as good.

    NaN where the risk is still falling at the largest scores.
    """
    noise, root = task.noise_std**2, math.sqrt(task.dim)

    def terms(omega: np.ndarray, resolution: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        c, overlap, signal = single_heads(task, omega, resolution)
        return c, signal + (1 + noise) * overlap

    grid = np.geomspace(0.1, _LARGEST, 24)
    c, form = terms(grid / root, USUAL)
    # the risk has its digits where it is least
    at = interior_minimum(grid, 1 + noise - c**2 / form)
    if not at.inside:
        return BestSingle(math.nan, math.nan, math.nan)
    low, high = grid[at.argmin - 1] / root, grid[at.argmin + 1] / root
    omega = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
    c, form = terms(omega, FINE if high * root > _FINER else USUAL)
    profile, mu = (
        np.polynomial.Chebyshev.fit(omega, y, _NODES - 2, [low, high])
        for y in (1 + noise - c**2 / form, c / form)
    )
    best = _least_inside(profile)
    return BestSingle(best, float(mu(best)), float(profile(best)))
