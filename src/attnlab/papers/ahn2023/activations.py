"""Other activations on isotropic data: the exact risk along `A = cI`, and its minimum.

With the value `v` fixed, as in the note, and with the best `v` for each `c`, since only for linear
and ReLU attention a scale of `A` can be made up for by one of `v`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, field_validator

from ..._core.search import interior_minimum, minimum_on_line
from .._config import Config
from .trained import LARGEST_LENGTH, NAMES, known, normalization_of, one_by_one

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark
    from ...tasks import InContextRegression

_INFINITE = 0.5  # of c, from which on the risk of exp is infinite
_LARGEST_SOFTMAX = 3.0  # beyond, few values are computed, and slowly
ALL = ("linear", "relu", "softmax", "tanh", "erf", "exp", "gelu")


class ActivationsConfig(Config):
    """Settings: isotropic covariates, `w ~ N(0, I)`."""

    dim: int = Field(5, ge=1, le=50, description="dimension d of the covariates")
    length: int = Field(20, ge=2, le=LARGEST_LENGTH, description="number of examples n")
    noise_var: float = Field(0.0, ge=0, le=1e6, description="variance σ² of the label noise")
    activations: tuple[str, ...] = Field(
        ALL, min_length=1, description=f"which, each once, {NAMES}"
    )
    lowest: float = Field(0.01, gt=0, le=1, description="smallest c of the curves")
    highest: float = Field(10.0, gt=1, le=1000, description="largest c of the curves")
    points: int = Field(121, ge=5, le=10_000, description="points of a curve")

    @field_validator("activations")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(name.endswith("-sum") for name in known(value)):
            raise ValueError("names without -sum: here weights are divided by the length")
        return value


def task_of(config: ActivationsConfig) -> InContextRegression:
    """In-context regression with `x ~ N(0, I)`, `w ~ N(0, I)`."""
    from ...tasks import InContextRegression

    noise = float(np.sqrt(config.noise_var))
    return InContextRegression(config.dim, config.length, noise_std=noise, prior=np.eye(config.dim))


def run(config: ActivationsConfig) -> xarray.Dataset:
    """On `(activation, c)` the risk with `v = 1`, the least over `v`, and that `v`; NaN where the
    risk is infinite or beyond what is computed."""
    task = task_of(config)
    scales = np.geomspace(config.lowest, config.highest, config.points)
    return one_by_one(
        config.activations,
        lambda name: {"name": name, "curve": curve(task, name, scales)},
        lambda rows: _together(rows, scales, config),
    )


def _together(
    rows: list[dict[str, Any]], scales: np.ndarray, config: ActivationsConfig
) -> xarray.Dataset:
    import xarray

    fixed, best, value = np.moveaxis(np.stack([row["curve"] for row in rows]), 1, 0)
    axes = ("activation", "c")
    return xarray.Dataset(
        {
            "fixed": (axes, fixed, {"long_name": "risk with v = 1"}),
            "best": (axes, best, {"long_name": "risk with the best v"}),
            "value": (axes, value, {"long_name": "best v"}),
        },
        {
            "activation": [row["name"] for row in rows],
            "c": ("c", scales, {"long_name": "c of A = cI"}),
        },
        {
            "setting": f"d = {config.dim}, n = {config.length}, σ² = {config.noise_var:g}, "
            "x ~ N(0, I), w ~ N(0, I)",
            "zero": config.dim + config.noise_var,
        },
    )


def curve(task: InContextRegression, name: str, scales: np.ndarray) -> np.ndarray:
    """`(3, points)`: the risk at `A = cI`, `v = 1`, its least value over `v`, and the best `v`."""
    at = _softmax(task, scales) if name == "softmax" else _elementwise(task, name, scales)
    zero = task.dim + task.noise_std**2
    # the risk is quadratic in v, and known without a prediction
    slope, form = (at[1] - at[0]) / 2, (at[1] + at[0]) / 2 - zero
    value = np.where(form > 0, -slope / (2 * np.where(form > 0, form, 1.0)), np.nan)
    return np.stack([at[1], zero + slope * value / 2, value])


def least(task: InContextRegression, name: str, *, free_value: bool) -> tuple[float, float]:
    """The `c` between 0.01 and 10 with the least risk, and that risk: with the best `v`, or `v = 1`.

    A grid, three times refined; `c` is then known to four digits, the risk to eight. `c` is NaN where
    the risk is least at an end, of the range or of what is computed, and the risk then a bound.
    """
    row = 1 if free_value else 0

    def risk(log_scales: np.ndarray) -> np.ndarray:
        scales = np.exp(log_scales)
        values = curve(task, name, scales)[row]
        return np.where((name == "exp") & (scales >= _INFINITE), np.inf, values)

    found = minimum_on_line(risk, np.log(0.01), np.log(10.0), points=25, rounds=4, rounding=1e-9)
    return float(np.exp(found.at)), float(found.value)


def _elementwise(task: InContextRegression, name: str, scales: np.ndarray) -> np.ndarray:
    """Risks at `v = -1` and `v = 1`; `(2, points)`."""
    from ... import population_risk
    from ..._core.precision import float64, to_float64, to_numpy
    from ...students import MergedAttention

    start = MergedAttention.sparse(0.1 * np.eye(task.dim), normalization=normalization_of(name))
    risk = population_risk(task, start)
    with float64():
        found = np.array(to_numpy(_values()(*to_float64((risk, start.P, start.Q, scales)))).T)
    if name == "exp":  # beyond, the second moment of exp(score) is infinite
        found[:, scales >= _INFINITE] = np.nan
    return found


@cache
def _values() -> Any:
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    @eqx.filter_jit
    def values(risk: Any, P: Any, Q: Any, scales: Any) -> Any:
        def at(c: Any) -> Any:
            return jnp.stack([risk.value_of(v * P, 10 * c * Q) for v in (-1.0, 1.0)])

        return jax.lax.map(at, scales)

    return values


def _softmax(task: InContextRegression, scales: np.ndarray) -> np.ndarray:
    """The same for softmax: one head of the theory for `β ~ N(0, I/d)`, where all is `d` times
    smaller."""
    from ... import population_risk
    from ..._core.errors import InvalidArgument
    from ...students import KernelHeads
    from ...tasks import InContextRegression

    d = task.dim
    smaller = InContextRegression(d, task.length, noise_std=task.noise_std / np.sqrt(d))
    risk = population_risk(smaller, KernelHeads(np.array([0.1]), np.array([1.0])))
    found = np.full((2, len(scales)), np.nan)
    for place, scale in enumerate(scales):  # one by one: large scores are refused
        if scale > _LARGEST_SOFTMAX:
            break
        try:
            found[:, place] = d * risk(
                KernelHeads(np.full((2, 1), scale), np.array([[-1.0], [1.0]]))
            )
        except InvalidArgument:
            break
    return found


def figure(dataset: xarray.Dataset) -> Figure:
    """Risks along `A = cI`, with the best `v` and with `v = 1`."""
    from ...plotting.spec import Axis, Figure, Line, Panel, Points, Rule

    panels = []
    zero = float(dataset.attrs["zero"])
    for key, title in (("best", "With the best v"), ("fixed", "With v = 1")):
        marks: list[Mark] = [Rule(zero, label="predicting 0")]
        for role, name in enumerate(map(str, dataset.activation.values)):
            one = dataset.sel(activation=name)
            risk = np.where(one[key].values <= 1.6 * zero, one[key].values, np.nan)
            marks.append(Line(one.c.values, risk, name, role))
            # not at an end, where there is an infimum at best
            lowest = interior_minimum(one.c.values, one[key].values, rounding=1e-9)
            if lowest.inside:
                marks.append(Points([lowest.at], [lowest.value], None, None, role))
        ticks = [(10.0**k, f"{10.0**k:g}") for k in range(-6, 7)]
        low, high = float(dataset.c.min()), float(dataset.c.max())
        across = Axis(
            "c of A = cI", log=True, ticks=[tick for tick in ticks if low <= tick[0] <= high]
        )
        panels.append(Panel(title, across, Axis("exact risk"), marks))
    return Figure(
        title="Which activations, and at which scale",
        panels=panels,
        caption=(
            f"{dataset.attrs['setting']}; weights divided by n. Points: minima. Linear and ReLU: "
            "with the best v all c are the same. Smooth activations with g(0) = 0 become linear "
            "as c falls to 0. For exp the risk is infinite from c = 1/2 on."
        ),
        alt=(
            "Risk against c: with the best v, tanh and erf lie slightly below linear attention at "
            "their minimum, gelu comes down to it as c falls, ReLU, softmax and exp stay above."
        ),
    )
