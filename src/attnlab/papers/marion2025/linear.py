"""The best linear predictor, predicting 0, and the oracle attention, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from .._config import Config

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure


class LinearConfig(Config):
    """Sizes at which the exact risks are compared; nothing here is sampled."""

    dims: tuple[Annotated[int, Field(ge=2)], ...] = Field(
        (50, 400, 10_000), min_length=1, description="dimensions d"
    )
    lengths: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (2, 10, 100), min_length=1, description="lengths L"
    )
    largest_length: int = Field(1000, ge=2, description="longest prompt of the length axis")
    largest_dim: int = Field(100_000, ge=3, description="largest dimension of the dimension axis")
    token_std: float = Field(0.5**0.5, gt=0, lt=1, description="γ of the informative token")
    points: int = Field(25, ge=3, le=400, description="points on each axis, evenly in the log")


def run(config: LinearConfig) -> xarray.Dataset:
    """`linear_*` and `zero` risks and the oracle attention's, against length and against dim."""
    import xarray

    from ...estimators import best_linear_predictor_risk, zero_predictor_risk
    from ...tasks import SingleLocation
    from .oracle import best_scale

    std = config.token_std
    lengths, dims = (
        _grid(2, config.largest_length, config.points),
        _grid(3, config.largest_dim, config.points),
    )
    zero = zero_predictor_risk(SingleLocation(10, 10, token_std=std))
    by_length = [
        best_linear_predictor_risk(SingleLocation(10, n, token_std=std)) for n in lengths.tolist()
    ]
    fixed = [
        best_linear_predictor_risk(SingleLocation(10, n, token_std=std)) for n in config.lengths
    ]
    attention = [[best_scale(d, n, std)[1] for n in lengths.tolist()] for d in config.dims]
    growing = [[best_scale(d, n, std)[1] for d in dims.tolist()] for n in config.lengths]
    data = {
        "linear_by_length": ("length", by_length, {"long_name": "best linear predictor, any d"}),
        "attention_by_length": (("at_dim", "length"), attention),
        "linear_by_dim": ("at_length", fixed, {"long_name": "best linear predictor, any d"}),
        "attention_by_dim": (("at_length", "dim"), growing),
        "zero": ((), zero, {"long_name": "risk of predicting 0"}),
    }
    coords = {
        "length": lengths, "dim": dims, "at_dim": list(config.dims), "at_length": list(config.lengths)
    }  # fmt: skip
    return xarray.Dataset(data, coords=coords, attrs={"token_std": std})


def _grid(low: int, high: int, points: int) -> np.ndarray:
    return np.unique(np.rint(np.exp(np.linspace(np.log(low), np.log(high), points))).astype(int))


def figure(dataset: xarray.Dataset) -> Figure:
    """Risk against length, and against dimension."""
    from ...plotting.spec import Axis, Figure, Line, Panel, Rule

    zero, lengths, dims = float(dataset.zero), dataset.length.values, dataset.dim.values
    left = [Line(lengths, dataset.linear_by_length.values, "best linear, any d", "theory")]
    for number, dim in enumerate(dataset.at_dim.values):
        risk = dataset.attention_by_length.sel(at_dim=dim).values
        left.append(Line(lengths, risk, f"attention, d = {dim}", number))
    right = []
    for number, length in enumerate(dataset.at_length.values):
        row = dataset.sel(at_length=length)
        right.append(Line(dims, row.attention_by_dim.values, f"attention, L = {length}", number))
        flat = np.full(len(dims), float(row.linear_by_dim))
        right.append(Line(dims, flat, f"best linear, L = {length}", number, dash=True))
    rule = Rule(zero, label="predicting 0")
    risk_axis = Axis("risk R", log=True)
    return Figure(
        title="Linear predictors fail where attention succeeds",
        panels=[
            Panel("Against the length", Axis("length L", log=True), risk_axis, [*left, rule]),
            Panel(
                "Against the dimension", Axis("dimension d", log=True), risk_axis, [*right, rule]
            ),
        ],
        caption=(
            "Exact risks without label noise; attention is the oracle (k*, v*) with the best λ for "
            "each d and L. The best affine function of the whole prompt gains γ⁴/(L − 1 + γ²) over "
            "predicting 0, whatever the dimension."
        ),
        alt="Two panels: the linear risk approaches that of predicting 0 as 1/L and ignores d; the "
        "attention's falls with d.",
    )
