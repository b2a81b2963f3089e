"""Layers with different activations trained side by side, on the same prompts from the same start.

One compiled program for all of them: the layers are stacked, and the activation of each is chosen
by a number. The loss is the sum of theirs, so that none feels the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ...dynamics.circuit_history import CircuitMeasure
from ...students import MultiHeadAttention, Normalization
from .by_length import with_normalization

KINDS = ("softmax", "one-plus-tanh", "affine", "squared-affine")


def parameter_of(name: str) -> tuple[int, float]:
    """The place in `KINDS` and `C` of a name such as `affine-0.5`."""
    if name in KINDS[:2]:
        return KINDS.index(name), 1.0
    kind, _, number = name.rpartition("-")
    return KINDS.index(kind), float(number)


def blended(parameter: tuple[Any, Any]) -> Normalization:
    """The normalisation of `(place in KINDS, C)`, both of which may be traced."""
    place, C = parameter

    def weights(scores: Any, axis: int) -> Any:
        def share(raw: Any) -> Any:
            return raw / raw.sum(axis, keepdims=True)

        line = 1 + jnp.asarray(C, scores.dtype) * scores
        branches = [
            lambda: jax.nn.softmax(scores, axis=axis),
            lambda: share(jax.nn.sigmoid(2 * scores)),
            lambda: share(line),
            lambda: share(line**2),
        ]
        return jax.lax.switch(place, branches)

    return Normalization("blended", weights)


class Family(eqx.Module):
    """Layers `(activation, ...)` that predict side by side: `(batch, activations)`."""

    layers: MultiHeadAttention
    names: tuple[str, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, names: tuple[str, ...], layer: MultiHeadAttention) -> Family:
        """One copy of `layer` for each activation."""
        count = len(names)
        return cls(jax.tree.map(lambda leaf: jnp.stack([leaf] * count), layer), names)

    def __call__(self, X: Any, y: Any, xq: Any) -> Any:
        weights, fixed = eqx.partition(self.layers, eqx.is_array)

        def one(each: Any) -> Any:
            layer, parameter = eqx.combine(each[0], fixed), each[1]
            return with_normalization(layer, blended(parameter))(X, y, xq)

        # one after the other: under vmap every layer would compute all activations
        return jnp.moveaxis(jax.lax.map(one, (weights, parameters_of(self.names))), 0, -1)


def parameters_of(names: tuple[str, ...]) -> tuple[Any, Any]:
    """`parameter_of` each, stacked."""
    pairs = [parameter_of(name) for name in names]
    return jnp.asarray([place for place, _ in pairs]), jnp.asarray([C for _, C in pairs])


class FamilyMeasure:
    """The circuits of each layer, with an axis `activation` in front."""

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        """Names of the axes."""
        return {name: ("activation", *axes) for name, axes in CircuitMeasure(True).dims.items()}

    def __call__(self, family: Family) -> dict[str, Any]:
        found: dict[str, Any] = eqx.filter_vmap(CircuitMeasure(True))(family.layers)
        return found


class Repeated(eqx.Module):
    """A task whose target is there once for each layer."""

    task: Any
    count: int = eqx.field(static=True)

    def sample(self, key: Any, batch: int, *, dtype: Any = jnp.float32) -> _Prompts:
        """Prompts of the task, `target` of shape `(batch, count)`."""
        prompts = self.task.sample(key, batch, dtype=dtype)
        target = jnp.broadcast_to(prompts.target[:, None], (batch, self.count))
        return _Prompts(prompts.inputs, target)


class _Prompts(NamedTuple):
    inputs: tuple[Any, ...]
    target: Any
