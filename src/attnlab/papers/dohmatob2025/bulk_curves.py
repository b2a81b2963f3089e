"""The bulk as a random energy model at finite size: free energy, thermal average, condensation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from .._config import Config
from .exact import LARGEST_SPREAD, Sizes, check_longest
from .finite_size import logarithm
from .masses import attention_at

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark

_STEP = 1e-3  # relative, of the difference that takes the derivative in β
_LOWEST = 0.72  # β√d below which a token's logit is too narrow for the exact lattice


class BulkConfig(Config):
    """Dimensions, length and range of inverse temperatures."""

    dims: tuple[Annotated[int, Field(ge=8, le=4000)], ...] = Field(
        (10, 30, 100, 300, 1000), min_length=2, description="dimensions d"
    )
    alpha: float = Field(0.2, ge=0.1, le=0.6, description="α = log L / d")
    points: int = Field(40, ge=6, le=1000, description="number of inverse temperatures")
    lowest: float = Field(0.4, gt=0, lt=1, description="smallest β/β_c")
    highest: float = Field(2.0, gt=1, le=4, description="largest β/β_c")

    @model_validator(mode="after")
    def _within_reach(self) -> Self:
        check_longest(self.alpha, max(self.dims))
        return self


def run(config: BulkConfig) -> xarray.Dataset:
    """`free_energy`, `thermal_average`, `participation` on (dim, cooling), exact, with the limits
    and the closed form of finite size; NaN where β is out of the exact lattice's reach."""
    import xarray

    from ... import theory

    alpha, critical = config.alpha, math.sqrt(2 * config.alpha)
    # an odd number of nodes from β_c on both sides: β_c itself is one of them
    below = max(3, round(config.points * 0.4))
    cooling = np.concatenate(
        [np.linspace(config.lowest, 1.0, below)[:-1],
         np.linspace(1.0, config.highest, config.points - below + 1)]
    )  # fmt: skip
    dims = np.array(config.dims, float)[:, None]
    beta = np.broadcast_to(cooling * critical, (len(dims), len(cooling)))
    spread = beta * np.sqrt(dims)
    good = (spread > _LOWEST) & (spread * (1 + _STEP) < LARGEST_SPREAD)
    safe = np.where(good, beta, critical)
    around = safe * np.array([1.0, 1 - _STEP, 1 + _STEP])[:, None, None]
    exact = attention_at(Sizes(dims, alpha, around))
    slope = (exact.log_partition[2] - exact.log_partition[1]) / (2 * _STEP * safe)
    levels = alpha * dims + np.log(-np.expm1(-alpha * dims))
    closed = theory.finite_random_energy(safe, dims, levels)
    share = exact.participation[0]
    free = exact.log_partition[0] / (safe * dims)
    axes = ("dim", "cooling")

    def shown(values: Any) -> np.ndarray:
        return np.where(good, values, np.nan)

    data: dict[str, Any] = {
        "free_energy": (axes, shown(free), {"long_name": "E log Z / (βd)"}),
        "thermal_average": (axes, shown(slope / dims), {"long_name": "∂_β E log Z / d"}),
        "by_parts": (axes, shown(safe * (1 - share)), {"long_name": "β (1 − E Σq²)"}),
        "participation": (axes, shown(share), {"long_name": "E Σ q²"}),
        "closed_free_energy": (axes, shown(closed.free_energy)),
        "closed_participation": (axes, shown(closed.participation)),
        "limit_free_energy": ("cooling", theory.free_energy(cooling * critical, alpha)),
        "limit_thermal_average": ("cooling", theory.thermal_average(cooling * critical, alpha)),
        "limit_participation": ("cooling", theory.participation_ratio(cooling * critical, alpha)),
        "rate": ("cooling", theory.participation_rate(cooling * critical, alpha)),
        "typical_rate": ("cooling", theory.typical_participation_rate(cooling * critical, alpha)),
    }
    coords = {"dim": list(config.dims), "cooling": cooling}
    return xarray.Dataset(data, coords=coords, attrs={"alpha": alpha, "critical": critical})


def _lines(dataset: xarray.Dataset, name: str, limit: str | None = None) -> list[Mark]:
    from ...plotting.spec import Line, Rule

    x = dataset.cooling.values
    marks: list[Mark] = []
    for role, dim in enumerate(dataset.dim.values.tolist()):
        marks.append(Line(x, dataset[name].sel(dim=dim).values, f"d = {dim}", role))
    if limit is not None:
        marks.append(Line(x, dataset[limit].values, "limit d → ∞", "theory", dash=True))
    return [*marks, Rule(1.0, axis="x")]


def _at(dataset: xarray.Dataset, cooling: float) -> int:
    return int(np.argmin(np.abs(dataset.cooling.values - cooling)))


