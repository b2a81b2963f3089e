"""Which size of two opposite heads the exact loss likes best, at several lengths and dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from .fields import LARGEST_DIM, LARGEST_GRID, LARGEST_LENGTH, Distinct
from .theory_setting import NoiseConfig, in_words, named, swept

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark

_FLOOR = 1e-8  # of the excesses drawn on a logarithmic axis
_CURVES = 4
_GAMMAS = tuple((value, f"{value:g}") for value in (0.02, 0.05, 0.1, 0.2, 0.4))


class MinimiserConfig(NoiseConfig):
    """Sizes at which the loss is minimised; nothing here is sampled."""

    dim: int = Field(5, ge=2, le=LARGEST_DIM, description="dimension d while L varies")
    lengths: Distinct[Annotated[int, Field(ge=5, le=LARGEST_LENGTH)]] = Field(
        (10, 14, 20, 28, 40, 57, 80, 113, 160, 320, 640), min_length=1,
        description="numbers of examples L",
    )  # fmt: skip
    length: int = Field(40, ge=5, le=LARGEST_LENGTH, description="L while d varies")
    dims: Distinct[Annotated[int, Field(ge=2, le=LARGEST_DIM)]] = Field(
        (2, 3, 4, 5, 7, 10, 14, 20), description="dimensions d"
    )
    points: int = Field(121, ge=7, le=LARGEST_GRID, description="values of γ of a profile")
    gamma_max: float = Field(0.6, gt=0.1, le=1, description="largest γ of a profile")
    trained: float = Field(0.13, gt=0, le=10, description="γ of the paper's trained heads")


def large_length_gamma(dim: Any, length: Any, noise: float) -> Any:
    """`√(12/(L(d+4)((1+σ²)d+3)))`, which the best γ nears as `L → ∞`."""
    return np.sqrt(12 / (length * (dim + 4) * ((1 + noise) * dim + 3)))


def _least(task: Any, best: Any, gamma: np.ndarray) -> np.ndarray:
    """The least exact risk at each γ: by the polynomial around the minimum, which has all digits,
    or where that does not reach."""
    from .exact_heads import opposite_heads

    risk = np.asarray(best.profile(gamma**2))
    beyond = gamma**2 > best.profile.domain[1]
    if beyond.any():
        risk[beyond] = opposite_heads(task, gamma[beyond]).least(task.noise_std**2)[0]
    return risk


def run(config: MinimiserConfig) -> xarray.Dataset:
    """For each setting, on `setting`: the minimiser, its risk, the excess at γ = 0.13 and at 0;
    on `(setting, gamma)`: the excess of either loss over its own least value."""
    import xarray

    from ...theory import effective_step, optimal_effective_step
    from .least_risk import best_opposite

    gamma = config.gamma_max * np.geomspace(0.02, 1, config.points)
    settings = [(config.dim, length) for length in config.lengths]
    settings += [
        (dim, config.length) for dim in config.dims if (dim, config.length) not in settings
    ]

    def at(setting: tuple[int, int]) -> tuple[Any, ...]:
        task = config.task(*setting)
        best = best_opposite(task)
        excess = _least(task, best, np.append(gamma, config.trained)) - best.risk
        step = optimal_effective_step(task)
        approximate = step - np.asarray(effective_step(task, gamma))
        small = 1 + config.noise_var - step * (1 - 1 / task.length) - best.risk
        return excess[:-1], approximate, best.gamma, best.eta, best.risk, excess[-1], small

    def together(found: list[Any]) -> xarray.Dataset:
        names = ("excess", "approximate_excess", "gamma_best", "eta_best", "least", "excess_trained",
                 "excess_small")  # fmt: skip
        data: dict[str, Any] = {}
        for name, column in zip(names, zip(*found, strict=True), strict=True):
            values = np.array(column)
            data[name] = (("setting", "gamma")[: values.ndim], values)
        dims, lengths = np.array(settings[: len(found)]).T
        data |= {"dim": ("setting", dims), "length": ("setting", lengths)}
        data["gamma_large_length"] = (
            "setting",
            large_length_gamma(dims, lengths, config.noise_var),
        )
        attrs = {"noise_var": config.noise_var, "trained": config.trained}
        attrs |= {"fixed_dim": config.dim, "fixed_length": config.length}
        return xarray.Dataset(data, coords={"gamma": gamma}, attrs=attrs)

    return swept("minimisers", settings, at, together)


def figure(dataset: xarray.Dataset) -> Figure:
    """Profiles of the excess; the best γ against L and against d; what heads of other size cost."""
    from ...plotting.spec import Axis, Figure, Line, Panel, Points, Rule

    trained, fixed = dataset.attrs["trained"], dataset.attrs["fixed_dim"]
    gamma = dataset.gamma.values
    by_length = dataset.isel(setting=np.flatnonzero(dataset.dim.values == fixed)).sortby("length")
    chosen = dataset.length.values == dataset.attrs["fixed_length"]
    by_dim = dataset.isel(setting=np.flatnonzero(chosen)).sortby("dim")
    profiles: list[Mark] = []
    shown = np.linspace(0, by_length.sizes["setting"] - 1, _CURVES).round().astype(int)
    for number, at in enumerate(np.unique(shown)):
        row = by_length.isel(setting=at)
        profiles.append(Line(gamma, row.excess.values, f"L = {int(row.length)}", number))
        profiles.append(Line(gamma, row.approximate_excess.values, None, number, dash=True))
    profiles.append(Rule(trained, "x", f"trained heads, γ = {trained:g}"))
    lengths = by_length.length.values
    x = Axis("length L", log=True, ticks=named(lengths))
    y = Axis("γ", log=True, ticks=_GAMMAS)
    sizes: list[Mark] = [
        Points(lengths, by_length.gamma_best.values, None, "exact minimiser", "theory"),
        Line(lengths, by_length.gamma_large_length.values, "its law for large L", 1, dash=True),
        Rule(trained, label=f"trained at L = 40: {trained:g}"),
    ]
    costs: list[Mark] = [
        Line(lengths, by_length.excess_trained.values, f"γ = {trained:g}", 0),
        Line(lengths, by_length.excess_small.values, "γ → 0: debiased gradient descent", 2),
    ]
    dims = by_dim.dim.values
    by_dims: list[Mark] = [
        Points(dims, by_dim.gamma_best.values, None, "exact minimiser", "theory"),
        Line(dims, by_dim.gamma_large_length.values, "its law for large L", 1, dash=True),
    ]
    panels = [
        Panel(
            f"Excess, d = {fixed}: exact (solid), approximate (dashed)",
            Axis("γ = |ω|", log=True),
            Axis("risk − least risk", log=True, limits=(_FLOOR, 1.0)),
            profiles,
        ),
        Panel(f"Best γ, d = {fixed}", x, y, sizes),
        Panel(f"What other sizes cost, d = {fixed}", x, Axis("risk − least risk", log=True), costs),
    ]
    if by_dim.sizes["setting"]:
        title = f"Best γ, L = {dataset.attrs['fixed_length']}"
        panels.append(Panel(title, Axis("dimension d", log=True, ticks=named(dims)), y, by_dims))
    return Figure(
        title="The best size of two heads is not zero",
        panels=panels,
        caption=(
            f"Heads (γ, −γ) with the best (μ, −μ), {in_words(dataset.attrs)}; computed, not sampled. "
            "The approximate loss falls all the way to γ = 0. The exact one has its minimum at a "
            "finite γ, of the order 1/√L, in a valley so flat that γ = 0.13 and γ → 0 are "
            "nearly as good."
        ),
        alt="The excess risk over γ has its zero at a finite γ; best γ against L and d; the excess "
        "of other sizes against L.",
    )
