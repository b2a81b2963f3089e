"""Numbers that the paper and its notebooks print, and how far a sample may be from its mean.

`published.json` holds the numbers with their places. Most are averages of squared errors over
prompts. All predictors here are linear in the labels, so that for fixed covariates the error is
Gaussian; then `e² e'²` has the mean `c c' + 2 c₁₂²`, with `c, c', c₁₂` the (co)variances of the two
errors, and only the covariates have to be sampled for the covariance of the squared errors.

A column that disagrees is compared once more after one constant was fitted to it: an offset, or a
factor (`constant_offset`, `constant_factor`).
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...tasks import InContextRegression

Weights = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The weights of the labels in a prediction, `(prompts, length)`, given `X` and the query."""


@functools.cache
def published() -> dict[str, Any]:
    """The file, read once; its entries say what they are and where they stand."""
    text = importlib.resources.files(__package__).joinpath("published.json").read_text("utf-8")
    return dict(json.loads(text))


def descent(step: float, *, debiased: bool = False) -> Weights:
    """A gradient step from 0, on centred covariates if `debiased`."""

    def weights(X: np.ndarray, query: np.ndarray) -> np.ndarray:
        scores = (X @ query[..., None])[..., 0]
        if debiased:
            scores -= scores.mean(1, keepdims=True)
        return step / X.shape[1] * scores

    return weights


def kernel_heads(omega: Any, mu: Any) -> Weights:
    """Softmax heads with scores `ω x·x_q` and read-outs `μ`."""

    def weights(X: np.ndarray, query: np.ndarray) -> np.ndarray:
        scores = (X @ query[..., None])[..., 0]
        total = np.zeros_like(scores)
        for w, m in zip(omega, mu, strict=True):
            p = np.exp(w * scores - np.max(w * scores, 1, keepdims=True))
            total += m * p / p.sum(1, keepdims=True)
        return total

    return weights


def ridge(penalty: float) -> Weights:
    """Ridge regression."""

    def weights(X: np.ndarray, query: np.ndarray) -> np.ndarray:
        gram = X.swapaxes(1, 2) @ X + penalty * np.eye(X.shape[2])
        return (X @ np.linalg.solve(gram, query[..., None]))[..., 0]

    return weights


def squared_errors(
    task: InContextRegression, predictors: list[Weights], rng: Any, prompts: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean `(k,)` and covariance `(k, k)` of the squared errors of one prompt, target with noise."""
    noise = task.noise_std**2
    X = rng.standard_normal((prompts, task.length, task.dim))
    query = rng.standard_normal((prompts, task.dim))
    weights = np.stack([predictor(X, query) for predictor in predictors], 1)
    slopes = (query[:, None] - weights @ X) / math.sqrt(task.dim)
    c = slopes @ slopes.swapaxes(1, 2) + noise
    c += noise * weights @ weights.swapaxes(1, 2)
    own = np.diagonal(c, axis1=1, axis2=2)
    mean = own.mean(0)
    second = np.mean(own[:, :, None] * own[:, None, :] + 2 * c**2, 0)
    return mean, second - np.outer(mean, mean)


def deviations(error: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """`error` `(..., k)` in independent units of one standard deviation, if it has `covariance`."""
    return np.linalg.solve(np.linalg.cholesky(covariance), error[..., None])[..., 0]


class Explained(NamedTuple):
    """A constant fitted to a column by least squares: `value` ± `error`, and `χ²` of the column
    against the exact values `before` and `after`, with `freedom` and `freedom - 1` degrees."""

    value: float
    error: float
    before: float
    after: float
    freedom: int


def constant_offset(printed: np.ndarray, exact: np.ndarray, error: np.ndarray) -> Explained:
    """`printed = exact + value`, with independent standard errors."""
    return _fitted(printed - exact, np.ones_like(error), printed - exact, error)


def constant_factor(printed: np.ndarray, exact: np.ndarray, error: np.ndarray) -> Explained:
    """`printed = value * exact`, with independent standard errors."""
    return _fitted(printed, exact, printed - exact, error)


def _fitted(y: np.ndarray, basis: np.ndarray, rest: np.ndarray, error: np.ndarray) -> Explained:
    information = float(np.sum((basis / error) ** 2))
    value = float(np.sum(basis * y / error**2)) / information
    after = float(np.sum(((y - value * basis) / error) ** 2))
    return Explained(
        value, 1 / math.sqrt(information), float(np.sum((rest / error) ** 2)), after, y.size
    )


def printed_unit(text: str) -> float:
    """One unit of the last digit of a number as it is printed."""
    return float(10.0 ** -len(text.partition(".")[2]))
