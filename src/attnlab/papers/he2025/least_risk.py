"""The least exact risk of opposite heads, and of any heads with `ω` on a grid.

Source: `docs/theory/two-head-flow`.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from ...tasks import InContextRegression
from .exact_heads import HeadsQuadratic, heads_quadratic, opposite_heads, single_heads

_NODES = 16


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
    `γ²` to rounding.
    """
    noise = task.noise_std**2
    largest = min(4 * long_prompt_gamma(task) + 0.05, 0.6)
    x = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
    u = largest**2 * (x + 1) / 2
    risk, eta = opposite_heads(task, np.sqrt(u)).least(noise)
    domain = [0, largest**2]
    profile = np.polynomial.Chebyshev.fit(u, risk, _NODES - 1, domain)
    steps = np.polynomial.Chebyshev.fit(u, eta, _NODES - 1, domain)
    roots = profile.deriv().roots()
    inside = roots[(abs(roots.imag) < 1e-12) & (roots.real > 0) & (roots.real < largest**2)].real
    at = min([largest**2, *inside], key=lambda v: float(profile(v)))
    return BestOpposite(math.sqrt(at), float(steps(at)), float(profile(at)), profile)


def long_prompt_gamma(task: InContextRegression) -> float:
    """The minimiser at large `L`: `γ² = 12/(L (d+4)((1+σ²)d + 3))`.

    There the least risk is that of debiased gradient descent, and `-4(d+2)γ²/L²`, the slope of
    `small_heads_risk_slope`, and `(d+2)(d+4)((1+σ²)d/6 + ½)γ⁴/L` from the expansion in `1/L`.
    """
    share = 1 + task.noise_std**2
    return math.sqrt(12 / (task.length * (task.dim + 4) * (share * task.dim + 3)))


class BestHeads(NamedTuple):
    """The least risk of `H` heads on the grid, and those heads."""

    risk: float
    omega: np.ndarray
    mu: np.ndarray


def best_on_grid(
    task: InContextRegression, omega: np.ndarray, counts: tuple[int, ...]
) -> dict[int, BestHeads]:
    """For each number of heads the best choice of `ω` from the grid; `len(omega)` takes them all."""
    table = heads_quadratic(task, omega)
    found = {}
    for count in counts:
        choices = itertools.combinations(range(len(omega)), count)
        found[count] = min(
            (_with(table, omega, task, list(c)) for c in choices), key=lambda b: b.risk
        )
    return found


def _with(
    table: HeadsQuadratic, omega: np.ndarray, task: InContextRegression, heads: list[int]
) -> BestHeads:
    risk, mu = table.take(heads).least(task.noise_std**2)
    return BestHeads(risk, omega[heads], mu)


class BestSingle(NamedTuple):
    """The head `(ω, μ)` with the least exact risk, and that risk."""

    omega: float
    mu: float
    risk: float


def best_single(task: InContextRegression) -> BestSingle:
    """The best single head; its mirror image `(-ω, -μ)` is as good."""
    noise, largest = task.noise_std**2, 2.0 / math.sqrt(task.dim)
    x = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
    u = largest**2 * (x + 1) / 2
    omega = np.sqrt(u)
    c, overlap, signal = single_heads(task, omega)
    domain = [0, largest**2]
    cross = np.polynomial.Chebyshev.fit(u, c / omega, _NODES - 1, domain)
    form = np.polynomial.Chebyshev.fit(u, signal + (1 + noise) * overlap, _NODES - 1, domain)
    fine = np.linspace(0, largest**2, 20_001)[1:]
    risk = 1 + noise - fine * cross(fine) ** 2 / form(fine)
    at = int(np.argmin(risk))
    low, high = fine[max(at - 1, 0)], fine[min(at + 1, len(fine) - 1)]
    fine = np.linspace(low, high, 2001)
    risk = 1 + noise - fine * cross(fine) ** 2 / form(fine)
    best = float(fine[int(np.argmin(risk))])
    return BestSingle(
        math.sqrt(best), float(math.sqrt(best) * cross(best) / form(best)), float(risk.min())
    )
