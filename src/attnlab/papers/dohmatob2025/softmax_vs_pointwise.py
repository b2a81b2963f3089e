"""Softmax and erf attention trained on the same prompts, each at its own best scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from ..._core.errors import InvalidArgument
from ..._core.search import interior_minimum
from .._config import Config

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure

STUDENTS = ("softmax", "erf")


# of erf attention; that of long prompts is small
_SCALES = np.concatenate([np.geomspace(1e-4, 0.019, 64), np.geomspace(0.02, 5.0, 64)])


class BudgetConfig(Config):
    """The task and the budget, the same for both students."""

    dim: int = Field(40, ge=4, description="token dimension d")
    lengths: tuple[Annotated[int, Field(ge=2, le=100_000)], ...] = Field(
        (5, 50), min_length=1, description="numbers of tokens L"
    )
    batch_size: int = Field(16, ge=1, description="fresh prompts a step")
    steps: int = Field(1000, ge=1, description="steps")
    step_sizes: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = Field(
        (2e-2, 2e-2),
        description="step sizes of softmax and of erf attention; the latter times 5/L for L > 5",
    )
    runs: int = Field(
        8, ge=1, le=10_000, description="starts, uniform on the spheres, the same for both"
    )


def best_students(dim: int, length: int) -> tuple[Any, Any]:
    """Softmax and erf attention at the scales where the teacher's exact risk is smallest.

    Raises `InvalidArgument` where one of them is beyond the scales tried.
    """
    from ...students import Overlaps, PointwiseAttention, SoftmaxAttention
    from ...tasks import SingleLocation
    from ...theory import population_risk
    from .exact import Sizes, risks_at

    betas = np.geomspace(1.5, 20.0, 32) / np.sqrt(dim)
    exact = risks_at(Sizes(dim, np.log(length) / dim, betas), Overlaps.teacher())
    scales = _SCALES
    task = SingleLocation(dim, length)
    ones, zeros = np.ones_like(scales), np.zeros_like(scales)
    plain = population_risk(task, PointwiseAttention("erf", 1.0))
    pointwise = np.asarray(plain(Overlaps(ones, ones, zeros, zeros, zeros), scales))
    best = interior_minimum(betas, exact), interior_minimum(scales, pointwise)
    if not (best[0].inside and best[1].inside):
        allowed = f"a number for which the best scales are inside of those tried at d = {dim}"
        raise InvalidArgument("lengths", length, allowed)
    return SoftmaxAttention(float(best[0].at)), PointwiseAttention("erf", float(best[1].at))


def run(config: BudgetConfig) -> xarray.Dataset:
    """Overlaps and exact risk on `(length, student, run, step)`, and the teachers' risks."""
    import jax
    import xarray

    from ...dynamics import stochastic_gradient_descent
    from ...students import Overlaps
    from ...tasks import SingleLocation
    from ...theory import population_risk

    start_key, data_key = jax.random.split(jax.random.key(config.seed))
    start = Overlaps.on_sphere(start_key, config.dim, runs=config.runs)
    rows, teachers, scales = [], [], []
    for length in config.lengths:
        task = SingleLocation(config.dim, length)
        students = best_students(config.dim, length)
        parts = []
        for student, size in zip(students, config.step_sizes, strict=True):
            # the noise of erf attention grows with L: its steps shrink accordingly
            fair = size if student is students[0] else size * min(1.0, 5 / length)
            parts.append(
                stochastic_gradient_descent(
                    task,
                    student,
                    start,
                    step_size=fair,
                    steps=config.steps,
                    batch_size=config.batch_size,
                    key=data_key,
                    save_every=max(1, config.steps // 40),
                )
            )
        rows.append(xarray.concat(parts, xarray.Variable("student", list(STUDENTS))))
        teachers.append([population_risk(task, student).teacher for student in students])
        scales.append([float(part.scale.values[0, 0]) for part in parts])
    data = xarray.concat(rows, xarray.Variable("length", list(config.lengths)))
    data["teacher_risk"] = (("length", "student"), teachers)
    data["best_scale"] = (("length", "student"), scales)
    data.attrs.update(dim=config.dim, batch_size=config.batch_size)
    return data


def figure(dataset: xarray.Dataset) -> Figure:
    """Learning curves of both students for each length."""
    from ...plotting.marks import spread
    from ...plotting.spec import Axis, Figure, Mark, Panel, Rule

    batch = dataset.attrs["batch_size"]
    panels = []
    for length in dataset.length.values:
        marks: list[Mark] = []
        for number, name in enumerate(STUDENTS):
            row = dataset.sel(length=length, student=name)
            marks += spread(dataset.step.values * batch / 1000, row.risk.values, name, number)
            marks.append(Rule(float(row.teacher_risk), label=f"teacher, {name}", role=number))
        panels.append(
            Panel(
                f"L = {length}",
                Axis("prompts seen / 1000"),
                Axis("population risk", log=True),
                marks,
            )
        )
    return Figure(
        title="Softmax against pointwise attention on the same budget",
        panels=panels,
        caption=(
            f"Projected SGD with {batch} fresh prompts a step, d = {dataset.attrs['dim']}, linear link, the same "
            f"{dataset.sizes['run']} uniform starts; each student at the scale that is best for its teacher. "
            "Medians with 10-90 % bands; exact population risks."
        ),
        alt="Learning curves of softmax and erf attention for each prompt length.",
    )  # fmt: skip
