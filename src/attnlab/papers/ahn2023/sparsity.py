"""Do trained layers keep the sparse pattern of Theorem 1, whatever the activation?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, field_validator

from .heatmap import weights_panel
from .trained import ACTIVATIONS, NAMES, TrainingConfig, course, known, one_by_one, trained

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Panel

_LONG_NAMES = {
    "P": "value matrix at the end of training",
    "Q": "key-query matrix at the end of training",
    "risk": "risk on test prompts",
    "risk_error": "standard error of the risk",
    "read_covariates": "share of covariates in what P reads",
    "scored_responses": "share of responses in the scores",
    "off_pattern": "share outside of the pattern",
    "off_identity": "distance of A from a multiple of I, over its size",
    "scale": "mean diagonal of v A",
    "value": "v, the last entry of P",
}


class SparsityConfig(TrainingConfig):
    """Settings of the comparison of activations."""

    activations: tuple[str, ...] = Field(
        ACTIVATIONS, min_length=1, description=f"which, each once, {NAMES}"
    )

    @field_validator("activations")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return known(value)


def run(config: SparsityConfig) -> xarray.Dataset:
    """`P`, `Q` on `(activation, run, row, column)` and, on `(activation, run)`, the risk with its
    error and the numbers of `circuits.block_pattern`."""
    return one_by_one(
        config.activations,
        lambda name: _described(config, name),
        lambda rows: _together(rows, config),
    )


def _described(config: SparsityConfig, name: str) -> dict[str, Any]:
    from ...circuits import block_pattern

    found = trained(config.training(normalization=name))
    pattern = block_pattern(found.layer)
    last = found.history.isel(step=-1)
    numbers = {
        key: getattr(pattern, key) for key in _LONG_NAMES if hasattr(pattern, key)
    }  # fmt: skip
    return {
        "P": np.asarray(found.layer.P),
        "Q": np.asarray(found.layer.Q),
        "risk": last.risk.values,
        "risk_error": last.risk_error.values,
        **numbers,
    }


def _together(rows: list[dict[str, Any]], config: SparsityConfig) -> xarray.Dataset:
    import xarray

    axes = ("activation", "run", "row", "column")
    variables = {
        key: (axes[: rows[0][key].ndim + 1], np.stack([row[key] for row in rows]), {"long_name": text})
        for key, text in _LONG_NAMES.items()
    }  # fmt: skip
    names = list(config.activations[: len(rows)])
    return xarray.Dataset(variables, {"activation": names}, {"course": course(config)})


def figure(dataset: xarray.Dataset) -> Figure:
    """`P` and `Q` of the first run of each activation, and the scores of all runs."""
    from ...plotting.spec import Axis, Bars, Figure, Panel

    panels: list[Panel] = []
    for name in dataset.activation.values:
        one = dataset.sel(activation=name).isel(run=0)
        panels.append(weights_panel(str(name), one.P.values, one.Q.values))
    names = [str(name) for name in dataset.activation.values]
    scores = (
        ("off_pattern", "outside of the pattern", 0),
        ("off_identity", "A off a multiple of I", 1),
    )
    runs = dataset.sizes["run"]
    bars = [
        Bars(
            names,
            dataset[key].mean("run").values,
            dataset[key].std("run", ddof=1).values / np.sqrt(runs) if runs > 1 else None,
            label,
            role,
        )
        for key, label, role in scores
    ]
    panels.append(Panel(
        "Distance from the pattern", Axis("activation"), Axis("share of the norm"),
        bars,
    ))  # fmt: skip
    return Figure(
        title="All weights of one layer, trained",
        panels=panels,
        columns=3,
        caption=(
            f"{dataset.attrs['course']} P and Q of the first start, entries with an effect only: the "
            "columns of covariates of Q, below them the last row of P, each over its largest entry. "
            "Bars: mean and standard error over the starts. P reads the response y alone, Q "
            "compares covariates alone, by a multiple of the identity; common signs of P and Q, "
            "and how a scale is shared between them, have no effect."
        ),
        alt=(
            "Heatmaps of P and Q for each activation: one entry of P, the diagonal of Q; and bars "
            "of the shares outside of that pattern, all small."
        ),
    )
