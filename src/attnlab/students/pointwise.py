"""Pointwise attention: every token is weighted by an activation of its own score.

Source: eq. (6) of marion2025; `docs/theory/pointwise-attention`.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from .._core.errors import InvalidArgument, check_real
from ..tasks.links import Link, get_link
from .activations import Activation, get_activation


class PointwiseAttention(eqx.Module):
    """The student `T(X) = Σ_ℓ a(λ x_ℓ·k) σ(x_ℓ·v)` with unit vectors `k` and `v`.

    **Arguments:**

    - `activation`: `a`, a registered name or an `Activation`; erf in marion2025.
    - `scale`: `λ` in [1e-4, 1e2], the inverse width of the activation in units of the score.
    - `link`: `σ`, a registered name or a `Link`; linear in marion2025.

    The vectors are not part of the student: risks take their `Overlaps`, calls take them.
    Raises `InvalidArgument` for anything else.
    """

    scale: float
    activation: Activation = eqx.field(static=True)
    link: Link = eqx.field(static=True)

    def __init__(
        self,
        activation: str | Activation = "erf",
        scale: float = 1.0,
        link: str | Link = "linear",
    ):
        self.activation = get_activation(activation)
        self.scale = check_real("scale", scale, low=1e-4, high=1e2)
        self.link = get_link(link)

    def __call__(
        self,
        X: Float[Array, "*batch length dim"],
        k: Float[Array, " dim"],
        v: Float[Array, " dim"],
    ) -> Float[Array, "*batch"]:
        """Predictions for a batch of prompts."""
        X, k, v = (jnp.asarray(part) for part in (X, k, v))
        for name, vector in (("k", k), ("v", v)):
            if X.ndim < 2 or vector.shape != X.shape[-1:]:
                allowed = f"a vector that fits prompts X of shape {X.shape}: (batch, length, dim)"
                raise InvalidArgument(name, f"array of shape {vector.shape}", allowed)
        return self.predict_from_projections(X @ k, X @ v)

    def predict_from_projections(
        self,
        scores: Float[Array, "*batch length"],
        values: Float[Array, "*batch length"],
        scale: Float[ArrayLike, ""] | None = None,
        *,
        dim: int | None = None,
    ) -> Float[Array, "*batch"]:
        """Predictions from `scores = X·k` and `values = X·v`; `scale` overrides the student's.

        The dimension of the tokens does not enter: `dim` is there because softmax attention wants
        to be told.
        """
        factor: Any = self.scale if scale is None else scale
        return jnp.sum(self.activation(factor * scores) * self.link(values), axis=-1)
