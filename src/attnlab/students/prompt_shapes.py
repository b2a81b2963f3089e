"""Shapes of the prompts that students of in-context regression are called on."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from .._core.errors import InvalidArgument


def check_prompt_shapes(
    X: Any, y: Any, xq: Any, *, dim: int | None = None, n_outputs: int | None = None
) -> bool:
    """Whether `y` has no axis of its own for the tasks, once all shapes fit together.

    Without this check einsum would stretch an axis of length 1 and answer something else. Raises
    `InvalidArgument` for other shapes than `X (*batch, L, d)`, `y (*batch, L)` or
    `(*batch, L, N)`, `xq (*batch, d)`; for another `d` than `dim` or `N` than `n_outputs`.
    """
    shape = jnp.shape(X)
    if len(shape) < 2 or 0 in shape[-2:]:
        allowed = "of shape (*batch, length, dim), with at least one example and one covariate"
        raise InvalidArgument("X", shape, allowed)
    if dim is not None and shape[-1] != dim:
        raise InvalidArgument("X", shape, f"of shape (*batch, length, {dim})")
    labels, query = jnp.shape(y), jnp.shape(xq)
    single = len(labels) == len(shape) - 1
    count = 1 if single else labels[-1] if labels else 0
    if labels[: len(shape) - 1] != shape[:-1] or (not single and len(labels) != len(shape)):
        allowed = f"of shape {shape[:-1]}, or with one more axis for the tasks, as X requires"
        raise InvalidArgument("y", labels, allowed)
    if n_outputs is not None and count != n_outputs:
        raise InvalidArgument("y", labels, f"of {n_outputs} task(s), not of {count}")
    if query != (*shape[:-2], shape[-1]):
        raise InvalidArgument("xq", query, f"of shape {(*shape[:-2], shape[-1])}, as X requires")
    return single
