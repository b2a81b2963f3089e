"""The flow on the two invariant manifolds: M, where teachers lie, and M', where roles are swapped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from .._config import Config
from .attractors import risk_at, signature
from .end_states import stable_step, swapped_minimum

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Panel
    from ...students import Overlaps

PLANES = ("M", "M'")
_AXES = {"M": ("κ", "ν"), "M'": ("θ", "η")}


class PortraitConfig(Config):
    """Where the flow field is drawn; nothing here is random."""

    dim: int = Field(400, ge=4, description="token dimension d")
    length: int = Field(10, ge=2, description="number of tokens L")
    token_std: float = Field(0.5**0.5, gt=0, lt=1, description="γ of the informative token")
    scales: tuple[Annotated[float, Field(ge=1e-4, le=100)], ...] = Field(
        (0.1, 0.9), min_length=1, max_length=4, description="scales λ"
    )
    points: int = Field(15, ge=4, le=60, description="arrows a side")
    basin_time: float = Field(30.0, gt=0, description="time for which a start is followed")


def plane(name: str, x: Any, y: Any) -> Overlaps:
    """Points of `M` (x = κ, y = ν) or of `M'` (x = θ, y = η)."""
    from ...students import Overlaps

    zero = np.zeros(np.broadcast_shapes(np.shape(x), np.shape(y)))
    return Overlaps(x, y, zero, zero, zero) if name == "M" else Overlaps(zero, zero, x, y, zero)


def flow_on(risk: Any, overlaps: Overlaps) -> np.ndarray:
    """The gradient flow's velocity `(..., 5)` at these overlaps."""
    from ..._core.precision import float64, to_float64
    from ...dynamics.overlap_map import flow_field

    gradient = np.asarray(risk.gradient(overlaps).stack())
    with float64():
        return np.asarray(flow_field(*to_float64((np.asarray(overlaps.stack()), gradient))))


def run(config: PortraitConfig) -> xarray.Dataset:
    """Velocity, risk and basin on (plane, scale, y, x), and the stationary points of each plane."""
    import xarray

    # an odd or even number alike leaves 0 out: a start there belongs to no basin
    axis = np.linspace(-1, 1, 2 * config.points + 1)[1::2]
    x, y = np.meshgrid(axis, axis)
    shape = (len(PLANES), len(config.scales), *x.shape)
    u, v, basin, level = (np.empty(shape) for _ in range(4))
    points: list[tuple[Any, ...]] = []
    for i, name in enumerate(PLANES):
        for j, scale in enumerate(config.scales):
            task, risk = risk_at(config.dim, config.length, config.token_std, scale)
            here = plane(name, x, y)
            first = 0 if name == "M" else 2
            velocity = flow_on(risk, here)
            u[i, j], v[i, j] = velocity[..., first], velocity[..., first + 1]
            level[i, j] = np.asarray(risk(here))
            basin[i, j] = _basin(task, risk, here, first, config.basin_time).reshape(x.shape)
            points += [(name, scale, *row) for row in _stationary(name, risk, config.dim)]
    axes = ("plane", "scale", "y", "x")
    names = (
        "point_plane",
        "point_scale",
        "point_x",
        "point_y",
        "point_risk",
        "n_negative",
        "residual",
    )
    data: dict[str, Any] = {
        "u": (axes, u), "v": (axes, v), "basin": (axes, basin), "risk": (axes, level)
    }  # fmt: skip
    data |= {name: ("point", list(column)) for name, column in zip(names, zip(*points))}
    coords = {"plane": list(PLANES), "scale": list(config.scales), "x": axis, "y": axis}
    return xarray.Dataset(data, coords=coords, attrs={"dim": config.dim, "length": config.length})


def _basin(task: Any, risk: Any, starts: Overlaps, first: int, time: float) -> np.ndarray:
    """+1 where the descent ends with `x + y > 0`, -1 where below, 0 where it has not left 0."""
    from ... import dynamics
    from ...dynamics.dataset import overlaps_of

    size = stable_step(task, float(risk.scale))
    steps = int(np.ceil(time / size))
    out = dynamics.projected_gradient_descent(
        risk, starts, step_size=size, steps=steps, save_every=steps
    )
    last = np.asarray(overlaps_of(out, step=-1).stack())
    total = last[:, first] + last[:, first + 1]
    return np.where(np.abs(total) > 0.1, np.sign(total), 0.0)


def _stationary(name: str, risk: Any, dim: int) -> list[tuple[float, ...]]:
    """`(x, y, risk, negative eigenvalues in R^d, gradient norm)` of the plane's stationary points.

    The corners and the centre are stationary by symmetry. On M there are no others, since `R_ν`
    vanishes at `κ = 0` alone and `R_κ` there at `ν = 0` alone; on M' there is the swapped pair.
    """
    where = [(0.0, 0.0)] + [(a, b) for a in (-1.0, 1.0) for b in (-1.0, 1.0)]
    if name == "M'":
        theta = float(np.asarray(swapped_minimum(risk).theta))
        where += [(theta, 1.0), (-theta, -1.0)] if theta < 1 else []
    x, y = np.array(where).T
    found = signature(risk, np.asarray(plane(name, x, y).stack()), dim)
    columns = (x, y, found.risk.values, found.n_negative.values, found.gradient_norm.values)
    return [tuple(float(part) for part in row) for row in zip(*columns)]


def figure(dataset: xarray.Dataset) -> Figure:
    """One panel per manifold and scale: directions coloured by basin, and the stationary points."""
    from ...plotting.spec import Figure

    scales = dataset.scale.values
    return Figure(
        title="The flow on the two invariant manifolds",
        panels=[_panel(dataset, name, scale) for name in PLANES for scale in scales],
        columns=min(2, len(scales)),
        caption=(
            f"d = {dataset.attrs['dim']}, L = {dataset.attrs['length']}. Arrows show the direction "
            "of descent only. M holds the teacher (1, 1) and its mirror image; on "
            "M' = {κ = ν = ρ = 0} k has found v* and v reads k*. Minima and saddles are those of "
            "the risk in R^d, with directions off the manifold counted."
        ),
        alt="Flow fields in the (κ, ν) and (θ, η) planes: two basins each, divided by a line "
        "through the saddle at the origin.",
    )


def _panel(dataset: xarray.Dataset, name: str, scale: float) -> Panel:
    from ...plotting.spec import Arrows, Axis, Mark, Panel, Points

    part = dataset.sel(plane=name, scale=scale)
    axis = part.x.values
    x, y = np.meshgrid(axis, axis)
    marks: list[Mark] = []
    size = np.hypot(part.u.values, part.v.values)
    u, v = (part[c].values / np.maximum(size, 1e-300) for c in "uv")
    for sign, role, label in ((1.0, 0, "to the upper right"), (-1.0, 1, "to the lower left")):
        here = part.basin.values == sign
        if here.any():
            marks.append(Arrows(x[here], y[here], u[here], v[here], label, role))
    chosen = (dataset.point_plane.values == name) & (dataset.point_scale.values == scale)
    for minima, words, colour in ((True, "minimum", 3), (False, "saddle or maximum", "theory")):
        kind = chosen & ((dataset.n_negative.values == 0) == minima)
        if kind.any():
            place = dataset.isel(point=np.flatnonzero(kind))
            marks.append(Points(place.point_x.values, place.point_y.values, None, words, colour))
    a, b = _AXES[name]
    box = (-1.08, 1.08)
    return Panel(f"{name}, λ = {scale:g}", Axis(a, limits=box), Axis(b, limits=box), marks)
