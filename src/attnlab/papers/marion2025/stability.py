"""Does M attract? Transverse exponents at the teacher, over M, and along trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from .._config import Config
from .attractors import risk_at
from .end_states import critical_scale, stable_step

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark, Panel

_Scale = Annotated[float, Field(ge=1e-4, le=100)]
_BLOCK = 64


class StabilityConfig(Config):
    """Where the stability of M is measured; nothing here is random."""

    dim: int = Field(400, ge=4, description="token dimension d")
    length: int = Field(10, ge=2, description="L of the trajectories and maps")
    token_std: float = Field(0.5**0.5, gt=0, lt=1, description="γ of the informative token")
    lengths: tuple[Annotated[int, Field(ge=2)], ...] = Field(
        (2, 10, 50), description="L at the teacher"
    )
    scale_points: int = Field(60, ge=2, le=2000, description="scales from 0.02 to 3 at the teacher")
    scales: tuple[_Scale, ...] = Field((0.1, 0.5, 0.9, 1.2), description="λ of the trajectories")
    start: float = Field(0.05, gt=0, lt=1, description="κ = ν at the start of the trajectories")
    steps: int = Field(8000, ge=1, description="steps of the trajectories")
    map_scales: tuple[_Scale, ...] = Field((0.1, 0.9), description="λ of the maps over (κ, ν)")
    map_points: int = Field(21, ge=2, le=100, description="points a side of the maps")


def exponents_at(risk: Any, kappa: Any, nu: Any, scales: Any = None) -> np.ndarray:
    """Transverse exponents `(points, 3)` of the flow at points of M, largest first.

    `scales` gives each point its own λ.
    """
    from ... import dynamics
    from ...students import Overlaps

    scales = risk.scale if scales is None else scales
    points = np.stack([np.ravel(a) for a in np.broadcast_arrays(kappa, nu, scales)])
    found = []
    for first in range(0, points.shape[1], _BLOCK):  # blocks of one size share a compiled program
        block = points[:, first : first + _BLOCK]
        size = block.shape[1]
        k, n, scale = np.pad(block, ((0, 0), (0, _BLOCK - size)), mode="edge")
        out = dynamics.transverse_stability(
            risk.at_scale(scale), Overlaps(k, n), step_size=1.0, steps=0
        )
        found.append(out.exponent.values[:size, 0])
    return np.concatenate(found)


def measured_critical_scale(dim: int, length: int, token_std: float) -> float:
    """Where the largest transverse exponent at the teacher changes sign; NaN if not between λ = 0.5
    and 10, where it is looked for in six rounds of a grid."""
    _, risk = risk_at(dim, length, token_std, 1.0)
    low, high = 0.5, 10.0
    for _ in range(6):
        grid = np.linspace(low, high, 64)
        top = exponents_at(risk, np.ones(64), 1.0, grid)[:, 0]
        unstable = np.flatnonzero(top > 0)
        if not unstable.size:
            return float("nan")
        first = int(unstable[0])
        if first == 0:  # unstable from the start: it has changed before
            return float("nan")
        low, high = float(grid[first - 1]), float(grid[first])
    return 0.5 * (low + high)


def run(config: StabilityConfig) -> xarray.Dataset:
    """Exponents at the teacher, over M and along trajectories, and the growth off M."""
    import xarray

    from ... import dynamics
    from ...students import Overlaps

    grid = np.geomspace(0.02, 3.0, config.scale_points)
    at_teacher = np.empty((len(config.lengths), len(grid)))
    for i, length in enumerate(config.lengths):
        _, risk = risk_at(config.dim, length, config.token_std, 1.0)
        at_teacher[i] = exponents_at(risk, np.ones(len(grid)), 1.0, grid)[:, 0]
    signal = (1 - config.token_std**2) ** 0.5
    critical = [critical_scale(config.dim, n, config.token_std, signal) for n in config.lengths]

    task, risk = risk_at(config.dim, config.length, config.token_std, 1.0)
    axis = np.linspace(-1, 1, config.map_points)
    kappa, nu = np.meshgrid(axis, axis)
    maps = [
        exponents_at(risk.at_scale(scale), kappa, nu)[:, 0].reshape(kappa.shape)
        for scale in config.map_scales
    ]
    scales = np.array(config.scales)
    sizes = np.array([stable_step(task, scale) for scale in config.scales])
    paths = dynamics.transverse_stability(
        risk.at_scale(scales),
        Overlaps(np.full(len(scales), config.start), np.full(len(scales), config.start)),
        step_size=sizes,
        steps=config.steps,
        save_every=max(1, config.steps // 200),
    )
    data: dict[str, Any] = {
        "teacher_exponent": (("length", "scale"), at_teacher),
        "critical_scale": ("length", critical),
        "map_exponent": (("map_scale", "nu_axis", "kappa_axis"), np.stack(maps)),
        "path_exponent": (("path", "step"), paths.exponent.values[..., 0]),
        "path_growth": (("path", "step"), paths.growth.values),
        "path_kappa": (("path", "step"), paths.kappa.values),
        "path_nu": (("path", "step"), paths.nu.values),
        "path_step_size": ("path", sizes),
    }
    coords = {
        "length": list(config.lengths), "scale": grid, "map_scale": list(config.map_scales),
        "path": scales, "step": paths.step.values, "kappa_axis": axis, "nu_axis": axis,
    }  # fmt: skip
    return xarray.Dataset(
        data, coords=coords, attrs={"dim": config.dim, "at_length": config.length}
    )


def figure(dataset: xarray.Dataset) -> Figure:
    """Exponent at the teacher against λ; growth along trajectories; maps over M."""
    from ...plotting.spec import Axis, Figure, Line, Panel

    at = dataset.attrs
    fixed = f"d = {at['dim']}, L = {at['at_length']}"
    growth: list[Mark] = []
    for number, scale in enumerate(dataset.path.values):
        row = dataset.sel(path=scale)
        time = row.step.values * float(row.path_step_size)
        growth.append(Line(time, row.path_growth.values, f"λ = {scale:g}", number))
    return Figure(
        title="Does the invariant manifold attract?",
        panels=[
            _teacher(dataset),
            Panel(
                f"Growth off M, {fixed}",
                Axis("time"),
                Axis("log growth factor", limits=(-20, 20)),
                growth,
            ),
            *(_map(dataset, scale) for scale in dataset.map_scale.values),
        ],
        caption=(
            "Largest real part of the flow's Jacobian in (θ, η, ρ), per unit of time: perturbations "
            "off M shrink where it is negative. Near the origin M repels at every λ, as the roles "
            "of the two vectors are not yet chosen."
        ),
        alt="Transverse exponent at the teacher against the scale; growth along paths; maps over M.",
    )


def _teacher(dataset: xarray.Dataset) -> Panel:
    from ...plotting.spec import Axis, Line, Panel, Rule

    marks: list[Mark] = []
    for number, length in enumerate(dataset.length.values):
        values = dataset.teacher_exponent.sel(length=length).values
        marks.append(Line(dataset["scale"].values, values, f"L = {length}", number))
        critical = float(dataset.critical_scale.sel(length=length))
        if critical < 3:
            marks.append(Rule(critical, "x", None if number else "formula for λ_c"))
    marks.append(Rule(0.0))
    return Panel(
        f"At the teacher, d = {dataset.attrs['dim']}",
        Axis("scale λ", log=True),
        Axis("largest transverse exponent", limits=(-1.2, 1.5)),
        marks,
    )


def _map(dataset: xarray.Dataset, scale: float) -> Panel:
    from ...plotting.spec import Axis, Heat, Panel

    values = dataset.map_exponent.sel(map_scale=scale).values
    heat = Heat(
        dataset.kappa_axis.values, dataset.nu_axis.values, values, "exponent", diverging=True
    )
    return Panel(f"Over M, λ = {scale:g}", Axis("κ"), Axis("ν"), [heat])
