"""A batch evaluated with a time limit, in a child process that is killed and replaced when needed.

A point that exceeds its time, or that takes the process down with it (a crash in compiled code, the
system's memory killer), is found and recorded; the other points of its batch are computed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from .._core.children import ONE_THREAD, module_program
from .._core.errors import InvalidArgument
from .parts import DIED, TIMED_OUT, BatchRecord, Part, encode
from .targets import Target, is_one_by_one

_LOOK = 0.5  # seconds between looks at a child that is silent
_START_LIMIT = 300.0  # seconds that a child may take to start, on a busy cluster's file system


class Evaluator:
    """Evaluates batches in a child process. Not for use by several threads at once."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[Any] = queue.Queue()

    def run(
        self,
        name: str,
        description: bytes,
        columns: Mapping[str, Sequence[Any]],
        size: int,
        timeout: float | None,
    ) -> bytes:
        """The encoded record of one batch.

        Raises `InvalidArgument` when the child refuses the target, `OSError` when none can start.
        """
        found = pickle.loads(description)
        one_by_one = is_one_by_one(found["kind"], found["options"])
        request = {
            "name": name,
            "description": description,
            "columns": columns,
            "timeout": timeout,
            "stream": one_by_one and timeout is not None,
        }
        record = BatchRecord(size)
        waiting = deque([list(range(size))])
        suspects: set[int] = set()  # with which the child died once; it may have been killed
        while waiting:
            positions = waiting.popleft()
            ended = self._ask(request | {"positions": positions}, record, timeout)
            if ended is None:
                continue
            known = set(record.errors).union(*(part.positions for part in record.parts))
            left = [p for p in positions if p not in known]
            if not left:
                continue
            if one_by_one and not request["stream"]:
                request["stream"] = True  # from now on it is known which point was being computed
                waiting.appendleft(left)
            elif ended[0] == DIED and (one_by_one or len(left) == 1) and left[0] not in suspects:
                suspects.add(left[0])
                waiting.appendleft(left)
            elif one_by_one or len(left) == 1:
                record.errors[left[0]] = ended
                if left[1:]:
                    waiting.appendleft(left[1:])
            else:
                middle = (len(left) + 1) // 2
                waiting.extendleft([left[middle:], left[:middle]])
        return encode(record)

    def close(self) -> None:
        """Ends the child, and what its points have started and left."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)  # it leads a group of its own
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        # its output is closed by the thread that reads it, at its end

    def _ask(
        self, request: dict[str, Any], record: BatchRecord, timeout: float | None
    ) -> tuple[int, str] | None:
        """Fills the record; None when all positions were answered, else how the child ended."""
        self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()
        except OSError:
            return self._lost()
        while True:
            kind, value = self._answer(timeout)
            if kind == "late":
                self.close()
                return TIMED_OUT, f"no answer within {timeout:g} s"
            if kind == "end":
                return self._lost()
            if kind == "refused":
                target = pickle.loads(request["description"])["target"]
                raise InvalidArgument("target", target, f"what workers can load ({value})")
            if kind == "done":
                record.seconds += value
                return None
            if isinstance(value, Part):
                record.parts.append(value)
            else:
                position, code, text = value
                record.errors[position] = (code, text)

    def _answer(self, timeout: float | None) -> tuple[str, Any]:
        """The next answer; `"late"` after the timeout, `"end"` when the child has ended. Its pipe
        need not end with it: processes that a point has left may hold the other side."""
        assert self._process is not None
        start = time.monotonic()
        while True:
            left = _LOOK if timeout is None else timeout - (time.monotonic() - start)
            gone = self._process.poll() is not None
            try:
                return self._answers.get(timeout=max(0.0, min(_LOOK, left)))
            except queue.Empty:
                if gone:
                    return "end", None
                if timeout is not None and left <= _LOOK:
                    return "late", None

    def _lost(self) -> tuple[int, str]:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        code = self._process.returncode
        self.close()
        return DIED, f"the process that computed it died (exit code {code})"

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        self._process = subprocess.Popen(
            module_program("attnlab.sweeps.child", "main"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | ONE_THREAD,
            start_new_session=True,  # Ctrl-C is for whoever runs the sweep
        )
        self._answers = queue.Queue()
        arguments = (self._process.stdout, self._answers)
        threading.Thread(target=_read, args=arguments, daemon=True).start()
        assert self._process.stdin is not None
        try:
            pickle.dump({"path": sys.path}, self._process.stdin)
            self._process.stdin.flush()
            kind, _ = self._answers.get(timeout=_START_LIMIT)
        except (OSError, queue.Empty):
            kind = "end"
        if kind != "ready":
            self.close()
            raise OSError("the process that computes points could not start; see its messages")


def _read(pipe: Any, answers: queue.Queue[Any]) -> None:
    with contextlib.closing(pipe):
        while True:
            try:
                answers.put(pickle.load(pipe))
            except Exception:
                answers.put(("end", None))
                return


def run_here(target: Target, columns: Mapping[str, Sequence[Any]], size: int) -> bytes:
    """The encoded record of one batch, computed in this process."""
    record = BatchRecord(size)

    def tell(item: Any) -> None:
        if isinstance(item, Part):
            record.parts.append(item)
        else:
            record.errors[item[0]] = (item[1], item[2])

    start = time.perf_counter()
    target.evaluate(columns, range(size), tell)
    record.seconds = time.perf_counter() - start
    return encode(record)


_of_thread = threading.local()  # a worker with several threads has a child for each


def run_in_worker(
    name: str,
    description: bytes,
    columns: Mapping[str, Sequence[Any]],
    size: int,
    timeout: float | None,
) -> bytes:
    """What a Dask worker runs: one batch, in the child that this thread keeps."""
    evaluator = getattr(_of_thread, "evaluator", None)
    if evaluator is None:
        evaluator = _of_thread.evaluator = Evaluator()
        atexit.register(evaluator.close)
    if getattr(_of_thread, "name", name) != name:
        evaluator.close()  # another sweep: its modules may have changed
    _of_thread.name = name
    return evaluator.run(name, description, columns, size, timeout)
