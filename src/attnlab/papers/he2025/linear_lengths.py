"""Softmax and linear attention at other lengths: what the normalisation of the weights does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.interrupt import RunInterrupted
from .lengths import (
    LOSS,
    TICKS,
    LengthsConfig,
    circuits_of,
    estimator_risks,
    length_caption,
    noise_rule,
    sampled,
)
from .training import TrainedConfig, task_of

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark

FIXED = "linear, over the training length"
PREDICTORS = ("softmax, 2 heads", "linear, over the prompt's length", FIXED)


def run(config: LengthsConfig) -> xarray.Dataset:
    """`loss`, `loss_error` and `exact` on `(predictor, length)`; the estimators' risks on `length`.

    `exact` is the risk of a gradient step of the same size, debiased for softmax: what small heads
    are close to, and linear heads equal.

    Linear attention is one head, trained with the weights `scores/L`. At other lengths `L'` it may
    divide by `L'`, or by the `L` it was trained with, as attention without normalisation does.
    """
    from .by_length import layers_of

    beside = estimator_risks(config.training(), config.lengths)
    rows: list[tuple[Any, Any, Any]] = []

    def together() -> xarray.Dataset:
        table = np.reshape(rows, (len(rows), 3, len(config.lengths)))
        axes = ("predictor", "length")
        return beside.assign_coords(predictor=list(PREDICTORS[: len(rows)])).assign(
            loss=(axes, table[:, 0], {"long_name": LOSS}),
            loss_error=(axes, table[:, 1], {"long_name": "standard error"}),
            exact=(axes, table[:, 2], {"long_name": "exact risk of its gradient step"}),
        )

    def interrupted(own: Any) -> Any:
        try:
            return circuits_of(own)
        except RunInterrupted as interruption:
            interruption.partial = together()
            raise

    own = config.training(n_heads=2)
    circuits = interrupted(own)
    loss, error = sampled(layers_of([circuits], own.dim), config, own)
    rows.append((loss[0], error[0], step_risks(circuits, config.lengths, own)))

    own = config.training(n_heads=1, normalization="linear")
    circuits = interrupted(own)
    scales = np.stack([np.ones(len(config.lengths)), np.array(config.lengths) / own.length])
    layers = layers_of([circuits] * 2, own.dim, "linear")
    loss, error = sampled(layers, config, own, scales=scales)
    for place in (0, 1):
        rows.append(
            (loss[place], error[place], step_risks(circuits, config.lengths, own, scales[place]))
        )
    return together()


def step_risks(
    circuits: tuple[np.ndarray, np.ndarray],
    lengths: Sequence[int],
    config: TrainedConfig,
    scales: np.ndarray | None = None,
) -> list[float]:
    """Exact risks of gradient steps of size `Σ ωμ`, times `scales`, at these lengths."""
    from ...circuits import Circuits
    from ...estimators import gradient_descent_risk

    own = Circuits(*circuits, dim=config.dim)
    step = float(np.sum(own.omega * own.mu[:, 0]))
    debiased = config.normalization != "linear"
    scales = np.ones(len(lengths)) if scales is None else scales
    return [
        float(gradient_descent_risk(task_of(config, n), step=step * scale, debiased=debiased))
        for n, scale in zip(lengths, scales)
    ]


def figure(dataset: xarray.Dataset) -> Figure:
    """Figure 7: the three predictors against length."""
    from ...plotting.spec import Axis, Figure, Line, Panel, Points

    length = dataset.length.values
    marks: list[Mark] = []
    for role, name in enumerate(dataset.predictor.values):
        one = dataset.sel(predictor=name)
        marks.append(Line(length, one.exact.values, role=role))
        marks.append(Points(length, one.loss.values, one.loss_error.values, str(name), role))
    marks.append(Line(length, dataset.ridge.values, "ridge (Bayes)", role=4))
    marks.append(noise_rule(dataset))
    return Figure(
        title="Softmax and linear attention at other lengths",
        panels=[Panel(
            "", Axis("length of the test prompt"),
            Axis("risk", log=True, ticks=TICKS), marks,
            note="points: trained layers; lines: exact risks of their gradient steps",
        )],
        columns=1,
        caption=length_caption(dataset),
        alt="Risk against test length of softmax attention and of linear attention.",
    )  # fmt: skip
