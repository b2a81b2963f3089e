"""Risks in the proportional limit `d, L -> ∞` with `d/L -> ξ`, isotropic covariates.

The spectrum of `XᵀX/L` follows Marchenko and Pastur's law, centred or not, so that debiasing makes
no difference here. Source: Theorem 4.2 (iii), Appendix F.3 of he2025;
`docs/theory/proportional-limit`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from .._core.errors import InvalidArgument, check_integer, check_real

_NODES = 4096


def marchenko_pastur(
    ratio: float, *, nodes: int = _NODES
) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"], float]:
    """The limiting spectrum of `XᵀX/L`: nodes, weights, and the mass at 0, `max(0, 1 - 1/ξ)`.

    The trapezoid rule in the angle `θ` of `x = 1 + ξ + 2√ξ cos θ`. It converges geometrically
    for smooth functions unless `ξ = 1`, where the density diverges at 0.
    """
    ratio = _ratio(ratio)
    nodes = check_integer("nodes", nodes, minimum=1)
    angle = (np.arange(nodes) + 0.5) * np.pi / nodes
    root = math.sqrt(ratio)
    # (1-√ξ)² + 2√ξ(1 + cos θ): no cancellation at the lower edge
    x = (1 - root) ** 2 + 4 * root * np.cos(angle / 2) ** 2
    weights = 2 / nodes * np.sin(angle) ** 2 / x
    return x, weights, max(0.0, 1 - 1 / ratio)


def proportional_bayes_risk(ratio: float, *, noise_std: float) -> float:
    """`½ [σ² + 1 - 1/ξ + √(4σ² + b²)]` with `b = σ² + 1/ξ - 1`: ridge regression at `λ = dσ²`."""
    xi, noise = _ratio(ratio), _noise(noise_std)
    b = noise + 1 / xi - 1
    root = math.sqrt(4 * noise + b * b)
    # the excess is ½(√(4σ² + b²) - b); for b > 0 its conjugate, which does not cancel
    return noise + (2 * noise / (root + b) if b > 0 else (root - b) / 2)


def proportional_ridge_risk(ratio: float, *, noise_std: float, penalty: float) -> float:
    """The limit for a penalty `λ = penalty · L`: `∫ [λ² + σ²ξx]/(x + λ)²` with Marchenko-Pastur's
    law. Smallest at `penalty = ξσ²`, where it is Bayes' risk.

    By the trapezoid rule, with `λ > 0` (for `λ = 0` see `proportional_least_squares_risk`).
    """
    xi, noise = _ratio(ratio), _noise(noise_std)
    penalty = check_real("penalty", penalty, low=0.0, low_open=True)

    def function(x: Any) -> Any:
        return (penalty**2 + noise * xi * x) / (x + penalty) ** 2

    return noise + _average(xi, function)


def proportional_least_squares_risk(ratio: float, *, noise_std: float) -> float:
    """`σ²/(1-ξ)` for `ξ < 1`, `σ² ξ/(ξ-1) + 1 - 1/ξ` for `ξ > 1` (minimal norm), infinite at 1."""
    xi, noise = _ratio(ratio), _noise(noise_std)
    if xi == 1:
        return math.inf if noise > 0 else 0.0
    return noise / (1 - xi) if xi < 1 else noise * xi / (xi - 1) + 1 - 1 / xi


def proportional_gradient_descent_risk(
    ratio: float, *, noise_std: float, step: float | None = None, steps: int = 1
) -> float:
    """The limit for `steps` gradient steps, debiased or not.

    One step: `σ² + 1 - 2η + η² (1 + (1+σ²)ξ)`, at the best `η* = (1 + (1+σ²)ξ)⁻¹` (the default)
    `σ² + 1 - η*`. More steps are averaged over Marchenko-Pastur's law and need `step`.

    Source: eq. (F.28), (F.29) and Step 2 of Appendix F.3 of he2025.
    """
    xi, noise = _ratio(ratio), _noise(noise_std)
    steps = check_integer("steps", steps, minimum=0)
    if step is None:
        if steps != 1:
            raise InvalidArgument("step", step, "given for several steps")
        # σ² + 1 - η* without the cancellation of small ξ
        return noise + (1 + noise) * xi / (1 + (1 + noise) * xi)
    step = check_real("step", step)
    if steps == 1:
        return noise + (1 - step) ** 2 + step**2 * (1 + noise) * xi

    def function(x: Any) -> Any:
        total = np.zeros_like(x)
        for _ in range(steps):
            total = step + (1 - step * x) * total
        return (1 - step * x) ** (2 * steps) + noise * xi * x * total**2

    return noise + _average(xi, function)


def proportional_optimal_step(ratio: float, *, noise_std: float) -> float:
    """`η* = (1 + (1+σ²)ξ)⁻¹`, the best single step."""
    return 1 / (1 + (1 + _noise(noise_std)) * _ratio(ratio))


def proportional_ratio_to_bayes(ratio: float, *, noise_std: float) -> float:
    """The risk of the best (debiased) gradient step divided by Bayes' risk; infinite for `σ = 0`
    and `ξ <= 1`."""
    bayes = proportional_bayes_risk(ratio, noise_std=noise_std)
    descent = proportional_gradient_descent_risk(ratio, noise_std=noise_std)
    return descent / bayes if bayes > 0 else math.inf


def proportional_ratio_bound(ratio: float, *, noise_std: float) -> float:
    """The bound `1 + (1+σ²)ξ / (σ² (1 + (1+σ²)ξ))` on that ratio, from Bayes' risk `>= σ²`.

    It is below `1 + 1/σ²` and below `1 + (1 + 1/σ²) ξ`. Raises `InvalidArgument` unless `σ > 0`.
    Source: Theorem 4.2 (iii) of he2025, as far as its proof determines it;
    `docs/theory/proportional-limit`.
    """
    xi = _ratio(ratio)
    noise = check_real("noise_std", noise_std, low=0.0, low_open=True) ** 2
    return 1 + (1 + noise) * xi / (noise * (1 + (1 + noise) * xi))


def _average(xi: float, function: Any) -> float:
    x, weights, mass = marchenko_pastur(xi)
    return float(np.sum(weights * function(x))) + mass * float(function(np.zeros(1))[0])


def _ratio(value: Any) -> float:
    return check_real("ratio", value, low=0.0, low_open=True)


def _noise(value: Any) -> float:
    return check_real("noise_std", value, low=0.0) ** 2
