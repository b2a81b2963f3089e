"""How the mean-field risk nears the exact one as d grows, in each phase and on the lines between.

The predicted leading terms are those of `docs/theory/mean-field`; where the difference is
exponentially small its rate is predicted, and its prefactor is not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from .._config import Config
from .exact import Sizes, check_longest, risks_each

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark

_FLOOR = 3e-13  # relative; below, the difference of two risks is rounding


class FiniteSizeConfig(Config):
    """Dimensions and the prompts' length; the phases are reached by β and κ."""

    smallest_dim: int = Field(10, ge=10, description="smallest dimension")
    largest_dim: int = Field(1000, ge=20, le=6000, description="largest dimension")
    points: int = Field(13, ge=4, le=200, description="number of dimensions, evenly in log d")
    alpha: float = Field(0.1, ge=0.09, le=0.15, description="α = log L / d")
    token_std: float = Field(0.5**0.5, ge=0.5, le=0.8, description="γ of the informative token")
    nu: float = Field(0.5, ge=-0.8, le=0.8, description="v·v*, the same everywhere")
    rho: float = Field(0.3, ge=0.1, le=0.5, description="k·v where it is not 0")

    @model_validator(mode="after")
    def _within_reach(self) -> Self:
        if self.smallest_dim >= self.largest_dim:
            raise ValueError("with smallest_dim below largest_dim")
        check_longest(self.alpha, self.largest_dim)
        return self


class Place(NamedTuple):
    """A point of the phase diagram: its name, the panel, β in units of `β_c`, κ, ρ."""

    name: str
    group: str
    cooling: float
    kappa: float
    rho: float


def places(config: FiniteSizeConfig) -> tuple[Place, ...]:
    """The points that are followed."""
    edge = math.sqrt(2 * config.alpha) / math.sqrt(1 - config.token_std**2)
    return (
        Place("uncondensed, dark", "exponential", 0.56, 0.2, 0.0),
        Place("uncondensed, retrieval", "exponential", 0.9, 1.0, 0.0),
        Place("condensed, retrieval", "exponential", 1.8, 1.0, 0.0),
        Place("condensed, dark, ρ = 0", "condensed", 1.8, 0.2, 0.0),
        Place(f"condensed, dark, ρ = {config.rho:g}", "condensed", 1.8, 0.2, config.rho),
        Place("β = β_c, dark, ρ = 0", "lines", 1.0, 0.2, 0.0),
        Place(f"β = β_c, dark, ρ = {config.rho:g}", "lines", 1.0, 0.2, config.rho),
        Place("cκ = ψ, ρ = 0", "lines", 1.8, edge, 0.0),
    )


def logarithm(beta: float, alpha: float, dim: np.ndarray) -> np.ndarray:
    """`ℓ_d`: by how much the top of finitely many levels falls short of `β_c√d`, times `β_c`."""
    from scipy.special import digamma, gammaln

    m = math.sqrt(2 * alpha) / beta
    own = gammaln(1 - m) + np.euler_gamma + m * digamma(1 - m)
    return 0.5 * np.log(4 * math.pi * alpha * dim) - own


def predicted(place: Place, config: FiniteSizeConfig, dim: np.ndarray) -> tuple[np.ndarray, float]:
    """The leading term of (limit − exact), NaN where only a rate is known; and that rate, or NaN."""
    from ...theory import mass_rate, missing_mass_rate, participation_rate

    alpha, critical = config.alpha, math.sqrt(2 * config.alpha)
    beta = place.cooling * critical
    if place.group == "exponential":
        at = (place.kappa, beta, math.sqrt(1 - config.token_std**2), config.token_std, alpha)
        if "retrieval" in place.name:
            return np.full_like(dim, np.nan), float(missing_mass_rate(*at))
        bulk = float(participation_rate(beta, alpha))
        return np.full_like(dim, np.nan), min(float(mass_rate(*at)), bulk)
    if place.group == "condensed":
        short = logarithm(beta, alpha, dim)
        term = 2 * place.rho**2 * short if place.rho else -short / (beta * critical * dim)
        return term, math.nan
    if place.name.startswith("cκ"):
        # attention is found or not with probability ½ each, and the limit takes p = ½
        halves = 0.25 - 0.5
        crowd = (0.25 - 0.5) * (1 - critical / beta)
        return np.full_like(dim, config.token_std**2 * halves + crowd), math.nan
    rounded = math.sqrt(2 / math.pi)
    if place.rho:
        return 2 * place.rho**2 * rounded * critical * np.sqrt(dim), math.nan
    return -rounded / (critical * np.sqrt(dim)), math.nan


