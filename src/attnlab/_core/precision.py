"""Float64 for theory, whatever the caller's global flag, and arrays that leave the scope intact."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .errors import InvalidArgument, is_traced

_FLOATING = ("float16", "bfloat16", "float32", "float64")


def float64() -> AbstractContextManager[Any]:
    """A scope in which JAX computes in float64; the caller's configuration is untouched.

    Works under an outer `jit`, `grad` and `vmap` whose own precision is float32.
    """
    return jax.enable_x64(True)


def check_dtype(dtype: Any) -> None:
    """Raises `InvalidArgument` unless `dtype` is one of real floating-point numbers."""
    try:
        known = dtype is not None and jnp.dtype(dtype).name in _FLOATING  # NumPy reads None as one
    except TypeError:
        known = False
    if not known:
        raise InvalidArgument(
            "dtype", dtype, f"a real floating-point dtype: {', '.join(_FLOATING)}"
        )


def to_float64(tree: Any) -> Any:
    """Every leaf as a float64 JAX array. Call it inside `float64()`."""
    return jax.tree.map(lambda leaf: jnp.asarray(_fresh(leaf)).astype(jnp.float64), tree)


def _fresh(leaf: Any) -> Any:
    """A copy of a NumPy array: JAX may remember the float32 version of one that a function compiled
    outside of the scope closes over, and would answer with that."""
    return np.array(leaf) if isinstance(leaf, np.ndarray) else leaf


def to_numpy(tree: Any) -> Any:
    """Concrete JAX leaves as NumPy arrays, which keep float64 outside the scope; tracers as is."""
    return jax.tree.map(lambda leaf: leaf if is_traced(leaf) else np.asarray(leaf), tree)
