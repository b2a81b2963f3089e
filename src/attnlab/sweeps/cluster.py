"""Batches spread over Dask workers: those of this machine, of a running cluster, of a SLURM queue.

Dask only distributes; what computes is a child process of each worker (`evaluator`), so that a
point that hangs is killed without a worker being lost. Workers need the package and nothing else.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib.util
import json
import logging
import os
import queue
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from .._core.children import ctrl_c_held_back, main_hidden, safe_path
from .._core.errors import InvalidArgument, check_integer
from .evaluator import run_in_worker

_CONNECT = "15s"
# what local processes watch of themselves, and how often: it would take a few per cent of the cores
_THRIFTY = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
}
# they show nothing to a browser, which would have no keys; whoever wants Dask's dashboard passes a
# cluster of their own as `scheduler`
_PRIVATE: dict[str, Any] = {
    f"distributed.{role}.http.routes": [] for role in ("scheduler", "worker", "nanny")
}
_LOST_AFTER = 5.0  # seconds without a scheduler before the sweep gives up
_PATIENCE = 10.0  # seconds between looks at the scheduler while a result is fetched
_CLOSING = 3.0  # seconds for the local workers to end by themselves
_REFRESH = 2.0  # seconds between counts of the workers
_AHEAD = 2  # batches that wait at each worker, so that none is idle

Work = tuple[int, Mapping[str, list[Any]], int]  # number of the batch, its settings, its size


def require_dask() -> None:
    """Raises `InvalidArgument` where the extra is not installed."""
    if importlib.util.find_spec("distributed") is None:
        allowed = '0 (this process) without Dask; pip install "attnlab[sweep]" brings it'
        raise InvalidArgument("workers", None, allowed)


def local_workers(given: int | None) -> int:
    """The number of local workers: by default one for each core that this process may use."""
    if given is not None:
        return check_integer("workers", given, minimum=0, maximum=4096)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def client_of(scheduler: Any, workers: int) -> Iterator[Any]:
    """A Dask client: of `scheduler`, an address, a scheduler file, a cluster or a client, or of a
    cluster of so many processes on this machine.

    Raises `InvalidArgument` when nobody answers at the address.
    """
    require_dask()
    import dask
    import distributed

    if isinstance(scheduler, distributed.Client):
        yield scheduler
        return
    with ExitStack() as stack:
        address = scheduler
        if scheduler is None:
            # a worker must not run the calling script again, now or when it is started anew
            stack.enter_context(main_hidden())
            stack.enter_context(safe_path())
            stack.enter_context(dask.config.set(_THRIFTY | _PRIVATE))
            with ctrl_c_held_back():  # and Ctrl-C is for us, who end the workers
                cluster = distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,
                    # only this machine, and on it only who has the keys, which nobody else gets
                    host="127.0.0.1",
                    security=_security(),
                    scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                    worker_dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
            stack.callback(_close, cluster)
            address = cluster
        stack.enter_context(_quiet("distributed.client"))  # what happened is said once, by us
        try:
            client = _connected(_address(address))
        except Exception as error:  # of many kinds, when something else answers there
            text = " ".join(str(error).split()) or type(error).__name__
            allowed = (
                "the address of a running Dask scheduler, such as tcp://host:8786, or its .json "
                f"file ({text})"
            )
            raise InvalidArgument("scheduler", scheduler, allowed) from None
        # a connection to who has died is tried for so long; 30 s are waited in silence otherwise
        stack.enter_context(dask.config.set({"distributed.comm.timeouts.connect": "5s"}))
        try:
            yield client
        finally:
            with suppress(Exception):  # its scheduler may be gone
                client.close(timeout=2)


def _security() -> Any:
    """Keys of this cluster alone: who has none can neither see what it computes nor send it work.

    They need a package that comes with the extra `sweep`; where Dask was installed without it, that
    is said, since other users of the machine could reach the workers.
    """
    import distributed

    if importlib.util.find_spec("cryptography") is None:
        logging.getLogger(__name__).warning(
            "without the package cryptography other users of this machine can reach the local "
            'workers; pip install "attnlab[sweep]" brings it'
        )
        return None
    return distributed.Security.temporary()


def _address(scheduler: Any) -> Any:
    """The address that a scheduler file holds (Dask would wait for a missing one for ever)."""
    if isinstance(scheduler, os.PathLike) or str(scheduler).endswith(".json"):
        return json.loads(Path(scheduler).read_bytes())["address"]
    return scheduler


def _connected(address: Any) -> Any:
    import distributed

    class Client(distributed.Client):
        def __init__(self) -> None:
            try:
                super().__init__(address, timeout=_CONNECT, set_as_default=False)
            except BaseException:
                self.status = "closed"  # else it would wait for an answer when it is deleted
                raise

    return Client()


def spread(
    client: Any, name: str, description: bytes, timeout: float | None, work: Iterable[Work]
) -> Iterator[tuple[int, bytes | None]]:
    """The encoded records of batches as they come; None for a batch that was lost with its workers.

    Raises `ConnectionError` when the scheduler is gone.
    """
    waiting, arrived = iter(work), queue.Queue[Any]()
    pending: dict[Any, int] = {}
    size = _Size(client)

    def submit() -> None:
        most = _AHEAD * size() + 2
        while len(pending) < most:
            item = next(waiting, None)
            if item is None:
                return
            number, columns, points = item
            future = client.submit(
                run_in_worker,
                name,
                description,
                columns,
                points,
                timeout,
                pure=False,
                key=f"attnlab-{name}-{number}-{time.time_ns()}",
            )
            pending[future] = number
            future.add_done_callback(arrived.put)

    lost_since: float | None = None
    try:
        submit()
        while pending:
            if client.status != "running":
                lost_since = lost_since or time.monotonic()
                if time.monotonic() - lost_since > _LOST_AFTER or client.status == "closed":
                    raise ConnectionError("the Dask scheduler is gone")
            else:
                lost_since = None
            try:
                future = arrived.get(timeout=0.5)
            except queue.Empty:
                submit()  # workers may have joined
                continue
            number = pending.pop(future)
            data = _result(client, future)
            del future  # so that the cluster can forget the result
            yield number, data
            submit()
    finally:
        if client.status == "running" and pending:
            with suppress(Exception):
                client.cancel(list(pending), force=True)


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _result(client: Any, future: Any) -> bytes | None:
    """What a finished future holds; None when several workers died with its batch.

    The worker that holds it may die meanwhile: then it is computed again.
    """
    import distributed

    gone = ConnectionError("the Dask scheduler is gone")
    while True:
        try:
            return future.result(timeout=_PATIENCE)
        except TimeoutError:
            if client.status != "running":
                raise gone from None
        except distributed.KilledWorker:
            return None
        except (asyncio.CancelledError, concurrent.futures.CancelledError):
            raise gone from None
        except distributed.comm.CommClosedError:
            raise gone from None


def _close(cluster: Any) -> None:
    """Ends a local cluster. A worker that is just being started in place of a dead one would keep it
    waiting; it is killed."""
    import psutil

    started = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
    with suppress(Exception):
        cluster.close(timeout=_CLOSING)
    for pid in started:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.ppid() == os.getpid():
                process.kill()


class _Size:
    """The number of workers, asked for now and then: they join and leave."""

    def __init__(self, client: Any):
        self._client, self._asked, self._number = client, 0.0, 1

    def __call__(self) -> int:
        if time.monotonic() - self._asked > _REFRESH and self._client.status == "running":
            with suppress(Exception):
                self._number = max(1, len(self._client.scheduler_info()["workers"]))
            self._asked = time.monotonic()
        return self._number
