"""The oracle's exact attention at many points of the phase diagram, for sweeps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .exact import LARGEST_BETA, LARGEST_SPREAD, Sizes, check_longest, oracle_family
from .phase_diagram import NARROWEST, half, mass_and_risk

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure


def attention(dim: int, alpha: Any, beta: Any, token_std: Any = 0.5**0.5) -> dict[str, Any]:
    """`mass` = E p of the oracle and its `risk`/γ², at arrays of `α = log L / d` and `β`; one `d`.

    NaN where `L < 2`, and where `β` is so large or small at this `d` that the exact risk does not
    take it: `β√d > 99`, `γβ√d < 0.75`.
    """
    alpha, beta = np.asarray(alpha, np.float64), np.asarray(beta, np.float64)
    check_longest(float(np.max(alpha)), dim)
    root = math.sqrt(dim)
    reach = min(LARGEST_BETA, LARGEST_SPREAD / root)
    within = (beta <= reach) & (beta * root * token_std >= NARROWEST)
    sizes = Sizes(dim, alpha, np.where(within, beta, np.nan), token_std)
    mass, risk = mass_and_risk(sizes, oracle_family(dim))
    return {"mass": mass, "risk": risk / np.asarray(token_std) ** 2}


def figure(dataset: xarray.Dataset) -> Figure:
    """For each dimension the map of the mass, with the boundaries of the limit `d → ∞`."""
    from ... import records
    from ...plotting.spec import Axis, Figure, Heat, Line, Mark, Panel

    alphas, betas = dataset.alpha.values, dataset.beta.values
    x = Axis("α = log L / d", limits=(0.0, float(alphas[-1])))
    y = Axis("inverse temperature β", limits=(float(betas[0]), float(betas[-1])))
    noise = records.config_of(dataset)["settings"].get("token_std", 0.5**0.5) ** 2
    c = math.sqrt(1 - noise)
    edge = np.where(betas < c, betas * (c - betas / 2), c**2 / 2)
    edge = np.where((edge > 0) & (edge <= alphas[-1]), edge, np.nan)
    panels = []
    for size in np.atleast_1d(dataset.dim.values).tolist():
        mass = dataset.mass.sel(dim=size).transpose("alpha", "beta").values
        found = half(alphas, mass[None])[0]
        marks: list[Mark] = [
            Heat(alphas, betas, mass.T, "E p", limits=(0.0, 1.0)),
            Line(edge, betas, "c = ψ(β), d → ∞", "theory", dash=True),
            Line(found, betas, "E p = ½", 0),
        ]
        panels.append(Panel(f"d = {size}", x, y, marks))
    return Figure(
        title="Where the oracle attends",
        panels=panels,
        columns=min(3, len(panels)),
        caption=(
            f"Exact attention mass on the informative token at γ² = {noise:.2g} and finite d; "
            "dashed: the boundary of the limit."
        ),
        alt="One map of the attention mass over α and β for each dimension, with its contour at ½.",
    )
