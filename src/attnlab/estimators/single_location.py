"""What predictors without attention achieve on single-location regression.

Source: Proposition 2 of marion2025 (linear predictors fail); `docs/theory/baselines`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .._core.precision import float64
from ..tasks import SingleLocation
from ..tasks.single_location import check_single_location
from ..theory.gaussian_links import link_mean, link_slope_mean, link_square


class LinearPredictor(NamedTuple):
    """`prediction = offset + weight Σ_ℓ x_ℓ·v*`, the best affine function of the whole prompt."""

    offset: float
    weight: float


def best_linear_predictor(task: SingleLocation) -> LinearPredictor:
    """The affine function of the flattened prompt with the smallest risk.

    The label correlates with every token alike, along `v*` only: `Cov(y, x_ℓ) = (γ² E σ'/L) v*`.
    There the prompt's covariance is `(1 - 1/L + γ²/L)` times the identity, hence one common
    weight `γ² E σ' / (L - 1 + γ²)`.
    """
    variance = check_single_location(task).token_std ** 2
    with float64():
        offset = float(link_mean(task.link, 0.0, variance))
        slope = float(link_slope_mean(task.link, task.token_std))
    return LinearPredictor(offset, variance * slope / (_others(task) + variance))


def best_linear_predictor_risk(task: SingleLocation) -> float:
    """Its exact risk `Var σ + ε² - γ⁴ (E σ')² / (L - 1 + γ²)`, label noise included.

    It approaches that of a constant prediction as `1/L`, whatever the dimension.
    """
    variance = check_single_location(task).token_std ** 2
    with float64():
        mean = float(link_mean(task.link, 0.0, variance))
        square = float(link_square(task.link, 0.0, variance))
        slope = float(link_slope_mean(task.link, task.token_std))
    gain = (variance * slope) ** 2 / (_others(task) + variance)
    # L = 1 with a linear link is fitted exactly: rounding must not make the rest negative
    return max(square - mean**2 - gain, 0.0) + task.noise_std**2


def zero_predictor_risk(task: SingleLocation) -> float:
    """Risk of predicting 0: `E σ(x_informative·v*)² + ε²`."""
    check_single_location(task)
    with float64():
        return float(link_square(task.link, 0.0, task.token_std**2)) + task.noise_std**2


def _others(task: SingleLocation) -> float:
    if task.length is not None:
        return task.length - 1.0
    return math.expm1(min(task.log_length, 700.0))
