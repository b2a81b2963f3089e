"""The oracle's exact risk as prompts grow from ten tokens to e^50: softmax against erf attention."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from ..._core.search import interior_minimum
from .._config import Config

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure

_SCALES = np.geomspace(1e-25, 10.0, 400)  # of erf: it has to shrink as the prompt grows


class LongConfig(Config):
    """Dimensions and lengths; nothing here is random."""

    dims: tuple[Annotated[int, Field(ge=4, le=1000)], ...] = Field(
        (50, 200), min_length=1, description="dimensions d"
    )
    token_std: float = Field(0.5**0.5, gt=0.1, lt=1, description="γ of the informative token")
    longest: float = Field(50.0, gt=math.log(10.0), le=300, description="largest log L")
    points: int = Field(12, ge=3, le=200, description="lengths, evenly in log L from L = 10")
    temperatures: int = Field(20, ge=5, le=200, description="inverse temperatures tried")


def run(config: LongConfig) -> xarray.Dataset:
    """Excess risk of the teacher and best scale, for both students, on `(dim, log_length)`.

    The scale is NaN where the least risk lies at an end of the scales tried, or is that of
    predicting 0 to rounding.
    """
    import xarray

    from ...students import Overlaps
    from .exact import LARGEST_SPREAD, Sizes, risks_at

    logs = np.linspace(math.log(10.0), config.longest, config.points)
    dims = np.array(config.dims)
    spreads = np.geomspace(1.5, 0.9 * LARGEST_SPREAD, config.temperatures)
    beta = spreads / np.sqrt(dims)[:, None, None]
    sizes = Sizes(dims[:, None, None], (logs / dims[:, None])[..., None], beta, config.token_std)
    exact = risks_at(sizes, Overlaps.teacher())
    best = interior_minimum(beta[:, 0][:, None], exact)
    erf = np.array([[_erf(int(d), float(log), config.token_std) for log in logs] for d in dims])
    axes = ("dim", "log_length")
    data: dict[str, Any] = {
        "softmax_risk": (
            axes,
            best.value,
            {"long_name": "least risk of (k*, v*) over the β tried"},
        ),
        "softmax_scale": (axes, best.at, {"long_name": "best β, where it is inside"}),
        "erf_risk": (axes, erf[..., 0], {"long_name": "least risk of (k*, v*) over the λ tried"}),
        "erf_scale": (axes, erf[..., 1], {"long_name": "best λ, where it is inside"}),
        "boundary": ("dim", dims * (1 - config.token_std**2) / 2),
    }
    attrs = {"token_std": config.token_std}
    return xarray.Dataset(data, {"dim": dims, "log_length": logs}, attrs)


def _erf(dim: int, log_length: float, token_std: float) -> tuple[float, float]:
    from ...students import Overlaps, PointwiseAttention
    from ...tasks import SingleLocation
    from ...theory import population_risk

    task = SingleLocation(dim, log_length=log_length, token_std=token_std)
    ones, zeros = np.ones_like(_SCALES), np.zeros_like(_SCALES)
    risk = population_risk(task, PointwiseAttention("erf", 1.0))
    values = np.asarray(risk(Overlaps(ones, ones, zeros, zeros, zeros), _SCALES))
    # what the best λ gains on predicting 0 falls below rounding: no λ is best then
    best = interior_minimum(_SCALES, values)
    return float(best.value), float(best.at)


def figure(dataset: xarray.Dataset) -> Figure:
    """Risks and best scales against log L, with the boundary of the phase diagram."""
    from ...plotting.spec import Axis, Figure, Line, Mark, Panel, Rule

    logs = dataset.log_length.values
    x = Axis("log L")
    variance = dataset.attrs["token_std"] ** 2
    panels = []
    scales: list[Mark] = []
    for number, dim in enumerate(dataset.dim.values):
        row = dataset.sel(dim=dim)
        marks: list[Mark] = [
            Line(logs, row.softmax_risk.values, "softmax, best β", 0),
            Line(logs, row.erf_risk.values, "erf, best λ", 1),
            Rule(variance, label="predicting 0"),
        ]
        if float(row.boundary) <= logs[-1]:
            marks.append(Rule(float(row.boundary), axis="x", label="log L = (1 − γ²) d/2"))
        panels.append(Panel(f"d = {dim}", x, Axis("R(k*, v*) − ε²", log=True), marks))
        scales.append(Line(logs, row.softmax_scale.values, f"β, d = {dim}", number))
        scales.append(Line(logs, row.erf_scale.values, f"λ, d = {dim}", number, dash=True))
    panels.append(Panel("Best scales", x, Axis("β or λ", log=True), scales))
    return Figure(
        title="Prompts from ten tokens to e^50",
        panels=panels,
        columns=min(3, len(panels)),
        caption=(
            "Exact risk of the teacher, linear link, γ² = "
            f"{variance:.3g}, each student at its best scale for each length. Pointwise attention lets "
            "through noise from every token and is lost once L exceeds about d; softmax "
            "holds on until log L nears (1 − γ²) d/2. Scales are drawn where the risk rises on both sides of "
            "them: not where predicting 0 is as good to all digits, nor at an end of the scales tried."
        ),
        alt="Risk against log L for softmax and erf attention, and the best scale of each.",
    )
