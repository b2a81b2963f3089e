"""Ctrl-C in a long run: what was computed travels with the interruption."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray


class RunInterrupted(KeyboardInterrupt):
    """A run was interrupted; `partial` holds what it had computed by then, and `saved` the path of
    the file it was kept in once somebody has kept it.

    A loop that works in chunks catches `KeyboardInterrupt` between them and raises this instead, so
    that whoever owns the output directory can save the finished part. It stays a
    `KeyboardInterrupt`: code that catches `Exception` does not swallow it.

    **Arguments:** `partial`, a dataset in the same layout as the finished one (shorter along its
    step or time dimension), or None when nothing was finished.
    """

    def __init__(self, partial: xarray.Dataset | None = None, message: str = "interrupted"):
        super().__init__(message)
        self.partial = partial
        self.saved: Path | None = None
