"""The process in which points are computed: it can be killed when a point hangs, and nothing else
is lost with it.

It reads requests from its standard input and writes answers to what was its standard output, both
as pickles of plain data; what a point prints goes to the standard error. It ends when its input
closes, which is also what happens when whoever started it is killed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import pickle
import queue
import signal
import sys
import threading
import time
from typing import Any, BinaryIO

from .._core.children import settled

_GRACE = 60.0  # seconds after which an orphan that nothing else could stop ends itself


def main() -> None:
    """The life of the process."""
    own = os.getpid()
    settled()
    _end_with_parent()
    _fill_standard_files()
    incoming, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # points must not read the requests,
    os.dup2(2, 1)  # and what they print must not get between the answers
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = sys.stderr = io.TextIOWrapper(_Messages(), "utf-8", "replace", write_through=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_read, args=(incoming, requests), daemon=True).start()

    def send(answer: Any) -> None:
        if os.getpid() != own:  # a copy that a point has forked, and that came back here
            os._exit(0)
        pickle.dump(answer, answers)
        answers.flush()

    from . import targets  # noqa: F401 before the clock of the first point runs

    setup = requests.get()
    sys.path[:] = setup["path"]  # the same modules as where the points would run else
    send(("ready", None))
    loaded: dict[str, Any] = {}
    while True:
        _answer(requests.get(), loaded, send)


class _Messages(io.RawIOBase):
    """What points print: it goes to the standard error, and is lost where nobody reads that."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2

    def write(self, data: Any) -> int:
        with contextlib.suppress(OSError):
            os.write(2, data)
        return len(data)


def _fill_standard_files() -> None:
    """Opens those of 0, 1, 2 that are closed, so that no pipe gets their numbers."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _end_with_parent() -> None:
    """Asks the system (Linux) to end this process with its parent, even when a point is stuck in
    compiled code; elsewhere the end of the input is all there is."""
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _read(incoming: BinaryIO, requests: queue.Queue[Any]) -> None:
    """Takes requests in a thread of its own, so that the end of the input is noticed at once."""
    while True:
        try:
            requests.put(pickle.load(incoming))
        except Exception:
            os._exit(0)


def _answer(request: dict[str, Any], loaded: dict[str, Any], send: Any) -> None:
    from .parts import Part, merged
    from .targets import Target, described

    try:
        if request["name"] not in loaded:
            loaded.clear()
            loaded[request["name"]] = Target(request["description"], interruptible=False)
        target = loaded[request["name"]]
    except Exception as error:
        send(("refused", described(error)))
        return
    if request["timeout"] is not None:
        faulthandler.dump_traceback_later(request["timeout"] + _GRACE, exit=True)
    parts: list[Part] = []

    def tell(item: Any) -> None:
        if request["stream"] or not isinstance(item, Part):
            if request["timeout"] is not None:
                faulthandler.dump_traceback_later(request["timeout"] + _GRACE, exit=True)
            send(("item", item))
        else:
            parts.append(item)

    start = time.perf_counter()
    target.evaluate(request["columns"], request["positions"], tell)
    if request["timeout"] is not None:
        faulthandler.cancel_dump_traceback_later()
    for part in merged(parts):
        send(("item", part))
    send(("done", time.perf_counter() - start))
