"""Where the oracle finds the informative token: exact attention against the mean-field boundaries.

On the plane of length `α = log L / d` and noise `γ²` attention is taken at its best `β`; on the
plane of `α` and `β` the noise is fixed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from ..._core.search import interior_minimum
from .._config import Config
from .exact import LARGEST_BETA, LARGEST_SPREAD, Sizes, oracle_family, oracle_mass

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark

_NAMES = ("mass", "risk", "mass_at", "risk_at")
NARROWEST = 0.75  # least standard deviation of the informative logit, for the exact risk's lattice


class PhaseConfig(Config):
    """Two planes on which the oracle's exact attention and risk are computed, at several sizes."""

    dims: tuple[Annotated[int, Field(ge=4, le=1000)], ...] = Field(
        (10, 30, 100, 300), min_length=1, description="dimensions d"
    )
    points: int = Field(30, ge=4, le=200, description="points per axis of each plane")
    temperatures: int = Field(
        12, ge=2, le=100, description="inverse temperatures β tried for the best one"
    )
    largest_alpha: float = Field(0.6, gt=0, le=0.6, description="largest α = log L / d")
    token_std: float = Field(
        0.5**0.5, ge=0.3, le=0.95, description="γ of the informative token on the plane of α and β"
    )


def run(config: PhaseConfig) -> xarray.Dataset:
    """The largest `mass` = E p and the least `risk`/γ² of the oracle over β on (dim, alpha, noise);
    as `mass_at`, `risk_at`, both on (dim, alpha, beta) at fixed γ. NaN where `L < 2` or β is out of
    reach. Where `mass_inside` or `risk_inside` is false, the best β is an end of those tried and the
    value a bound: at least, and at most.
    """
    import xarray

    count = config.points
    alphas = np.linspace(config.largest_alpha / count, config.largest_alpha, count)
    noise = np.linspace(0.1, 0.95, count)
    betas = np.linspace(0.2, LARGEST_BETA, count)
    found: dict[str, list[np.ndarray]] = {name: [] for name in _NAMES}
    inside: dict[str, list[np.ndarray]] = {"mass": [], "risk": []}
    for dim in config.dims:
        root = math.sqrt(dim)
        reach = min(LARGEST_BETA, LARGEST_SPREAD / root)
        family = oracle_family(dim)
        std = np.sqrt(noise)[:, None]
        steps = np.linspace(0.0, 1.0, config.temperatures)
        low = NARROWEST / (std * root)
        tried = low * (np.maximum(reach, 1.1 * low) / low) ** steps
        mass, risk = mass_and_risk(Sizes(dim, alphas[:, None, None], tried, std), family)
        risk = risk / noise[:, None]
        unknown = ~np.isfinite(risk)
        least = interior_minimum(tried, np.where(unknown, np.nan, risk))
        most = interior_minimum(tried, np.where(unknown, np.nan, -mass))
        found["mass"].append(-most.value)
        found["risk"].append(least.value)
        inside["mass"].append(most.inside)
        inside["risk"].append(least.inside)
        reachable = (betas <= reach) & (betas * root * config.token_std >= NARROWEST)
        kept = np.where(reachable, betas, np.nan)
        mass, risk = mass_and_risk(Sizes(dim, alphas[:, None], kept, config.token_std), family)
        found["mass_at"].append(mass)
        found["risk_at"].append(risk / config.token_std**2)
    plane, other = ("dim", "alpha", "noise"), ("dim", "alpha", "beta")
    data: dict[str, Any] = {
        "mass": (
            plane,
            np.stack(found["mass"]),
            {"long_name": "largest E p of the oracle over the β tried"},
        ),
        "risk": (plane, np.stack(found["risk"]), {"long_name": "least risk/γ² over the β tried"}),
        "mass_at": (other, np.stack(found["mass_at"]), {"long_name": "E p of the oracle at β"}),
        "risk_at": (other, np.stack(found["risk_at"]), {"long_name": "risk/γ² at β"}),
    }
    for name, told in inside.items():
        text = "whether that β lies inside of those tried"
        data[f"{name}_inside"] = (plane, np.stack(told), {"long_name": text})
    for name, axis in (("mass", "noise"), ("mass_at", "beta")):
        data[f"half_{name}"] = (("dim", axis), half(alphas, data[name][1]))
    coords = {"dim": list(config.dims), "alpha": alphas, "noise": noise, "beta": betas}
    return xarray.Dataset(data, coords=coords, attrs={"token_std": config.token_std})


