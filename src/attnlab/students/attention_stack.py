"""Attention layers one after the other, as in a transformer without feed-forward parts.

Source: eq. (2.2) of he2025 (causal mask); `docs/theory/multi-head-attention`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument, check_choice
from ..tasks.in_context import as_tokens
from .attention_layer import AttentionLayer, Mask
from .prompt_shapes import check_prompt_shapes


class AttentionStack(eqx.Module):
    """Several layers, one after the other, on the tokens of a prompt.

    **Arguments:** `layers`, of equal `dim` and `n_outputs`; `mask` of each (see
    `AttentionLayer.update`). The prediction is the last entries of the query token, which start
    at 0, times `sign`: with -1 (ahn2023) what is left of every response to be explained stands in
    its token, and the query's is minus the prediction. Raises `InvalidArgument`.
    """

    layers: tuple[AttentionLayer, ...]
    mask: Mask = eqx.field(static=True)
    sign: int = eqx.field(static=True)

    def __init__(self, layers: Any, mask: Mask = "causal", *, sign: Literal[1, -1] = 1):
        if not isinstance(layers, Iterable):
            allowed = "a sequence of attention layers of equal dimensions"
            raise InvalidArgument("layers", layers, allowed)
        self.layers = tuple(layers)
        self.mask = check_choice("mask", mask, ("causal", "context"))  # type: ignore[assignment]
        if isinstance(sign, bool) or sign not in (1, -1):
            raise InvalidArgument("sign", sign, "1 or -1")
        self.sign = sign
        shapes = {(getattr(x, "dim", None), getattr(x, "n_outputs", None)) for x in self.layers}
        same = len(shapes) == 1 and all(isinstance(x, AttentionLayer) for x in self.layers)
        if not same:
            raise InvalidArgument("layers", layers, "attention layers of equal dimensions")

    def __call__(
        self,
        X: Float[Array, "*batch length dim"],
        y: Float[Array, "*batch length *outputs"],
        xq: Float[Array, "*batch dim"],
    ) -> Float[Array, "*batch *outputs"]:
        """Predictions for the queries `xq`, given the examples `(X, y)`.

        Raises `InvalidArgument` for shapes that do not fit the layers.
        """
        first = self.layers[0]
        single = check_prompt_shapes(X, y, xq, dim=first.dim, n_outputs=first.n_outputs)
        context, query = as_tokens(X, y, xq)
        tokens = jnp.concatenate([context, query[..., None, :]], axis=-2)
        for layer in self.layers:
            tokens = layer.update(tokens, self.mask)
        out = self.sign * tokens[..., -1, X.shape[-1] :]
        return out[..., 0] if single else out
