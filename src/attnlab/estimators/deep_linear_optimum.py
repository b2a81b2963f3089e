"""The best layers of linear attention in context, by descent on their exact risk.

The risk is a weighted sum of squares of polynomials in the layers' numbers, with exact derivatives.
It is not convex, so several starts compete, and the best layers of one layer fewer, with a layer
that does nothing, are one of them: more layers never do worse.
Source: ahn2023; `docs/theory/deep-linear-attention`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from .._core.errors import check_flag, check_integer
from ..theory.wishart import mean_spectrum
from .deep_linear import Setting, check_degree, check_setting, deep_linear_risk, tail_rule
from .estimator_risk import EstimatorRisk


@dataclass(frozen=True)
class DeepLinearOptimum:
    """Layers `(a, b)` of smallest `risk` found, `b` ending in 0, which has no effect.

    `gradient_norm` is the largest derivative of `risk/(ωd)` in `(a, b)`, and `converged` says
    whether it is below `1e-7`.
    """

    a: Float[np.ndarray, " layers"]
    b: Float[np.ndarray, " layers"]
    risk: EstimatorRisk
    gradient_norm: float
    converged: bool


def optimal_deep_linear(
    dim: int,
    length: int,
    layers: int,
    *,
    with_b: bool = True,
    noise_std: float = 0.0,
    prior_variance: float = 1.0,
    starts: int = 4,
    seed: int = 0,
) -> DeepLinearOptimum:
    """The layers with the smallest `deep_linear_risk` found by BFGS from several starts.

    Without `b` these are the best steps of gradient descent, in decreasing order (their order has
    no effect). Every number of layers up to `layers` is solved in turn, from the solution before
    and from `starts` random points; with `b` also from the solution without. A local minimum that
    all starts miss is not excluded.

    Raises `InvalidArgument` for more than 5 layers with `b` or 150 without, and for bad numbers.
    Source: ahn2023; `docs/theory/deep-linear-attention`.
    """
    layers = check_integer("layers", layers, minimum=1)
    with_b = check_flag("with_b", with_b)
    check_degree("layers", layers, with_b)
    setting = check_setting(dim, length, noise_std, prior_variance)
    starts = check_integer("starts", starts, minimum=0)
    rng = np.random.default_rng(check_integer("seed", seed, minimum=0))
    dim, length, noise, prior = setting
    one = 1 / (1 + (dim + 1 + noise / prior) / length)
    still = (np.array([one]), np.zeros(0))
    plain, moved = still, still
    gradient = _Objective(setting, 1, False).value_and_gradient(still[0])[1]
    for count in range(2, layers + 1):
        objective = _Objective(setting, count, False)
        plain, gradient = _best(objective, [_longer(plain)], starts, rng)
        plain = (np.sort(plain[0])[::-1], plain[1])
        if with_b:
            objective = _Objective(setting, count, True)
            known = [_longer(moved), (plain[0], np.zeros(count - 1))]
            moved, gradient = _best(objective, known, starts, rng)
    a, b = moved if with_b else plain
    b = np.append(b, np.zeros(len(a) - len(b)))
    risk = deep_linear_risk(dim, length, a, b, noise_std=math.sqrt(noise), prior_variance=prior)
    norm = float(np.max(np.abs(gradient)))
    return DeepLinearOptimum(a, b, risk, norm, norm < 1e-7)


Layers = tuple[np.ndarray, np.ndarray]  # a, and b without the last


def _longer(layers: Layers) -> Layers:
    """The same layers after one that does nothing."""
    a, b = layers
    return np.append(0.0, a), np.append(0.0, b)


def _best(
    objective: _Objective, known: list[Layers], starts: int, rng: np.random.Generator
) -> tuple[Layers, np.ndarray]:
    from scipy.optimize import minimize

    count = objective.layers
    points = [np.append(a, b) if objective.with_b else a for a, b in known]
    # steps like the inverses of Chebyshev's nodes on the spectrum, and random changes of them
    low, high = objective.edges
    nodes = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    steps = 2 / (low + high + (high - low) * nodes)
    points.append(np.append(steps, np.zeros(len(points[0]) - count)))
    for _ in range(starts):
        a = steps * np.exp(0.4 * rng.normal(size=count))
        points.append(np.append(a, rng.normal(size=len(points[0]) - count) / 2))
    best, value = points[0], math.inf
    options: Any = {"gtol": 1e-10, "maxiter": 2000}
    with np.errstate(over="ignore", invalid="ignore"):
        for point in points:
            found: Any = minimize(
                objective.value_and_gradient, point, jac=True, method="BFGS", options=options
            )
            if math.isfinite(found.fun) and found.fun <= value:
                best, value = found.x, float(found.fun)
    gradient = objective.value_and_gradient(best)[1]
    return (best[:count], best[count:]), gradient


class _Objective:
    """`(risk - σ²)/(ωd)` of given numbers of layers, and its derivative in `(a, b)`."""

    def __init__(self, setting: Setting, layers: int, with_b: bool):
        dim, length, noise, prior = setting
        self.layers, self.with_b = layers, with_b
        degree = (3**layers - 1) // 2 if with_b else layers
        spectrum = mean_spectrum(dim, length)
        beyond, weights = tail_rule(spectrum, dim, length, degree)
        self.s = np.concatenate([spectrum.values, beyond]) / length
        self.weights = np.concatenate([spectrum.weights, weights]) / dim
        self.constant = spectrum.zeros / dim
        self.noise = noise / (length * prior)
        low, high = abs(math.sqrt(length) - math.sqrt(dim)), math.sqrt(length) + math.sqrt(dim)
        self.edges = low**2 / length, high**2 / length

    def value_and_gradient(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        s, count = self.s, self.layers
        a, b = parameters[:count], np.append(parameters[count:], 0.0)
        c, r, g = np.ones_like(s), np.ones_like(s), np.zeros_like(s)
        dc, dr, dg = (np.zeros((len(parameters), len(s))) for _ in range(3))
        for layer in range(count):
            weight = a[layer] * c**2
            dweight = 2 * a[layer] * c * dc
            dweight[layer] += c**2
            dg += dweight * r + weight * dr
            dr = dr * (1 - weight * s) - r * dweight * s
            g, r = g + weight * r, r * (1 - weight * s)
            if self.with_b and layer < count - 1:
                dc = dc * (1 - weight * b[layer] * s) - c * dweight * b[layer] * s
                dc[count + layer] -= c * weight * s
                c = c * (1 - weight * b[layer] * s)
        value = np.sum(self.weights * (r**2 + self.noise * s * g**2)) + self.constant
        gradient = 2 * (dr @ (self.weights * r) + dg @ (self.weights * self.noise * s * g))
        return float(value), gradient
