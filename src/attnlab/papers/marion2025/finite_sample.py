"""Training on n fixed prompts: what is fitted and what is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field, field_validator

from .._config import Config

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure


class FiniteSampleConfig(Config):
    """Settings of the training on fixed prompts."""

    dim: int = Field(100, ge=4, description="token dimension d")
    length: int = Field(10, ge=1, description="number of tokens L")
    scale: float = Field(0.15, ge=1e-4, le=100, description="λ")
    n_prompts: tuple[int, ...] = Field(
        (100, 300, 1000, 3000), min_length=1, description="sizes of the training set"
    )
    step_size: float = Field(4e-2, gt=0, description="step size of the descent")
    steps: int = Field(3000, ge=0, description="number of full-batch steps")
    runs: int = Field(5, ge=1, description="starts on M, each with prompts of its own")

    @field_validator("n_prompts")
    @classmethod
    def _positive(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) < len(value) or min(value) < 1:
            raise ValueError("different integers >= 1")
        return value


def run(config: FiniteSampleConfig) -> xarray.Dataset:
    """`kappa`, `nu`, `risk` (population), `training_risk` on `(n_prompts, run, step)`; `teacher`."""
    import jax
    import xarray

    from ...dynamics import empirical_gradient_descent
    from ...students import Overlaps, PointwiseAttention
    from ...tasks import SingleLocation
    from ...theory import population_risk

    task = SingleLocation(config.dim, config.length)
    student = PointwiseAttention("erf", config.scale)
    start_key, data_key = jax.random.split(jax.random.key(config.seed))
    start = Overlaps.on_manifold(start_key, config.dim, runs=config.runs)
    names = ["kappa", "nu", "theta", "eta", "rho", "risk", "training_risk", "status"]
    parts = [
        empirical_gradient_descent(
            task,
            student,
            start,
            n_prompts=n,
            step_size=config.step_size,
            steps=config.steps,
            save_every=max(1, config.steps // 40),
            key=data_key,
        )[names]
        for n in config.n_prompts
    ]
    data = xarray.concat(parts, xarray.Variable("n_prompts", list(config.n_prompts)))
    risk = population_risk(task, student)
    data.attrs.update(
        dim=config.dim, length=config.length, scale=config.scale, teacher=risk.teacher
    )
    return data


def figure(dataset: xarray.Dataset) -> Figure:
    """Population and training risk against the size of the training set, and the paths."""
    from ...plotting.marks import spread
    from ...plotting.spec import Axis, Figure, Line, Panel, Rule

    n = dataset.n_prompts.values
    last = dataset.isel(step=-1)
    ends = [
        *spread(n, last.risk.values.T, "population", "population"),
        *spread(n, last.training_risk.values.T, "training", "training"),
        Rule(dataset.attrs["teacher"], label="teacher"),
    ]
    overlaps = [
        *spread(n, np.abs(last.kappa.values).T, "|κ|", "kappa"),
        *spread(n, np.abs(last.nu.values).T, "|ν|", "nu"),
    ]
    paths = [
        Line(dataset.step.values / 1000, np.median(dataset.risk.values[i], 0), f"n = {size}", i)
        for i, size in enumerate(n)
    ]
    size_axis = Axis("number of prompts n", log=True)
    return Figure(
        title="Training on n fixed prompts",
        panels=[
            Panel("Risk at the end", size_axis, Axis("R"), ends),
            Panel("Overlaps at the end", size_axis, Axis("|κ|, |ν|", limits=(0, 1.05)), overlaps),
            Panel("Population risk", Axis("step / 1000"), Axis("R (median)"), paths),
        ],
        columns=3,
        caption=(
            f"Full-batch projected gradient descent from M, d = {dataset.attrs['dim']}, L = "
            f"{dataset.attrs['length']}, λ = {dataset.attrs['scale']:g}, {dataset.sizes['run']} "
            "runs; medians with 10-90 % bands over starts and prompts."
        ),
        alt="Risk and overlaps at the end against n, and the population risk along training.",
    )
