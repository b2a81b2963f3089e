"""What all estimators of in-context regression check about their prompts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument, check_real, is_traced
from .._core.precision import float64, to_numpy

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Examples(NamedTuple):
    """Prompts in one shape: labels always with a last axis for the tasks.

    - `X` `(*batch, L, d)`, `y` `(*batch, L, N)`, `xq` `(*batch, d)`, of one floating dtype;
    - `single`: whether the caller's `y` had no axis for the tasks.
    """

    X: Float[Array, "*batch length dim"]
    y: Float[Array, "*batch length outputs"]
    xq: Float[Array, "*batch dim"]
    single: bool

    def answer(self, beta: Float[Array, "*batch dim outputs"]) -> Array:
        """The linear prediction `xqᵀβ` in the caller's shape."""
        return self.shaped(jnp.einsum("...d,...dn->...n", self.xq, beta, precision="highest"))

    def shaped(self, prediction: Float[Array, "*batch outputs"]) -> Array:
        """A prediction in the caller's shape, `(*batch,)` or `(*batch, N)`."""
        return prediction[..., 0] if self.single else prediction


def in_own_precision(estimator: _Function) -> _Function:
    """An estimator of `(X, y, xq, ...)` that computes in float64 when one of them is float64.

    The result is NumPy float64 then, unless JAX's own precision is float64 already.
    """

    @functools.wraps(estimator)
    def wrapped(X: Any, y: Any, xq: Any, **options: Any) -> Any:
        if not any(getattr(a, "dtype", None) == np.float64 for a in (X, y, xq)):
            return estimator(X, y, xq, **options)
        if jnp.result_type(float) == np.float64:
            return estimator(X, y, xq, **options)
        with float64():
            return to_numpy(estimator(X, y, xq, **options))

    return wrapped  # type: ignore[return-value]


def check_examples(X: Any, y: Any, xq: Any) -> Examples:
    """The prompts as arrays of one floating dtype; raises `InvalidArgument`.

    Leading axes must be the same in all three, lengths and dimensions must agree and be at least
    1, and concrete numbers must be finite.
    """
    arrays = {name: _numbers(name, value) for name, value in (("X", X), ("y", y), ("xq", xq))}
    dtype = jnp.result_type(*arrays.values())
    if not jnp.issubdtype(dtype, jnp.floating):
        dtype = jnp.result_type(float)
    X, y, xq = (array.astype(dtype) for array in arrays.values())
    if X.ndim < 2 or 0 in X.shape[-2:]:
        allowed = "of shape (*batch, length, dim), with at least one example and one covariate"
        raise InvalidArgument("X", X.shape, allowed)
    *batch, length, dim = X.shape
    single = y.ndim == X.ndim - 1
    if y.shape[: len(batch) + 1] != (*batch, length) or y.ndim > X.ndim or 0 in y.shape[-1:]:
        allowed = f"of shape {(*batch, length)}, or with one more axis for the tasks, as X requires"
        raise InvalidArgument("y", y.shape, allowed)
    if xq.shape != (*batch, dim):
        raise InvalidArgument("xq", xq.shape, f"of shape {(*batch, dim)}, as X requires")
    return Examples(X, y[..., None] if single else y, xq, single)


def check_number(name: str, value: Any, **limits: Any) -> Any:
    """A real number by `check_real`, or a traced scalar."""
    if is_traced(value):
        if jnp.ndim(value):
            raise InvalidArgument(name, value, "a single number")
        return value
    return check_real(name, value, **limits)


def check_matrix(name: str, value: Any, dim: int, dtype: Any) -> Array:
    """A `(dim, dim)` matrix that can be inverted; concrete ones are looked at."""
    matrix = _numbers(name, value)
    if matrix.shape != (dim, dim):
        raise InvalidArgument(name, value, f"a matrix of shape {(dim, dim)}")
    if not is_traced(matrix):
        singular = np.linalg.svd(np.asarray(matrix, np.float64), compute_uv=False)
        if not singular[-1] > 1e-14 * singular[0]:
            raise InvalidArgument(name, value, "a matrix that can be inverted")
    return matrix.astype(dtype)


def _numbers(name: str, value: Any) -> Any:
    if is_traced(value):
        return value
    try:
        array = value if hasattr(value, "dtype") else np.asarray(value, jnp.result_type(float))
        kind = np.dtype(array.dtype)
        good = np.issubdtype(kind, np.number) or jnp.issubdtype(kind, jnp.floating)
        good = good and not np.issubdtype(kind, np.complexfloating)
        good = good and bool(np.isfinite(np.asarray(array)).all())
    except (TypeError, ValueError):
        good = False
    if not good:
        raise InvalidArgument(name, value, "finite real numbers")
    return jnp.asarray(array)
