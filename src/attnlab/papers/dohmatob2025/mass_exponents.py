"""At which exponential rate attention, or what is missing of it, vanishes as d grows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from .._config import Config
from .exact import LARGEST_SPREAD, Sizes, check_longest
from .masses import attention_at

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark
    from ...theory import AttentionMasses

_LEAST = 1e-290  # below, weights underflow
_GROWTH = 1.25  # d and 1.25 d give a local rate


class ExponentsConfig(Config):
    """Dimensions, length and two paths: κ in the dark phase, β in retrieval."""

    dims: tuple[Annotated[int, Field(ge=50, le=3000)], ...] = Field(
        (50, 200, 800), min_length=1, description="dimensions d"
    )
    alpha: float = Field(0.1, ge=0.05, le=0.4, description="α = log L / d")
    token_std: float = Field(0.5**0.5, ge=0.4, le=0.9, description="γ of the informative token")
    cooling: float = Field(1.2, ge=0.8, le=3, description="β/β_c on the path of κ")
    points: int = Field(24, ge=4, le=400, description="points of each path")

    @model_validator(mode="after")
    def _within_reach(self) -> Self:
        check_longest(self.alpha, _GROWTH * max(self.dims))
        return self


def local_rates(sizes: Sizes, kappa: Any, family: Sizes | None = None) -> dict[str, np.ndarray]:
    """`-d log(.)/dd` between d and 1.25 d of `E p`, `E (1-p)` and `E (1-p)²`, and
    `|E log(p/(1-p))|/d`, which is exact in closed form but for `E log Z`. NaN where a weight underflows."""
    dim = np.asarray(sizes.dim, np.float64)
    grown = sizes._replace(dim=_GROWTH * dim)
    found = [attention_at(one, kappa, family=family) for one in (sizes, grown)]

    def rate(name: str) -> np.ndarray:
        values = (getattr(one, name) for one in found)
        first, second = (np.log(np.where(value > _LEAST, value, np.nan)) for value in values)
        return (first - second) / ((_GROWTH - 1) * dim)

    logits = [_logit(one, at, kappa) for one, at in zip(found, (sizes, grown))]
    typical = np.abs(logits[1] - logits[0]) / ((_GROWTH - 1) * dim)
    return {
        "mass": rate("mass"), "missing": rate("missing"),
        "missing_square": rate("missing_square"), "typical": typical,
    }  # fmt: skip


def _logit(found: AttentionMasses, sizes: Sizes, kappa: Any) -> np.ndarray:
    """`E log(p/(1-p))`: the mean of the informative token's logit minus `E log Z`."""
    dim = np.asarray(sizes.dim, np.float64)
    return np.asarray(sizes.beta * dim * sizes.signal * kappa - found.log_partition)


def run(config: ExponentsConfig) -> xarray.Dataset:
    """Local rates on (dim, kappa) in the dark phase and on (dim, beta) at κ = 1, with the rates of
    large deviations and that of the printed sigmoid."""
    import xarray

    from ... import theory

    alpha, std = config.alpha, config.token_std
    critical, signal = math.sqrt(2 * alpha), math.sqrt(1 - std**2)
    dims = np.array(config.dims, float)[:, None]
    beta = config.cooling * critical
    psi = float(theory.free_energy(beta, alpha))
    kappas = np.linspace(-0.5, 0.9 * min(1.0, psi / signal), config.points)
    cold = max(2.2 * 2 * signal / (1 + std**2), 1.5 * critical)
    betas = np.linspace(0.6 * critical, cold, config.points)
    reach = LARGEST_SPREAD / np.sqrt(_GROWTH * dims)
    family = Sizes(_GROWTH * dims.max(), alpha, float(min(cold, reach.min())), std)
    dark = local_rates(Sizes(dims, alpha, beta, std), kappas, family)
    good = (betas <= reach) & (betas * np.sqrt(dims) * std > 0.72)
    held = np.where(good, betas, np.minimum(1.2 * critical, reach))
    bright = local_rates(Sizes(dims, alpha, held, std), 1.0, family)
    bright = {name: np.where(good, rate, np.nan) for name, rate in bright.items()}
    at = (kappas, beta, signal)
    along = (1.0, betas, signal)
    data: dict[str, Any] = {
        "mass": (("dim", "kappa"), dark["mass"], {"long_name": "local rate of E p"}),
        "dark_typical": (("dim", "kappa"), dark["typical"]),
        "mass_rate": ("kappa", theory.mass_rate(*at, std, alpha)),
        "dark_printed": ("kappa", theory.typical_rate(*at, alpha)),
        "missing": (("dim", "beta"), bright["missing"], {"long_name": "local rate of E (1-p)"}),
        "missing_square": (("dim", "beta"), bright["missing_square"]),
        "typical": (("dim", "beta"), bright["typical"]),
        "missing_rate": ("beta", theory.missing_mass_rate(*along, std, alpha)),
        "missing_square_rate": ("beta", theory.missing_mass_rate(*along, std, alpha, 2.0)),
        "printed": ("beta", theory.typical_rate(*along, alpha)),
    }
    coords = {"dim": list(config.dims), "kappa": kappas, "beta": betas}
    attrs = {"alpha": alpha, "token_std": std, "dark_beta": beta, "critical": critical}
    return xarray.Dataset(data, coords=coords, attrs=attrs)


def figure(dataset: xarray.Dataset) -> Figure:
    """Local rates beside the two predictions: dark phase, retrieval, typical prompts."""
    from ...plotting.spec import Axis, Figure, Line, Panel, Rule

    kappas, betas = dataset.kappa.values, dataset.beta.values
    panels = []
    for title, name, axis, x, right, printed in (
        ("Dark phase: E p", "mass", Axis("κ"), kappas, "mass_rate", "dark_printed"),
        ("Retrieval: E (1 − p)", "missing", Axis("β"), betas, "missing_rate", "printed"),
        ("Retrieval: E (1 − p)²", "missing_square", Axis("β"), betas, "missing_square_rate", ""),
        ("Retrieval: typical prompt", "typical", Axis("β"), betas, "", "printed"),
    ):
        marks: list[Mark] = []
        for role, dim in enumerate(dataset.dim.values.tolist()):
            marks.append(Line(x, dataset[name].sel(dim=dim).values, f"d = {dim}", role))
        if right:
            marks.append(Line(x, dataset[right].values, "large deviations", "theory", dash=True))
        if printed:
            label = "printed sigmoid"
            marks.append(Line(x, dataset[printed].values, label, "reference", dash=True))
        if axis.label == "β":
            marks.append(Rule(dataset.attrs["critical"], axis="x", label="β_c", role=5))
        y = Axis("|E log(p/(1−p))| per d" if name == "typical" else "rate per d")
        panels.append(Panel(title, axis, y, marks))
    return Figure(
        title="How fast attention is lost or completed",
        panels=panels,
        caption=(
            f"Exact local rates between d and {_GROWTH:g} d, α = {dataset.attrs['alpha']:g}, dark "
            f"phase at β = {dataset.attrs['dark_beta']:.2f}. The printed sigmoid is right for the "
            "typical prompt; the means are made by rare prompts and vanish more slowly."
        ),
        alt="Four panels of exponential rates, exact and predicted.",
    )
