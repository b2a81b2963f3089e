"""How ω and μ of each head move during training, for one or several numbers of heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from ..._core.interrupt import RunInterrupted
from .fields import Distinct, HeadCount
from .training import (
    TrainedConfig,
    TrainingConfig,
    at_the_end,
    balanced,
    course,
    partial_as,
    setting,
    shown_run,
    task_of,
    trained,
)

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark, Panel


class HeadCountsConfig(TrainingConfig):
    """Settings of trainings that differ in the number of heads."""

    heads: Distinct[HeadCount] = Field((2, 3, 4), min_length=1, description="numbers of heads H")


def run(config: TrainedConfig) -> xarray.Dataset:
    """The history of one training, `(run, step, head)`; attribute `shown`: the run of the figures."""
    with partial_as(lambda partial: described(partial, config)):
        history = trained(config).history
    return described(history, config)


def described(history: xarray.Dataset, config: TrainedConfig) -> xarray.Dataset:
    """The history with the means over the last tenth of it, and what captions say."""
    end = at_the_end(history)
    out = history.assign(
        {f"{name}_end": end[name] for name in ("omega", "mu", "risk", "risk_error")}
    )
    told = {"shown": shown_run(history), "setting": setting(config), "course": course(config)}
    return out.assign_attrs(told, dim=config.dim, best_risk=_debiased_risk(config))


def _debiased_risk(config: TrainedConfig) -> float:
    """The risk of one debiased gradient step, the best one, with the best preconditioner."""
    from ... import estimators

    task = task_of(config)
    gamma = estimators.optimal_preconditioner(task, debiased=True)
    risk = estimators.gradient_descent_risk(task, step=1.0, debiased=True, preconditioner=gamma)
    return float(risk)


def run_heads(config: HeadCountsConfig) -> xarray.Dataset:
    """The same for each number of heads, on `(n_heads, run, step, head)`; NaN for absent heads."""
    import xarray

    parts: list[xarray.Dataset] = []

    def together() -> xarray.Dataset:
        names = [*config.heads[: len(parts)]]
        kept = [part.drop_vars(["kq", "ov"]) for part in parts]
        joined = xarray.concat(
            kept, xarray.Variable("n_heads", names), join="outer", combine_attrs="drop_conflicts"
        )
        shown = ("n_heads", [int(part.attrs["shown"]) for part in parts])
        return joined.assign(shown=shown)

    for count in config.heads:
        try:
            part = run(config.training(n_heads=count))
        except RunInterrupted as interruption:
            if interruption.partial is not None:
                parts.append(_numbered(interruption.partial))
            interruption.partial = together() if parts else None
            raise
        parts.append(_numbered(part))
    return together()


def _numbered(history: xarray.Dataset) -> xarray.Dataset:
    # with a coordinate, histories of other numbers of heads are joined and not refused
    return history.assign_coords(head=np.arange(history.sizes["head"]))


def figure(dataset: xarray.Dataset) -> Figure:
    """ω and μ of each head of the shown run, and the risk of every run."""
    from ...plotting.spec import Axis, Figure, Panel, Paths, Rule

    shown = int(dataset.attrs["shown"])
    one = dataset.isel(run=shown)
    count = dataset.sizes["head"]
    x = thousands(dataset)
    risks = [(x, risk) for risk in dataset.risk.values]
    marks: list[Mark] = [
        Paths(risks, label="every run", role="reference"),
        Paths(risks[shown : shown + 1], label="run shown", role=0),
        Rule(dataset.attrs["best_risk"], label="best debiased GD", role="theory"),
    ]
    risk = Panel("Risk on test prompts", step_axis(), Axis("risk"), marks)
    return Figure(
        title=f"Training {heads_text(count)}",
        panels=[*_panels(one, x), risk],
        columns=3,
        caption=caption(dataset),
        alt=f"ω and μ of {heads_text(count)} against steps, and the risk of all runs.",
    )


def caption(dataset: xarray.Dataset) -> str:
    """What was trained, which run is shown, and where it ended."""
    shown = int(dataset.attrs["shown"])
    runs = dataset.sizes["run"]
    told = f"{dataset.attrs['setting']}. {dataset.attrs['course']}. "
    if dataset.sizes["head"] > 1:
        opposite = int(balanced(dataset.mu_end.values).sum())
        told += (
            f"{opposite} of {runs} runs ended with positive and negative heads that cancel; shown "
            f"is run {shown}. "
        )
    one = dataset.isel(run=shown)
    return (
        f"{told}At the end (mean of the last tenth) ω = {_listed(one.omega_end.values)}, "
        f"μ = {_listed(one.mu_end.values)}, Σ ωμ = {np.sum(one.omega_end * one.mu_end):.3f}."
    )


def figure_heads(dataset: xarray.Dataset) -> Figure:
    """One row for each number of heads: ω and μ of each head of its shown run."""
    from ...plotting.spec import Figure

    panels: list[Panel] = []
    ends = []
    for count in dataset.n_heads.values:
        one = dataset.sel(n_heads=count, head=slice(0, count - 1))
        one = one.isel(run=int(one.shown))
        panels += _panels(one, thousands(dataset), f"H = {count}: ")
        positive = one.mu_end.where(one.mu_end > 0)
        negative = one.mu_end.where(one.mu_end < 0)
        size = float(np.abs(one.omega_end * one.mu_end).sum() / np.abs(one.mu_end).sum())
        ends.append(
            f"H = {count}: |ω| {size:.3f}, μ₊ {float(positive.sum()):.2f}, "
            f"μ₋ {float(negative.sum()):.2f}"
        )
    return Figure(
        title="Training with different numbers of heads",
        panels=panels,
        columns=2,
        caption=(
            f"{dataset.attrs['setting']}. {dataset.attrs['course']}. The first run of "
            f"{dataset.sizes['run']} that ended with positive and negative heads. At the end "
            f"{'; '.join(ends)} (|ω| averaged with weights |μ|)."
        ),
        alt="For each number of heads, ω and μ of every head against steps.",
    )


def _panels(one: xarray.Dataset, x: np.ndarray, prefix: str = "") -> list[Panel]:
    from ...plotting.spec import Axis, Line, Panel

    drawn = []
    for name, symbol, told in (("omega", "ω", "KQ: ω"), ("mu", "μ", "OV: μ")):
        marks: list[Mark] = [
            Line(x, values, label=f"head {head}", role=head)
            for head, values in enumerate(one[name].values.T)
        ]
        drawn.append(Panel(f"{prefix}{told} of each head", step_axis(), Axis(symbol), marks))
    return drawn


def heads_text(count: int) -> str:
    """`1 head`, `2 heads`."""
    return f"{count} head" + ("s" if count > 1 else "")


def thousands(dataset: xarray.Dataset) -> np.ndarray:
    """The saved steps in thousands."""
    steps: np.ndarray = dataset.step.values / 1000
    return steps


def step_axis() -> Any:
    """The axis of steps in thousands."""
    from ...plotting.spec import Axis

    return Axis("step / 1000")


def _listed(values: np.ndarray) -> str:
    return "(" + ", ".join(f"{value:.2f}" for value in np.asarray(values)) + ")"