def mass_and_risk(sizes: Sizes, family: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """`oracle_mass` with NaN where `L < 2` or β is NaN."""
    shape, rows = sizes.shape, sizes.rows()
    # two tokens are two, though α = log 2 / d rounds either way
    least = math.log(2) * (1 - 1e-12)
    good = np.isfinite(rows[:, 2]) & (rows[:, 0] * rows[:, 1] >= least)
    rows[:, 1] = np.maximum(rows[:, 1], math.log(2) * (1 + 1e-15) / rows[:, 0])
    mass, risk = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    if good.any():
        mass[good], risk[good] = oracle_mass(Sizes(*rows[good].T), family=family)
    return mass.reshape(shape), risk.reshape(shape)


def half(alphas: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """The α at which `mass[dim, α, other]` falls through one half, linear in the log-odds between points."""
    found = np.full((mass.shape[0], mass.shape[2]), np.nan)
    for index in np.ndindex(*found.shape):
        column = np.clip(mass[index[0], :, index[1]], 1e-12, 1 - 1e-12)
        odds = np.log(column / (1 - column))
        below = np.flatnonzero((odds[1:] < 0) & (odds[:-1] >= 0))
        if below.size:
            i = below[0]
            share = odds[i] / (odds[i] - odds[i + 1])
            found[index] = alphas[i] + share * (alphas[i + 1] - alphas[i])
    return found


def figure(dataset: xarray.Dataset) -> Figure:
    """Attention mass and risk on both planes, with the half-mass contours of all sizes."""
    from ...plotting.spec import Axis, Figure, Heat, Line, Panel

    largest = dataset.isel(dim=-1)
    dim, alphas, betas = int(largest.dim), dataset.alpha.values, dataset.beta.values
    x = Axis("α = log L / d", limits=(0.0, float(alphas[-1])))
    noise, signal2 = dataset.noise.values, 1 - dataset.attrs["token_std"] ** 2
    low = Axis("noise γ²", limits=(float(noise[0]), float(noise[-1])))
    high = Axis("inverse temperature β", limits=(float(betas[0]), float(betas[-1])))

    learnable = Line((1 - noise) / 2, noise, "1 − γ² = 2α", "theory", dash=True)
    c = math.sqrt(signal2)
    edge = np.where(betas < c, betas * (c - betas / 2), signal2 / 2)
    edge = np.where((edge > 0) & (edge <= alphas[-1]), edge, np.nan)
    retrieval = Line(edge, betas, "c = ψ(β)", "theory", dash=True)
    critical = np.linspace(float(betas[0]), min(math.sqrt(2 * alphas[-1]), float(betas[-1])), 60)
    condensed = Line(critical**2 / 2, critical, "β = β_c", "reference", dash=True)

    def contours(name: str, axis: np.ndarray) -> list[Mark]:
        lines: list[Mark] = []
        for role, size in enumerate(dataset.dim.values.tolist()):
            label = f"E p = ½, d = {size}"
            lines.append(Line(dataset[name].sel(dim=size).values, axis, label, role))
        return lines

    def heat(name: str, axis: np.ndarray, label: str) -> Heat:
        limits = (0.0, 1.0) if name.startswith("mass") else (0.0, 1.5)
        return Heat(alphas, axis, largest[name].values.T, label, limits=limits)

    risk = "risk of the oracle / γ²"
    panels = [
        Panel(f"Attention, best β (map: d = {dim})", x, low,
              [heat("mass", noise, "E p"), learnable, *contours("half_mass", noise)]),
        Panel(f"Attention at γ² = {1 - signal2:.2g}", x, high,
              [heat("mass_at", betas, "E p"), retrieval, condensed, *contours("half_mass_at", betas)]),
        Panel(f"Risk at the best β, d = {dim}", x, low, [heat("risk", noise, risk), learnable]),
        Panel(f"Risk at γ² = {1 - signal2:.2g}, d = {dim}", x, high,
              [heat("risk_at", betas, risk), retrieval, condensed]),
    ]  # fmt: skip
    return Figure(
        title="Which prompts are learnable",
        panels=panels,
        caption=(
            "Exact attention mass on the informative token and exact risk of the oracle, linear "
            "link; on the left each at the best β of those tried, from 0.75/(γ√d) to 2.5 (99/√d if "
            "less), which may be an end: the mass is at least that, the risk at most. Black dashed: the limit d → ∞, which the contours "
            "of finite d approach. In units of γ² the risk is 0 where the token is found and 1 for "
            "the answer 0."
        ),
        alt="Four maps over α: attention mass and risk, with theoretical and exact boundaries.",
    )
