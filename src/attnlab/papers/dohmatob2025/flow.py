"""Portraits of the gradient flow on M, for several links: exact risk against mean field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from .._config import Config

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Panel

THEORIES = ("exact", "mean field")
_GAP = 1e-9  # speeds below this share of the largest are shown as it


class FlowConfig(Config):
    """The setting and the grid; nothing here is random."""

    dim: int = Field(20, ge=4, description="token dimension d")
    length: int = Field(100, ge=2, description="number of tokens L")
    beta: float = Field(1.0, gt=0, description="inverse temperature β")
    token_std: float = Field(0.5**0.5, gt=0.1, lt=1, description="γ of the informative token")
    links: tuple[Literal["linear", "quadratic", "tanh", "erf"], ...] = Field(
        ("linear", "quadratic"), min_length=1, description="odd or even links, which keep M"
    )
    points: int = Field(15, ge=5, le=61, description="grid points a side")
    paths: int = Field(12, ge=1, le=60, description="starts of trajectories")


def run(config: FlowConfig) -> xarray.Dataset:
    """Velocity on `(link, theory, nu, kappa)`, and orbits."""
    import xarray

    from ...students import Overlaps, SoftmaxAttention
    from ...tasks import SingleLocation
    from ...theory import mean_field_risk, population_risk

    axis = np.linspace(-1, 1, config.points)
    kappa, nu = np.meshgrid(axis, axis)
    here = Overlaps(kappa, nu)
    shape = (len(config.links), len(THEORIES), *kappa.shape)
    u, v = np.empty(shape), np.empty(shape)
    angle = 2 * np.pi * (np.arange(config.paths) + 0.5) / config.paths
    starts = np.stack([0.25 * np.cos(angle), 0.25 * np.sin(angle)], axis=-1)
    paths = []
    for i, link in enumerate(config.links):
        task = SingleLocation(config.dim, config.length, token_std=config.token_std, link=link)
        student = SoftmaxAttention(config.beta, link)
        for j, risk in enumerate((population_risk(task, student), mean_field_risk(task, student))):
            slopes = risk.gradient(here)
            u[i, j] = -(1 - kappa**2) * np.asarray(slopes.kappa)
            v[i, j] = -(1 - nu**2) * np.asarray(slopes.nu)
            paths.append(_paths(axis, np.asarray(slopes.kappa), np.asarray(slopes.nu), starts))
    axes = ("link", "theory", "nu", "kappa")
    found = np.stack(paths).reshape(*shape[:2], *paths[0].shape)
    data: dict[str, Any] = {
        "velocity_kappa": (axes, u, {"long_name": "dκ/dt of the flow"}),
        "velocity_nu": (axes, v, {"long_name": "dν/dt of the flow"}),
        "path": (("link", "theory", "run", "arc", "coordinate"), found),
    }
    coords = {"link": list(config.links), "theory": list(THEORIES), "kappa": axis, "nu": axis}
    coords["coordinate"] = ["kappa", "nu"]
    attrs = {"dim": config.dim, "length": config.length, "beta": config.beta}
    return xarray.Dataset(data, coords, attrs)


def _paths(axis: np.ndarray, slope_k: Any, slope_n: Any, starts: np.ndarray) -> np.ndarray:
    """Orbits of the flow `(runs, arc, 2)` at unit speed, between grid points by interpolation: where
    the flow leads, not how long it takes."""
    from scipy.interpolate import RegularGridInterpolator

    slopes = RegularGridInterpolator(
        (axis, axis), np.stack([slope_k, slope_n], -1), bounds_error=False, fill_value=None
    )

    def direction(at: np.ndarray) -> np.ndarray:
        velocity = -(1 - at**2) * slopes(at[:, ::-1])
        size = np.linalg.norm(velocity, axis=1, keepdims=True)
        return velocity / np.where(size > 1e-300, size, np.inf)

    here, found = starts, [starts]
    for _ in range(260):
        middle = np.clip(here + 0.005 * direction(here), -1, 1)
        here = np.clip(here + 0.01 * direction(middle), -1, 1)
        found.append(here)
    return np.stack(found, axis=1)


def figure(dataset: xarray.Dataset) -> Figure:
    """One panel for each link and theory: speed as a map, directions, trajectories, corners."""
    from ...plotting.spec import Figure

    at = dataset.attrs
    panels = [
        _panel(dataset.sel(link=link, theory=theory), f"{link}, {theory}")
        for link in dataset.link.values
        for theory in dataset.theory.values
    ]
    return Figure(
        title="The gradient flow on the manifold M",
        panels=panels,
        columns=2,
        caption=(
            f"Softmax attention, d = {at['dim']}, L = {at['length']}, β = {at['beta']:g}. Colours: speed "
            "of the flow (log10); arrows: its direction; lines: where starts near the centre are led, "
            "whatever time it takes. The teacher is the corner (1, 1)."
        ),
        alt="Flow fields in the (κ, ν) square with trajectories to the corner (1, 1).",
    )


def _panel(part: xarray.Dataset, title: str) -> Panel:
    from ...plotting.spec import Arrows, Axis, Heat, Mark, Panel, Paths, Points

    kappa, nu = part.kappa.values, part.nu.values
    u, v = part.velocity_kappa.values, part.velocity_nu.values
    speed = np.hypot(u, v)
    shown = np.maximum(speed, _GAP * speed.max())
    x, y = np.meshgrid(kappa, nu)
    thin = (slice(1, None, 2), slice(1, None, 2))
    unit = np.maximum(speed, 1e-300)
    at_x, at_y, to_x, to_y = (part[thin].ravel() for part in (x, y, u / unit, v / unit))
    marks: list[Mark] = [
        Heat(kappa, nu, shown, "speed", log=True),
        Arrows(at_x, at_y, to_x, to_y, None, "theory"),
        Paths([(path[:, 0], path[:, 1]) for path in part.path.values], "orbits", 1),
        Points([1.0], [1.0], None, "teacher", 3),
    ]
    box = (-1.05, 1.05)
    return Panel(title, Axis("κ", limits=box), Axis("ν", limits=box), marks)