def run(config: FiniteSizeConfig) -> xarray.Dataset:
    """`exact` risks and the errors `plain`, `refined` (theory − exact), with `predicted`, on
    (place, dim); `rate` on (place)."""
    import xarray

    from ...students import Overlaps

    ends = np.log([config.smallest_dim, config.largest_dim])
    dims = np.unique(np.rint(np.exp(np.linspace(ends[0], ends[1], config.points))))
    found = places(config)
    critical = math.sqrt(2 * config.alpha)
    beta = np.array([place.cooling for place in found])[:, None] * critical
    beta, dim = np.broadcast_arrays(beta, dims)
    kappa = np.array([place.kappa for place in found])[:, None]
    rho = np.array([place.rho for place in found])[:, None]
    students = Overlaps(kappa, np.full_like(kappa, config.nu), rho=rho)
    sizes = Sizes(dim, config.alpha, beta, config.token_std)
    exact = risks_each(sizes, students)
    terms = [predicted(place, config, dims) for place in found]
    axes = ("place", "dim")
    data: dict[str, Any] = {"exact": (axes, exact, {"long_name": "exact risk"})}
    for name, theory in (("plain", "mean field"), ("refined", "refined")):
        error = risks_each(sizes, students, theory) - exact  # type: ignore[arg-type]
        data[name] = (axes, error, {"long_name": f"{theory} minus exact"})
    data["predicted"] = (axes, np.stack([term for term, _ in terms]))
    data["rate"] = ("place", np.array([rate for _, rate in terms]), {"long_name": "rate of decay"})
    data["group"] = ("place", [place.group for place in found])
    coords = {"place": [place.name for place in found], "dim": dims}
    return xarray.Dataset(data, coords=coords, attrs={"alpha": config.alpha, "nu": config.nu})


_PANELS = {
    "exponential": "Away from the lines: exponential",
    "condensed": "Condensed and dark: log d",
    "lines": "On the lines of transition",
}


def figure(dataset: xarray.Dataset) -> Figure:
    """|limit − exact| with the predicted terms, and |refined − exact|, against d."""
    from ...plotting.spec import Axis, Figure, Line, Panel

    dims = dataset.dim.values
    x = Axis("dimension d", log=True)
    panels = []
    for group, title in _PANELS.items():
        marks: list[Mark] = []
        inside = dataset.isel(place=np.flatnonzero(dataset.group.values == group))
        for role, name in enumerate(inside.place.values):
            one = inside.sel(place=name)
            gap = _visible(one.plain.values, one.exact.values)
            marks.append(Line(dims, gap, str(name), role))
            term = np.abs(one.predicted.values)
            shown = np.flatnonzero(np.isfinite(gap))
            if group == "exponential" and shown.size:
                last = shown[-1]
                term = gap[last] * np.exp(-float(one.rate) * (dims - dims[last]))
                term = np.where((term < 10) & (term > 1e-14), term, np.nan)
            label = "predicted rate" if group == "exponential" else "predicted"
            marks.append(Line(dims, term, None if role else label, "theory", dash=True, width=1.0))
        panels.append(Panel(title, x, Axis("|limit − exact|", log=True), marks))
    marks = []
    for role, name in enumerate(dataset.place.values):
        one = dataset.sel(place=name)
        gap = _visible(one.refined.values, one.exact.values)
        marks.append(Line(dims, gap, str(name), role % 6, dash=role > 5))
    panels.append(Panel("Finite-size form", x, Axis("|refined − exact|", log=True), marks))
    return Figure(
        title="From the mean field to the exact risk",
        panels=panels,
        caption=(
            f"α = {dataset.attrs['alpha']:g}, ν = {dataset.attrs['nu']:g}, linear link. Dashed: the "
            "predicted leading term or, at the top left, the predicted rate through the last point. "
            "Differences that are rounding are left out."
        ),
        alt="Four log-log panels of the error of the mean-field risk against the dimension.",
    )


def _visible(error: np.ndarray, exact: np.ndarray) -> np.ndarray:
    return np.where(np.abs(error) > _FLOOR * np.abs(exact), np.abs(error), np.nan)
