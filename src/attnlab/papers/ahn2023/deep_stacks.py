"""Stacks of linear attention of which all weights are trained, and how far their layers are off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.interrupt import RunInterrupted
from .deep_linear import DeepLinearConfig, off_multiples, task_of
from .trained import optimizer_of

if TYPE_CHECKING:
    import xarray

    from ...dynamics import Run


def trained_stacks(config: DeepLinearConfig) -> xarray.Dataset:
    """`trained`, their risks on `(data, trained_layers, run)` with `trained_error`; and
    `trained_off`, the distances of their `A_l` from multiples of `Σ⁻¹`, for each `trained_layer`.

    Raises `RunInterrupted` with those that are done; the others are NaN.
    """
    import jax

    counts = config.trained_layers
    shape = len(config.trained_on), len(counts), config.runs
    risk, error = np.full((2, *shape), np.nan)
    off = np.full((*shape, max(counts)), np.nan)
    for i, kind in enumerate(config.trained_on):
        task = task_of(config, kind)
        for j, layers in enumerate(counts):
            key = jax.random.fold_in(jax.random.key(config.seed), 100 * i + layers)
            try:
                found = _trained(config, task, layers, key)
            except RunInterrupted as interruption:
                interruption.partial = _together(config, risk, error, off)
                raise
            last = found.history.isel(step=-1)
            risk[i, j], error[i, j] = last.risk.values, last.risk_error.values
            A = np.stack([_comparing(layer, config.dim) for layer in found.layer.layers], 1)
            off[i, j, :, :layers] = off_multiples(A, task.covariance_matrix)
    return _together(config, risk, error, off)


def _comparing(layer: Any, dim: int) -> np.ndarray:
    """A multiple of `A` of all runs."""
    return np.asarray(layer.Q, np.float64)[:, :dim, :dim]


def _together(
    config: DeepLinearConfig, risk: np.ndarray, error: np.ndarray, off: np.ndarray
) -> xarray.Dataset:
    import xarray

    axes = ("data", "trained_layers", "run")
    return xarray.Dataset(
        {
            "trained": (axes, risk, {"long_name": "risk of trained stacks"}),
            "trained_error": (axes, error, {"long_name": "standard error"}),
            "trained_off": (
                (*axes, "trained_layer"),
                off,
                {"long_name": "distance of A_l from cΣ⁻¹"},
            ),
        },
        {"data": list(config.trained_on), "trained_layers": list(config.trained_layers)},
    )


def _trained(config: DeepLinearConfig, task: Any, layers: int, key: Any) -> Run:
    import jax

    from ...dynamics import train
    from ...students import AttentionStack, MergedAttention

    def stack(key: Any) -> AttentionStack:
        parts = [
            MergedAttention.random(config.dim, scale=config.init_scale, key=k)
            for k in jax.random.split(key, layers)
        ]
        return AttentionStack(parts, "context", sign=-1)

    return train(
        stack,
        task,
        optimizer=optimizer_of(config.learning_rate, config.steps, last=1e-2, clip=1.0),
        steps=config.steps,
        batch_size=config.batch_size,
        key=key,
        runs=config.runs,
        save_every=config.steps,
        test_prompts=config.test_prompts,
    )
