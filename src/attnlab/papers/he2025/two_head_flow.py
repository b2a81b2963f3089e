"""The flow of two opposite heads `ω = (ϱ, -ϱ)`, `μ = (φ, -φ)`, for the approximate and the exact loss.

Either loss is `R = 1 + σ² - 2ηc(ϱ²) + η² q(ϱ²)` with `η = 2φϱ`, and the flow on `R/2` is

    φ' = ϱ (c - ηq),      ϱ' = φ (c - ηq) + ϱ (ηc' - η²q'/2).

For `L̃`, `c = 1` and `q = 1 + λ sinh(dϱ²)/ϱ²`, `λ = (1+σ²)/L`: eq. (D.4) of he2025. Where the
valley `c = ηq` flattens, at small `ϱ`, the loss falls along it like `φ⁻⁴`, and `φ`, not `ϱ`, is slow:

    φ' = λd³η⁶/(96 φ⁵),      hence      ϱ = 2^(-1/3) (λd³t)^(-1/6)      (1 + o(1)).

Source: Appendix D of he2025; `docs/theory/two-head-flow`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...tasks import InContextRegression


class Valley(NamedTuple):
    """`c`, `q` and their derivatives as functions of `u = ϱ²`."""

    terms: Callable[[float], tuple[float, float, float, float]]

    def field(self, phi: float, rho: float) -> tuple[float, float]:
        """`(φ', ϱ')`."""
        c, q, slope_c, slope_q = self.terms(rho * rho)
        eta = 2 * phi * rho
        rest = c - eta * q
        return rho * rest, phi * rest + rho * (eta * slope_c - eta**2 * slope_q / 2)


def approximate_valley(task: InContextRegression) -> Valley:
    """That of `L̃`."""
    d, cost = task.dim, (1 + task.noise_std**2) / task.length

    def terms(u: float) -> tuple[float, float, float, float]:
        x = d * u
        if x < 1e-2:
            ratio, slope = 1 + x**2 / 6 * (1 + x**2 / 20), x / 3 * (1 + x**2 / 10)
        else:
            ratio = math.sinh(x) / x
            slope = (math.cosh(x) - ratio) / x
        return 1.0, 1 + cost * d * ratio, 0.0, cost * d * d * slope

    return Valley(terms)


def exact_valley(task: InContextRegression, *, largest: float = 0.7, nodes: int = 16) -> Valley:
    """That of the exact loss, by polynomials in `ϱ²` through `nodes` points up to `largest`."""
    from numpy.polynomial import Chebyshev

    from .exact_heads import opposite_heads

    x = np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
    found = opposite_heads(task, largest * np.sqrt((x + 1) / 2))
    domain = [0, largest**2]
    c, q = (Chebyshev.fit(largest**2 * (x + 1) / 2, y, nodes - 1, domain) for y in found)
    slope_c, slope_q = c.deriv(), q.deriv()
    return Valley(lambda u: (float(c(u)), float(q(u)), float(slope_c(u)), float(slope_q(u))))


class Course(NamedTuple):
    """`φ` and `ϱ` at `time`."""

    time: np.ndarray
    phi: np.ndarray
    rho: np.ndarray


def follow(valley: Valley, start: tuple[float, float], times: Any) -> Course:
    """The flow from `(φ, ϱ) = start` at time 0, at increasing `times`.

    Implicit Runge-Kutta (Radau IIA) in `log(1 + t)`, so that 10⁹ units of time take as many steps
    as the decades before.
    """
    from scipy.integrate import solve_ivp

    times = np.asarray(times, np.float64)
    at = np.log1p(times)

    def field(tau: float, state: np.ndarray) -> np.ndarray:
        return math.exp(tau) * np.array(valley.field(float(state[0]), float(state[1])))

    found = solve_ivp(field, (0.0, at[-1]), start, method="Radau", t_eval=at, rtol=1e-7, atol=1e-12)
    return Course(times, *found.y)


def slow_decay(task: InContextRegression, time: Any) -> Any:
    """The law that `ϱ` follows under `L̃`: `2^(-1/3) (λd³t)^(-1/6)`."""
    cost = (1 + task.noise_std**2) / task.length
    return 2 ** (-1 / 3) * (cost * task.dim**3 * np.asarray(time)) ** (-1 / 6)


def printed_decay(task: InContextRegression, time: Any) -> Any:
    """What eliminating `φ` at fixed `ϱ` gives: `ϱ' = -λd³ϱ³/(6(1+dλ)²)`, hence
    `ϱ = √3 (1+dλ)/√(λd³t)`."""
    cost = (1 + task.noise_std**2) / task.length
    return math.sqrt(3) * (1 + task.dim * cost) / np.sqrt(cost * task.dim**3 * np.asarray(time))
