"""One head: its exact and its approximate loss over ω with the best μ, and both minimisers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from .fields import LARGEST_DIM, LARGEST_GRID, LARGEST_LENGTH, Distinct
from .least_risk import best_single
from .one_head import one_head
from .theory_setting import NoiseConfig, in_words, named, swept

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark

_RISKS = tuple((value, f"{value:g}") for value in (0.1, 0.2, 0.3, 0.5, 1.0))
TRAINED = (0.52, 1.42)  # ω and μ of the paper's trained head at d = 5, L = 40


class SingleHeadConfig(NoiseConfig):
    """Lengths at which one head is minimised; nothing here is sampled."""

    dim: int = Field(5, ge=1, le=LARGEST_DIM, description="dimension d of the covariates")
    lengths: Distinct[Annotated[int, Field(ge=3, le=LARGEST_LENGTH)]] = Field(
        (5, 7, 10, 14, 20, 28, 40, 57, 80, 113, 160, 320, 640, 1280, 2560),
        min_length=1,
        description="numbers of examples L",
    )
    omega_max: float = Field(1.2, gt=0, le=2, description="largest ω")
    points: int = Field(80, ge=8, le=LARGEST_GRID, description="values of ω")


def limit_of_omega(dim: int, noise: float) -> float:
    """The exact minimiser as `L → ∞` at fixed `d`: of `(1+σ²)F/u + G` over `u = ω² < 1/2`, with
    `F = (1-2u)^{-d/2}` and `G = (1-2u)^{-d/2-1}`, the order `1/L` of the risk at `μω = 1`."""
    from scipy.optimize import minimize_scalar

    def order(u: float) -> float:
        return (1 - 2 * u) ** (-dim / 2) * ((1 + noise) / u + 1 / (1 - 2 * u))

    found: Any = minimize_scalar(order, bounds=(1e-6, 0.5 - 1e-6), method="bounded")
    return math.sqrt(float(found.x))


def run(config: SingleHeadConfig) -> xarray.Dataset:
    """Least risks over μ on `(length, omega)`, exact and approximate; both minimisers on `length`."""
    import xarray

    from ...theory import optimal_effective_step, optimal_outputs, single_head_minimiser

    ground = 1 + config.noise_var
    omega = np.linspace(0, config.omega_max, config.points + 1)[1:]

    def at(length: int) -> tuple[Any, ...]:
        task = config.task(config.dim, length)
        exact = one_head(task, omega).least(config.noise_var)[0]
        approximate = np.asarray(optimal_outputs(task, omega[:, None]).value)
        head = single_head_minimiser(task)
        pair = float(np.asarray(head.omega)[0]), float(np.asarray(head.mu)[0])
        least = float(optimal_outputs(task, head.omega).value)
        # two small heads do what debiased gradient descent does
        two = ground - optimal_effective_step(task) * (1 - 1 / length)
        return exact, approximate, *best_single(task), *pair, least, two

    def together(found: list[Any]) -> xarray.Dataset:
        names = ("exact", "approximate", "exact_omega", "exact_mu", "exact_least",
                 "approximate_omega", "approximate_mu", "approximate_least", "two_heads")  # fmt: skip
        data: dict[str, Any] = {}
        for name, column in zip(names, zip(*found, strict=True), strict=True):
            values = np.array(column)
            data[name] = (("length", "omega")[: values.ndim], values)
        coords = {"length": list(config.lengths[: len(found)]), "omega": omega}
        limit = limit_of_omega(config.dim, config.noise_var)
        attrs = {"dim": config.dim, "noise_var": config.noise_var, "omega_limit": limit}
        return xarray.Dataset(data, coords=coords, attrs=attrs)

    return swept("one head", config.lengths, at, together)


def figure(dataset: xarray.Dataset) -> Figure:
    """The loss over ω at three lengths; the best ω, the best μ and the least loss against L."""
    from ...plotting.spec import Axis, Figure, Line, Panel, Points, Rule

    omega, lengths = dataset.omega.values, dataset.length.values
    over: list[Mark] = []
    for number, at in enumerate(_three(lengths)):
        row = dataset.isel(length=at)
        over.append(Line(omega, row.exact.values, f"L = {lengths[at]}", number))
        over.append(Line(omega, row.approximate.values, None, number, dash=True))
        over.append(Points([row.exact_omega], [row.exact_least], None, None, number))
    x = Axis("length L", log=True, ticks=named(lengths))
    dim = dataset.attrs["dim"]

    def against(name: str) -> list[Mark]:
        return [
            Line(lengths, dataset[f"exact_{name}"].values, "exact", "theory"),
            Line(lengths, dataset[f"approximate_{name}"].values, "approximate", 1, dash=True),
        ]

    best_omega, best_mu = against("omega"), against("mu")
    limit = dataset.attrs["omega_limit"]
    best_omega.append(Rule(limit, label=f"exact, L → ∞: {limit:.3f}"))
    if dim == 5 and dataset.attrs["noise_var"] == 0.1:
        best_omega.append(Points([40], [TRAINED[0]], None, "trained, he2025", 2))
        best_mu.append(Points([40], [TRAINED[1]], None, "trained, he2025", 2))
    least = against("least")
    least.append(Line(lengths, dataset.two_heads.values, "two small heads, exact", 0))
    return Figure(
        title="One head: a kernel regressor with a width that depends on L",
        panels=[
            Panel(
                "Least loss over μ: exact (solid), approximate (dashed)",
                Axis("ω"),
                Axis("risk"),
                over,
            ),
            Panel("Best ω", x, Axis("ω"), best_omega),
            Panel("Best μ", x, Axis("μ"), best_mu),
            Panel("Least loss", x, Axis("risk", log=True, ticks=_RISKS), least),
        ],
        caption=(
            f"{in_words(dataset.attrs)}; computed, not sampled. Dots: the exact minima. The "
            "approximate loss has its minimum at ω = 1/√d for every L. In the exact one |p|² cannot "
            "exceed 1, so that large ω costs less: the best kernel is narrower at small L, and for "
            "L → ∞ it is the one that the order 1/L of the risk prefers."
        ),
        alt="The loss of one head over ω, and its minimiser and minimum against the length.",
    )


def _three(lengths: np.ndarray) -> list[int]:
    """Places of lengths near 10, 40 and 160."""
    return sorted({int(np.argmin(np.abs(np.log(lengths / at)))) for at in (10, 40, 160)})
