"""Softmax attention on single-location prompts: one query looks along `k` and reads along `v`.

The student of dohmatob2025; marion2025 names softmax as the variant that its proofs do not reach.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from .._core.errors import check_integer, check_real, is_traced
from ..tasks.links import Link, get_link


class SoftmaxAttention(eqx.Module):
    """The student `f(X) = Σ_ℓ p_ℓ σ(x_ℓ·v)` with `p = softmax_ℓ(β √d x_ℓ·k)`.

    **Arguments:**

    - `inverse_temperature`: `β > 0`; as it goes to 0 the student averages over all tokens.
    - `link`: `σ`, a registered name or a `Link`.

    The vectors are not part of the student: calls take them. Raises `InvalidArgument` for anything
    else.
    """

    inverse_temperature: float
    link: Link = eqx.field(static=True)

    def __init__(self, inverse_temperature: float = 1.0, link: str | Link = "linear"):
        self.inverse_temperature = check_real(
            "inverse_temperature", inverse_temperature, low=0.0, low_open=True
        )
        self.link = get_link(link)

    def __call__(
        self,
        X: Float[Array, "*batch length dim"],
        k: Float[Array, " dim"],
        v: Float[Array, " dim"],
    ) -> Float[Array, "*batch"]:
        """Predictions for a batch of prompts; `d` is read off `X`."""
        X = jnp.asarray(X)
        return self.predict_from_projections(X @ k, X @ v, dim=X.shape[-1])

    def predict_from_projections(
        self,
        scores: Float[Array, "*batch length"],
        values: Float[Array, "*batch length"],
        inverse_temperature: Float[ArrayLike, ""] | None = None,
        *,
        dim: int,
    ) -> Float[Array, "*batch"]:
        """Predictions from `scores = X·k` and `values = X·v` of tokens in `R^dim`;
        `inverse_temperature` overrides the student's."""
        root = jnp.sqrt(dim) if is_traced(dim) else math.sqrt(check_integer("dim", dim, minimum=1))
        beta: Any = self.inverse_temperature
        if inverse_temperature is not None:
            beta = inverse_temperature
            if not is_traced(beta):
                beta = check_real("inverse_temperature", beta, low=0.0, low_open=True)
        weights = jax.nn.softmax(beta * root * scores, axis=-1)
        return jnp.sum(weights * self.link(values), axis=-1)
