"""The exact and the approximate loss of two opposite heads over the (ω, μ) plane, and their valley."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from .theory_setting import SizeConfig, in_words

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark, Panel

_EXCESS = (1e-3, 10.0)  # what the colours of an excess span
_START = 1e-3  # of the flow, both coordinates


class LandscapeConfig(SizeConfig):
    """Heads (ω, -ω), (μ, -μ) on a grid; nothing here is sampled."""

    omega_max: float = Field(0.8, gt=0, le=1.5, description="largest ω")
    mu_max: float = Field(6.0, gt=0, le=1e6, description="largest μ")
    points: int = Field(160, ge=4, le=400, description="values of ω, and of μ")
    end_time: float = Field(1e4, ge=10, le=1e12, description="time until which the flow is drawn")


def run(config: LandscapeConfig) -> xarray.Dataset:
    """Both losses on `(mu, omega)`, and along each valley, `μ*(ω)`, on `omega`."""
    import xarray

    from ...students import KernelHeads
    from ...theory import approximate_risk, effective_step, optimal_effective_step
    from .exact_heads import opposite_heads
    from .least_risk import best_opposite
    from .two_head_flow import approximate_valley, exact_valley, follow

    task = config.own_task()
    # centres of cells, so that neither axis, where the loss is 1 + σ², takes up a row
    cells = (np.arange(config.points) + 0.5) / config.points
    omega, mu = config.omega_max * cells, config.mu_max * cells
    ground = 1 + config.noise_var
    pair = opposite_heads(task, omega)
    eta = 2 * mu[:, None] * omega
    exact = ground - 2 * eta * pair.cross + eta**2 * pair.square
    w, m = np.broadcast_arrays(omega, mu[:, None])
    heads = KernelHeads(np.stack([w, -w], -1), np.stack([m, -m], -1))
    approximate = np.asarray(approximate_risk(task, heads).value)
    along, step = pair.least(config.noise_var)
    approximate_step = np.asarray(effective_step(task, omega))
    best = best_opposite(task)
    attrs = {
        "dim": config.dim,
        "length": config.length,
        "noise_var": config.noise_var,
        "exact_best": best.risk,
        "exact_best_omega": best.gamma,
        "exact_best_mu": best.eta / (2 * best.gamma),
        "approximate_best": ground - optimal_effective_step(task),
        "end_time": config.end_time,
    }
    told = {"long_name": "population risk, label noise included"}
    data: dict[str, Any] = {
        "exact": (("mu", "omega"), exact, told),
        "approximate": (("mu", "omega"), approximate, told),
        "exact_valley_mu": ("omega", step / (2 * omega), {"long_name": "best μ at this ω"}),
        "approximate_valley_mu": ("omega", approximate_step / (2 * omega)),
        "exact_valley": ("omega", along, {"long_name": "least risk at this ω"}),
        "approximate_valley": ("omega", ground - approximate_step),
    }
    times = np.concatenate([np.linspace(0.1, 20, 150), np.geomspace(21, config.end_time, 80)])
    for which, valley in (("exact", exact_valley(task)), ("approximate", approximate_valley(task))):
        course = follow(valley, (_START, _START), times)
        data[f"{which}_path"] = (("axis", "time"), np.stack([course.rho, course.phi]))
    coords = {"omega": omega, "mu": mu, "time": times, "axis": ["omega", "mu"]}
    return xarray.Dataset(data, coords=coords, attrs=attrs)


def figure(dataset: xarray.Dataset) -> Figure:
    """The difference; the two landscapes with their valleys; the loss along the valleys."""
    from ...plotting.spec import Axis, Figure, Heat, Line, Panel, Rule

    omega, mu = dataset.omega.values, dataset.mu.values
    x, y = Axis("ω", limits=_span(omega)), Axis("μ", limits=_span(mu))
    gap = dataset.exact.values - dataset.approximate.values
    # the approximate loss explodes in the corner: colours for where there is something to see
    most = float(min(np.max(np.abs(gap)), 0.5))
    difference: list[Mark] = [
        Heat(omega, mu, gap, "exact − approximate", diverging=True, limits=(-most, most)),
        _valley(dataset, "exact", "theory", "valley of the exact loss"),
        _valley(dataset, "approximate", 1, "of the approximate one"),
    ]
    best = dataset.attrs["exact_best_omega"]
    floor = dataset.attrs["approximate_best"]
    along: list[Mark] = [
        Line(omega, dataset.exact_valley.values, "exact", "theory"),
        Line(omega, dataset.approximate_valley.values, "approximate", 1),
        Rule(floor, label="1 + σ² − η*"),
        Rule(best, "x", f"exact minimum, ω = {best:.3f}", 2),
    ]
    return Figure(
        title="Loss landscape of two opposite heads: exact and approximate",
        panels=[
            Panel("Difference of the losses", x, y, difference, _beyond(gap, most)),
            Panel("Loss along the valley, μ = μ*(ω)", Axis("ω"), Axis("risk"), along),
            _landscape(dataset, "exact", x, y),
            _landscape(dataset, "approximate", x, y),
        ],
        caption=(
            f"Heads (ω, −ω), (μ, −μ), {in_words(dataset.attrs)}; both losses are computed, not "
            f"sampled. The gradient flow from ω = μ = 0.001 up to t = {dataset.attrs['end_time']:g} "
            "crosses into the river valley and runs down along it. The valley's floor falls towards "
            f"ω → 0 in the approximation, where μ grows without bound, and to ω = {best:.3f}, "
            f"μ = {dataset.attrs['exact_best_mu']:.2f} in the exact loss."
        ),
        alt="Maps over ω and μ: the difference of the two losses, small where ω or μ is small, "
        "and both losses, with a curved valley along which ω falls and μ grows.",
    )


def _span(centres: np.ndarray) -> tuple[float, float]:
    return 0.0, float(centres[-1] + centres[0])


def _beyond(gap: np.ndarray, most: float) -> str:
    largest = float(np.max(np.abs(gap)))
    if largest <= most * (1 + 1e-9):
        return ""
    return f"Colours end at ±{most:g}; the largest difference is {largest:.3g}."


def _valley(
    dataset: xarray.Dataset, which: str, role: Any, label: str, *, dash: bool = False
) -> Mark:
    from ...plotting.spec import Line

    return Line(dataset.omega.values, dataset[f"{which}_valley_mu"].values, label, role, dash)


def _landscape(dataset: xarray.Dataset, which: str, x: Any, y: Any) -> Panel:
    from ...plotting.spec import Heat, Line, Panel, Points

    low, high = _EXCESS
    excess = np.clip(dataset[which].values - dataset.attrs[f"{which}_best"], low, high)
    marks: list[Mark] = [
        Heat(
            dataset.omega.values,
            dataset.mu.values,
            excess,
            "excess over the least risk",
            log=True,
            limits=_EXCESS,
        ),
        _valley(dataset, which, 1, "μ*(ω)", dash=True),
    ]
    path = dataset[f"{which}_path"].values
    marks.append(Line(path[0], path[1], "gradient flow", 3, width=2.0))
    marks.append(Points(path[0, -1:], path[1, -1:], None, "its end", 3))
    return Panel(f"The {which} loss", x, y, marks)
