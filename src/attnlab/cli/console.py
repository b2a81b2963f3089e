"""Printing: results on the standard output, everything else on the standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

_PIPED_WIDTH = 200  # columns where there is no terminal to ask: tables stay on one line


def output() -> Console:
    """The console of results. Made anew, so that it follows a redirected standard output."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    return Console(highlight=False, width=width)


def complain(message: str, mark: str = "error") -> None:
    """Prints `mark: message` on the standard error."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    console.print(f"{mark}:", style="bold red", end=" ")
    console.print(message, markup=False, soft_wrap=True)


def say(console: Console, text: str, style: str | None = None) -> None:
    """Prints a text as it is: no markup, and long lines (paths) are not broken."""
    console.print(text, markup=False, soft_wrap=True, style=style)


def columns(console: Console, rows: Iterable[tuple[Any, ...]], indent: int = 2) -> None:
    """Prints rows as aligned columns; only the last column is wrapped."""
    from rich.table import Table
    from rich.text import Text

    rows = [tuple(str(cell) for cell in row) for row in rows]
    if not rows:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=indent - 2 if indent > 2 else 0, no_wrap=True)
    for _ in rows[0][:-1]:
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row("", *(Text(cell) for cell in row))
    console.print(table)


@contextmanager
def computing(
    results: Console | None = None, *, drawing: bool = False, lines: bool = False
) -> Iterator[None]:
    """What a command computes runs in this block: the environment is checked first, requests to end
    raise `KeyboardInterrupt`, and progress is shown once the work has lasted two seconds.

    **Arguments:** `results`: the console on which results are printed meanwhile, whose terminal the
    progress bar then shares; `drawing`: figures are drawn too; `lines`: where there is no terminal,
    a line for each finished part.
    """
    from .._core.environment import check_environment
    from .._core.interrupt import interruptible
    from .._core.progress import LineProgress, RichProgress, use_progress

    check_environment(drawing=drawing)
    shared = results if results is not None and results.is_terminal else None
    terminal = shared is not None or sys.stderr.isatty()
    reporter = LineProgress() if lines and not terminal else RichProgress(console=shared)
    with interruptible(), reporter as shown, use_progress(shown):
        yield


def streamed(
    compute: Callable[[Callable[[T], None]], list[T]],
    show: Callable[[T], None],
    console: Console,
) -> tuple[list[T], bool]:
    """What `compute(arrived)` returns, each item shown as it arrives; after Ctrl-C those that did.

    The flag says whether it was interrupted.
    """
    reached: list[T] = []

    def arrived(item: T) -> None:
        reached.append(item)
        show(item)

    try:
        with computing(console):
            return compute(arrived), False
    except KeyboardInterrupt:
        return reached, True
