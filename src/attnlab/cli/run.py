"""`run` and `rerun`: an experiment computed, and a record computed again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._core.errors import InvalidArgument
from .console import columns, computing, output, say

if TYPE_CHECKING:
    from ..papers import Replay


def run(
    id: Annotated[str, typer.Argument(metavar="ID", help="An experiment that `list` shows.")],
    preset: Annotated[
        str, typer.Option(help="quick (seconds) or paper (the sizes of the paper).")
    ] = "quick",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory of the outputs [default: attnlab-output]."),
    ] = None,
    figure: Annotated[bool, typer.Option(help="Draw the figure.")] = True,
) -> None:
    """Run an experiment: writes its record (.nc) and figure (.png, .pdf, plotted numbers .json).

    Ctrl-C keeps what was computed; the same command goes on from the last checkpoint.
    """
    from .. import papers, records

    experiment = papers.find_experiment(id)
    changes = parse_settings(set_ or [])
    with computing(drawing=figure):
        outputs = papers.run_experiment(experiment, preset, changes, directory=out, figure=figure)
    console = output()
    say(console, f"{experiment.id}  {experiment.title}", style="bold")
    # its numbers are those of the presets
    own = set(changes) <= {"seed"}
    label = "expected" if own else "expected, without changes of settings"
    rows: list[tuple[str, Any]] = [(label, experiment.expected), ("record", outputs.record)]
    rows += [("figure", path) for path in outputs.figures]
    seconds = records.provenance_of(outputs.dataset)["seconds"]
    rows.append(("took", f"{seconds:.1f} s"))
    for name, value in rows:
        say(console, f"  {name:<8}  {value}")
    measured = records.summary(outputs.dataset)
    if measured:
        say(console, "  measured")
        columns(console, [row[:3] for row in measured], indent=4)


def rerun(
    record: Annotated[Path, typer.Argument(metavar="RECORD", help="A record that `run` wrote.")],
    rtol: Annotated[float, typer.Option(help="Relative tolerance.")] = 1e-9,
    atol: Annotated[float, typer.Option(help="Absolute tolerance.")] = 1e-12,
    out: Annotated[
        Path | None, typer.Option(help="Also save the new record, under this name.")
    ] = None,
) -> None:
    """Run a record again from its own settings and compare; exit status 1 when they differ."""
    from .. import papers, records

    if out is not None:
        if out.exists() and out.samefile(record):
            raise InvalidArgument("out", str(out), "another file than the record itself")
        records.writable_file(out)
    with computing():
        replay = papers.rerun(record, rtol=rtol, atol=atol)
    if out is not None:  # before it is printed: nobody may read that
        records.save(replay.dataset, out)
    _print(replay)
    if out is not None:
        say(output(), f"new record  {out}")
    if not replay.comparison.same:
        raise typer.Exit(1)


def parse_settings(settings: list[str]) -> dict[str, str]:
    """The `KEY=VALUE` texts as a mapping. Raises `InvalidArgument` for other forms and repeats."""
    changes: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            raise InvalidArgument("--set", setting, "of the form KEY=VALUE")
        if key in changes:
            raise InvalidArgument("--set", setting, f"given once for each key ({key} was set)")
        changes[key] = value.strip()
    return changes


def _print(replay: Replay) -> None:
    console = output()
    comparison = replay.comparison
    rows: list[tuple[Any, ...]] = [
        ("variable", "status", "largest", "relative", "unequal", "where")
    ]
    for row in comparison.rows:
        numbers = (_number(row.largest_absolute), _number(row.largest_relative))
        rows.append((row.variable, row.status, *numbers, row.unequal, row.where))
    columns(console, rows)
    for name, (then, now) in replay.changed.items():
        say(console, f"  {name} was {_text(then)}, is {_text(now)}", style="dim")
    tolerances = f"rtol {comparison.rtol:g}, atol {comparison.atol:g}"
    if comparison.same:
        say(console, f"same: every variable agrees ({tolerances})", style="green")
    else:
        names = [row.variable for row in comparison.rows if row.status != "same"]
        say(console, f"different: {', '.join(names)} ({tolerances})", style="red")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"


def _text(value: Any) -> str:
    if isinstance(value, dict):  # the git state
        return f"{str(value.get('revision'))[:12]}{' with changes' if value.get('dirty') else ''}"
    return str(value)
