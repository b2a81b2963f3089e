"""The parts of the page: what can be set, and what is shown of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import marimo as mo

from .._core.errors import InvalidArgument

if TYPE_CHECKING:
    from ..plotting.spec import Figure

_STUDENTS = ("pointwise attention", "softmax attention")


def shown(part: Callable[..., Any], *arguments: Any) -> Any:
    """What a part of the page gives; bad input is told instead."""
    try:
        with mo.status.spinner(title="computing", subtitle="the first time also compiles"):
            return part(*arguments)
    except InvalidArgument as error:
        return mo.callout(str(error), kind="warn")


def single_location_controls() -> Any:
    """Task, student and point."""
    from ..students.activations import activation_names

    return mo.ui.dictionary(
        {
            "student": mo.ui.dropdown(_STUDENTS, value=_STUDENTS[0], label="student"),
            "activation": mo.ui.dropdown(
                sorted(activation_names()), value="erf", label="activation (pointwise)"
            ),
            "scale": _slider(0.02, 3.0, 0.02, 0.1, "scale λ, or inverse temperature β"),
            "dim": _slider(5, 1000, 5, 100, "dimension d"),
            "length": _slider(2, 200, 1, 10, "length L"),
            "token_std": _slider(0.05, 0.95, 0.05, 0.7, "token standard deviation γ"),
            "noise_std": _slider(0.0, 1.0, 0.05, 0.0, "label noise ε"),
            "kappa": _slider(-1.0, 1.0, 0.05, 0.5, "κ = k·k*"),
            "nu": _slider(-1.0, 1.0, 0.05, 0.5, "ν = v·v*"),
            "starts": _slider(0, 48, 4, 12, "descents"),
        }
    )


def single_location(values: Mapping[str, Any]) -> Any:
    """The view of `overlaps_view` for these controls."""
    from ..students import PointwiseAttention, SoftmaxAttention
    from ..tasks import SingleLocation
    from .overlaps import overlaps_view

    task = SingleLocation(
        values["dim"],
        values["length"],
        token_std=values["token_std"],
        noise_std=values["noise_std"],
    )
    student: Any
    if values["student"] == _STUDENTS[0]:
        student = PointwiseAttention(values["activation"], values["scale"])
    else:
        student = SoftmaxAttention(values["scale"])
    point = {name: values[name] for name in ("kappa", "nu", "starts")}
    return _view(overlaps_view(task, student, **point))


def in_context_controls() -> Any:
    """Task, and the two heads."""
    return mo.ui.dictionary(
        {
            "dim": _slider(2, 20, 1, 5, "dimension d"),
            "length": _slider(2, 200, 2, 40, "context length L"),
            "noise_std": _slider(0.0, 1.0, 0.02, 0.32, "label noise σ"),
            "omega": _slider(0.01, 0.6, 0.01, 0.13, "ω of the heads (ω, -ω)"),
            "mu": _slider(0.1, 20.0, 0.1, 3.4, "μ of the heads (μ, -μ)"),
        }
    )


def in_context(values: Mapping[str, Any]) -> Any:
    """The view of `heads_view` for these controls."""
    from ..tasks import InContextRegression
    from .heads import heads_view

    task = InContextRegression(values["dim"], values["length"], noise_std=values["noise_std"])
    return _view(heads_view(task, omega=values["omega"], mu=values["mu"]))


def experiment_choice() -> Any:
    """All experiments of all papers."""
    from ..papers import all_experiments

    ids = [experiment.id for experiment in all_experiments()]
    return mo.ui.dropdown(ids, value=ids[0], label="experiment", searchable=True)


def experiment_form(id: str) -> tuple[Any, Any]:
    """What an experiment is, and its settings as texts like those of `--set`, with a button."""
    from ..papers import find_experiment
    from ..papers._config import as_text, describe

    experiment = find_experiment(id)
    kind, quick = experiment.config_class(), experiment.configure("quick")
    words = describe(kind)
    fields = {
        name: mo.ui.text(
            value=as_text(getattr(quick, name)),
            label=f"{name}: {field.description or ''} ({words[name]})",
            full_width=True,
        )
        for name, field in kind.model_fields.items()
    }
    told = mo.md(f"**{experiment.title}.** {experiment.summary}  \nSource: {experiment.source}")
    return told, mo.ui.dictionary(fields).form(submit_button_label="Run it", bordered=False)


def run_experiment(id: str, settings: Mapping[str, str]) -> Any:
    """Runs an experiment: figure, what was expected, what was measured, and the record to keep."""
    from .. import records
    from ..papers import find_experiment
    from ..papers._config import as_text

    experiment = find_experiment(id)
    quick = experiment.configure("quick")
    changes = {k: v for k, v in settings.items() if v != as_text(getattr(quick, k))}
    config = experiment.configure("quick", changes)
    dataset = experiment.compute(config)
    dataset = records.attach(dataset, records.provenance(config.model_dump(mode="json")))
    rows = [row[:3] for row in records.summary(dataset)]
    parts = [mo.md(f"**Expected** at the quick sizes: {experiment.expected}")]
    figure = experiment.plot(dataset)
    if figure is not None:
        parts.append(_figure(figure))
    parts.append(_table(("measured", "on", "values"), rows))
    with tempfile.TemporaryDirectory() as place:
        path = records.save(dataset, Path(place) / "record.nc")
        name = f"{experiment.id.replace('/', '-')}.nc"
        parts.append(mo.download(path.read_bytes(), filename=name, label="Record (netCDF)"))
    return mo.vstack(parts)


def claim_choice() -> Any:
    """All claims of all papers."""
    from ..claims import registry

    ids = [claim.key for claim in registry.all_claims()]
    return mo.ui.dropdown(ids, value=ids[0], label="claim", searchable=True)


def claim(id: str, checked: bool) -> Any:
    """What a claim states; with `checked`, the verdict from a check that runs now."""
    from .. import claims
    from ..claims.text import check_text

    (found,) = claims.registry.find(id)
    parts = [
        mo.md(f"**{found.title}** ({found.source})\n\n{found.statement}\n\n*{found.explanation}*")
    ]
    if checked:
        (verdict,) = claims.verify(id, processes=1)
        parts.append(mo.md(f"### {verdict.word}"))
        for name in ("corrected", "answer", "failed", "settle"):
            if getattr(verdict, name):
                parts.append(mo.md(f"{name}: {getattr(verdict, name)}"))
        rows = [
            (check.name, check_text(check), verdict.status(check))
            for check in (*verdict.checks, *verdict.evidence)
        ]
        parts.append(_table(("check", "measured, and stated or required", "result"), rows))
    return mo.vstack(parts)


def _slider(start: float, stop: float, step: float, value: float, label: str) -> Any:
    return mo.ui.slider(
        start, stop, step, value, label=label, show_value=True, debounce=True, full_width=False
    )


def _view(view: Any) -> Any:
    rows = _table(("quantity", "value", "how"), view.numbers)
    return mo.vstack([rows, _figure(view.figure), mo.md(view.figure.caption)])


def _figure(figure: Figure) -> Any:
    from ..plotting import to_plotly

    return mo.hstack([mo.as_html(panel) for panel in to_plotly(figure)], wrap=True, justify="start")


def _table(names: tuple[str, ...], rows: Any) -> Any:
    return mo.ui.table(
        [dict(zip(names, row, strict=True)) for row in rows],
        selection=None,
        show_download=False,
        pagination=False,
    )
