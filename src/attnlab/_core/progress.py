"""Progress of long loops, reported through the context so that no signature has to carry it.

A loop asks `current_progress()` and calls `start`, `advance` and `stop`; whoever wants to see
something installs a reporter with `use_progress`. By default nothing is shown.
"""

from __future__ import annotations

import contextvars
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, runtime_checkable

from .errors import InvalidArgument


@runtime_checkable
class ProgressReporter(Protocol):
    """What a long loop talks to. Calls may nest: an inner `start` opens an inner task."""

    def start(self, label: str, total: int | None) -> None:
        """Opens a task of `total` units (None: unknown)."""

    def advance(self, n: int = 1, note: str = "") -> None:
        """Moves the innermost open task on by `n` units; `note` is shown beside it."""

    def stop(self) -> None:
        """Closes the innermost open task, finished or not."""


class NullProgress:
    """Shows nothing."""

    def start(self, label: str, total: int | None) -> None:
        pass

    def advance(self, n: int = 1, note: str = "") -> None:
        pass

    def stop(self) -> None:
        pass


class RichProgress:
    """A bar with percent, note and estimated time left, drawn on the standard error stream.

    It appears only once the work has lasted `delay` seconds, so that short runs stay quiet, and
    never when the stream is no terminal unless `force` is True. Use it as a context manager, so
    that the terminal is restored whatever happens. On a `console` of rich, what is printed there
    meanwhile appears above the bar. A terminal that goes away ends the bar, not the work.
    """

    def __init__(
        self, *, delay: float = 2.0, force: bool = False, stream: Any = None, console: Any = None
    ):
        if not delay >= 0:
            raise InvalidArgument("delay", delay, "a number of seconds >= 0")
        if console is not None:
            stream = console.file
        stream = sys.stderr if stream is None else stream
        self._console = console
        self._stream, self._delay = stream, delay
        self._enabled = force or bool(getattr(stream, "isatty", lambda: False)())
        self._force = force
        self._began: float | None = None
        self._bar: Any = None
        self._open: list[dict[str, Any]] = []

    def __enter__(self) -> RichProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.clear()
        self._hide()

    def start(self, label: str, total: int | None) -> None:
        if self._began is None:
            self._began = time.monotonic()
        task = {"label": label, "total": total, "done": 0, "note": "", "id": None}
        self._open.append(task)
        self._draw()

    def advance(self, n: int = 1, note: str = "") -> None:
        if not self._open:
            return
        task = self._open[-1]
        task["done"] += n
        task["note"] = note or task["note"]
        self._draw()

    def stop(self) -> None:
        if not self._open:
            return
        task = self._open.pop()
        if self._bar is not None and task["id"] is not None:
            with suppress(OSError):
                self._bar.refresh()  # a task never vanishes before its last state was drawn
            self._bar.remove_task(task["id"])
        if not self._open:
            self._hide()

    def _draw(self) -> None:
        if not self._enabled or self._began is None:
            return
        try:
            self._drawn()
        except OSError:
            self._enabled = False

    def _drawn(self) -> None:
        assert self._began is not None
        if self._bar is None:
            if time.monotonic() - self._began < self._delay:
                return
            self._bar = self._make_bar()
            self._bar.start()
        for task in self._open:
            if task["id"] is None:
                task["id"] = self._bar.add_task(task["label"], total=task["total"], note="")
            self._bar.update(task["id"], completed=task["done"], note=task["note"])

    def _hide(self) -> None:
        if self._bar is not None:
            bar, self._bar = self._bar, None
            with suppress(OSError):
                bar.stop()
        self._began = None
        for task in self._open:
            task["id"] = None

    def _make_bar(self) -> Any:
        from rich import progress
        from rich.console import Console

        forced = True if self._force else None
        console = self._console or Console(file=self._stream, force_terminal=forced)
        return progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
        )


class LineProgress:
    """A line for each unit of the outermost task that is done, with the time since its start:
    `report 3 of 57  1 min 20 s  marion2025/gd-manifold`. For logs, where nothing can be redrawn.

    What a task does inside one of its units is not shown.
    """

    def __init__(self, *, stream: Any = None):
        self._stream = sys.stderr if stream is None else stream
        self._open: list[tuple[str, int | None]] = []
        self._done, self._began = 0, 0.0

    def __enter__(self) -> LineProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.clear()

    def start(self, label: str, total: int | None) -> None:
        if not self._open:
            self._done, self._began = 0, time.monotonic()
        self._open.append((label, total))

    def advance(self, n: int = 1, note: str = "") -> None:
        if len(self._open) != 1 or n == 0:
            return
        label, total = self._open[0]
        self._done += n
        seconds = time.monotonic() - self._began
        minutes, rest = divmod(round(seconds), 60)
        elapsed = f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
        of = "" if total is None else f" of {total}"
        with suppress(OSError, ValueError):  # nobody reads it any more
            print(f"{label} {self._done}{of}  {elapsed}  {note}", file=self._stream, flush=True)

    def stop(self) -> None:
        if self._open:
            self._open.pop()


_NULL = NullProgress()
_reporter: contextvars.ContextVar[ProgressReporter] = contextvars.ContextVar(
    "attnlab_progress", default=_NULL
)


def current_progress() -> ProgressReporter:
    """The reporter installed in this context; one that shows nothing when there is none."""
    return _reporter.get()


@contextmanager
def use_progress(reporter: ProgressReporter) -> Iterator[ProgressReporter]:
    """Installs `reporter` for the duration of the block, in this thread or task only."""
    token = _reporter.set(reporter)
    try:
        yield reporter
    finally:
        _reporter.reset(token)


class _Counted:
    """Passes everything on, and knows how many tasks are open."""

    def __init__(self, to: ProgressReporter):
        self.to, self.depth = to, 0

    def start(self, label: str, total: int | None) -> None:
        self.depth += 1
        self.to.start(label, total)

    def advance(self, n: int = 1, note: str = "") -> None:
        if self.depth:
            self.to.advance(n, note)

    def stop(self) -> None:
        if self.depth:
            self.depth -= 1
            self.to.stop()


@contextmanager
def closed_progress() -> Iterator[None]:
    """The tasks that are opened in this block are closed at its end, and no others: what a job of
    somebody else forgets or does twice is not counted for the task around it."""
    counted = _Counted(current_progress())
    try:
        with use_progress(counted):
            yield
    finally:
        while counted.depth:
            counted.stop()
