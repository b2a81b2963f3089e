"""Stochastic gradient descent with fresh batches and a decreasing scale, from the spheres."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from ..._core.interrupt import RunInterrupted
from .descent import DescentConfig, complete, schedule
from .descent import figure as descent_figure

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure

_SAVES = 400
CLOSE = 0.05  # single-batch noise keeps the vectors about 0.01 away from the teacher


class StochasticConfig(DescentConfig):
    """Settings of a training with fresh batches."""

    dim: int = Field(80, ge=4, description="token dimension d")
    noise_std: float = Field(0.1, ge=0, description="label noise ε")
    start: Literal["manifold", "sphere"] = Field("sphere", description="where runs start")
    scale: float = Field(2.0, ge=1e-4, le=100, description="λ at step 0")
    scale_decay: float = Field(1e-4, ge=0, description="λ is scale / (1 + scale_decay · step)")
    step_size: float = Field(1e-3, gt=0, description="step size of the descent")
    steps: int = Field(200_000, ge=0, description="number of steps")
    batch_size: int = Field(5, ge=1, description="fresh prompts a step")


def run(config: StochasticConfig) -> xarray.Dataset:
    """The variables of the descent experiments, along stochastic trajectories."""
    return _trajectories(config).copy()


@lru_cache(maxsize=4)  # the claim about them looks at the same
def _trajectories(config: StochasticConfig) -> xarray.Dataset:
    import jax

    from ... import dynamics
    from ...students import Overlaps, PointwiseAttention
    from ...tasks import SingleLocation
    from ...theory import population_risk

    task = SingleLocation(
        config.dim, config.length, token_std=config.token_std, noise_std=config.noise_std
    )
    student = PointwiseAttention("erf", config.scale)
    start_key, batch_key = jax.random.split(jax.random.key(config.seed))
    draw = Overlaps.on_manifold if config.start == "manifold" else Overlaps.on_sphere

    def finish(dataset: Any) -> xarray.Dataset:
        from ...dynamics.dataset import overlaps_of
        from .end_states import end_states

        risk = population_risk(task, student)
        out = complete(dataset, risk, task, config)
        last = np.asarray(overlaps_of(dataset, step=-1).stack())
        final = risk.at_scale(float(dataset.scale.values[0, -1]))
        out["kind"] = ("run", end_states(final, last, close=CLOSE))
        out.attrs["batch_size"] = config.batch_size
        return out

    try:
        dataset = dynamics.stochastic_gradient_descent(
            task,
            student,
            draw(start_key, config.dim, runs=config.runs),
            step_size=config.step_size,
            steps=config.steps,
            batch_size=config.batch_size,
            key=batch_key,
            save_every=max(1, config.steps // _SAVES),
            scale_schedule=schedule(config.scale, config.scale_decay)
            if config.scale_decay
            else None,
        )
    except RunInterrupted as interruption:
        if interruption.partial is not None:
            interruption.partial = finish(interruption.partial)
        raise
    return finish(dataset)


def figure(dataset: xarray.Dataset) -> Figure:
    """The panels of the descent experiments."""
    drawn = descent_figure(dataset)
    batch = dataset.attrs["batch_size"]
    return replace(
        drawn,
        title=drawn.title.replace("Descent", "SGD"),
        caption=f"Fresh batches of {batch} prompts. {drawn.caption}",
        alt=drawn.alt.replace("descents", "stochastic descents"),
    )
