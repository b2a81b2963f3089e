"""`sweep`: an experiment, a risk or a function at many settings, on this machine or a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._core.errors import InvalidArgument
from .console import columns, computing, output, say

if TYPE_CHECKING:
    import xarray

_SHOWN = 5  # failures that are printed


def sweep(
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="A TOML file, or a ready sweep that --list shows."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show the ready sweeps.")] = False,
    status: Annotated[
        bool,
        typer.Option(
            "--status",
            help="Show how far the sweep is, without FILE all in attnlab-output; disturbs nobody.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory of the sweep [default: attnlab-output/sweep-NAME]."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Local processes [default: one per core]; 0: without Dask."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="A running Dask scheduler (tcp://host:port or its .json file)."
        ),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a point is given up.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The sizes of the file's table 'quick'.")
    ] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Compute failed points again.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Discard what other settings left in the directory.")
    ] = False,
    figure: Annotated[bool, typer.Option(help="Draw the figure, if the sweep has one.")] = True,
) -> None:
    """Compute a target at many settings; writes one labelled dataset (sweep.nc).

    Finished batches are kept as they come: after Ctrl-C, a crash or a full disk the same command
    goes on from there. Failed points are reported and do not stop the others; exit status 0 when
    every point was computed or has failed.
    """
    from .. import sweeps

    if list_:
        columns(output(), list(sweeps.ready().items()))
        return
    if status:
        for place in _places(file, out, quick):
            _print_status(place)
        return
    if file is None:
        raise InvalidArgument("FILE", None, "a TOML file or a ready sweep (--list shows them)")
    place = _default_directory(file, quick) if out is None else out
    options: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
    with computing(drawing=figure):
        dataset = sweeps.sweep(
            file,
            out=place,
            workers=workers,
            scheduler=scheduler,
            quick=quick,
            retry=retry,
            fresh=fresh,
            **options,
        )
    _print_result(dataset, place, figure)


def _default_directory(file: str, quick: bool) -> Path:
    from .. import records

    path = Path(file)
    stem = path.stem if path.suffix == ".toml" else file.replace("/", "-")
    return records.default_directory() / f"sweep-{stem}{'-quick' if quick else ''}"


def _places(file: str | None, out: Path | None, quick: bool) -> list[Path]:
    from .. import records
    from ..sweeps.directory import MANIFEST

    if out is not None:
        return [out]
    if file is not None:
        return [_default_directory(file, quick)]
    home = records.default_directory()
    found = sorted(path.parent for path in home.glob(f"sweep-*/{MANIFEST}"))
    if not found:
        raise InvalidArgument("FILE", None, f"given: {home} has no sweeps")
    return found


def _print_status(place: Path) -> None:
    from .. import sweeps
    from ..sweeps.lock import told

    found = sweeps.status(place)
    share = found.done / found.points
    rows: list[tuple[str, Any]] = [
        ("target", found.target),
        ("points", f"{found.done} of {found.points} done ({share:.1%}), {found.failed} failed"),
        ("batches", f"{found.finished} of {found.batches}"),
        ("computed", f"{found.seconds:.1f} s, first started {found.started}"),
        ("now", "nobody works on it" if found.owner is None else told(dict(found.owner))),
    ]
    say(output(), str(place), style="bold")
    columns(output(), rows)


def _print_result(dataset: xarray.Dataset, place: Path, figure: bool) -> None:
    from .. import records, sweeps
    from ..sweeps.directory import RESULT

    console = output()
    failed = sweeps.failures(dataset)
    missing = int((dataset["status"] == -1).sum())
    sizes = " × ".join(f"{dim} {dataset.sizes[dim]}" for dim in dataset["status"].dims)
    say(console, dataset.attrs.get("title", str(place)), style="bold")
    told = f"{dataset['status'].size} ({sizes}), {len(failed)} failed"
    rows: list[tuple[str, Any]] = [("points", told)]
    if missing:
        rows.append(("missing", f"{missing}: lost with their workers; run the same command again"))
    if "expected" in dataset.attrs:
        rows.append(("expected", dataset.attrs["expected"]))
    rows.append(("record", place / RESULT))
    undrawn = ""
    if figure and dataset.attrs.get("figure"):
        try:
            rows += [("figure", path) for path in _draw(dataset, place)]
        except Exception as error:  # of a function that is not ours; the result stands
            undrawn = f"{dataset.attrs['figure']}: {type(error).__name__}: {error}"
    rows.append(("took", f"{records.provenance_of(dataset)['seconds']:.1f} s"))
    for name, value in rows:
        say(console, f"  {name:<8}  {value}")
    for row in failed[:_SHOWN]:
        where = ", ".join(f"{name}={value}" for name, value in row.settings.items())
        say(console, f"  {row.status:<8}  {where}: {row.error}", style="red")
    if len(failed) > _SHOWN:
        say(console, f"  and {len(failed) - _SHOWN} more (attnlab.sweeps.failures lists them)")
    if undrawn:
        say(console, f"  no figure  {undrawn}", style="red")
    if missing or undrawn:
        raise typer.Exit(1)


def _draw(dataset: xarray.Dataset, place: Path) -> list[Path]:
    from .._core.workers import resolve
    from ..plotting import Figure
    from ..plotting.matplotlib_renderer import save_figure

    drawn = resolve(dataset.attrs["figure"])(dataset)
    if not isinstance(drawn, Figure):
        raise TypeError(f"it returned {type(drawn).__name__}, not an attnlab.plotting.Figure")
    return [Path(path) for path in save_figure(drawn, place / "figure")]
