"""Single-location regression: one token of the prompt carries the answer.

Source: Section 3 of marion2025; eq. (1)-(3) of dohmatob2025; `docs/theory/single-location`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._core.errors import InvalidArgument, check_integer, check_real, is_traced
from .._core.keys import check_key
from .._core.precision import check_dtype
from .links import Link, get_link

_LARGEST_SAMPLE_BYTES = 8 * 2**30
_LARGEST_LOG_LENGTH = 5000.0


class Prompts(NamedTuple):
    """A batch of labelled prompts.

    - `X`: tokens as rows, `(batch, length, dim)`
    - `y`: labels, noise included, `(batch,)`
    - `location`: index of the informative token, `(batch,)`; no student sees it
    """

    X: Float[Array, "batch length dim"]
    y: Float[Array, " batch"]
    location: Int[Array, " batch"]


class SingleLocation(eqx.Module):
    """Prompts of `L` Gaussian tokens, of which one, at a uniform hidden place, is informative.

        x_informative ~ N(c√d k*, γ² I),   other tokens ~ N(0, I),   y = σ(x_informative·v*) + ε ξ

    with orthonormal hidden directions `k*` (where to look) and `v*` (what to read).

    **Arguments:**

    - `dim`: dimension `d` of a token, at least 2.
    - `length`: number of tokens `L`, at least 1. Give either this or `log_length`.
    - `log_length`: `log L` for the theory at sizes that nobody can sample; 0, or at least log 2.
    - `signal`: `c >= 0`; default `√(1 - γ²)`, which keeps `E|x|² = d` for every token.
    - `token_std`: `γ`, standard deviation of the informative token, in (0, 10]; default √½.
    - `noise_std`: `ε >= 0`, standard deviation of the label noise.
    - `link`: `σ`, a registered name or a `Link`.

    Raises `InvalidArgument` for anything else.
    """

    dim: int = eqx.field(static=True)
    length: int | None = eqx.field(static=True)
    log_length: float
    signal: float
    token_std: float
    noise_std: float
    link: Link = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        length: int | None = None,
        *,
        log_length: float | None = None,
        signal: float | None = None,
        token_std: float = math.sqrt(0.5),
        noise_std: float = 0.0,
        link: str | Link = "linear",
    ):
        self.dim = check_integer("dim", dim, minimum=2)
        self.length, self.log_length = _both_lengths(length, log_length)
        self.token_std = check_real("token_std", token_std, low=0.0, low_open=True, high=10.0)
        if signal is None:
            if not is_traced(self.token_std) and self.token_std > 1:
                allowed = "at most 1 while signal is left to its default √(1 - token_std²)"
                raise InvalidArgument("token_std", token_std, allowed)
            root: Any = jnp.sqrt if is_traced(self.token_std) else math.sqrt
            self.signal = root(1 - self.token_std**2)
        else:
            self.signal = check_real("signal", signal, low=0.0)
        self.noise_std = check_real("noise_std", noise_std, low=0.0)
        self.link = get_link(link)

    def hidden_directions(
        self, key: PRNGKeyArray
    ) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
        """A uniformly random orthonormal pair `(k*, v*)`."""
        pair = jax.random.normal(key, (self.dim, 2), jnp.float32)
        basis, _ = jnp.linalg.qr(pair)
        return basis[:, 0], basis[:, 1]

    def sample(
        self,
        key: PRNGKeyArray,
        batch: int,
        k_star: Float[Array, " dim"] | None = None,
        v_star: Float[Array, " dim"] | None = None,
        *,
        dtype: Any = jnp.float32,
    ) -> Prompts:
        """Draws `batch` independent prompts.

        **Arguments:** `k_star`, `v_star` default to the first two coordinate axes, which loses
        no generality. Random numbers are drawn in float32 and then cast to `dtype`, so that the
        precision never changes the sample.

        Raises `InvalidArgument` when the length is no integer that fits in memory.
        """
        key, batch = check_key(key), check_integer("batch", batch, minimum=1)
        length = sampleable_length(self)
        check_sample_size(batch, length, self.dim, dtype)
        axes = jnp.eye(2, self.dim, dtype=dtype)
        k_star = axes[0] if k_star is None else _direction("k_star", k_star, self.dim, dtype)
        v_star = axes[1] if v_star is None else _direction("v_star", v_star, self.dim, dtype)
        if not is_traced(k_star, v_star) and abs(_product(k_star, v_star)) > 1e-2:
            raise InvalidArgument("v_star", v_star, "orthogonal to k_star")
        place_key, token_key, noise_key = jax.random.split(key, 3)
        location = jax.random.randint(place_key, (batch,), 0, length, jnp.int32)
        z = jax.random.normal(token_key, (batch, length, self.dim), jnp.float32)
        z = z.astype(dtype)
        informative = (jnp.arange(length) == location[:, None])[..., None]
        shifted = self.signal * math.sqrt(self.dim) * k_star + self.token_std * z
        X = jnp.where(informative, shifted, z)
        told = jnp.einsum("bld,d->bl", X, v_star)[jnp.arange(batch), location]
        noise = jax.random.normal(noise_key, (batch,), jnp.float32).astype(dtype)
        y = self.link(told) + self.noise_std * noise
        return Prompts(X, y.astype(dtype), location)


def _direction(name: str, value: Any, dim: int, dtype: Any) -> Array:
    allowed = f"a unit vector of dimension {dim}"
    try:
        vector = jnp.asarray(value, dtype)
    except (TypeError, ValueError):
        raise InvalidArgument(name, value, allowed) from None
    if vector.shape != (dim,):
        raise InvalidArgument(name, value, allowed)
    if not is_traced(vector) and not abs(_product(vector, vector) - 1) < 1e-2:
        raise InvalidArgument(name, value, allowed)
    return vector


def _product(a: Any, b: Any) -> float:
    """By NumPy: inside a jit or scan JAX would trace the product of concrete vectors too."""
    return float(np.asarray(a, np.float64) @ np.asarray(b, np.float64))


def check_single_location(task: Any) -> SingleLocation:
    """`task` if it is a `SingleLocation`; raises `InvalidArgument`."""
    if not isinstance(task, SingleLocation):
        raise InvalidArgument("task", task, "an attnlab.SingleLocation")
    return task


def sampleable_length(task: SingleLocation) -> int:
    """The integer length of a task; raises `InvalidArgument` where only its logarithm is known."""
    if task.length is None:
        allowed = "the logarithm of an integer small enough to sample; give length instead"
        raise InvalidArgument("log_length", task.log_length, allowed)
    return task.length


def check_sample_size(batch: int, length: int, dim: int, dtype: Any) -> None:
    """Raises `InvalidArgument` when the tokens of a batch exceed 8 GiB, or for a dtype that holds
    no real numbers."""
    check_dtype(dtype)
    if batch * length * dim * jnp.dtype(dtype).itemsize > _LARGEST_SAMPLE_BYTES:
        allowed = (
            f"small enough that batch × length × dim = {batch} × {length} × {dim} "
            f"numbers fit in {_LARGEST_SAMPLE_BYTES // 2**30} GiB; sample in smaller batches"
        )
        raise InvalidArgument("batch", batch, allowed)


def _both_lengths(length: int | None, log_length: float | None) -> tuple[int | None, float]:
    """The pair (integer length or None, log length) from the one of them that was given."""
    if (length is None) == (log_length is None):
        allowed = "given by exactly one of length and log_length"
        raise InvalidArgument("length", (length, log_length), allowed)
    if length is not None:
        length = check_integer("length", length, minimum=1)
        return length, math.log(length)
    log_length = check_real("log_length", log_length, low=0.0, high=_LARGEST_LOG_LENGTH)
    if not is_traced(log_length) and log_length < math.log(2**31):
        nearest = round(math.exp(log_length))
        if abs(math.log(nearest) - log_length) <= 1e-12 * max(1.0, log_length):
            return nearest, math.log(nearest)
        if log_length < math.log(2):
            allowed = (
                "0 (one token) or at least log 2: there is no prompt between one and two tokens"
            )
            raise InvalidArgument("log_length", log_length, allowed)
    return None, log_length
