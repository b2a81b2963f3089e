"""Several tasks on the same covariates: how one to four heads share them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .dynamics import described, heads_text
from .heatmaps import circuits_at
from .training import TrainedConfig, balanced, partial_as, task_of, trained

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark

_WORDS = {
    "I": "one weighted kernel regressor",
    "II": "one weighted debiased gradient step",
    "III": "heads of its own for each task",
    "IV": "superposition",
    "mixing": "tasks use each other's labels",
    "none": "no mode",
}


def run(config: TrainedConfig) -> xarray.Dataset:
    """The history of the training and, at its end, for each run: the diagonals `omega_end` `(run,
    head, coordinate)`, `mu_end`, the `step` of each task on each coordinate, its `leak` outside of
    the supports, and the `mode` (I to IV)."""
    with partial_as(lambda partial: _described(partial, config)):
        history = trained(config).history
    return _described(history, config)


def _described(history: xarray.Dataset, config: TrainedConfig) -> xarray.Dataset:
    import jax

    from ...circuits import diagnose
    from ...estimators import independent_tasks_risk

    task = task_of(config)
    data = described(history, config)
    found = [
        diagnose(circuits_at(data, run=run), task=task, key=jax.random.key(config.seed), prompts=10)
        for run in range(data.sizes["run"])
    ]
    tasks = [each.tasks for each in found if each.tasks is not None]
    leak = np.array([np.sqrt(np.mean(np.square(each.leak))) for each in tasks])
    usable = np.asarray(data.status.values == "ok")
    if config.n_heads > 1:
        sums = balanced(np.swapaxes(data.mu_end.values, 1, 2))
        usable = usable & sums.all(-1) if (usable & sums.all(-1)).any() else usable
    data = data.drop_vars("omega_end").assign(
        omega_end=(
            ("run", "head", "coordinate"),
            [each.circuits.omega_diagonal for each in found],
            {"long_name": "diagonal of KQ at the last step"},
        ),
        step_size=(
            ("run", "output", "coordinate"),
            [each.step for each in tasks],
            {"long_name": "effective step of a task on a coordinate"},
        ),
        leak=("run", leak, {"long_name": "steps outside of the supports over those inside"}),
        mode=("run", [each.mode for each in tasks]),
        support=(("output", "coordinate"), task.support_mask),
    )
    return data.assign_attrs(
        coefficients=config.coefficients,
        shown=int(np.argmin(np.where(usable, leak, np.inf))),
        independent_risk=float(independent_tasks_risk(task)),
    )


def figure(dataset: xarray.Dataset) -> Figure:
    """Figures 15 to 18: the circuits, the diagonals and read-outs, and the steps that result."""
    from ...circuits import diagnose
    from ...plotting.circuits import circuit_panels
    from ...plotting.spec import Axis, Bars, Figure, Panel

    count = dataset.sizes["head"]
    one = dataset.isel(run=int(dataset.attrs["shown"]))
    coordinates = [str(place) for place in range(dataset.sizes["coordinate"])]
    diagonals: list[Mark] = [
        Bars(coordinates, values, label=f"head {head}", role=head)
        for head, values in enumerate(one.omega_end.values)
    ]
    steps: list[Mark] = [
        Bars(coordinates, values, label=f"task {number}", role=number)
        for number, values in enumerate(one.step_size.values)
    ]
    entry = Axis("coordinate")
    panels = [
        *circuit_panels(diagnose(circuits_at(dataset))),
        Panel("Diagonals of KQ", entry, Axis("ω"), diagonals),
        Panel("What they amount to", entry, Axis("effective step Σ μω"), steps),
    ]
    return Figure(
        title=f"Two tasks, {heads_text(count)}" if dataset.sizes["output"] == 2
        else f"{dataset.sizes['output']} tasks, {heads_text(count)}",
        panels=panels,
        columns=2 if len(panels) == 4 else 3,
        caption=_caption(dataset),
        alt=f"Circuits of {heads_text(count)}, their diagonals, and the steps of each task.",
    )  # fmt: skip


def _caption(dataset: xarray.Dataset) -> str:
    shown = int(dataset.attrs["shown"])
    one = dataset.isel(run=shown)
    supports = "; ".join(
        f"task {number} reads " + ", ".join(str(place) for place in np.flatnonzero(row))
        for number, row in enumerate(dataset.support.values)
    )
    modes = [str(mode) for mode in dataset.mode.values]
    counted = ", ".join(
        f"{modes.count(mode)} × {mode} ({_WORDS[mode]})" for mode in _WORDS if mode in modes
    )
    read_outs = "; ".join(
        f"head {head} " + ", ".join(f"{value:.2f}" for value in row)
        for head, row in enumerate(one.mu_end.values)
    )
    return (
        f"{dataset.attrs['setting']}; {supports}; {dataset.attrs['coefficients']} β. {dataset.attrs['course']}. Modes of the "
        f"{len(modes)} runs: {counted}. Shown is run {shown}, whose steps leak least out of the "
        f"supports ({float(one.leak):.2f}). Its μ: {read_outs}. Its risk {float(one.risk_end):.3f} "
        f"± {float(one.risk_error_end):.3f}; independent debiased gradient steps: "
        f"{dataset.attrs['independent_risk']:.3f}."
    )
