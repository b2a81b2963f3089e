"""Softmax attention with other links: profiles of the exact risk, M, and the teacher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from .._config import Config

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure


class LinksConfig(Config):
    """The setting; `seed` draws the points of M."""

    dim: int = Field(20, ge=4, description="token dimension d")
    length: int = Field(20, ge=2, description="number of tokens L")
    beta: float = Field(1.0, gt=0, description="inverse temperature β")
    links: tuple[Literal["linear", "quadratic", "tanh", "erf", "relu"], ...] = Field(
        ("linear", "quadratic", "tanh", "erf", "relu"), min_length=1, description="links"
    )
    points: int = Field(21, ge=5, le=201, description="points of a profile")
    manifold_points: int = Field(16, ge=1, description="points of M at which slopes are taken")


_STEP = 1e-4


def run(config: LinksConfig) -> xarray.Dataset:
    """Profiles of the risk on `(link, ...)`, slopes off M, and the teacher's gradient and Hessian."""
    import jax
    import xarray

    from ...students import Overlaps
    from .checks_links import link_risk, teacher_hessian

    key = jax.random.key(config.seed)
    on_m = 0.9 * np.asarray(Overlaps.on_manifold(key, 8, runs=config.manifold_points).stack())
    pushes = _STEP * np.concatenate([np.eye(5)[2:], -np.eye(5)[2:]])
    around = (on_m[:, None] + pushes).reshape(-1, 5)
    kappa = np.linspace(-1, 1, config.points)
    angle = np.linspace(-1.2, 1.2, config.points)
    zero = np.zeros_like(kappa)
    diagonal = np.stack([kappa, kappa, zero, zero, zero], -1)
    # k turned from k* towards v: κ = cos, η = ρ = sin
    turned = np.stack([np.cos(angle), zero + 1, zero, np.sin(angle), np.sin(angle)], -1)
    everything = np.concatenate([diagonal, turned, around])
    data: dict[str, list[Any]] = {
        name: [] for name in ("diagonal", "turned", "off", "low", "slope")
    }
    for link in config.links:
        risk = link_risk(link, config.dim, config.length, config.beta)
        values = np.asarray(risk(Overlaps.unstack(everything)))
        data["diagonal"].append(values[: config.points])
        data["turned"].append(values[config.points : 2 * config.points])
        near = values[2 * config.points :].reshape(-1, 2, 3)
        data["off"].append(np.abs(near[:, 0] - near[:, 1]).max(axis=0) / (2 * _STEP))
        low, slope = teacher_hessian(risk)
        data["low"].append(low)
        data["slope"].append(slope)
    return xarray.Dataset(
        {
            "diagonal_risk": (("link", "kappa"), np.stack(data["diagonal"])),
            "turned_risk": (("link", "angle"), np.stack(data["turned"])),
            "slope_off_manifold": (("link", "direction"), np.stack(data["off"])),
            "smallest_eigenvalue": ("link", data["low"]),
            "teacher_slope": ("link", data["slope"]),
        },
        {
            "link": list(config.links),
            "kappa": kappa,
            "angle": angle,
            "direction": ["theta", "eta", "rho"],
        },
        {"dim": config.dim, "length": config.length, "beta": config.beta},
    )


def figure(dataset: xarray.Dataset) -> Figure:
    """Profiles of the risk, slopes off M, and what the teacher is for each link."""
    from ...plotting.spec import Axis, Bars, Figure, Line, Mark, Panel, Rule

    links = [str(link) for link in dataset.link.values]
    along: list[Mark] = []
    turned: list[Mark] = []
    for number, link in enumerate(links):
        row = dataset.sel(link=link)
        along.append(Line(dataset.kappa.values, row.diagonal_risk.values, link, number))
        middle = np.interp(0.0, dataset.angle.values, row.turned_risk.values)
        turned.append(Line(dataset.angle.values, row.turned_risk.values - middle, link, number))
    turned.append(Rule(0.0, axis="x", label="teacher"))
    names = {"theta": "θ", "eta": "η", "rho": "ρ"}
    slopes: list[Mark] = [
        Bars(links, dataset.slope_off_manifold.sel(direction=name).values, None, f"|∂R/∂{text}|", i)
        for i, (name, text) in enumerate(names.items())
    ]
    teacher: list[Mark] = [
        Bars(links, dataset.smallest_eigenvalue.values, None, "smallest eigenvalue", 0),
        Bars(links, dataset.teacher_slope.values, None, "gradient norm", 1),
    ]
    at = dataset.attrs
    return Figure(
        title="Links: is M invariant, does the teacher attract?",
        panels=[
            Panel("On M along κ = ν", Axis("κ = ν"), Axis("R"), along),
            Panel(
                "k turned towards v by φ", Axis("φ (radians)"),
                Axis("R − R(teacher)", limits=(-0.05, 0.6)), turned,
            ),
            Panel("Largest slopes off M", Axis(""), Axis("slope"), slopes),
            Panel("At the teacher", Axis(""), Axis("Hessian, gradient"), teacher),
        ],
        caption=(
            f"Exact risk of softmax attention, d = {at['dim']}, L = {at['length']}, β = {at['beta']:g}, the "
            "same link in task and student. Odd and even links keep M and have the teacher as a minimum; "
            "ReLU does neither at finite size, and its minimum lies at φ < 0."
        ),
        alt="Risk profiles on M and around the teacher, slopes off M, eigenvalues at the teacher.",
    )  # fmt: skip
