"""Training on n fixed prompts: what is fitted, what is learned, and how many prompts it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from .._config import Config

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure
    from ...students import Overlaps


class FiniteSampleConfig(Config):
    """Settings of the training on fixed prompts."""

    dim: int = Field(20, ge=4, description="token dimension d")
    lengths: tuple[Annotated[int, Field(ge=1, le=10_000)], ...] = Field(
        (5, 20), min_length=1, description="numbers of tokens L"
    )
    ratios: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (2.0, 6.0, 20.0), min_length=1, description="prompts per dimension n/d"
    )
    beta: float = Field(1.0, gt=0, description="inverse temperature β")
    step_size: float = Field(0.05, gt=0, description="step size of the descent")
    steps: int = Field(800, ge=1, description="number of full-batch steps")
    runs: int = Field(
        8, ge=1, le=10_000, description="starts on M with κ >= 0, each with its own prompts"
    )


def ahead(key: Any, dim: int, runs: int) -> Overlaps:
    """Starts on M, turned round where `κ < 0`: those are on the plateau for exponential times."""
    from ...students import Overlaps

    start = Overlaps.on_manifold(key, dim, runs=runs)
    return Overlaps(np.abs(np.asarray(start.kappa)), start.nu)


def run(config: FiniteSampleConfig) -> xarray.Dataset:
    """Overlaps, population `risk` and `training_risk` on `(length, ratio, run, step)`."""
    import jax
    import xarray

    from ...dynamics import empirical_gradient_descent
    from ...students import SoftmaxAttention
    from ...tasks import SingleLocation
    from ...theory import population_risk

    start_key, data_key = jax.random.split(jax.random.key(config.seed))
    start = ahead(start_key, config.dim, config.runs)
    student = SoftmaxAttention(config.beta)
    names = ["kappa", "nu", "theta", "eta", "rho", "risk", "training_risk", "status"]
    tasks = [SingleLocation(config.dim, length) for length in config.lengths]
    rows = [
        xarray.concat(
            [
                empirical_gradient_descent(
                    task,
                    student,
                    start,
                    n_prompts=max(1, round(ratio * config.dim)),
                    step_size=config.step_size,
                    steps=config.steps,
                    save_every=max(1, config.steps // 20),
                    key=data_key,
                )[names]
                for ratio in config.ratios
            ],
            xarray.Variable("ratio", list(config.ratios)),
        )
        for task in tasks
    ]
    data = xarray.concat(rows, xarray.Variable("length", list(config.lengths)))
    data["teacher_risk"] = ("length", [population_risk(task, student).teacher for task in tasks])
    data.attrs.update(dim=config.dim, beta=config.beta)
    return data


def figure(dataset: xarray.Dataset) -> Figure:
    """Test and training risk at the end against n/d, and the paths of the longest prompts."""
    from ...plotting.spec import Axis, Figure, Line, Mark, Panel, Points, Rule

    ratios = dataset.ratio.values
    last = dataset.isel(step=-1)
    excess: list[Mark] = []
    fit: list[Mark] = []
    reached: list[Mark] = []
    for number, length in enumerate(dataset.length.values):
        row, text = last.sel(length=length), f"L = {length}"
        over = row.risk.values - float(row.teacher_risk)
        excess += [
            Line(ratios, np.median(over, axis=-1), text, number),
            Points(np.repeat(ratios, over.shape[-1]), over.ravel(), None, None, number),
        ]
        fit.append(Line(ratios, np.median(row.risk.values, -1), f"test, {text}", number))
        fit.append(
            Line(ratios, np.median(row.training_risk.values, -1), f"training, {text}", number, dash=True)
        )  # fmt: skip
        reached.append(Line(ratios, np.median(row.kappa.values, -1), f"κ, {text}", number))
        reached.append(Line(ratios, np.median(row.nu.values, -1), f"ν, {text}", number, dash=True))
    x = Axis("prompts per dimension n/d", log=True)
    longest = dataset.isel(length=-1)
    paths: list[Mark] = [
        Line(dataset.step.values, np.median(longest.risk.values[i], 0), f"n/d = {ratio:g}", i)
        for i, ratio in enumerate(ratios)
    ]
    paths.append(Rule(float(longest.teacher_risk), label="teacher"))
    return Figure(
        title="Softmax attention trained on n fixed prompts",
        panels=[
            Panel("Test risk above the teacher's", x, Axis("R − R(teacher)", log=True), excess),
            Panel("Test and training risk", x, Axis("risk (median)"), fit),
            Panel("Overlaps at the end", x, Axis("κ, ν (median)"), reached),
            Panel(f"Test risk, L = {int(longest.length)}", Axis("step"), Axis("R (median)"), paths),
        ],
        caption=(
            f"Full-batch projected gradient descent, linear link, d = {dataset.attrs['dim']}, β = "
            f"{dataset.attrs['beta']:g}, starts on M with κ >= 0; {dataset.sizes['run']} runs with "
            "prompts of their own. Test risks are exact population risks."
        ),
        alt="Four panels: excess test risk, training risk and overlaps against n/d, and test risk "
        "along training.",
    )
