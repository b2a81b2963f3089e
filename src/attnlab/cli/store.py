"""`store`: the results that `report` keeps beside its page, shown and cleared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import columns, output, say

if TYPE_CHECKING:
    from ..report import Store, Stored

app = typer.Typer(no_args_is_help=True, help="Show or clear the results that `report` keeps.")

_OUT = typer.Option(help="The report whose results are meant.")
_IDS = typer.Argument(
    metavar="[ID]...", help="Papers, experiments or claims; everything when left out."
)


@app.command("list")
def list_(
    ids: Annotated[list[str] | None, _IDS] = None,
    out: Annotated[Path, _OUT] = Path("report.html"),
) -> None:
    """Show what is stored: kind, size, age, and whether today's code would still use it.

    *valid*: used by the next report. *stale*: the code, a library or the settings have changed.
    *left over*: of a run that was killed.
    """
    from ..report.stored import inspect, select

    store = _store(out)
    found: Sequence[Stored] = inspect(store)
    if ids:
        found = select(found, ids)
    rows = [(i.state, i.kind, _size(i.size), f"{_age(i.age)} old", i.id) for i in found]
    columns(output(), rows)
    _say_sum(found, "stored", store)


@app.command("clear")
def clear_(
    ids: Annotated[list[str] | None, _IDS] = None,
    out: Annotated[Path, _OUT] = Path("report.html"),
    stale: Annotated[
        bool, typer.Option("--stale", help="Only what today's code would not use any more.")
    ] = False,
) -> None:
    """Remove stored results, without asking; the next report computes them again."""
    from ..report import clear

    store = _store(out)
    removed = clear(store, ids or None, stale=stale)
    columns(output(), [(i.state, i.kind, _size(i.size), i.id) for i in removed])
    _say_sum(removed, "removed", store)


def _store(out: Path) -> Store:
    from ..report import Store
    from ..report.store import store_directory

    return Store(store_directory(out))


def _say_sum(items: Sequence[Stored], done: str, store: Store) -> None:
    number = Counter(item.state for item in items)
    states = ", ".join(f"{count} {state}" for state, count in number.items())
    size = sum(item.size for item in items)
    files = f"{len(items)} file{'' if len(items) == 1 else 's'}"
    text = f"{done}: {files}, {size} bytes" + (f" ({states})" if states else "")
    say(output(), f"{text} in {store.directory}")


def _size(size: int) -> str:
    return (
        f"{size} B"
        if size < 1000
        else f"{size / 1e3:.0f} kB"
        if size < 1e6
        else f"{size / 1e6:.1f} MB"
    )


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
