"""Several informative tokens: the answer is the mean or the sum of what they carry.

The extension that marion2025 names for sparsity `s > 1`, and relates to several heads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._core.errors import InvalidArgument, check_choice, check_integer
from .._core.keys import check_key
from .links import Link
from .single_location import SingleLocation, check_sample_size


class SeveralPrompts(NamedTuple):
    """A batch of labelled prompts.

    - `X`: tokens as rows, `(batch, length, dim)`
    - `y`: labels, noise included, `(batch,)`
    - `locations`: indices of the informative tokens, `(batch, n_informative)`; column `j` is the
      place of the token along `k*_j`. No student sees it
    """

    X: Float[Array, "batch length dim"]
    y: Float[Array, " batch"]
    locations: Int[Array, "batch n_informative"]


class SeveralLocations(eqx.Module):
    """Prompts of `L` Gaussian tokens, of which `s`, at uniform hidden places, are informative.

        x_{ℓ_j} ~ N(c√d k*_j, γ² I),  j = 1..s,      other tokens ~ N(0, I)
        y = w Σ_j σ(x_{ℓ_j}·v*) + ε ξ,               w = 1/s (mean) or 1 (sum)

    The places are distinct. All `k*_j` are one direction `k*`, or, with `own_directions`,
    orthonormal ones, all orthogonal to `v*`. With `n_informative=1` it is `SingleLocation`.

    **Arguments:** `n_informative`: `s`, between 1 and `length`; `own_directions`; `aggregate`,
    `"mean"` or `"sum"`; all others as in `SingleLocation`. Raises `InvalidArgument` for anything
    else, also when `dim` is too small to hold the directions.
    """

    dim: int = eqx.field(static=True)
    length: int = eqx.field(static=True)
    n_informative: int = eqx.field(static=True)
    own_directions: bool = eqx.field(static=True)
    aggregate: str = eqx.field(static=True)
    signal: float
    token_std: float
    noise_std: float
    link: Link = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        length: int,
        n_informative: int,
        *,
        own_directions: bool = False,
        aggregate: str = "mean",
        signal: float | None = None,
        token_std: float = math.sqrt(0.5),
        noise_std: float = 0.0,
        link: str | Link = "linear",
    ):
        if not isinstance(own_directions, bool):
            raise InvalidArgument("own_directions", own_directions, "True or False")
        self.own_directions = own_directions
        self.length = check_integer("length", length, minimum=1)
        self.n_informative = check_integer(
            "n_informative", n_informative, minimum=1, maximum=self.length
        )
        directions = self.n_informative if own_directions else 1
        self.dim = check_integer("dim", dim, minimum=max(2, directions + 1))
        self.aggregate = check_choice("aggregate", aggregate, ("mean", "sum"))
        single = SingleLocation(
            self.dim,
            self.length,
            signal=signal,
            token_std=token_std,
            noise_std=noise_std,
            link=link,
        )
        self.signal, self.token_std = single.signal, single.token_std
        self.noise_std, self.link = single.noise_std, single.link

    @property
    def weight(self) -> float:
        """`w`: weight of one informative token in the label."""
        return 1.0 if self.aggregate == "sum" else 1.0 / self.n_informative

    def default_directions(
        self, dtype: Any = jnp.float32
    ) -> tuple[Float[Array, "n_informative dim"], Float[Array, " dim"]]:
        """`(k*_1..k*_s, v*)` along the first coordinate axes; equal rows without
        `own_directions`."""
        count = self.n_informative if self.own_directions else 1
        axes = jnp.eye(count + 1, self.dim, dtype=dtype)
        return jnp.broadcast_to(axes[:count], (self.n_informative, self.dim)), axes[count]

    def sample(
        self,
        key: PRNGKeyArray,
        batch: int,
        k_star: Float[Array, "*s dim"] | None = None,
        v_star: Float[Array, " dim"] | None = None,
        *,
        dtype: Any = jnp.float32,
    ) -> SeveralPrompts:
        """Draws `batch` independent prompts.

        **Arguments:** `k_star` of shape `(dim,)` or `(n_informative, dim)`; both directions default
        to `default_directions()`. Random numbers are drawn in float32 and then cast to `dtype`, so
        that the precision never changes the sample.

        Raises `InvalidArgument` for a batch that does not fit in memory.
        """
        key, batch = check_key(key), check_integer("batch", batch, minimum=1)
        check_sample_size(batch, self.length, self.dim, dtype)
        keys_default, v_default = self.default_directions(dtype)
        keys = keys_default if k_star is None else jnp.asarray(k_star, dtype)
        keys = jnp.broadcast_to(keys, keys_default.shape)
        v_star = v_default if v_star is None else jnp.asarray(v_star, dtype)
        place_key, token_key, noise_key = jax.random.split(key, 3)
        order = jax.random.uniform(place_key, (batch, self.length), jnp.float32)
        # the places of the s largest of L independent numbers: distinct, in uniform order
        _, locations = jax.lax.top_k(order, self.n_informative)
        z = jax.random.normal(token_key, (batch, self.length, self.dim), jnp.float32)
        z = z.astype(dtype)
        marks = (jnp.arange(self.length) == locations[..., None]).astype(dtype)
        informative = jnp.any(marks > 0, axis=1)[..., None]
        X = jnp.where(informative, self.token_std * z, z)
        X = X + self.signal * math.sqrt(self.dim) * jnp.einsum("bsl,sd->bld", marks, keys)
        told = jnp.take_along_axis(X @ v_star, locations, axis=-1)
        noise = jax.random.normal(noise_key, (batch,), jnp.float32).astype(dtype)
        y = self.weight * jnp.sum(self.link(told), axis=-1) + self.noise_std * noise
        return SeveralPrompts(X, y.astype(dtype), locations)
