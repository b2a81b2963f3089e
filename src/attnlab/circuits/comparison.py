"""Which classical estimator a layer comes closest to, and how close, in its predictions.

The distance is the root mean square difference of two predictions on prompts of the task, summed
over its outputs under the root. Source: Sections 3 and 4.3 of he2025; `docs/theory/in-context-estimators`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from .._core.errors import InvalidArgument, check_integer
from .._core.keys import check_key
from .._core.precision import float64
from ..estimators import (
    debiased_gradient_descent,
    gradient_descent,
    optimal_preconditioner,
    preconditioned_gradient_descent,
    ridge,
)
from ..students.normalizations import Normalization
from ..tasks import InContextRegression
from ..tasks.in_context import check_in_context
from .circuits import Circuits, check_circuits, extract
from .reduction import FORMS, reduce

_SCALES = np.geomspace(0.01, 10.0, 13)


@dataclass(frozen=True)
class Distance:
    """Root mean square difference in prediction, with its standard error.

    `fit` holds what was fitted to the layer's predictions to make the difference small: the step of
    a gradient step, `omega` and `mu` (one for each task) of a kernel regressor.
    """

    name: str
    value: float
    error: float
    fit: dict[str, float]


@dataclass(frozen=True)
class Comparison:
    """Distances of a layer's predictions.

    - `size`: root mean square of the predictions themselves
    - `estimators`: from classical estimators, nearest first
    - `reductions`: from the layer's own reductions to kernel heads (see `reduce`)
    - `prompts`: how many were drawn
    """

    size: float
    estimators: tuple[Distance, ...]
    reductions: tuple[Distance, ...]
    prompts: int

    @property
    def closest(self) -> Distance:
        """The nearest classical estimator."""
        return self.estimators[0]


def compare(
    circuits: Circuits,
    task: InContextRegression,
    *,
    key: PRNGKeyArray,
    prompts: int = 2000,
) -> Comparison:
    """Distances on `prompts` prompts of `task`, in float64.

    The estimators:

    - `zero`; `ridge` with penalty `dσ²`, which is Bayes' for one task;
    - `gradient descent` and `debiased gradient descent`, one step, with the step that fits best;
    - `kernel regressor`: a single scalar head, with the layer's normalisation and the `ω` and `μ`
      that fit best;
    - with a covariance: `preconditioned` and `debiased preconditioned gradient descent`, with the
      optimal preconditioner and the step that fits best;
    - with supports: `independent ...`, the first three again, each task on its own coordinates.

    Raises `InvalidArgument` when the task does not fit the circuits.
    """
    check_circuits(circuits)
    check_in_context(task)
    _check_sizes(circuits, task)
    key, count = check_key(key), check_integer("prompts", prompts, minimum=10)
    with float64():
        drawn = task.sample(key, count, dtype=np.float64)
        X, y, xq = (np.asarray(part, np.float64) for part in drawn.inputs)
    y = y[..., None] if y.ndim == 2 else y
    target = circuits(X, y, xq)
    reductions = [extract(reduce(circuits, form), dim=task.dim)(X, y, xq) for form in FORMS]
    rows = [_fixed("zero", np.zeros_like(target), target)]
    penalty = task.dim * float(task.noise_std) ** 2
    rows += _simple("", lambda function: function(X, y, xq), penalty, target)
    if task.covariance is not None:
        rows += _preconditioned(task, X, y, xq, target)
    if task.supports is not None:
        rows += _simple("independent ", lambda f: _separately(f, task, X, y, xq), penalty, target)
    rows.append(_kernel(circuits.normalization, X, y, xq, target))
    size = float(np.sqrt(np.mean(np.sum(target**2, -1))))
    # below rounding, the simpler estimator comes first: a linear head is a gradient step
    rows.sort(key=lambda row: row.value if row.value > 1e-6 * size else 0.0)
    return Comparison(
        size,
        tuple(rows),
        tuple(_fixed(form, value, target) for form, value in zip(FORMS, reductions)),
        count,
    )


def _check_sizes(circuits: Circuits, task: InContextRegression) -> None:
    for name in ("dim", "n_outputs"):
        wanted = getattr(circuits, name)
        if getattr(task, name) != wanted:
            raise InvalidArgument("task", task, f"of {name} = {wanted}, as the circuits")


def _simple(
    prefix: str, apply: Callable[[Any], np.ndarray], penalty: float, target: np.ndarray
) -> list[Distance]:
    """Ridge and the two gradient steps; `apply` calls an estimator on the prompts."""
    return [
        _fixed(prefix + "ridge", apply(lambda *a: ridge(*a, penalty=penalty)), target),
        *(
            _stepped(prefix + name, apply(lambda *a, f=function: f(*a, step=1.0)), target)
            for name, function in (
                ("gradient descent", gradient_descent),
                ("debiased gradient descent", debiased_gradient_descent),
            )
        ),
    ]


def _separately(
    function: Any, task: InContextRegression, X: np.ndarray, y: np.ndarray, xq: np.ndarray
) -> np.ndarray:
    """An estimator for each task, on the coordinates that it reads."""
    columns = []
    for n, support in enumerate(task.supports or ()):
        places = list(support)
        columns.append(function(X[..., places], y[..., n : n + 1], xq[..., places]))
    return np.concatenate(columns, axis=-1)


def _preconditioned(
    task: InContextRegression, X: np.ndarray, y: np.ndarray, xq: np.ndarray, target: np.ndarray
) -> list[Distance]:
    rows = []
    for debiased in (False, True):
        base = preconditioned_gradient_descent(
            X,
            y,
            xq,
            preconditioner=optimal_preconditioner(task, debiased=debiased),
            debiased=debiased,
        )
        name = "preconditioned gradient descent"
        rows.append(_stepped("debiased " + name if debiased else name, base, target))
    return rows


def _kernel(
    normalization: Normalization, X: np.ndarray, y: np.ndarray, xq: np.ndarray, target: np.ndarray
) -> Distance:
    """The scalar head nearest to the layer: `μ` by least squares for each task, `ω` by search."""
    from scipy.optimize import minimize_scalar

    scores = np.einsum("bld,bd->bl", X, xq)
    unit = 1 / np.sqrt(np.mean(scores**2))

    def answers(omega: float) -> tuple[np.ndarray, np.ndarray]:
        with float64():
            weights = np.asarray(normalization.weights(omega * scores), np.float64)
        base = np.einsum("bl,bln->bn", weights, y)
        # without a second moment (weights whose sum can vanish) a sample still has one
        mu = np.sum(base * target, 0) / np.maximum(np.sum(base**2, 0), np.finfo(float).tiny)
        return mu * base, mu

    def misfit(omega: float) -> float:
        return float(np.mean(np.sum((answers(omega)[0] - target) ** 2, -1)))

    grid = unit * np.concatenate([-_SCALES[::-1], _SCALES])
    values = np.array([misfit(omega) for omega in grid])
    best = int(np.nanargmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(misfit, bounds=(low, high), method="bounded", options={"xatol": 1e-7})
    omega = float(found.x) if found.fun < values[best] else float(grid[best])
    prediction, mu = answers(omega)
    names = ["mu"] if len(mu) == 1 else [f"mu_{n}" for n in range(len(mu))]
    fit = {"omega": omega, **dict(zip(names, map(float, mu)))}
    return _distance("kernel regressor", prediction, target, fit)


def _fixed(name: str, prediction: np.ndarray, target: np.ndarray) -> Distance:
    return _distance(name, np.asarray(prediction), target, {})


def _stepped(name: str, base: Any, target: np.ndarray) -> Distance:
    """An estimator that is linear in its step, at the step nearest to the layer."""
    base = np.asarray(base)
    square = np.sum(base**2)
    step = float(np.sum(base * target) / square) if square > 0 else 0.0
    return _distance(name, step * base, target, {"step": step})


def _distance(
    name: str, prediction: np.ndarray, target: np.ndarray, fit: dict[str, float]
) -> Distance:
    squares = np.sum((prediction - target) ** 2, axis=-1)
    value = float(np.sqrt(squares.mean()))
    spread = float(squares.std(ddof=1)) / np.sqrt(len(squares))
    return Distance(name, value, spread / (2 * value) if value > 0 else 0.0, fit)
