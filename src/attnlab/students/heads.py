"""Trainable layers of several single-location heads: predictors that hold their own vectors.

The multi-head layer that marion2025 relates to several informative tokens.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._core.errors import InvalidArgument, check_integer
from .pointwise import PointwiseAttention
from .softmax import SoftmaxAttention


class AttentionHeads(eqx.Module):
    """`T(X) = Σ_h S(X; k_h, v_h)`: a sum of `H` students `S` with vectors of their own.

    `S` uses `k_h / |k_h|`, so that only the direction of a key matters and the scale of the
    scores stays that of the student; values likewise, unless `free_values`.

    **Arguments:**

    - `student`: `PointwiseAttention` or `SoftmaxAttention`.
    - `dim`, `n_heads`: sizes; `key`: of the initial vectors, uniform on the sphere.
    - `free_values`: let the length of `v_h` matter (as for the mean of several tokens).

    **Fields:** `k`, `v` of shape `(n_heads, dim)`. Raises `InvalidArgument`.
    """

    student: PointwiseAttention | SoftmaxAttention
    k: Float[Array, "heads dim"]
    v: Float[Array, "heads dim"]
    free_values: bool = eqx.field(static=True)

    def __init__(
        self,
        student: PointwiseAttention | SoftmaxAttention,
        dim: int,
        n_heads: int = 1,
        *,
        free_values: bool = False,
        key: PRNGKeyArray,
    ):
        kinds: tuple[type, ...] = (PointwiseAttention, SoftmaxAttention)
        if not isinstance(student, kinds):
            allowed = "a PointwiseAttention or a SoftmaxAttention"
            raise InvalidArgument("student", student, allowed)
        shape = (
            check_integer("n_heads", n_heads, minimum=1),
            check_integer("dim", dim, minimum=2),
        )
        if not isinstance(free_values, bool):
            raise InvalidArgument("free_values", free_values, "True or False")
        k_key, v_key = jax.random.split(key)
        self.student, self.free_values = student, free_values
        self.k = _unit(jax.random.normal(k_key, shape, jnp.float32))
        self.v = _unit(jax.random.normal(v_key, shape, jnp.float32))

    def __call__(self, X: Float[Array, "*batch length dim"]) -> Float[Array, "*batch"]:
        """Predictions for a batch of prompts."""
        k, v = self.score_directions(), self.value_directions()
        return jnp.sum(jax.vmap(lambda k, v: self.student(X, k, v))(k, v), axis=0)

    def score_directions(self) -> Float[Array, "heads dim"]:
        """Where each head looks: its unit key."""
        return _unit(self.k)

    def value_directions(self) -> Float[Array, "heads dim"]:
        """What each head reads, a unit vector unless `free_values`."""
        return self.v if self.free_values else _unit(self.v)


def _unit(x: Any) -> Any:
    return x / jnp.sqrt(jnp.sum(x**2, axis=-1, keepdims=True))
