"""Ctrl-C in a long run: what was computed travels with the interruption.

A command runs its work in `interruptible()`. There the request to end of a terminal that is closed
(SIGHUP) or of a batch system (SIGTERM) is taken as Ctrl-C, and none of them is lost where Python
cannot pass an exception on.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


_AGAIN = 0.05  # seconds until an interruption that went nowhere is sent again
_REQUESTS = ("SIGTERM", "SIGHUP")
_asked = _began = _inside = False


def is_interrupted() -> bool:
    """Whether the work of an `interruptible()` block that goes on was asked to end."""
    return _asked and _inside


def was_interrupted() -> bool:
    """Whether this process was asked to end. An error that comes after it may be what became of the
    interruption: an extension module that is being imported turns it into an `ImportError`."""
    return _asked


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP raise `KeyboardInterrupt` in this block, in the main thread.

    A signal that is ignored, as SIGHUP is under nohup, stays so. After the first request to end
    further ones are ignored, since what was computed is being saved; Ctrl-C still counts.
    """
    global _asked, _began, _inside
    _asked, _began = False, True
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}
    hook = sys.unraisablehook
    pending: list[threading.Timer] = []

    def raise_(number: int, _: Any) -> None:
        global _asked
        _asked = True
        if number != signal.SIGINT:
            for other in before:
                if other != signal.SIGINT:
                    signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    def send_again(unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):  # in a finaliser or a callback
            pending.append(threading.Timer(_AGAIN, _interrupt_if_inside))
            pending[-1].daemon = True
            pending[-1].start()
        else:
            hook(unraisable)

    for name in ("SIGINT", *_REQUESTS):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
            before[number] = signal.signal(number, raise_)
    sys.unraisablehook = send_again
    _inside = True
    try:
        yield
    finally:
        _inside = False
        sys.unraisablehook = hook
        for timer in pending:  # what comes after the block has not been asked to end
            timer.cancel()
        for number, handler in before.items():
            if signal.getsignal(number) is raise_:  # else it was asked to end, and is saving now
                signal.signal(number, handler)


def _interrupt_if_inside() -> None:
    if _inside:
        os.kill(os.getpid(), signal.SIGINT)


def leave_at_once(*_: Any) -> None:
    """A handler for the time before anything is computed: the process ends here and now, since an
    exception could be lost in an import."""
    text = ("interrupted" if _began else "interrupted: nothing was kept") + os.linesep
    try:
        os.write(2, text.encode())
    finally:
        os._exit(130)
