"""The exact risk, the two mean-field risks and sampled prompts along paths of students."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from .._config import Config
from .exact import Sizes, Theory, risks_at

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark
    from ...students import Overlaps

_THEORIES: tuple[tuple[Theory, str], ...] = (
    ("exact", "exact"),
    ("mean field", "limit d → ∞"),
    ("refined", "refined"),
)


class CurvesConfig(Config):
    """A path of students towards the marker, and one of inverse temperatures, with samples."""

    length: int = Field(200, ge=8, le=5000, description="number of tokens L, sampled too")
    alpha: float = Field(0.2, gt=0.02, le=0.6, description="α = log L / d; d follows from L")
    larger: Annotated[float, Field(gt=1, le=40)] = Field(
        10.0, description="factor of d to the second size, at the same α, which is not sampled"
    )
    token_std: float = Field(0.5**0.5, ge=0.3, le=0.95, description="γ of the informative token")
    cold: float = Field(
        1.1, ge=0.4, le=3, description="β/β_c along the paths of κ: the condensed side is > 1"
    )
    warm: float = Field(0.7, ge=0.4, le=3, description="β/β_c of the second path of κ")
    nu: float = Field(0.6, ge=-1, le=1, description="v·v* along the path")
    misread: float = Field(
        0.5, ge=-1, le=1, description="ρ as a share of its largest value √((1-κ²)(1-ν²))"
    )
    points: int = Field(25, ge=5, le=400, description="points of each curve")
    samples: int = Field(4000, ge=100, description="sampled prompts per point")
    sampled_points: int = Field(7, ge=2, le=100, description="points that are sampled too")

    @model_validator(mode="after")
    def _two_paths(self) -> Self:
        if self.cold == self.warm:
            raise ValueError("with cold and warm different")
        return self


def path(kappa: np.ndarray, nu: float, misread: float) -> Overlaps:
    """Students with `k = κ k* + ...`, `v = ν v* + ...`, whose remainders share a direction."""
    from ...students import Overlaps

    rho = misread * np.sqrt((1 - kappa**2) * (1 - nu**2))
    return Overlaps(kappa, np.full_like(kappa, nu), rho=rho)


def run(config: CurvesConfig) -> xarray.Dataset:
    """`risk` on (theory, size, side, kappa) and `risk_by_beta` on (theory, size, beta); `sampled`
    with `sampled_error` at the smaller size."""
    import jax
    import xarray

    from ...students import SoftmaxAttention
    from ...tasks import SingleLocation
    from ...theory import monte_carlo_risk

    dim = max(4, round(math.log(config.length) / config.alpha))
    alpha = math.log(config.length) / dim
    critical = math.sqrt(2 * alpha)
    dims = np.array([dim, round(dim * config.larger)], float)
    sides = critical * np.array([config.warm, config.cold])
    kappas = np.linspace(0.0, 1.0, config.points)
    betas = critical * np.linspace(0.4, 2.0, config.points)
    along = path(kappas, config.nu, config.misread)
    tilted = path(np.array([0.5]), config.nu, config.misread)
    family = Sizes(dims[-1], alpha, betas[-1], config.token_std)
    by_kappa, by_beta = [], []
    for theory, _ in _THEORIES:
        # the paths' points are sizes here, so that both calls are one program
        def risks(beta: Any, students: Overlaps, theory: Theory = theory) -> np.ndarray:
            sizes = Sizes(dims[:, None], alpha, beta, config.token_std)
            return risks_at(sizes, students, theory, family=family)

        by_kappa.append(risks(sides, along))
        padded = path(np.full(config.points, 0.5), config.nu, config.misread)
        by_beta.append(risks(betas, padded)[..., 0])
    length = np.arange(config.sampled_points)
    index = np.unique(length * (config.points - 1) // (config.sampled_points - 1))
    task = SingleLocation(dim, config.length, token_std=config.token_std)
    key = jax.random.key(config.seed)
    shape = (len(sides) + 1, len(index))
    mean, error = np.empty(shape), np.empty(shape)
    for row, beta in enumerate(sides):
        student = SoftmaxAttention(float(beta))
        some = path(kappas[index], config.nu, config.misread)
        mean[row], error[row] = monte_carlo_risk(
            task, student, some, key=jax.random.fold_in(key, row), samples=config.samples
        )
    for column, beta in enumerate(betas[index]):
        student = SoftmaxAttention(float(beta))
        one = jax.random.fold_in(key, 100 + column)
        mean[-1:, column], error[-1:, column] = monte_carlo_risk(
            task, student, tilted, key=one, samples=config.samples
        )
    along_kappa = ("theory", "dim", "side", "kappa")
    data: dict[str, Any] = {
        "risk": (along_kappa, np.stack(by_kappa), {"long_name": "risk along κ"}),
        "risk_by_beta": (("theory", "dim", "beta"), np.stack(by_beta), {"long_name": "risk at κ = ½"}),
        "sampled": (("curve", "place"), mean, {"long_name": "risk by sampling"}),
        "sampled_error": (("curve", "place"), error, {"long_name": "its standard error"}),
    }  # fmt: skip
    coords = {
        "theory": [name for name, _ in _THEORIES], "dim": dims, "side": sides / critical,
        "kappa": kappas, "beta": betas, "curve": ["warm", "cold", "beta"], "place": index,
    }  # fmt: skip
    attrs = {
        "alpha": alpha, "critical": critical, "length": config.length, "nu": config.nu,
        "misread": config.misread, "token_std": config.token_std,
    }  # fmt: skip
    return xarray.Dataset(data, coords=coords, attrs=attrs)


def figure(dataset: xarray.Dataset) -> Figure:
    """Risks along κ on both sides of the transition and along β; relative errors of the theories."""
    from ...plotting.spec import Axis, Figure, Line, Panel, Points, Rule

    at, critical = dataset.attrs, dataset.attrs["critical"]
    c, index = math.sqrt(1 - at["token_std"] ** 2), dataset.place.values
    kappas, betas = dataset.kappa.values, dataset.beta.values
    labels: dict[str, str] = dict(_THEORIES)

    def curves(values: xarray.DataArray, x: np.ndarray, curve: str) -> list[Mark]:
        marks: list[Mark] = []
        for role, dim in enumerate(dataset.dim.values):
            for theory, dash in (("mean field", True), ("exact", False)):
                label = f"{labels[theory]}, d = {dim:.0f}"
                y = values.sel(theory=theory, dim=dim).values / dim
                marks.append(Line(x, y, label, role, dash=dash))
        small = float(dataset.dim[0])
        one = dataset.sel(curve=curve)
        marks.append(
            Points(x[index], one.sampled.values / small, one.sampled_error.values / small,
                   f"sampled, d = {small:.0f}", 0)
        )  # fmt: skip
        return marks

    panels = []
    y = Axis("risk / d")
    for side, curve in zip(dataset.side.values, ("warm", "cold")):
        beta = side * critical
        psi = (beta + critical**2 / beta) / 2 if side < 1 else critical
        marks = curves(dataset.risk.sel(side=side), kappas, curve)
        if psi < c:
            marks.append(Rule(psi / c, axis="x", label="cκ = ψ"))
        panels.append(Panel(f"β = {side:g} β_c", Axis("κ"), y, marks))
    marks = curves(dataset.risk_by_beta, betas / critical, "beta")
    marks.append(Rule(1.0, axis="x", label="β_c"))
    panels.append(Panel("κ = ½, against β", Axis("β/β_c"), y, marks))
    marks = []
    cold = dataset.risk.isel(side=-1)
    for role, dim in enumerate(dataset.dim.values):
        exact = cold.sel(theory="exact", dim=dim).values
        for theory, dash in (("mean field", True), ("refined", False)):
            gap = np.abs(cold.sel(theory=theory, dim=dim).values - exact) / exact
            shown = np.where(gap > 1e-15, gap, np.nan)
            marks.append(Line(kappas, shown, f"{labels[theory]}, d = {dim:.0f}", role, dash=dash))
    title = f"Relative error, β = {float(dataset.side[-1]):g} β_c"
    panels.append(Panel(title, Axis("κ"), Axis("|theory − exact| / exact", log=True), marks))
    return Figure(
        title="The risk and its mean-field theory along paths of students",
        panels=panels,
        caption=(
            f"L = {at['length']} tokens at the smaller d, α = {at['alpha']:.3f}, ν = {at['nu']:g}, "
            f"ρ = {at['misread']:g} √((1−κ²)(1−ν²)). The bulk, which the student reads where it looks, "
            "makes a risk of order d until the informative token takes over at cκ = ψ."
        ),
        alt="Risk per dimension against κ and β: exact, mean field, sampled; relative errors.",
    )
