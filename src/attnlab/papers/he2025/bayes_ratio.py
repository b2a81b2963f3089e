"""The risk of the best debiased gradient step over Bayes' risk, in proportion and at finite sizes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from ..._core.search import interior_minimum
from .._config import Config
from .fields import LARGEST_NOISE, Distinct, NoiseVar
from .theory_setting import swept

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark


class BayesRatioConfig(Config):
    """Ratios ξ = d/L, noises and finite dimensions; nothing here is sampled."""

    noise_vars: Distinct[NoiseVar] = Field(
        (0.01, 0.1, 1.0, 10.0), min_length=1, description="variances σ² of the label noise"
    )
    noise_var: float = Field(0.1, gt=0, le=LARGEST_NOISE, description="σ² for finite sizes")
    dims: Distinct[Annotated[int, Field(ge=2, le=500)]] = Field(
        (2, 5, 20, 80), min_length=1, description="finite dimensions d"
    )
    smallest_ratio: float = Field(0.01, ge=1e-4, lt=1, description="smallest ξ")
    largest_ratio: float = Field(10.0, gt=1, le=1e4, description="largest ξ")
    points: int = Field(61, ge=5, le=10_000, description="values of ξ")
    sizes: int = Field(9, ge=2, le=1000, description="finite lengths for each dimension")


def largest_ratio(noise_var: float) -> tuple[float, float]:
    """The largest limiting ratio over all ξ, and where; NaN where it is not inside of what is searched."""
    from scipy.optimize import minimize_scalar

    from ...estimators.proportional import proportional_ratio_to_bayes

    def negative(log_ratio: float) -> float:
        return -proportional_ratio_to_bayes(float(np.exp(log_ratio)), noise_std=noise_var**0.5)

    grid = np.linspace(-12, 8, 81)
    at = interior_minimum(grid, np.array([negative(float(x)) for x in grid]))
    if not at.inside:
        return math.nan, math.nan
    bounds = grid[at.argmin - 1], grid[at.argmin + 1]
    found: Any = minimize_scalar(negative, bounds=bounds, method="bounded")
    return -float(found.fun), float(np.exp(found.x))


def finite_ratio(dim: int, length: int, noise_var: float) -> float:
    """The exact ratio at this size."""
    from ... import estimators
    from ...tasks import InContextRegression

    task = InContextRegression(dim, length, noise_std=noise_var**0.5)
    step = estimators.optimal_step(task, debiased=True)
    descent = estimators.gradient_descent_risk(task, step=step, debiased=True)
    return float(descent.value) / float(estimators.bayes_risk(task).value)


def run(config: BayesRatioConfig) -> xarray.Dataset:
    """`limit` and `bound` on `(noise, xi)`; `largest` on `noise_axis`; `finite` on `(dim, size)`,
    at `finite_xi`."""
    import xarray

    from ...estimators import proportional as limits

    xi = np.geomspace(config.smallest_ratio, config.largest_ratio, config.points)
    table = np.empty((2, len(config.noise_vars), len(xi)))
    for i, noise in enumerate(config.noise_vars):
        for j, ratio in enumerate(xi.tolist()):
            table[0, i, j] = limits.proportional_ratio_to_bayes(ratio, noise_std=noise**0.5)
            table[1, i, j] = limits.proportional_ratio_bound(ratio, noise_std=noise**0.5)
    axis = np.geomspace(min(1e-3, *config.noise_vars), max(100.0, *config.noise_vars), 41)
    largest, where = np.array([largest_ratio(float(noise)) for noise in axis]).T
    data: dict[str, Any] = {
        "limit": (("noise", "xi"), table[0], {"long_name": "risk over Bayes' risk, d, L → ∞"}),
        "bound": (("noise", "xi"), table[1], {"long_name": "bound of Theorem 4.2 (iii)"}),
        "largest": ("noise_axis", largest, {"long_name": "largest limit over ξ"}),
        "largest_at": ("noise_axis", where, {"long_name": "ξ where it is largest"}),
    }
    coords = {"noise": list(config.noise_vars), "xi": xi, "noise_axis": axis}
    wanted = np.geomspace(config.smallest_ratio, config.largest_ratio, config.sizes)

    def at(dim: int) -> tuple[list[float], list[float], list[float]]:
        lengths = [max(2, round(dim / ratio)) for ratio in wanted]  # debiasing needs two
        finite = [finite_ratio(dim, length, config.noise_var) for length in lengths]
        real = [dim / length for length in lengths]
        std = config.noise_var**0.5
        return (
            finite,
            real,
            [limits.proportional_ratio_to_bayes(ratio, noise_std=std) for ratio in real],
        )

    def together(found: list[Any]) -> xarray.Dataset:
        columns = np.array(found)
        names = ("finite", "finite_xi", "finite_limit")
        more = {name: (("dim", "size"), columns[:, k]) for k, name in enumerate(names)}
        return xarray.Dataset(
            data | more,
            coords=coords | {"dim": list(config.dims[: len(found)])},
            attrs={"noise_var": config.noise_var},
        )

    return swept("finite sizes", config.dims, at, together)


def figure(dataset: xarray.Dataset) -> Figure:
    """The limit and its bound; finite sizes; their distance to the limit; the worst case."""
    from ...plotting.spec import Axis, Figure, Line, Panel, Points, Rule

    xi, noise = dataset.xi.values, dataset.attrs["noise_var"]
    x = Axis("ξ = d/L", log=True)
    limit: list[Mark] = []
    for number, value in enumerate(dataset.noise.values):
        row = dataset.sel(noise=value)
        limit.append(Line(xi, row.limit.values, f"σ² = {value:g}", number))
        limit.append(Line(xi, row.bound.values, None, number, dash=True))
    axis = dataset.noise_axis.values
    worst: list[Mark] = [
        Line(axis, dataset.largest.values - 1, "largest ratio − 1", "theory"),
        Line(axis, 1 / axis, "1/σ²", "reference", dash=True),
    ]
    finite: list[Mark] = []
    away: list[Mark] = []
    std = float(noise) ** 0.5
    from ...estimators.proportional import proportional_ratio_to_bayes as ratio_to_bayes

    curve = [ratio_to_bayes(float(value), noise_std=std) for value in xi]
    finite.append(Line(xi, curve, "d, L → ∞", "theory"))
    for number, dim in enumerate(dataset.dim.values):
        row = dataset.sel(dim=dim)
        at, value = row.finite_xi.values, row.finite.values
        finite.append(Points(at, value, None, f"d = {dim}", number))
        off = dim * (value / row.finite_limit.values - 1)
        away.append(Points(at, off, None, f"d = {dim}", number))
    away.append(Rule(0.0))
    return Figure(
        title="Debiased gradient descent against Bayes' predictor",
        panels=[
            Panel("Limit (solid), its bound (dashed)", x, Axis("ratio of risks", log=True), limit),
            Panel(f"Finite sizes, σ² = {noise:g}", x, Axis("ratio of risks"), finite),
            Panel(f"Distance to the limit, σ² = {noise:g}", x, Axis("d · (ratio/limit − 1)"), away),
            Panel("The worst ξ", Axis("σ²", log=True), Axis("ratio − 1", log=True), worst),
        ],
        caption=(
            "Risk of one debiased gradient step of the best size, over Bayes' risk; label noise "
            "included in both; computed, not sampled. The bound is 1 + (1+σ²)ξ/(σ²(1+(1+σ²)ξ)). "
            "In the first panel both tend to 1 for ξ → 0, the ratio also for ξ → ∞."
        ),
        alt="Ratios of risks against ξ for several noises, below their bounds; finite sizes near "
        "the limit; the largest ratio falls with the noise.",
    )
