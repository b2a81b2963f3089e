"""Random keys: what counts as one, checked before anything is drawn."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .errors import InvalidArgument
from .normals import is_threefry, seed_words, threefry


def check_key(key: Any) -> Any:
    """`key` if it is one of JAX's (typed, or raw words); raises `InvalidArgument`."""
    dtype = getattr(key, "dtype", None)
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    raw = dtype is not None and dtype == jnp.uint32 and getattr(key, "ndim", 0) == 1
    if (typed and key.ndim == 0) or raw:
        return key
    raise InvalidArgument("key", key, "a random key, such as jax.random.key(0)")


def key_words(key: Any) -> list[int]:
    """The integers that a concrete key consists of."""
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    words = jax.random.key_data(key) if typed else key
    return [int(word) for word in words.ravel()]


def fold_in(key: Any, i: Any) -> Any:
    """`jax.random.fold_in(key, i)` for inner loops: the same key, at a fraction of the cost on CPU."""
    if not is_threefry(key):
        return jax.random.fold_in(key, i)
    words = seed_words(key)
    at = jnp.asarray(i).astype(jnp.uint32)
    folded = jnp.stack(threefry(words[0], words[1], jnp.zeros_like(at), at, 20))
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return jax.random.wrap_key_data(folded) if typed else folded
