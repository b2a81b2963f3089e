"""Starting Python processes: from what is installed, never from the current directory.

A new interpreter looks for modules in the current directory first, unless it is told not to: a file
`multiprocessing.py` that lies there would run inside it. The two ways to start one are here: a
command line that begins with `python_command()`, and a block `safe_start()` around a start by
multiprocessing or Dask.
"""

from __future__ import annotations

import os
import signal
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path

# environment of a process whose numerical libraries have one thread each
ONE_THREAD = dict.fromkeys(
    ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
_SAFE = "PYTHONSAFEPATH"
_OWN = "ATTNLAB_SAFEPATH"  # says that the variable above is ours, and not the user's
_PACKAGES = str(Path(__file__).resolve().parents[2])  # where this package was imported from


def python_command() -> list[str]:
    """The start of a command line of this Python, without the current directory on its path."""
    return [sys.executable, "-P"]


def module_program(module: str, function: str) -> list[str]:
    """The command line that calls a function of this package. The package is found where it is here,
    also when only a path that this process has added leads to it."""
    program = (
        f"import sys; sys.path.append({_PACKAGES!r}); from {module} import {function}; {function}()"
    )
    return [*python_command(), "-c", program]


@contextmanager
def safe_start() -> Iterator[None]:
    """Processes that are started in this block do not look into the current directory, do not run
    the calling script again, and are not hit by a Ctrl-C while they start."""
    with safe_path(), ctrl_c_held_back(), main_hidden():
        yield


@contextmanager
def safe_path() -> Iterator[None]:
    """Interpreters that are started in this block leave the current directory off their path.

    multiprocessing gives its children the path of their parent afterwards, so that they find the
    same modules; `settled` takes the variable out of their environment again.
    """
    if os.environ.get(_SAFE):
        yield
        return
    os.environ |= {_SAFE: "1", _OWN: "1"}
    try:
        yield
    finally:
        settled()


def settled() -> None:
    """Takes out of this process's environment what `safe_path` put there, so that programs that a
    job starts see what the user has set."""
    if os.environ.pop(_OWN, None):
        os.environ.pop(_SAFE, None)


@contextmanager
def ctrl_c_held_back() -> Iterator[None]:
    """A worker inherits the blocked signal, so that Ctrl-C does not hit it while it starts; here it
    is delivered at the end of the block."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # multiprocessing starts its resource tracker with the first process and unblocks the signal
    # when that is done: the tracker has to run before the signal is blocked
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def main_hidden() -> Iterator[None]:
    """Keeps a new worker from importing the calling script again.

    By default it would: then a script without `if __name__ == "__main__":` starts all over in each
    worker, and a notebook or `python -` has no file to import. No job needs it (`_can_be_sent`).
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def one_thread_each() -> None:
    """Keeps this process's numerical libraries to one thread; call it before JAX computes.

    XLA sizes its CPU thread pool by NPROC when the backend starts; without it each of n workers
    would run as many threads as there are cores.
    """
    os.environ.update(ONE_THREAD)
