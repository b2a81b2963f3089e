"""Invariants of tasks: what sampling has to give, and the laws that it has to follow."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core.errors import InvalidArgument, check_integer
from .._core.precision import float64
from ..tasks import InContextRegression, SingleLocation
from .in_context import check_in_context_laws
from .invariants import Invariants, shown

# Chance that a correct sampler fails one of the laws: 5.5 standard errors, about 4e-8 each.
_WIDTH = 5.5
_FEW = 7  # prompts where one batch will do; always as many, since each size is compiled anew


def check_task(task: Any, *, seed: int = 0, batch: int = 2000) -> tuple[str, ...]:
    """Checks what the library relies on in a task that can be sampled.

    **Any task** has `dim` and `sample(key, batch)`, which returns prompts with tokens `X`, shape
    `(batch, length, dim)`, and labels `y`, shape `(batch,)` (or `(batch, outputs)`), or, if the
    prompts have a query `xq`, `(batch, length)` (or `(batch, length, outputs)`). The sample is
    finite, depends on the key alone, not on the precision that the caller runs in nor on `jit`; its
    prompts are distinct and equally distributed; a batch of 0 is refused.

    **A `SingleLocation`** (or a subclass) also follows its declared laws: where the informative
    token stands, mean and variance of informative and other tokens, and the labels. **An
    `InContextRegression`** as well: covariance, coefficients (their supports, and whether tasks
    share them) and noise.

    `batch` prompts are drawn with `seed`. Returns the names of the invariants. Raises
    `InvariantError` for those that fail, `InvalidArgument` for bad arguments.
    """
    batch = check_integer("batch", batch, minimum=200)
    if not callable(getattr(task, "sample", None)):
        raise InvalidArgument("task", task, "an object with a method sample(key, batch)")
    key = jax.random.key(check_integer("seed", seed, minimum=0))
    found = Invariants(f"task {shown(type(task).__name__)}")
    if not found.require("shapes", lambda: _shapes(task, key)):
        return found.result()
    prompts = task.sample(key, batch)
    X, y = np.asarray(prompts.X, np.float64), np.asarray(prompts.y, np.float64)
    found.require("finite", lambda: _finite(X, y))
    found.require("depends on the key alone", lambda: _deterministic(task, key))
    found.require("same under jit", lambda: _same_under_jit(task, key))
    found.require("same in float64", lambda: _same_in_float64(task, key))
    found.require("distinct prompts", lambda: _distinct(X))
    found.require("equally distributed prompts", lambda: _exchangeable(X, y))
    found.require("refuses an empty batch", lambda: _refuses_empty(task, key))
    if isinstance(task, SingleLocation):
        _check_single_location(found, task, prompts)
    if isinstance(task, InContextRegression):
        check_in_context_laws(found, task, prompts)
    return found.result()


def _shapes(task: Any, key: Any) -> str | None:
    dim = check_integer("task.dim", task.dim, minimum=1)
    prompts = task.sample(key, _FEW)
    X, y = jnp.asarray(prompts.X), jnp.asarray(prompts.y)
    if X.ndim != 3 or X.shape[0] != _FEW or X.shape[2] != dim:
        return f"X has shape {X.shape} for batch {_FEW} and dim {dim}"
    wanted = (_FEW, X.shape[1]) if hasattr(prompts, "xq") else (_FEW,)
    if y.shape[: len(wanted)] != wanted or y.ndim > len(wanted) + 1:
        return f"y has shape {y.shape} for batch {_FEW}"
    length = getattr(task, "length", None)
    if length is not None and X.shape[1] != length:
        return f"X has {X.shape[1]} tokens, the task says {length}"
    return None


def _finite(X: np.ndarray, y: np.ndarray) -> str | None:
    for name, values in (("X", X), ("y", y)):
        if not np.isfinite(values).all():
            return f"{np.sum(~np.isfinite(values))} entries of {name} are not finite"
    return None


def _difference(a: Any, b: Any) -> float:
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(
        float(np.max(np.abs(np.asarray(x, np.float64) - np.asarray(y, np.float64))))
        for x, y in pairs
    )


def _deterministic(task: Any, key: Any) -> str | None:
    first = task.sample(key, _FEW)
    if _difference(first, task.sample(key, _FEW)) > 0:
        return "two samples with one key differ"
    if _difference(first.X, task.sample(jax.random.fold_in(key, 1), _FEW).X) == 0:
        return "samples with two keys are equal"
    return None


def _same_under_jit(task: Any, key: Any) -> str | None:
    gap = _difference(task.sample(key, _FEW), jax.jit(lambda k: task.sample(k, _FEW))(key))
    return f"the sample changes by {gap:.3g}" if gap > 1e-3 else None


def _same_in_float64(task: Any, key: Any) -> str | None:
    single = task.sample(key, _FEW)
    with float64():
        double = task.sample(key, _FEW)
    gap = _difference(single, double)
    return f"the sample changes by {gap:.3g}" if gap > 1e-3 else None


def _distinct(X: np.ndarray) -> str | None:
    flat = X.reshape(len(X), -1)
    repeats = len(flat) - len(np.unique(flat, axis=0))
    return f"{repeats} of {len(flat)} prompts are repeats" if repeats else None


def _exchangeable(X: np.ndarray, y: np.ndarray) -> str | None:
    """First and second half of the batch have the same means."""
    half = len(X) // 2
    y = y.reshape(len(y), -1)[:, 0]
    for name, values in (
        ("y", y),
        ("y²", y**2),
        ("|X|²", np.sum(X**2, axis=(1, 2))),
        ("mean token", np.mean(X, axis=(1, 2))),
    ):
        a, b = values[:half], values[half:]
        error = math.sqrt(a.var() / len(a) + b.var() / len(b))
        if abs(a.mean() - b.mean()) > _WIDTH * error + 1e-12:
            return f"the mean of {name} is {a.mean():.4g} in one half, {b.mean():.4g} in the other"
    return None


def _refuses_empty(task: Any, key: Any) -> str | None:
    try:
        task.sample(key, 0)
    except InvalidArgument:
        return None
    return "sample(key, 0) does not raise InvalidArgument"


def _check_single_location(found: Invariants, task: SingleLocation, prompts: Any) -> None:
    X, y = np.asarray(prompts.X, np.float64), np.asarray(prompts.y, np.float64)
    place = np.asarray(prompts.location)
    batch, length, dim = X.shape
    found.require("location in range", lambda: _in_range(place, length))
    if "location in range" not in found.held:
        return
    told = X[np.arange(batch), place]
    others = np.delete(X.reshape(batch * length, dim), np.arange(batch) * length + place, axis=0)
    mean = np.zeros(dim)
    mean[0] = task.signal * math.sqrt(dim)
    found.require("location uniform", lambda: _uniform(place, length))
    found.require("informative token", lambda: _gaussian(told, mean, task.token_std))
    if length > 1:
        found.require("other tokens", lambda: _gaussian(others, np.zeros(dim), 1.0))
    found.require("labels", lambda: _labels(task, y, told[:, 1]))


def _in_range(place: np.ndarray, length: int) -> str | None:
    wrong = (place < 0) | (place >= length)
    return f"location {place[wrong][0]} among {length} tokens" if wrong.any() else None


def _uniform(place: np.ndarray, length: int) -> str | None:
    counts = np.bincount(place, minlength=length)
    expected = len(place) / length
    worst = np.max(np.abs(counts - expected))
    allowed = _WIDTH * math.sqrt(expected * (1 - 1 / length)) + 1.0
    return f"counts of the places are {shown(counts.tolist())}" if worst > allowed else None


def _gaussian(tokens: np.ndarray, mean: np.ndarray, std: float) -> str | None:
    """Mean and variance of every coordinate, and the sum of all, against `N(mean, std² I)`."""
    count, dim = tokens.shape
    z = (tokens - mean) / std
    worst = float(np.max(np.abs(z.mean(axis=0)))) * math.sqrt(count)
    # The largest of `dim` normals grows like the root of 2 log dim.
    allowed = _WIDTH + math.sqrt(2 * math.log(dim))
    if worst > allowed:
        return f"the mean of a coordinate is {worst:.1f} standard errors off"
    worst = float(np.max(np.abs(z.var(axis=0) - 1))) * math.sqrt(count / 2)
    if worst > allowed + dim / math.sqrt(count) + 1.0:
        return f"the variance of a coordinate is {worst:.1f} standard errors off"
    total = z.sum(axis=1) / math.sqrt(dim)
    worst = abs(float(np.mean(total**2)) - 1) * math.sqrt(count / 2)
    return f"coordinates are dependent ({worst:.1f} standard errors)" if worst > allowed else None


def _labels(task: SingleLocation, y: np.ndarray, told: np.ndarray) -> str | None:
    with float64():
        residual = y - np.asarray(task.link(jnp.asarray(told)))
    if task.noise_std == 0:
        worst = float(np.max(np.abs(residual) / (1 + np.abs(y))))
        return f"a label is off by {worst:.3g} although there is no noise" if worst > 1e-4 else None
    z = residual / task.noise_std
    off = max(abs(z.mean()) * math.sqrt(len(z)), abs(z.var() - 1) * math.sqrt(len(z) / 2))
    return f"the label noise is {off:.1f} standard errors off" if off > _WIDTH else None
