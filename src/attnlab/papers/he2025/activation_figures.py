"""Figures of the training with normalised activations: circuits, dynamics, lengths, the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .dynamics import step_axis, thousands
from .lengths import noise_rule

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark, Panel


def figure(dataset: xarray.Dataset) -> Figure:
    """Figure 8: the circuits of both heads at the end, one row for each activation."""
    from ...plotting.spec import Axis, Figure, Heat, Panel
    from .heatmaps import circuits_at, strips

    rows, names = [], []
    for name in dataset.activation.values:
        one = dataset.sel(activation=name)
        rows.append(circuits_at(one, run=int(one.shown)))
        names.append(str(one.label.values))
    read = np.concatenate([row.effective_ov[:, 0] for row in rows])
    entries, places = np.arange(read.shape[1]), np.arange(len(read))
    limit = float(np.abs(read).max()) or 1.0
    heat = Heat(entries, places, read, "output", diverging=True, limits=(-limit, limit))
    labels = [*map(str, entries[:-1]), "y"]
    ov = Panel(
        "OV, both heads of each",
        Axis("attended entry", ticks=tuple(zip(map(float, entries), labels))),
        Axis(
            "", limits=(len(read) - 0.5, -0.5),
            ticks=tuple((2 * place + 0.5, name) for place, name in enumerate(names)),
        ),
        [heat],
    )  # fmt: skip
    return Figure(
        title="Circuits of two heads with normalised activations",
        panels=[*strips(rows, names, read_outs=False), ov],
        caption=(
            f"{dataset.attrs['setting']}. {dataset.attrs['course']}. Last saved step; of each "
            "activation the first run that ended with opposite heads. All KQ on the same colours."
        ),
        alt="Heatmaps of KQ and OV of both heads for each activation.",
    )


def figure_dynamics(dataset: xarray.Dataset) -> Figure:
    """Figure 9: ω and μ of both heads against steps, one row for each family of activations."""
    from ...plotting.spec import Axis, Figure, Line, Panel

    x = thousands(dataset)
    panels: list[Panel] = []
    for family, members in _families(dataset).items():
        for name, symbol in (("omega", "ω"), ("mu", "μ")):
            marks: list[Mark] = []
            for role, member in enumerate(members):
                one = dataset.sel(activation=member)
                values = one[name].isel(run=int(one.shown)).values
                for head in (0, 1):
                    label = str(one.label.values) if head == 0 else None
                    marks.append(Line(x, values[:, head], label=label, role=role))
            panels.append(Panel(f"{family}: {symbol}", step_axis(), Axis(symbol), marks))
    return Figure(
        title="Training with normalised activations",
        panels=panels,
        columns=2,
        caption=(
            f"Two heads. {dataset.attrs['setting']}. {dataset.attrs['course']}. All start from the "
            "same weights and see the same prompts; of each the first run that ended with opposite "
            "heads."
        ),
        alt="ω and μ of both heads against steps for each activation.",
    )


def _families(dataset: xarray.Dataset) -> dict[str, list[str]]:
    """Activations by the row they are drawn in."""
    titles = {"affine": "f = 1 + Cx", "squared": "f = (1 + Cx)²"}
    rows: dict[str, list[str]] = {}
    for name in map(str, dataset.activation.values):
        kind = name.partition("-")[0]
        rows.setdefault(titles.get(kind, "exp and 1 + tanh"), []).append(name)
    return rows


def figure_lengths(dataset: xarray.Dataset) -> Figure:
    """Figure 10: sampled losses against length beside gradient descent with the same step."""
    from ...plotting.spec import Axis, Figure, Line, Panel, Points

    length = dataset.length.values
    panels = []
    for family, members in _families(dataset).items():
        marks: list[Mark] = []
        for role, name in enumerate(members):
            one = dataset.sel(activation=name)
            label = str(one.label.values)
            if "loss" in one:
                marks.append(Points(length, one.loss.values, one.loss_error.values, label, role))
            told = "debiased GD, its step" if role == 0 else None
            marks.append(Line(length, one.debiased_gd.values, told, role))
            told = "GD, its step" if role == 0 else None
            marks.append(Line(length, one.gd.values, told, role, dash=True))
        marks.append(noise_rule(dataset))
        finite = [float(np.nanmax(dataset[name].values)) for name in ("gd", "debiased_gd")]
        top = min(1.5, 1.1 * max(finite))
        panels.append(Panel(
            family, Axis("length of the test prompt"), Axis("risk", limits=(0.0, top)), marks
        ))  # fmt: skip
    return Figure(
        title="Loss against test length with normalised activations",
        panels=panels,
        columns=3,
        caption=(
            f"Two heads. {dataset.attrs['setting']}. {dataset.attrs['course']}. Points: sampled "
            "losses, the same prompts throughout. Lines: exact risks of (debiased) gradient descent "
            "with the effective step C_f Σ ωμ of that layer. Σf can vanish for 1 + Cx, whose risk "
            "is infinite in principle: rare prompts are not in these samples."
        ),
        alt="Sampled risks against test length for each activation, with gradient descent.",
    )


def figure_table(dataset: xarray.Dataset) -> Figure:
    """Table 1: |ω|, |μ| and the effective step of each activation."""
    from ...plotting.spec import Axis, Bars, Figure, Panel, Rule

    labels = [str(label) for label in dataset.label.values]
    best = float(dataset.attrs["best_step"])
    rows = "; ".join(
        f"{label}: {omega:.3f}, {mu:.3f}, {step:.3f}"
        for label, omega, mu, step in zip(
            labels, dataset.omega_size.values, dataset.mu_size.values, dataset.effective_step.values
        )
    )
    steps: list[Mark] = [
        Bars(labels, dataset.effective_step.values, role=2),
        Rule(best, label=f"η* = {best:.3f}", role="theory"),
    ]
    return Figure(
        title="What two heads learn with normalised activations",
        panels=[
            Panel("|ω|", Axis(""), Axis("|ω|"), [Bars(labels, dataset.omega_size.values, role=0)]),
            Panel("|μ|", Axis(""), Axis("|μ|"), [Bars(labels, dataset.mu_size.values, role=1)]),
            Panel("Effective step", Axis(""), Axis("2 C_f |ω| |μ|"), steps),
        ],
        columns=3,
        caption=(
            f"{dataset.attrs['setting']}. {dataset.attrs['course']}. Mean of the last tenth of "
            f"training: |ω|, |μ|, effective step. {rows}."
        ),
        alt=f"Bars of |ω|, |μ| and the effective step. {rows}.",
    )
