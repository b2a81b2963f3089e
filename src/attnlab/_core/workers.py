"""Independent jobs in worker processes: spawned, one XLA thread each, none sinks another.

A job names its function as `"module:name"`. It runs in this process when `processes` is 1 (or its
arguments cannot be sent); else in one of a few workers that live as long as there is work. Workers
are spawned, never forked: JAX's threads deadlock in a forked child. A job that raises, or whose
worker dies (out of memory, a crash in compiled code), gives a `JobResult` with the error; the
others go on, and a dead worker is replaced.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import pickle
import signal
import sys
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import Any

from .children import ONE_THREAD as ONE_THREAD
from .children import one_thread_each, safe_start, settled
from .errors import InvalidArgument, check_integer
from .interrupt import is_interrupted
from .progress import closed_progress

_ASKED_TO_END = (-signal.SIGTERM, -getattr(signal, "SIGHUP", signal.SIGTERM))
_MOMENT = 0.2  # seconds


@dataclass(frozen=True)
class Job:
    """A call `function(*arguments)`; `key` is how its result is told from others.

    Jobs of one `group`, `"wide/narrow"`, go to the same worker while there is other work for the
    others: they may share what one keeps in its process, such as trained layers and programs.
    """

    key: str
    function: str
    arguments: tuple[Any, ...] = ()
    group: str = ""


@dataclass(frozen=True)
class JobResult:
    """What a job gave: its `value`, or `error` (one line) and `details` (the traceback)."""

    key: str
    value: Any = None
    error: str | None = None
    details: str = ""
    seconds: float = 0.0


@dataclass
class _Worker:
    process: BaseProcess
    pipe: connection.Connection
    ready: bool = False
    job: int | None = None
    group: str = ""  # of the last job
    started: float = field(default_factory=time.perf_counter)


def resolve(reference: str) -> Any:
    """The object that `"module:name"` (or `"module:name.attribute"`) refers to.

    Raises `InvalidArgument` when the text has another form or names nothing.
    """
    module, _, name = reference.partition(":")
    if not module or not name:
        raise InvalidArgument("reference", reference, "of the form 'module:name'")
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(value, part):
            raise InvalidArgument("reference", reference, f"a name that {module} defines")
        value = getattr(value, part)
    return value


def run_jobs(
    jobs: Sequence[Job],
    *,
    processes: int = 1,
    on_result: Callable[[JobResult], None] | None = None,
) -> list[JobResult]:
    """Runs all jobs and returns their results in the order of the jobs.

    `on_result` is called in this process with each result as it comes. Raises `InvalidArgument`
    when `processes < 1`; a `KeyboardInterrupt` ends the workers and goes on to the caller.
    """
    check_integer("processes", processes, minimum=1)
    results: dict[int, JobResult] = {}

    def keep(index: int, result: JobResult) -> None:
        results[index] = result
        if on_result is not None:
            on_result(result)

    here = list(range(len(jobs)))
    if processes > 1 and len(jobs) > 1:
        away = [i for i in here if _can_be_sent(jobs[i])]
        here = [i for i in here if i not in set(away)]
        here += _run_in_workers(jobs, away, min(processes, len(away)), keep)
    for index in sorted(here):
        keep(index, _run(jobs[index]))
    return [results[i] for i in range(len(jobs))]


def _run(job: Job) -> JobResult:
    _forget_programs_of_others(_wide(job.group))
    start = time.perf_counter()
    try:
        with closed_progress():
            value = resolve(job.function)(*job.arguments)
    except Exception as error:
        if is_interrupted():
            raise KeyboardInterrupt from error
        text = "".join(traceback.format_exception(error))
        return JobResult(job.key, None, _one_line(error), text, time.perf_counter() - start)
    return JobResult(job.key, value, seconds=time.perf_counter() - start)


_last_wide = ""


def _forget_programs_of_others(wide: str) -> None:
    """Drops JAX's compiled programs when the jobs' wide group changes.

    Each program keeps memory maps, of which a process has a limited number: the programs of all
    papers are more than one process can hold.
    """
    global _last_wide
    if wide != _last_wide and _last_wide and "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
        gc.collect()
    _last_wide = wide


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _can_be_sent(job: Job) -> bool:
    # Functions made in a notebook or in __main__ exist in this process only.
    try:
        data = pickle.dumps(job)
    except Exception:
        return False
    return b"__main__" not in data


def _run_in_workers(
    jobs: Sequence[Job],
    indices: Sequence[int],
    count: int,
    keep: Callable[[int, JobResult], None],
) -> list[int]:
    """Runs the jobs of these indices; returns those left over because no worker could start."""
    if not indices:
        return []
    waiting = deque(indices)
    workers: list[_Worker] = []
    started_once = False
    try:
        for _ in range(count):
            workers.append(_start_worker())
        while waiting or any(w.job is not None for w in workers):
            connection.wait([w.pipe for w in workers])
            for worker in list(workers):
                if not worker.pipe.poll():
                    continue
                try:
                    message = worker.pipe.recv()
                except (EOFError, OSError):
                    workers.remove(worker)
                    _stop(worker)
                    if worker.process.exitcode in _ASKED_TO_END:
                        time.sleep(_MOMENT)  # if all were asked to, it is our turn now
                    if worker.job is not None:
                        keep(worker.job, _lost(jobs[worker.job], worker))
                    if not worker.ready and not started_once:
                        continue  # not even its start succeeded: no use in trying again
                    if waiting:
                        workers.append(_start_worker())
                    continue
                if message is not None:
                    assert worker.job is not None
                    keep(worker.job, message)
                worker.ready = started_once = True
                worker.job = None
                if waiting:
                    worker.job = _next(jobs, waiting, worker, workers)
                    worker.group = jobs[worker.job].group
                    worker.started = time.perf_counter()
                    worker.pipe.send((jobs[worker.job].key, pickle.dumps(jobs[worker.job])))
            if not workers:
                break
    finally:
        for worker in workers:
            _stop(worker)
    if waiting:
        warnings.warn(
            "worker processes could not start, so the work goes on in this process",
            RuntimeWarning,
            stacklevel=4,
        )
    return list(waiting)


def _next(
    jobs: Sequence[Job], waiting: deque[int], worker: _Worker, workers: Sequence[_Worker]
) -> int:
    """Takes out the first job that is nearest to what the worker did, and farthest from what the
    others do."""
    others = [w.group for w in workers if w is not worker and w.job is not None]

    def rank(index: int) -> tuple[bool, ...]:
        group = jobs[index].group
        wide = [_wide(other) for other in others]
        return (
            group != worker.group,
            _wide(group) != _wide(worker.group),
            _wide(group) in wide,
            group in others,
        )

    index = min(waiting, key=rank)
    waiting.remove(index)
    return index


def _wide(group: str) -> str:
    return group.partition("/")[0]


def _lost(job: Job, worker: _Worker) -> JobResult:
    code = worker.process.exitcode
    seconds = time.perf_counter() - worker.started
    return JobResult(job.key, None, f"the worker process died (exit code {code})", "", seconds)


def _start_worker() -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    with safe_start():
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _stop(worker: _Worker) -> None:
    worker.pipe.close()
    if worker.job is not None or not worker.ready:  # it would not see that the pipe was closed
        worker.process.terminate()
    worker.process.join(timeout=5)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()


def _serve(pipe: connection.Connection) -> None:
    """The life of a worker: says that it is ready, then answers jobs until the pipe closes."""
    # Ctrl-C and a closed terminal are for the parent, which ends its workers
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    settled()
    one_thread_each()
    with suppress(OSError):  # the parent may be gone already; then so is the work
        pipe.send(None)
    while True:
        try:
            key, data = pipe.recv()
        except (EOFError, OSError):
            return  # no more work
        try:
            job = pickle.loads(data)
        except Exception as error:  # its module cannot be imported here
            result = JobResult(key, None, _one_line(error), traceback.format_exc())
        else:
            result = _run(job)
        try:
            pipe.send(result)
        except OSError:
            return  # the parent is gone
        except Exception as error:
            pipe.send(JobResult(key, None, f"result cannot be sent: {_one_line(error)}"))
