"""A fuller layer: skip connection, normalisation, and the four matrices, read out by a number.

What marion2025 leaves out of its predictor, put back in, to see whether it changes what is learned.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._core.errors import check_choice, check_integer

_FLOOR = 1e-6  # added to the mean square before its root, as everywhere in this trade


class TransformerLayer(eqx.Module):
    """One pre-normalised attention layer on the prompt, and a linear read-out at one position.

        Z = (cls, x_1, ..., x_L) or (x_1, ..., x_L),   N = norm(Z)
        z_i + Σ_h O_h Σ_j softmax_j( (Q_h N_i)·(K_h N_j)/√p ) V_h N_j,     ŷ = r · (that at i)

    The read-out position is a learned `[CLS]` token in front, or the mean over all positions.

    **Arguments:**

    - `dim`, `n_heads`, `head_dim` (`p`; default `dim`): sizes.
    - `skip`: the term `z_i`.
    - `normalization`: `"rms"`, `"layer"` or `"none"`, without learned gain: the matrices hold it.
    - `readout`: `"cls"` or `"mean"`.
    - `key`: of the initial weights, normal with variance 1/fan-in.

    Raises `InvalidArgument`.
    """

    query: Float[Array, "heads head_dim dim"]
    keys: Float[Array, "heads head_dim dim"]
    value: Float[Array, "heads head_dim dim"]
    output: Float[Array, "heads dim head_dim"]
    cls: Float[Array, " dim"]
    read: Float[Array, " dim"]
    skip: bool = eqx.field(static=True)
    normalization: str = eqx.field(static=True)
    readout: str = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        n_heads: int = 1,
        head_dim: int | None = None,
        *,
        skip: bool = True,
        normalization: str = "rms",
        readout: str = "cls",
        key: PRNGKeyArray,
    ):
        dim = check_integer("dim", dim, minimum=2)
        n_heads = check_integer("n_heads", n_heads, minimum=1)
        p = dim if head_dim is None else check_integer("head_dim", head_dim, minimum=1)
        self.skip = bool(skip)
        self.normalization = check_choice("normalization", normalization, ("rms", "layer", "none"))
        self.readout = check_choice("readout", readout, ("cls", "mean"))
        keys = jax.random.split(key, 6)

        def draw(key: PRNGKeyArray, shape: tuple[int, ...]) -> Any:
            return jax.random.normal(key, shape, jnp.float32) / math.sqrt(shape[-1])

        self.query, self.keys, self.value = (draw(k, (n_heads, p, dim)) for k in keys[:3])
        self.output = draw(keys[3], (n_heads, dim, p))
        self.cls = jax.random.normal(keys[4], (dim,), jnp.float32)
        self.read = draw(keys[5], (dim,))

    def __call__(self, X: Float[Array, "*batch length dim"]) -> Float[Array, "*batch"]:
        """Predictions for a batch of prompts."""
        Z = jnp.asarray(X)
        if self.readout == "cls":
            front = jnp.broadcast_to(self.cls.astype(Z.dtype), (*Z.shape[:-2], 1, Z.shape[-1]))
            Z = jnp.concatenate([front, Z], axis=-2)
        N = self.normalize(Z)
        # only the positions that are read attend: the one in front, or all of them
        asking, streams = (N[..., :1, :], Z[..., :1, :]) if self.readout == "cls" else (N, Z)
        q = jnp.einsum("...id,hpd->...hip", asking, self.query) / math.sqrt(self.query.shape[1])
        k = jnp.einsum("...jd,hpd->...hjp", N, self.keys)
        weights = jax.nn.softmax(jnp.einsum("...hip,...hjp->...hij", q, k), axis=-1)
        v = jnp.einsum("...jd,hpd->...hjp", N, self.value)
        told = jnp.einsum("...hij,...hjp,hdp->...id", weights, v, self.output)
        if self.skip:
            told = told + streams
        return jnp.mean(told @ self.read, axis=-1)

    def normalize(self, Z: Float[Array, "*any dim"]) -> Float[Array, "*any dim"]:
        """Each position divided by its root mean square, centred first for `"layer"`."""
        if self.normalization == "none":
            return Z
        if self.normalization == "layer":
            Z = Z - jnp.mean(Z, axis=-1, keepdims=True)
        return Z / jnp.sqrt(jnp.mean(Z**2, axis=-1, keepdims=True) + _FLOOR)

    def score_directions(self) -> Float[Array, "heads dim"]:
        """`K_hᵀ Q_h N(cls)`: a token's logit, seen from `[CLS]`, is its product with this. With the
        read-out `"mean"` there is no one asking position, and the leading direction of
        `K_hᵀ Q_h` is returned (the left singular vector)."""
        circuit = jnp.einsum("hpd,hpe->hde", self.keys, self.query)
        if self.readout == "cls":
            return self._visible(circuit @ self.normalize(self.cls))
        return self._visible(jnp.linalg.svd(circuit)[0][..., :, 0])

    def value_directions(self) -> Float[Array, "heads dim"]:
        """`V_hᵀ O_hᵀ r`: what the prediction gains per unit of attention to a token."""
        return self._visible(jnp.einsum("hpd,hep,e->hd", self.value, self.output, self.read))

    def _visible(self, direction: Any) -> Any:
        """The part of a direction that a normalised token can have: its mean is 0 for `"layer"`."""
        if self.normalization == "layer":
            return direction - jnp.mean(direction, axis=-1, keepdims=True)
        return direction
