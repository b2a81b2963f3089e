"""What attention layers share: all that they do follows from the circuits of their heads.

Source: eq. (2.2) of he2025; `docs/theory/multi-head-attention`.
"""

from __future__ import annotations

import abc
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument, check_choice
from ..tasks.in_context import LARGEST_WRITTEN_SUM
from .normalizations import Normalization
from .prompt_shapes import check_prompt_shapes

Mask = Literal["causal", "context"]


class AttentionLayer(eqx.Module):
    """A layer of heads on tokens `z = (x, y)` of `D = dim + n_outputs` entries, without biases.

    Subclasses say how their weights make the circuits `kq` and `ov`. The query attends to the
    context only, and the prediction is the last `n_outputs` entries of

        Σ_h OV^h Σ_ℓ p^h_ℓ z_ℓ,   p^h = normalization_ℓ(z_ℓᵀ KQ^h z_q)      (tokens as columns)
    """

    dim: eqx.AbstractVar[int]
    n_outputs: eqx.AbstractVar[int]
    normalization: eqx.AbstractVar[Normalization]

    @property
    @abc.abstractmethod
    def kq(self) -> Float[Array, "heads tokens tokens"]:
        """`KQ^h`: the logit of key token `z_i` for query token `z_j` is `z_iᵀ KQ^h z_j`."""

    @property
    @abc.abstractmethod
    def ov(self) -> Float[Array, "heads tokens tokens"]:
        """`OV^h`: what head `h` adds to the query token is `OV^h` times the attended token."""

    @property
    @abc.abstractmethod
    def n_heads(self) -> int:
        """Number of heads `H`."""

    def __call__(
        self,
        X: Float[Array, "*batch length dim"],
        y: Float[Array, "*batch length *outputs"],
        xq: Float[Array, "*batch dim"],
    ) -> Float[Array, "*batch *outputs"]:
        """Predictions for the queries `xq`, given the examples `(X, y)`.

        Raises `InvalidArgument` for shapes that do not fit the layer.
        """
        d = self.dim
        X, y, xq = _array("X", X), _array("y", y), _array("xq", xq)
        single = check_prompt_shapes(X, y, xq, dim=d, n_outputs=self.n_outputs)
        # the circuits are small matrices: nothing of the size of the prompt goes through them
        kq, read = self.kq[:, :, :d], self.ov[:, d:, :]
        if d + self.n_outputs > LARGEST_WRITTEN_SUM:
            labels = y[..., None] if single else y
            direction = jnp.einsum("hij,...j->...hi", kq, xq)
            scores = jnp.einsum("...ld,...hd->...hl", X, direction[..., :d])
            scores = scores + jnp.einsum("...ln,...hn->...hl", labels, direction[..., d:])
            weights = self.normalization.weights(scores)
            out = jnp.einsum("hnd,...hl,...ld->...n", read[:, :, :d], weights, X)
            out = out + jnp.einsum("hnm,...hl,...lm->...n", read[:, :, d:], weights, labels)
            return out[..., 0] if single else out
        # prompts last: all sums are then sums of long rows, which costs a fifth. No axis for a lone
        # head: XLA's CPU reductions of JAX 0.10 are ten times slower beside an axis of length 1
        heads = () if self.n_heads == 1 else (self.n_heads,)
        tokens = [*_rows(X, 2), *([_rows(y, 1)] if single else _rows(y, 2))]
        direction = jnp.tensordot(kq.transpose(1, 0, 2), _rows(xq, 1), 1)
        direction = direction.reshape(len(tokens), *heads, -1)
        scores = sum(direction[i][..., None, :] * token for i, token in enumerate(tokens))
        weights = self.normalization.weights(scores, -2)
        moments = jnp.stack([jnp.sum(weights * token, -2) for token in tokens])
        flat = read.transpose(1, 2, 0).reshape(self.n_outputs, -1)
        out = flat @ moments.reshape(flat.shape[1], -1)
        return out.T.reshape(xq.shape[:-1] if single else (*xq.shape[:-1], self.n_outputs))

    def update(
        self, tokens: Float[Array, "*batch count tokens"], mask: Mask = "causal"
    ) -> Float[Array, "*batch count tokens"]:
        """All tokens after the layer, residual link included; the query is the last of them.

        With `"causal"` a token attends to those before it, not to itself, and the first one, which
        may look at nothing, stays as it is; with `"context"` every token attends to all but the
        query. Raises `InvalidArgument`.
        """
        check_choice("mask", mask, ("causal", "context"))
        tokens, size = _array("tokens", tokens), self.dim + self.n_outputs
        if tokens.ndim < 2 or tokens.shape[-1] != size or tokens.shape[-2] == 0:
            allowed = f"of shape (*batch, count, {size}), with at least one token"
            raise InvalidArgument("tokens", tokens.shape, allowed)
        count = tokens.shape[-2]
        place = jnp.arange(count)
        seen = place[None, :] < (place[:, None] if mask == "causal" else count - 1)
        scores = jnp.einsum("...ti,hij,...sj->...hst", tokens, self.kq, tokens)
        weights = self.normalization.weights(scores, where=seen)
        return tokens + jnp.einsum("hij,...hst,...tj->...si", self.ov, weights, tokens)


def _array(name: str, value: Any) -> Array:
    """`value`, nested lists included, as a JAX array of numbers."""
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError):
        raise InvalidArgument(name, value, "an array of numbers") from None


def _rows(x: Array, last: int) -> Array:
    """The `last` axes of `(*batch, ...)` in reverse order, then one axis for the whole batch."""
    flat = x.reshape(-1, *x.shape[x.ndim - last :])
    return flat.transpose(*range(last, -1, -1))
