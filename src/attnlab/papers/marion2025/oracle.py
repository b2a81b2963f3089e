"""The oracle's excess risk against the dimension: which scales work, and how fast it vanishes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from ..._core.search import minimum_on_line
from .._config import Config

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark

# λ as a function of d, besides the best one: name -> (exponent, legend)
_RULES = {
    "fixed": (0.0, "λ = 0.1"),
    "quarter": (-0.25, "λ = d^(-1/4)"),
    "half": (-0.5, "λ = d^(-1/2)"),
}
SCALE_RANGE = (1e-9, 1e2)


class OracleConfig(Config):
    """Dimensions and lengths at which the oracle's risk is evaluated; nothing here is sampled."""

    lengths: tuple[Annotated[int, Field(ge=2)], ...] = Field(
        (2, 10, 100), min_length=1, description="numbers of tokens L, each at least 2"
    )
    token_std: float = Field(0.5**0.5, gt=0, lt=1, description="γ of the informative token")
    smallest_dim: int = Field(10, ge=2, description="smallest dimension")
    largest_dim: int = Field(10_000_000, ge=3, description="largest dimension")
    points: int = Field(25, ge=3, le=400, description="number of dimensions, evenly in log d")


def oracle_risk(dim: int, length: int, token_std: float, scales: np.ndarray) -> np.ndarray:
    """The risk of `(k*, v*)` at each of `scales`."""
    from ...students import Overlaps, PointwiseAttention
    from ...tasks import SingleLocation
    from ...theory import population_risk

    task = SingleLocation(dim, length, token_std=token_std)
    ones, zeros = np.ones_like(scales), np.zeros_like(scales)
    risk = population_risk(task, PointwiseAttention("erf", 1.0))
    return np.asarray(risk(Overlaps(ones, ones, zeros, zeros, zeros), scales))


def best_scale(dim: int, length: int, token_std: float) -> tuple[float, float]:
    """The scale in [1e-9, 1e2] at which the oracle's risk is smallest, and that risk.

    The scale is NaN where the risk is least at an end, and the risk then no more than a bound.
    """
    low, high = (math.log(bound) for bound in SCALE_RANGE)
    best = minimum_on_line(
        lambda grid: oracle_risk(dim, length, token_std, np.exp(grid)),
        low,
        high,
        points=64,
        rounds=7,
    )
    return float(np.exp(best.at)), float(best.value)


def leading_order(dim: Any, length: Any, token_std: float) -> Any:
    """`(L-1) (4/π) λ²` at `λ² = log(d/(L-1))/(2 c² d)`, which the excess at the best scale nears.

    A scale λ lets `(4/π) λ²` of each other token through and misses about `exp(-2 λ² c² d)` of the
    informative one; the best λ makes the second a vanishing fraction of the first. NaN where
    `d <= 3 (L - 1)`, and corrections are of relative order `log log d / log d`.
    """
    signal2, ratio = 1 - token_std**2, np.asarray(dim / (length - 1), np.float64)
    log = np.where(ratio > 3, np.log(np.maximum(ratio, 1.0)), np.nan)
    return (length - 1) * 2 / math.pi * log / (signal2 * dim)


def run(config: OracleConfig) -> xarray.Dataset:
    """Excess risk on (length, dim): best scale, the scale itself, and the scales of `_RULES`."""
    import xarray

    ends = np.log([config.smallest_dim, config.largest_dim])
    dims = np.unique(np.rint(np.exp(np.linspace(ends[0], ends[1], config.points))).astype(int))
    shape = (len(config.lengths), len(dims))
    best, scale = np.empty(shape), np.empty(shape)
    ruled = {name: np.empty(shape) for name in _RULES}
    for i, length in enumerate(config.lengths):
        for j, dim in enumerate(dims.tolist()):
            scale[i, j], best[i, j] = best_scale(dim, length, config.token_std)
            for name, (exponent, _) in _RULES.items():
                value = max(SCALE_RANGE[0], dim**exponent if exponent else 0.1)
                ruled[name][i, j] = oracle_risk(dim, length, config.token_std, np.array([value]))[0]
    axes = ("length", "dim")
    slope = np.gradient(np.log(best), np.log(dims), axis=1)
    data: dict[str, Any] = {
        "excess_risk": (axes, best, {"long_name": "excess risk of (k*, v*) at the best scale"}),
        "best_scale": (axes, scale, {"long_name": "scale with the smallest oracle risk"}),
        "exponent": (axes, slope, {"long_name": "d log excess / d log dim"}),
        "leading_order": (
            axes,
            leading_order(dims, np.array(config.lengths)[:, None], config.token_std),
        ),
    }
    data |= {f"excess_{name}": (axes, values) for name, values in ruled.items()}
    coords = {"length": list(config.lengths), "dim": dims}
    return xarray.Dataset(data, coords=coords, attrs={"token_std": config.token_std})


def figure(dataset: xarray.Dataset) -> Figure:
    """Excess risk at the best scale and by rule; its local exponent; the best scale."""
    from ...plotting.spec import Axis, Figure, Line, Panel, Rule

    dims = dataset.dim.values
    x = Axis("dimension d", log=True)
    excess: list[Mark] = []
    slopes: list[Mark] = []
    scales: list[Mark] = []
    for number, length in enumerate(dataset.length.values):
        row = dataset.sel(length=length)
        label = f"L = {length}"
        excess.append(Line(dims, row.excess_risk.values, label, number))
        shown = None if number else "leading order"
        excess.append(Line(dims, row.leading_order.values, shown, "reference", dash=True))
        slopes.append(Line(dims, row.exponent.values, label, number))
        scales.append(Line(dims, row.best_scale.values, label, number))
    signal2 = 1 - dataset.attrs["token_std"] ** 2
    shortest = int(dataset.length.values[0])
    law = np.sqrt(np.log(np.maximum(dims / (shortest - 1), 1.0)) / (2 * signal2 * dims))
    text = f"√(log(d/(L−1))/(2c²d)), L = {shortest}"
    scales.append(Line(dims, law, text, "reference", dash=True))
    middle = dataset.isel(length=min(1, dataset.sizes["length"] - 1))
    rules: list[Mark] = [Line(dims, middle.excess_risk.values, "best λ", 0)]
    for number, (name, (_, legend)) in enumerate(_RULES.items(), start=1):
        rules.append(Line(dims, middle[f"excess_{name}"].values, legend, number))
    slopes.append(Rule(-1.0, label="-1"))
    return Figure(
        title="Oracle attention: excess risk as the dimension grows",
        panels=[
            Panel("Best λ for each d", x, Axis("R(k*, v*) − ε²", log=True), excess),
            Panel(
                f"Rules for λ, L = {int(middle.length)}", x, Axis("R(k*, v*) − ε²", log=True), rules
            ),
            Panel("Local exponent of the excess", x, Axis("d log R / d log d"), slopes),
            Panel("The best scale", x, Axis("λ", log=True), scales),
        ],
        caption=(
            "Exact risks. The excess at the best λ falls as (L − 1) (2/π) log(d/(L − 1))/(c² d) to "
            "leading order. λ must vanish, but slower than d^(-1/2)."
        ),
        alt="Four log-log panels of the oracle's excess risk, its exponent and the best scale.",
    )