def figure_free_energy(dataset: xarray.Dataset) -> Figure:
    """Free energy and thermal average against β, and their errors against d."""
    from ...plotting.spec import Axis, Figure, Line, Panel

    x, dims = Axis("β/β_c"), dataset.dim.values
    log_d = Axis("dimension d", log=True)
    places = [_at(dataset, value) for value in (0.7, 1.0, 1.5)]
    errors: list[Mark] = []
    slopes: list[Mark] = []
    for role, index in enumerate(places):
        one = dataset.isel(cooling=index)
        label = f"β = {float(one.cooling):.2f} β_c"
        gap = np.abs(one.free_energy - one.limit_free_energy).values
        errors.append(Line(dims, np.where(gap > 1e-14, gap, np.nan), label, role))
        closed = np.abs(one.closed_free_energy - one.limit_free_energy).values
        first = "finite-size form" if not role else None
        closed = np.where(closed > 1e-14, closed, np.nan)
        errors.append(Line(dims, closed, first, "theory", dash=True, width=1.0))
        gap = np.abs(one.by_parts - one.limit_thermal_average).values
        slopes.append(Line(dims, np.where(gap > 1e-14, gap, np.nan), label, role))
    stein = float(np.nanmax(np.abs(dataset.thermal_average - dataset.by_parts)))
    return Figure(
        title="Free energy and thermal average of the bulk",
        panels=[
            Panel("Free energy", x, Axis("E log Z / (βd)"),
                  _lines(dataset, "free_energy", "limit_free_energy")),
            Panel("Thermal average", x, Axis("r = ∂_β E log Z / d"),
                  _lines(dataset, "thermal_average", "limit_thermal_average")),
            Panel("Error of ψ", log_d, Axis("|E log Z / (βd) − ψ|", log=True), errors),
            Panel("Error of min(β, β_c)", log_d, Axis("|r − min(β, β_c)|", log=True), slopes,
                  note=f"r = β(1 − E Σq²) to {stein:.0e}"),
        ],
        caption=(
            f"Exact, α = {dataset.attrs['alpha']:g}. The limit is exponentially near below β_c, off "
            "by log d/d above, and by 1/√d (thermal average) at the transition."
        ),
        alt="Free energy and thermal average against β for several d; errors against d.",
    )  # fmt: skip


def figure_condensation(dataset: xarray.Dataset) -> Figure:
    """Participation against β; its rate below the transition; finite size above and across it."""
    from scipy.stats import norm

    from ...plotting.spec import Axis, Figure, Line, Panel

    x = dataset.cooling.values
    alpha, critical = dataset.attrs["alpha"], dataset.attrs["critical"]
    rates: list[Mark] = []
    window: list[Mark] = []
    excess: list[Mark] = []
    below = x <= 1.0
    for role, dim in enumerate(dataset.dim.values.tolist()):
        share = dataset.participation.sel(dim=dim).values
        rates.append(Line(x[below], -np.log(share[below]) / dim, f"d = {dim}", role))
        place = (x - 1) * critical * math.sqrt(dim)
        near = np.abs(place) < 4
        scaled = x * critical * math.sqrt(dim) * share
        window.append(Line(place[near], scaled[near], f"d = {dim}", role))
    rates.append(
        Line(x[below], dataset.rate.values[below], "rate of the mean", "theory", dash=True)
    )
    typical = dataset.typical_rate.values[below]
    rates.append(Line(x[below], typical, "rate of the median", "reference", dash=True))
    place = np.linspace(-4, 4, 81)
    law = np.exp(norm.logpdf(place) - norm.logsf(place))
    window.append(Line(place, law, "φ(x)/Φ(−x)", "theory", dash=True))
    dims = dataset.dim.values.astype(float)
    for role, cooling in enumerate((1.25, 1.5, 2.0)):
        one = dataset.isel(cooling=_at(dataset, cooling))
        beta = float(one.cooling) * critical
        gap = (one.participation - one.limit_participation).values
        label = f"β = {float(one.cooling):.2f} β_c"
        excess.append(Line(dims, np.where(gap > 0, gap, np.nan), label, role))
        term = logarithm(beta, alpha, dims) / (beta * critical * dims)
        term = np.where(term > 0, term, np.nan)
        named = "ℓ_d/(ββ_c d)" if not role else None
        excess.append(Line(dims, term, named, "theory", dash=True, width=1.0))
    return Figure(
        title="Condensation: few tokens carry the weight above β_c",
        panels=[
            Panel("Participation ratio", Axis("β/β_c"), Axis("E Σ q²"),
                  _lines(dataset, "participation", "limit_participation")),
            Panel("Below β_c: exponentially small", Axis("β/β_c"), Axis("−log E Σq² / d"), rates),
            Panel("Above β_c: excess over 1 − β_c/β", Axis("dimension d", log=True),
                  Axis("E Σq² − (1 − β_c/β)", log=True), excess),
            Panel("Across the transition", Axis("(β − β_c)√d"), Axis("β√d · E Σq²"), window),
        ],
        caption=(
            f"Exact, α = {alpha:g}; 1/Σq² is the number of tokens that share the weight. The mean is "
            "made by rare prompts with one heavy token: it vanishes more slowly than the median."
        ),
        alt="Participation ratio against β, its rate below and its excess above the transition.",
    )  # fmt: skip
