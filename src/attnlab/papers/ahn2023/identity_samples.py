"""Random matrices, sample means with errors, and functions with kinks, for the checks on ReLU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Function = Callable[[Any], Any]


class Mean(NamedTuple):
    """A sample mean with its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: np.ndarray) -> Mean:
        """That of independent `values`."""
        error = np.std(values, ddof=1) / math.sqrt(len(values))
        return cls(float(np.mean(values)), float(error))

    def z(self, stated: Any = 0) -> float:
        """Distance from a stated value in standard errors."""
        return (self.mean - float(stated)) / self.error


def sizes(preset: str) -> tuple[int, int]:
    """Settings, and samples of each."""
    return (120, 200_000) if preset == "paper" else (40, 10_000)


def random_matrix(rng: Any, k: int, dim: int | None = None) -> np.ndarray:
    """The `k`-th random matrix, with `|A|_F = 1`: full, symmetric, antisymmetric, of rank one in turn.

    Its dimension is `dim`, or else drawn from 2 to 8.
    """
    d = int(rng.integers(2, 9)) if dim is None else dim
    G = rng.standard_normal((d, d))
    A = (G, G + G.T, G - G.T, np.outer(G[0], G[-1]))[k % 4 if d > 1 else 0]
    return A / np.linalg.norm(A)


def pooled(size: Any, means: list[Mean]) -> Mean:
    """The factor `b` of `mean = b size` by least squares.

    Unweighted: weights from the samples' own errors would favour the small means of skewed laws.
    """
    t = np.broadcast_to(np.asarray(size, float), (len(means),))
    m, e = np.array(means).T
    return Mean(float(t @ m / (t @ t)), float(np.sqrt(t**2 @ e**2) / (t @ t)))


def line(places: Any, means: list[Mean]) -> tuple[Mean, Mean]:
    """Slope and intercept of means over `places`, by least squares with their errors as weights."""
    m, e = np.array(means).T
    design = np.stack([np.asarray(places, float), np.ones(len(m))], 1) / e[:, None]
    covariance = np.linalg.inv(design.T @ design)
    slope, intercept = covariance @ design.T @ (m / e)
    errors = np.sqrt(np.diag(covariance))
    return Mean(float(slope), float(errors[0])), Mean(float(intercept), float(errors[1]))


def least_squares(design: np.ndarray, means: list[Mean]) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of the columns of `design`, unweighted, with standard errors."""
    m, e = np.array(means).T
    inverse = np.linalg.pinv(design)
    return inverse @ m, np.sqrt(inverse**2 @ e**2)


def relu(a: np.ndarray) -> np.ndarray:
    """`max(a, 0)`."""
    return np.maximum(a, 0)


def above(a: np.ndarray) -> np.ndarray:
    """Its derivative."""
    return (a > 0).astype(float)


def cantor(a: np.ndarray) -> np.ndarray:
    """Cantor's staircase: 0 up to 0, 1 from 1 on, and continuous."""
    rest, value = np.clip(a, 0.0, 1.0), np.zeros_like(a)
    rising = np.ones(a.shape, bool)
    for k in range(1, 31):
        digit = np.minimum(np.floor(3 * rest), 2)
        value += np.where(rising & (digit >= 1), 0.5**k, 0.0)
        rising &= digit != 1
        rest = 3 * rest - digit
    return value


def cantor_average(function: Function, levels: int = 14) -> float:
    """The mean of a smooth `function` over Cantor's measure, on `2^levels` intervals."""
    points = np.array([0.5 / 3**levels])
    for k in range(1, levels + 1):
        points = np.concatenate([points, points + 2.0 / 3**k])
    return float(np.mean(function(points)))


# continuous functions with kinks, and their derivatives apart from them
KINKED: tuple[tuple[Function, Function], ...] = (
    (np.abs, np.sign),
    (lambda a: np.where(a > 0, a, 0.1 * a), lambda a: np.where(a > 0, 1.0, 0.1)),
    (lambda a: relu(1 - np.abs(a)), lambda a: -np.sign(a) * (np.abs(a) < 1)),
    (lambda a: np.sign(a) * relu(np.abs(a) - 1), lambda a: (np.abs(a) > 1).astype(float)),
)
