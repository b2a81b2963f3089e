"""The loss of trained layers on prompts of other lengths than they were trained on.

All layers and all lengths see the same prompts: one of `L` examples is the beginning of the longest
one. Differences between curves are then known far better than their heights.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._core.precision import float64
from ...circuits import Circuits
from ...students import MultiHeadAttention, Normalization
from ...tasks import InContextRegression

_BATCH = 500


def layers_of(
    circuits: Sequence[tuple[np.ndarray, np.ndarray]],
    dim: int,
    normalization: str | Normalization = "softmax",
    *,
    heads: int | None = None,
) -> MultiHeadAttention:
    """Layers with these `(kq, ov)`, stacked along a leading axis of their weights.

    They are filled up to `heads` heads (default: the most there are) with zeros, which add nothing
    to a prediction: layers of one shape share a compiled program.
    """
    most = max(len(kq) for kq, _ in circuits) if heads is None else heads
    layers = []
    for kq, ov in circuits:
        fill = ((0, most - len(kq)), (0, 0), (0, 0))
        outputs = kq.shape[-1] - dim
        kq, ov = np.pad(kq, fill), np.pad(ov, fill)
        filled = Circuits(kq, ov, dim=dim, n_outputs=outputs, normalization=normalization)
        layers.append(filled.as_layer())
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)


def with_normalization(
    layer: MultiHeadAttention, normalization: Normalization
) -> MultiHeadAttention:
    """The same layer with other weights on the context, traced ones included."""
    other = copy.copy(layer)
    object.__setattr__(other, "normalization", normalization)  # static: out of reach of tree_at
    return other


def losses_by_length(
    layers: MultiHeadAttention,
    task: InContextRegression,
    lengths: Sequence[int],
    *,
    key: Any,
    samples: int,
    normalization: Callable[[Any], Normalization] | None = None,
    parameters: Any = None,
    scales: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean squared errors `(layer, length)` and their standard errors.

    **Arguments:** `layers` stacked as by `layers_of`; `normalization`: for layers that differ in it,
    a function of one entry of `parameters`; `scales` `(layer, length)`, factors of the predictions.
    """
    count = len(jax.tree.leaves(layers)[0])
    batches = -(-samples // _BATCH)
    scales = np.ones((count, len(lengths))) if scales is None else scales
    with float64():
        sums = _sums(
            layers, parameters, jnp.asarray(scales, jnp.float32), task.with_length(max(lengths)),
            jnp.asarray(lengths), key, jnp.asarray(batches), normalization,
        )  # fmt: skip
    total, square = (np.asarray(part) / (batches * _BATCH) for part in sums)
    return total, np.sqrt(np.maximum(square - total**2, 0.0) / (batches * _BATCH))


@eqx.filter_jit
def _sums(
    layers: Any,
    parameters: Any,
    scales: Any,
    task: Any,
    lengths: Any,
    key: Any,
    batches: Any,
    normalization: Callable[[Any], Normalization] | None,
) -> tuple[Any, Any]:
    weights, fixed = eqx.partition(layers, eqx.is_array)
    task = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), task)

    def one_layer(weights: Any, parameter: Any, scale: Any, prompts: Any) -> Any:
        layer = eqx.combine(weights, fixed)
        base = layer.normalization if normalization is None else normalization(parameter)

        def one_length(length: Any, factor: Any) -> Any:
            def weights(scores: Any, axis: int) -> Any:
                place = jax.lax.broadcasted_iota(jnp.int32, scores.shape, axis % scores.ndim)
                return base.weights(scores, axis, place < length)

            shortened = with_normalization(layer, Normalization("shortened", weights))
            errors = factor * shortened(*prompts.inputs) - prompts.target
            return jnp.square(errors.reshape(len(errors), -1)).sum(-1).astype(jnp.float64)

        return jax.vmap(one_length)(lengths, scale)

    def one_batch(i: Any, sums: Any) -> Any:
        prompts = task.sample(jax.random.fold_in(key, i), _BATCH)
        losses = jax.lax.map(
            lambda each: one_layer(each[0], each[1], each[2], prompts),
            (weights, parameters, scales),
        )
        return sums[0] + losses.sum(-1), sums[1] + (losses**2).sum(-1)

    zeros = jnp.zeros(scales.shape, jnp.float64)
    return jax.lax.fori_loop(0, batches, one_batch, (zeros, zeros))
