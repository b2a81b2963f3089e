"""The parts of the page: what can be set, and what is shown of it."""

from __future__ import annotations

import html
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import marimo as mo

from .._core.errors import InvalidArgument

if TYPE_CHECKING:
    from ..plotting.spec import Figure

_BESIDE = {
    "corrected": "What holds instead",
    "answer": "Answer",
    "failed": "The check did not run",
    "settle": "What would settle it",
}
_COLUMNS = 3
_PANEL = {"width": 500, "height": 420}  # pixels
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

    return _controls(
        {
            "student": mo.ui.dropdown(_STUDENTS, value=_STUDENTS[0], label="student"),
            "activation": mo.ui.dropdown(
                sorted(activation_names()), value="erf", label="activation (pointwise)"
            ),
            "scale": _slider(0.02, 3.0, 0.02, 0.1, "scale λ (softmax: β)"),
            "dim": _slider(5, 1000, 5, 100, "dimension d"),
            "length": _slider(2, 200, 1, 10, "length L"),
            "token_std": _slider(0.05, 0.95, 0.05, 0.7, "token std γ"),
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
    return _controls(
        {
            "dim": _slider(2, 20, 1, 5, "dimension d"),
            "length": _slider(2, 200, 2, 40, "context length L"),
            "noise_std": _slider(0.0, 1.0, 0.02, 0.32, "label noise σ"),
            "omega": _slider(0.01, 0.3, 0.01, 0.13, "ω (heads ω, -ω)"),
            "mu": _slider(0.1, 20.0, 0.1, 3.4, "μ (heads μ, -μ)"),
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
            label=_escaped(f"{name}: {field.description or ''} ({words[name]})"),
            full_width=True,
        )
        for name, field in kind.model_fields.items()
    }
    told = _text(experiment.title, experiment.summary, f"Source: {experiment.source}")
    return told, _controls(fields).form(submit_button_label="Run it", bordered=False)


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
    parts = [_text("", f"Expected at the quick sizes: {experiment.expected}")]
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
    parts = [_text(f"{found.title} ({found.source})", found.statement, found.explanation)]
    if checked:
        (verdict,) = claims.verify(id, processes=1)
        parts.append(_text(verdict.word))
        for name, words in _BESIDE.items():
            if getattr(verdict, name):
                parts.append(_text("", f"{words}: {getattr(verdict, name)}"))
        rows = [
            (check_text(check), verdict.status(check))
            for check in (*verdict.checks, *verdict.evidence)
        ]
        parts.append(_table(("check: measured, and stated or required", "result"), rows))
    return mo.vstack(parts)


def _controls(elements: dict[str, Any]) -> Any:
    """Controls beside and below each other; the value is the mapping of theirs."""
    cells = "".join(f"<div>{{{name}}}</div>" for name in elements)
    style = f"display: grid; grid-template-columns: repeat({_COLUMNS}, 1fr); gap: 0.75rem 2rem"
    return mo.Html(f'<div style="{style}">{cells}</div>').batch(**elements)


def _slider(start: float, stop: float, step: float, value: float, label: str) -> Any:
    return mo.ui.slider(start, stop, step, value, label=label, show_value=True, debounce=True)


def _text(title: str, *paragraphs: str) -> Any:
    """Plain text: what looks like Markdown in it stays as it is."""
    heading = f"<p><strong>{html.escape(title)}</strong></p>" if title else ""
    return mo.Html(heading + "".join(f"<p>{html.escape(text)}</p>" for text in paragraphs))


def _escaped(label: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", label)


def _view(view: Any) -> Any:
    rows = _table(("quantity", "value", "how"), view.numbers)
    return mo.vstack([rows, _figure(view.figure), _text("", view.figure.caption)])


def _figure(figure: Figure) -> Any:
    from ..plotting import to_plotly

    panels = [panel.update_layout(**_PANEL) for panel in to_plotly(figure)]
    return mo.hstack([mo.as_html(panel) for panel in panels], wrap=True, justify="start")


def _table(names: tuple[str, ...], rows: Any) -> Any:
    def row(cells: Any, kind: str) -> str:
        style = "padding: 0.2rem 1.5rem 0.2rem 0; text-align: left"
        return "".join(f'<{kind} style="{style}">{html.escape(str(c))}</{kind}>' for c in cells)

    head = f"<thead><tr>{row(names, 'th')}</tr></thead>"
    body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in rows)
    return mo.Html(f"<table>{head}<tbody>{body}</tbody></table>")
