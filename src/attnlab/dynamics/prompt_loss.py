"""The squared error of a layer on prompts, and its mean over many of them.

A task's prompts say what a layer is called on (`inputs`) and what it has to predict (`target`); the
error of a layer with several outputs is the sum over them.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._core.errors import InvalidArgument, check_integer
from .._core.keys import check_key, fold_in
from .._core.precision import float64

_BATCH = 2000
_BATCH_NUMBERS = 2**24  # of the tokens of one batch


def inputs_and_target(prompts: Any) -> tuple[tuple[Array, ...], Array]:
    """What a layer is called on, and what it has to predict."""
    if hasattr(prompts, "inputs"):
        return prompts.inputs, prompts.target
    return (prompts.X,), prompts.y


def squared_errors(layer: Any, prompts: Any) -> Float[Array, " batch"]:
    """Squared error on each prompt, summed over outputs."""
    inputs, target = inputs_and_target(prompts)
    square = (layer(*inputs) - target) ** 2
    return square.sum(tuple(range(1, square.ndim)))


def prompt_numbers(task: Any) -> int:
    """How many numbers the tokens of one prompt hold."""
    length = getattr(task, "length", None) or 1
    return length * ((getattr(task, "dim", None) or 1) + (getattr(task, "n_outputs", None) or 0))


def with_jax_arrays(layer: Any, dtype: Any = None) -> Any:
    """A layer whose NumPy arrays of floating point are JAX ones, of `dtype` if it is given."""

    def convert(leaf: Any) -> Any:
        floating = eqx.is_inexact_array(leaf) or (
            isinstance(leaf, np.ndarray) and np.issubdtype(leaf.dtype, np.floating)
        )
        return jnp.asarray(leaf, dtype or jnp.float32) if floating else leaf

    return jax.tree.map(convert, layer)


def check_fits(layer: Any, task: Any) -> None:
    """Raises `InvalidArgument` unless `layer` predicts the task's targets; traces, computes nothing."""
    task = jax.tree.map(jnp.asarray, task)
    prompts = jax.eval_shape(lambda key: task.sample(key, 2), jax.random.key(0))
    inputs, target = inputs_and_target(prompts)
    try:
        # a struct may hold what is no array, which eval_shape would not take as an argument
        weights, fixed = eqx.partition(layer, eqx.is_array)
        found = jax.eval_shape(lambda w, x: eqx.combine(w, fixed)(*x), weights, inputs).shape
    except Exception as error:  # whatever a layer of other sizes raises
        shapes = ", ".join(str(x.shape) for x in inputs)
        shown = f"{type(layer).__name__}, which raises {type(error).__name__}"
        allowed = f"a module that can be called on the task's prompts, of shapes {shapes}"
        raise InvalidArgument("layer", shown, allowed) from error
    if found != target.shape:
        shown = f"{type(layer).__name__} with output of shape {found}"
        allowed = f"a module whose output has the shape of the target, {target.shape}"
        raise InvalidArgument("layer", shown, allowed)


def sampled_risk(
    layer: Any, task: Any, *, key: PRNGKeyArray, samples: int, batch: int | None = None
) -> tuple[float, float]:
    """The risk of a layer on a task by sampling: `(mean, standard_error)`, label noise included.

    The task may have prompts of another length than the layer was trained on
    (`task.with_length(L)`). Prompts are drawn in batches of `batch`, which bounds the memory
    (default: 2000, less for long prompts). Sums are in float64. Raises `InvalidArgument`.
    """
    samples = check_integer("samples", samples, minimum=2)
    check_key(key)
    if not callable(getattr(task, "sample", None)):
        raise InvalidArgument("task", task, "a task with a method sample(key, batch, dtype=)")
    default = max(1, min(_BATCH, _BATCH_NUMBERS // prompt_numbers(task)))
    size = default if batch is None else check_integer("batch", batch, minimum=1)
    layer = with_jax_arrays(layer)
    check_fits(layer, task)
    weights, fixed = eqx.partition(layer, eqx.is_array)
    size = min(size, samples)
    with float64():
        count = jnp.asarray(samples, jnp.int64)
        total, square = _sums(weights, fixed, task, key, size, count)
        total, square = float(total), float(square)
    mean = total / samples
    variance = max(square / samples - mean**2, 0.0) * samples / (samples - 1)
    return mean, float(np.sqrt(variance / samples))


@eqx.filter_jit
def _sums(
    weights: Any, fixed: Any, task: Any, key: PRNGKeyArray, batch: int, samples: Any
) -> tuple[Any, Any]:
    layer = eqx.combine(weights, fixed)

    def one(i: Any, sums: Any) -> Any:
        prompts = task.sample(fold_in(key, i), batch)
        losses = squared_errors(layer, prompts).astype(jnp.float64)
        losses = jnp.where(i * batch + jnp.arange(batch) < samples, losses, 0.0)
        return sums[0] + losses.sum(), sums[1] + (losses**2).sum()

    start = (jnp.zeros((), jnp.float64), jnp.zeros((), jnp.float64))
    return jax.lax.fori_loop(0, (samples + batch - 1) // batch, one, start)
