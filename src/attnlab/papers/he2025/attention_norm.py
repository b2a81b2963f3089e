"""How the squared norm of the attention weights, `|p|²`, is distributed as the length grows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from .._config import Config
from .fields import LARGEST_COUNT, LARGEST_DIM, LARGEST_LENGTH, Distinct
from .one_head import one_head
from .theory_setting import swept

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Panel

REGIMES = ("fixed", "proportional", "scaled")
_BATCH = 2**22
Lengths = Distinct[Annotated[int, Field(ge=8, le=LARGEST_LENGTH)]]


class NormConfig(Config):
    """The three regimes of the figure, and how many prompts are drawn in each."""

    dim: int = Field(5, ge=1, le=LARGEST_DIM, description="dimension d while it is fixed")
    lengths: Lengths = Field((40, 160, 640, 2560), min_length=1, description="lengths L")
    ratio: float = Field(0.125, gt=0, le=10, description="d/L in proportion")
    omega: float = Field(0.5, gt=0, le=1, description="ω while it is fixed")
    kappa: float = Field(0.25, gt=0, le=100, description="κ of the scaled ω = √(κ log(L)/d)")
    samples: int = Field(
        100_000, ge=100, le=LARGEST_COUNT, description="prompts for each length and regime"
    )
    bins: int = Field(60, ge=10, le=10_000, description="bins of a density")


def setting_of(config: NormConfig, regime: str, length: int) -> tuple[int, float]:
    """`d` and `ω`."""
    if regime == "fixed":
        return config.dim, config.omega
    dim = max(1, round(config.ratio * length))
    scaled = math.sqrt(config.kappa * math.log(length) / dim)
    return dim, config.omega if regime == "proportional" else scaled


def sampled_norms(dim: int, length: int, omega: float, samples: int, rng: Any) -> np.ndarray:
    """`|p|²` of `p = softmax(ω X x_q)` on fresh prompts: given `|x_q|` the scores are Gaussian."""
    found = []
    batch = max(1, _BATCH // length)
    for start in range(0, samples, batch):
        count = min(batch, samples - start)
        radius = np.sqrt(rng.chisquare(dim, count))[:, None]
        scores = omega * radius * rng.standard_normal((count, length), np.float32)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        found.append(np.sum(weights**2, -1) / np.sum(weights, -1) ** 2)
    return np.concatenate(found)


def run(config: NormConfig) -> xarray.Dataset:
    """On `(regime, length)`: exact and sampled mean, quantiles; densities of `log10 |p|²`."""
    import xarray

    from ...tasks import InContextRegression

    edges = np.linspace(-math.log10(max(config.lengths)), 0, config.bins + 1)
    quantiles = (0.05, 0.5, 0.95)
    settings = [(regime, length) for regime in REGIMES for length in sorted(config.lengths)]

    def at(item: tuple[int, tuple[str, int]]) -> tuple[Any, ...]:
        number, (regime, length) = item
        dim, omega = setting_of(config, regime, length)
        rng = np.random.default_rng([config.seed, number])
        norms = sampled_norms(dim, length, omega, config.samples, rng)
        count, _ = np.histogram(np.log10(norms), edges)
        density = count / (config.samples * np.diff(edges))
        exact = float(one_head(InContextRegression(dim, length), [omega]).norm[0])
        error = norms.std() / math.sqrt(config.samples)
        return dim, omega, exact, norms.mean(), error, np.quantile(norms, quantiles), density

    def together(found: list[Any]) -> xarray.Dataset:
        done = settings[: len(found)]
        names = (
            "dim",
            "omega",
            "mean",
            "sampled_mean",
            "sampled_mean_error",
            "quantiles",
            "density",
        )
        axes = {"quantiles": ("setting", "quantile"), "density": ("setting", "bin")}
        data: dict[str, Any] = {
            name: (axes.get(name, ("setting",)), np.array(column))
            for name, column in zip(names, zip(*found, strict=True), strict=True)
        }
        data |= {
            "regime": ("setting", [regime for regime, _ in done]),
            "length": ("setting", [length for _, length in done]),
        }
        coords = {"quantile": list(quantiles), "bin": (edges[1:] + edges[:-1]) / 2}
        attrs = {"ratio": config.ratio, "kappa": config.kappa, "samples": config.samples}
        return xarray.Dataset(data, coords=coords, attrs=attrs)

    return swept("norms", enumerate(settings), at, together)


def figure(dataset: xarray.Dataset) -> Figure:
    """A density for each length in each regime; means and quantiles against the length."""
    from ...plotting.spec import Axis, Band, Figure, Line, Panel, Points

    panels = [_panel(dataset, regime) for regime in REGIMES if (dataset.regime == regime).any()]
    marks: list[Any] = []
    for number, regime in enumerate(REGIMES):
        part = _part(dataset, regime)
        if part.sizes["setting"]:
            x = part.length.values
            low, high = part.quantiles.sel(quantile=[0.05, 0.95]).values.T
            marks += [
                Band(x, low, high, None, number),
                Line(x, part["mean"].values, _WORDS[regime][0], number),
                Points(x, part.sampled_mean.values, part.sampled_mean_error.values, None, number),
            ]
    panels.append(
        Panel(
            "Mean and 5-95 % range",
            Axis("length L", log=True),
            Axis("|p|²", log=True),
            marks,
            "Lines: exact E|p|². Dots: sampled means.",
        )
    )
    attrs = dataset.attrs
    return Figure(
        title="How concentrated attention is: the law of |p|²",
        panels=panels,
        caption=(
            f"p = softmax(ω X x_q) on {attrs['samples']} prompts for each curve; dashed: the exact "
            f"E|p|². In proportion d/L = {attrs['ratio']:g}; scaled: ω² = {attrs['kappa']:g} log(L)/d. "
            "1/L is a uniform average, 1 a single example that takes all."
        ),
        alt="Densities of |p|²: at fixed d they move to 0 as L grows; in proportion at fixed ω they "
        "spread towards 1; with scaled ω they move to 0 again.",
    )


_WORDS = {"fixed": ("fixed d and ω", "(a) Fixed d"), "proportional": ("d ∝ L, fixed ω", "(b) In proportion, fixed ω"),
          "scaled": ("d ∝ L, scaled ω", "(c) In proportion, scaled ω")}  # fmt: skip


def _part(dataset: xarray.Dataset, regime: str) -> xarray.Dataset:
    return dataset.isel(setting=np.flatnonzero(dataset.regime.values == regime))


def _panel(dataset: xarray.Dataset, regime: str) -> Panel:
    from ...plotting.spec import Axis, Line, Panel, Rule

    part = _part(dataset, regime)
    centre = 10**part.bin.values
    marks: list[Any] = []
    for number in range(part.sizes["setting"]):
        row = part.isel(setting=number)
        words = f"L = {int(row.length)}, d = {int(row.dim)}, ω = {float(row.omega):.2g}"
        marks.append(Line(centre, row.density.values, words, number))
        marks.append(Rule(float(row["mean"]), "x", None, number))
    y = Axis("density in log10 |p|²")
    return Panel(_WORDS[regime][1], Axis("|p|²", log=True), y, marks)
