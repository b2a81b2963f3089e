"""The inverse temperature with the smallest oracle risk, against `β_c` and a two-token rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from ..._core.search import minimum_on_line
from .._config import Config
from .exact import LARGEST_BETA, LARGEST_SPREAD, Sizes, oracle_family, oracle_mass

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark

_GRID = 16  # inverse temperatures per round of the search


class TemperatureConfig(Config):
    """Sizes at which the best inverse temperature of the oracle is searched for."""

    dims: tuple[Annotated[int, Field(ge=18, le=600)], ...] = Field(
        (20, 60, 200), min_length=1, description="dimensions d"
    )
    noises: tuple[Annotated[float, Field(ge=0.15, le=0.9)], ...] = Field(
        (0.2, 0.5, 0.8), min_length=1, description="values of γ²"
    )
    points: int = Field(24, ge=3, le=200, description="number of lengths")
    smallest_alpha: float = Field(0.04, ge=0.04, le=0.5, description="smallest α = log L / d")
    largest_alpha: float = Field(0.5, gt=0.04, le=0.6, description="largest α")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.smallest_alpha >= self.largest_alpha:
            raise ValueError("with smallest_alpha below largest_alpha")
        return self


def best_temperature(sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """The `β` in [0.8/(γ√d), 2.5] with the smallest oracle risk, to one percent, and that risk.

    Three rounds of a grid, each around the best of the one before. `sizes.beta` is not used. `β` is
    NaN where the risk is least at an end, and the risk there no more than a bound.
    """
    dim, alpha, _, std = sizes
    shape = np.broadcast_shapes(*(np.shape(part) for part in (dim, alpha, std)))
    low = np.broadcast_to(0.8 / (std * np.sqrt(dim)), shape)
    high = np.broadcast_to(np.minimum(LARGEST_BETA, LARGEST_SPREAD / np.sqrt(dim)), shape)
    family = oracle_family(float(np.max(dim)))
    dims, alphas, stds = (np.asarray(part)[..., None] for part in (dim, alpha, std))

    def risk(log_beta: np.ndarray) -> np.ndarray:
        found = oracle_mass(Sizes(dims, alphas, np.exp(log_beta), stds), family=family)[1]
        return np.where(np.isfinite(found), found, np.nan)

    best = minimum_on_line(risk, np.log(low), np.log(high), points=_GRID, rounds=3)
    return np.exp(best.at), best.value


def run(config: TemperatureConfig) -> xarray.Dataset:
    """Best β, the risk there and at `β_c`, on (noise, dim, alpha)."""
    import xarray

    dims = np.array(config.dims, float)[:, None]
    std = np.sqrt(np.array(config.noises))[:, None, None]
    low, high = np.log([config.smallest_alpha, config.largest_alpha])
    alphas = np.exp(np.linspace(low, high, config.points))
    sizes = Sizes(dims, alphas, 1.0, std)
    best, least = best_temperature(sizes)
    critical = np.sqrt(2 * alphas)
    family = oracle_family(float(np.max(dims)))
    clipped = np.maximum(critical, 0.8 / (std * np.sqrt(dims)))
    _, at_critical = oracle_mass(Sizes(dims, alphas, clipped, std), family=family)
    # below the lattice of the exact risk
    at_critical = np.where(clipped == critical, at_critical, np.nan)
    axes = ("noise", "dim", "alpha")
    noise = np.array(config.noises)
    # where the answer is 0 whatever β, none is best
    best = np.where(least / noise[:, None, None] < 1 - 1e-6, best, np.nan)
    data: dict[str, Any] = {
        "best_beta": (axes, best, {"long_name": "inverse temperature of the least oracle risk"}),
        "least_risk": (axes, least / noise[:, None, None], {"long_name": "least risk / γ²"}),
        "risk_at_critical": (axes, at_critical / noise[:, None, None], {"long_name": "risk / γ² at β_c"}),
        "critical": ("alpha", critical, {"long_name": "β_c"}),
        "two_tokens": ("noise", 2 * np.sqrt(1 - noise) / (1 + noise), {"long_name": "2c/(1+γ²)"}),
    }  # fmt: skip
    coords = {"noise": list(config.noises), "dim": list(config.dims), "alpha": alphas}
    return xarray.Dataset(data, coords=coords)


def figure(dataset: xarray.Dataset) -> Figure:
    """The best β against α for each γ², and what it gains over `β_c`."""
    from ...plotting.spec import Axis, Figure, Line, Panel, Rule

    alphas = dataset.alpha.values
    x = Axis("α = log L / d")
    panels = []
    for noise in dataset.noise.values.tolist():
        one = dataset.sel(noise=noise)
        marks: list[Mark] = [
            Line(alphas, dataset.critical.values, "β_c = √(2α)", "theory", dash=True)
        ]
        for role, dim in enumerate(dataset.dim.values.tolist()):
            marks.append(
                Line(alphas, one.best_beta.sel(dim=dim).values, f"best β, d = {dim}", role)
            )
        marks.append(Rule(float(one.two_tokens), label="2c/(1 + γ²)"))
        marks.append(Rule((1 - noise) / 2, axis="x", label="learnable below", role=4))
        panels.append(Panel(f"γ² = {noise:g}", x, Axis("β"), marks))
    middle = dataset.isel(noise=dataset.sizes["noise"] // 2)
    marks = []
    for role, dim in enumerate(dataset.dim.values.tolist()):
        one = middle.sel(dim=dim)
        marks.append(
            Line(alphas, one.risk_at_critical.values, f"at β_c, d = {dim}", role, dash=True)
        )
        marks.append(Line(alphas, one.least_risk.values, f"at the best β, d = {dim}", role))
    y = Axis("risk of the oracle / γ²", log=True, limits=(1e-6, 3.0))
    panels.append(Panel(f"What it gains, γ² = {float(middle.noise):g}", x, y, marks))
    return Figure(
        title="The best temperature of the oracle",
        panels=panels,
        caption=(
            "The limit d → ∞ prefers no β above β_c. The exact risk does: in short prompts it is "
            "least at 2c/(1 + γ²), the slope of the log-likelihood ratio by which one tells the "
            "informative of two scores from their difference, almost whatever d. Curves end where the "
            "best answer is 0, or the best β beyond what is computed (0.8/(γ√d) to 2.5)."
        ),
        alt="Best inverse temperature against α for several noises, and risks at it and at β_c.",
    )
