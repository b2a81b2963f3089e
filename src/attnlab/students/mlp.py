"""The baseline without attention: a multi-layer perceptron on the flattened prompt."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._core.errors import InvalidArgument, check_integer


class FlattenedMLP(eqx.Module):
    """A dense network on the `length × dim` numbers of a prompt, with ReLU hidden layers.

    **Arguments:** `dim`, `length` of the prompts it accepts; `width` and `depth` (number of hidden
    layers, at least 1); `key` of the initial weights. Raises `InvalidArgument`.
    """

    network: eqx.nn.MLP
    dim: int = eqx.field(static=True)
    length: int = eqx.field(static=True)

    def __init__(self, dim: int, length: int, width: int, depth: int = 1, *, key: PRNGKeyArray):
        self.dim = check_integer("dim", dim, minimum=1)
        self.length = check_integer("length", length, minimum=1)
        width = check_integer("width", width, minimum=1)
        depth = check_integer("depth", depth, minimum=1)
        self.network = eqx.nn.MLP(
            self.dim * self.length, "scalar", width, depth, dtype=jnp.float32, key=key
        )

    def __call__(self, X: Float[Array, "batch length dim"]) -> Float[Array, " batch"]:
        """Predictions for a batch of prompts of the one length that the network has inputs for."""
        if X.shape[-2:] != (self.length, self.dim):
            allowed = f"of shape (batch, {self.length}, {self.dim}): a dense layer fixes the length"
            raise InvalidArgument("X", X.shape, allowed)
        return jax.vmap(lambda x: self.network(x.reshape(-1)))(X)


def parameter_count(layer: Any) -> int:
    """Number of trainable numbers: the sizes of all floating-point arrays of a layer."""
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(layer, eqx.is_inexact_array)))
