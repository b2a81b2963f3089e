"""Normalised activations `f(s)/Σf` in place of softmax: training, effective steps, other lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field, field_validator

from .lengths import LengthsConfig, sampled
from .training import (
    NORMALIZATIONS,
    TrainedConfig,
    course,
    normalization_of,
    optimizer_of,
    partial_as,
    setting,
    shown_run,
    task_of,
)

if TYPE_CHECKING:
    import xarray

ALL = (
    "softmax", "affine-0.5", "affine-0.8", "affine-1", "squared-affine-0.5", "squared-affine-0.8",
    "squared-affine-1", "one-plus-tanh",
)  # fmt: skip


class ActivationsConfig(LengthsConfig):
    """Settings of the comparison of activations, all for two heads."""

    activations: tuple[str, ...] = Field(
        ALL, min_length=1, description=f"which, each once, of {NORMALIZATIONS}; not linear"
    )

    @field_validator("activations")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            TrainedConfig.model_validate({"normalization": name})
        if len(set(value)) < len(value) or "linear" in value:
            raise ValueError("different activations that are normalised")
        return value


def run(config: ActivationsConfig) -> xarray.Dataset:
    """`omega`, `mu` on `(activation, run, step, head)`, the last circuits `kq` and `ov`, and at the
    end of the shown run of each activation `|ω|`, `|μ|`, the effective step, and `loss` on
    `length` with the exact risks of gradient descent with that step.

    Layers of all activations start alike and see the same prompts.
    """
    with partial_as(lambda partial: _described(partial, config)):
        history = family_history(config)
    return _with_losses(_described(history, config), config)


_HISTORIES: dict[str, xarray.Dataset] = {}


def family_history(config: ActivationsConfig) -> xarray.Dataset:
    """The training, computed once a process for the figures that share it."""
    import jax

    from ...dynamics import train
    from ...students import MultiHeadAttention
    from .family import Family, FamilyMeasure, Repeated

    own = config.training(n_heads=2)
    names = config.activations
    key = own.model_dump_json() + "/".join(names)
    if key not in _HISTORIES:
        _HISTORIES[key] = train(
            lambda k: Family.of(
                names, MultiHeadAttention(
                    own.dim, 2, init=own.init, init_scale=own.init_scale, key=k
                )
            ),
            Repeated(task_of(own), len(names)),
            optimizer=optimizer_of(own),
            steps=own.steps,
            batch_size=own.batch_size,
            key=jax.random.key(own.seed),
            runs=own.runs,
            save_every=max(1, own.steps // own.saves),
            measure=FamilyMeasure(),
            test_prompts=own.test_prompts,
        ).history  # fmt: skip
    return _HISTORIES[key]


def _described(history: xarray.Dataset, config: ActivationsConfig) -> xarray.Dataset:
    """What figures need of a history, finished or not."""
    import xarray

    from ...dynamics.circuit_history import tail_average
    from ...estimators import gradient_descent_risk

    own = config.training(n_heads=2)
    names = list(config.activations)
    history = history.assign_coords(activation=names)
    last = history.isel(step=-1)
    shown = [shown_run(history.sel(activation=name)) for name in names]
    pick = xarray.DataArray(shown, dims="activation", coords={"activation": names})
    end = tail_average(history)[["omega", "mu"]].isel(run=pick)
    slope = np.array([normalization_of(name).slope for name in names])
    steps = slope * (end.omega * end.mu).sum("head").values

    def descent(debiased: bool) -> list[list[float]]:
        tasks = [task_of(own, length) for length in config.lengths]
        return [
            [float(gradient_descent_risk(t, step=float(step), debiased=debiased)) for t in tasks]
            for step in steps
        ]

    return history[["omega", "mu", "omega_spread", "off_diagonal", "ov_rest", "status"]].assign(
        kq=last.kq, ov=last.ov, shown=pick,
        label=("activation", [normalization_of(name).name for name in names]),
        slope=("activation", slope, {"long_name": "first-order coefficient C_f"}),
        omega_size=np.abs(end.omega).mean("head").assign_attrs(long_name="mean |ω| of the heads"),
        mu_size=np.abs(end.mu).mean("head").assign_attrs(long_name="mean |μ| of the heads"),
        effective_step=("activation", steps, {"long_name": "C_f Σ ωμ"}),
        gd=(("activation", "length"), descent(False), {"long_name": "risk of GD, this step"}),
        debiased_gd=(("activation", "length"), descent(True), {"long_name": "the same, debiased"}),
    ).assign_coords(length=list(config.lengths)).assign_attrs(
        setting=setting(own), course=course(own), noise_var=own.noise_var, dim=own.dim,
        trained_length=own.length, best_step=1 / (1 + (1 + own.noise_var) * own.dim / own.length),
    )  # fmt: skip


def _with_losses(data: xarray.Dataset, config: ActivationsConfig) -> xarray.Dataset:
    from .by_length import layers_of
    from .family import blended, parameters_of

    last = data.isel(run=data.shown)
    circuits = list(zip(np.asarray(last.kq, np.float64), np.asarray(last.ov, np.float64)))
    own = config.training(n_heads=2)
    loss, error = sampled(
        layers_of(circuits, own.dim), config, own,
        normalization=blended, parameters=parameters_of(config.activations),
    )  # fmt: skip
    axes = ("activation", "length")
    return data.assign(loss=(axes, loss), loss_error=(axes, error))
