"""How far two small opposite heads are from one step of debiased gradient descent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from .fields import LARGEST_COUNT, LARGEST_DIM, LARGEST_LENGTH, Distinct
from .theory_setting import SizeConfig, in_words, named, swept

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Panel

_BATCH = 2**22  # numbers drawn at once
Dims = Distinct[Annotated[int, Field(ge=3, le=LARGEST_DIM)]]
Lengths = Distinct[Annotated[int, Field(ge=3, le=LARGEST_LENGTH)]]
VARIED = ("gamma", "dim", "length")


class SmallHeadsConfig(SizeConfig):
    """What is varied around one setting; the distances are sampled."""

    gamma: float = Field(0.02, gt=0, le=1, description="γ while d or L varies")
    gammas: Distinct[Annotated[float, Field(ge=1e-4, le=1)]] = Field(
        (0.005, 0.01, 0.02, 0.04, 0.08, 0.13, 0.2, 0.3), min_length=1, description="sizes γ"
    )
    dims: Dims = Field((3, 5, 8, 12, 20, 32, 50), min_length=1, description="dimensions d")
    lengths: Lengths = Field((10, 20, 40, 80, 160, 320), min_length=1, description="lengths L")
    samples: int = Field(100_000, ge=100, le=LARGEST_COUNT, description="prompts for each setting")


def distance(task: Any, gamma: float, samples: int, rng: Any) -> tuple[float, float]:
    """`E(ŷ_heads - ŷ_GD)²` over `η²` and its standard error, `η = 2γμ` the step of both.

    Given `r = |x_q|` and the context's projections `s` on `x_q` the averages over everything else
    are known: with `δ` the difference of the weights, `((d-1)/d + σ²) |δ|² + (s·δ)²/d`.
    """
    d = task.dim
    squares = []
    batch = max(1, _BATCH // task.length)
    for start in range(0, samples, batch):
        count = min(batch, samples - start)
        s = rng.standard_normal((count, task.length))
        r = np.sqrt(rng.chisquare(d, count))[:, None]
        weights = [np.exp(sign * gamma * r * s) for sign in (1, -1)]
        up, down = (w / w.sum(-1, keepdims=True) for w in weights)
        centred = r * (s - s.mean(-1, keepdims=True))
        delta = (up - down) / (2 * gamma) - centred / task.length
        along, size = np.sum(s * delta, -1), np.sum(delta**2, -1)
        squares.append(((d - 1) / d + task.noise_std**2) * size + along**2 / d)
    every = np.concatenate(squares)
    return float(every.mean()), float(every.std() / np.sqrt(samples))


def run(config: SmallHeadsConfig) -> xarray.Dataset:
    """The root mean square distance over the step `η`, its standard error and its leading term, on
    `setting`; both predictors are proportional to `η`."""
    import xarray

    from ...theory import small_heads_distance

    base = {"gamma": config.gamma, "dim": config.dim, "length": config.length}
    values = {"gamma": config.gammas, "dim": config.dims, "length": config.lengths}
    settings = [(name, base | {name: value}) for name in VARIED for value in sorted(values[name])]

    def at(item: tuple[int, tuple[str, dict[str, Any]]]) -> tuple[float, ...]:
        number, (_, setting) = item
        task = config.task(setting["dim"], setting["length"])
        rng = np.random.default_rng([config.seed, number])
        square, error = distance(task, setting["gamma"], config.samples, rng)
        root = np.sqrt(square)
        leading = float(np.sqrt(small_heads_distance(task, setting["gamma"], step=1.0)))
        return root, error / (2 * root), leading

    def together(found: list[Any]) -> xarray.Dataset:
        done = settings[: len(found)]
        root, error, leading = np.array(found).T
        data: dict[str, Any] = {
            "distance": ("setting", root, {"long_name": "root mean square distance / η"}),
            "distance_error": ("setting", error, {"long_name": "standard error"}),
            "leading": ("setting", leading, {"long_name": "leading term in γ"}),
            "varied": ("setting", [name for name, _ in done]),
        }
        data |= {name: ("setting", [setting[name] for _, setting in done]) for name in VARIED}
        attrs = {**{f"fixed_{k}": v for k, v in base.items()}, "noise_var": config.noise_var}
        return xarray.Dataset(data, attrs=attrs)

    return swept("small heads", enumerate(settings), at, together)


def figure(dataset: xarray.Dataset) -> Figure:
    """The distance against γ, d and L; and over its leading term, for all settings."""
    from ...plotting.spec import Axis, Figure, Panel, Points, Rule

    panels = [_panel(dataset, name) for name in VARIED if (dataset.varied.values == name).any()]
    collapse: list[Any] = []
    for number, name in enumerate(VARIED):
        part = _part(dataset, name)
        if part.sizes["setting"]:
            ratio = part.distance.values / part.leading.values
            error = part.distance_error.values / part.leading.values
            x = part.gamma.values * np.sqrt(part.dim.values)
            collapse.append(Points(x, ratio, error, f"varied: {_NAMES[name][0]}", number))
    collapse.append(Rule(1.0))
    x_axis = Axis("γ √d", log=True)
    panels.append(Panel("Distance over its leading term", x_axis, Axis("ratio"), collapse))
    attrs = dataset.attrs
    return Figure(
        title="Two small heads are debiased gradient descent up to O(γ²)",
        panels=panels,
        caption=(
            f"Heads (γ, −γ), μ = (1, −1) η/2γ, and the step η, {in_words(attrs)}; where not varied, "
            f"γ = {attrs['fixed_gamma']:g}, d = {attrs['fixed_dim']}, L = {attrs['fixed_length']}. "
            "Root mean square distance of the predictions; sampled, with standard errors. Lines: "
            "the leading term in γ, exact at every d and L."
        ),
        alt="Log-log plots of the distance against γ, d and L beside straight lines; the ratio to "
        "the leading term is near 1 for small γ √d.",
    )


_NAMES = {"gamma": ("γ", "size γ", 2), "dim": ("d", "dimension d", 1.5),
          "length": ("L", "length L", -0.5)}  # fmt: skip


def _part(dataset: xarray.Dataset, name: str) -> xarray.Dataset:
    return dataset.isel(setting=np.flatnonzero(dataset.varied.values == name))


def _panel(dataset: xarray.Dataset, name: str) -> Panel:
    from ...plotting.spec import Axis, Line, Panel, Points

    part = _part(dataset, name)
    x = part[name].values
    sign, words, power = _NAMES[name]
    guide = part.leading.values[-1] * (x / x[-1]) ** power
    marks: list[Any] = [
        Points(x, part.distance.values, part.distance_error.values, "sampled", 0),
        Line(x, part.leading.values, "leading term", "theory"),
        Line(x, guide, f"slope {power:g}", "reference", dash=True),
    ]
    y = Axis("rms distance / η", log=True)
    return Panel(f"Against {sign}", Axis(words, log=True, ticks=named(x)), y, marks)
