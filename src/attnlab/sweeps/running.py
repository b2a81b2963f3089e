"""`sweep`: the loop that hands out what is missing, and keeps what comes back."""

from __future__ import annotations

import datetime
import errno
import os
import secrets
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import records
from .._core.errors import InvalidArgument, check_flag
from .._core.interrupt import RunInterrupted
from .._core.progress import current_progress
from . import cluster
from .axes import Plan
from .collect import ROUNDED, assemble
from .directory import RESULT, Directory
from .evaluator import Evaluator, run_here
from .parts import OK, decode
from .ready import read
from .specification import Specification, specify
from .targets import Target, description

if TYPE_CHECKING:
    import xarray

SEED_RULE = (
    "a point's key is jax.random.key(seed) folded with the SHA-256 of its own settings, "
    "so that other points never change it"
)
_KEPT_HINT = "the same sweep goes on from there"


def sweep(
    target: str | os.PathLike[str] | Callable[..., Any],
    *,
    grid: Mapping[str, Any] | None = None,
    zip: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None,
    points: Iterable[Mapping[str, Any]] | None = None,
    seeds: int | Iterable[int] | None = None,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    scheduler: Any = None,
    retry: bool = False,
    fresh: bool = False,
    quick: bool = False,
    **options: Any,
) -> xarray.Dataset:
    """Computes a target at every point of a grid or list of settings: one labelled dataset.

    **Arguments:**

    - `target`: the id of an experiment; `"risk"`, the exact risk of a `task` and a `student` given
      by name; a function, or `"module:name"` of one, called with a point's settings as keywords,
      that returns a number, a mapping of names to numbers or arrays, or a dataset. With nothing
      that varies: a TOML file, or the name of a ready sweep (`sweeps.ready()`), `quick` or not.
    - `grid`: for each setting its values, all of which are combined; `zip`: settings that vary
      together, lists of one length; `points`: a list of settings; `seeds`: `N` (0 to N-1) or a
      list, for the setting `seed`. Values are a list or `{"linspace": [first, last, number]}`, also
      `geomspace`, `logspace` (exponents), `range`. Names may be paths, `"student.scale"`.
    - `out`: the directory that keeps finished batches, from which an interrupted sweep goes on;
      None: nothing is kept. `retry` computes batches with failed points again, `fresh` discards
      what other settings left there.
    - `workers`: processes of a local Dask cluster, by default one for each core; 0: this process,
      without Dask. `scheduler`: the address of a running Dask scheduler, or a Dask cluster or
      client, instead.
    - `settings` that are the same for all points, for experiments a `preset`; `task`, `student`,
      `overlaps` (default: the teacher's), `quantities` (of risk, error, components, gradient) and
      `theory` ("exact", "mean field", "approximate") for a risk.
    - `variables`: names of those results that are kept; `select`: an index into dimensions of a
      point's dataset, such as `{"step": -1}`.
    - `batching` of a function: `"each"` point is a call; `"vmap"`: it takes numbers that JAX traces
      and is vectorised and compiled in float64; `"arrays"`: it takes arrays and returns arrays. The
      settings named in `static` are the same within a call. `batch`: points handed out at once.
    - `timeout`: seconds after which a point (for calls of many: a call) is given up.
    - `seed`: a function with an argument `key` gets a random key that depends on this seed and the
      point's own settings alone.

    **Returns:** a dataset on the swept dimensions, followed by a variable's own. `status` is 0 where
    there is a result; see `sweeps.failures` for the others, which do not stop the sweep.

    Raises `InvalidArgument` before anything is computed, also when another sweep is at work in
    `out` or other settings were swept there; `RunInterrupted` on Ctrl-C, `OSError` when the disk is
    full and `ConnectionError` when the scheduler is gone, all of which lose nothing in `out`.
    """
    specification = _specification(
        target,
        check_flag("quick", quick),
        {"grid": grid, "zip": zip, "points": points, "seeds": seeds, **options},
    )
    check_flag("retry", retry)
    check_flag("fresh", fresh)
    count = 0 if scheduler is not None else cluster.local_workers(workers)
    if scheduler is not None or count > 0:
        cluster.require_dask()
    with _place(out) as path, Directory(path, specification, fresh=fresh) as directory:
        start, began = time.perf_counter(), datetime.datetime.now(datetime.UTC)
        lost = _compute(specification, directory, scheduler, count, retry, kept=out is not None)
        dataset = assemble(specification, directory.read, directory.finished())
        provenance = records.provenance(specification.configuration(brief=True))
        provenance |= {"started": began.isoformat(timespec="seconds"), "seed_rule": SEED_RULE}
        provenance = records.finish(provenance, time.perf_counter() - start)
        dataset = records.attach(dataset.assign_attrs(specification.about), provenance)
        if out is not None:
            records.save(dataset, directory.path / RESULT)
    _tell(dataset, lost)
    return dataset


def _specification(target: Any, quick: bool, arguments: Mapping[str, Any]) -> Specification:
    given = {name: value for name, value in arguments.items() if value is not None}
    file = isinstance(target, os.PathLike) or (isinstance(target, str) and target.endswith(".toml"))
    varies = {"grid", "zip", "points", "seeds"} & set(given)
    named = isinstance(target, str) and target != "risk" and ":" not in target
    if file or (named and not varies):
        return specify(**(read(target, quick=quick) | given))
    if quick:
        raise InvalidArgument("quick", quick, "False but for files and ready sweeps")
    return specify(target, **given)


@contextmanager
def _place(out: Any) -> Iterator[Path]:
    if out is not None:
        allowed = "the name of a directory"
        try:
            given = os.fspath(out)
            os.fsencode(given)
        except (TypeError, UnicodeEncodeError):
            raise InvalidArgument("out", out, allowed) from None
        if not isinstance(given, str) or not given.strip() or "\0" in given:
            raise InvalidArgument("out", out, allowed)
        yield Path(given).absolute()  # a point may change the directory of the process
        return
    place = Path(tempfile.mkdtemp(prefix="attnlab-sweep-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _compute(
    specification: Specification,
    directory: Directory,
    scheduler: Any,
    workers: int,
    retry: bool,
    kept: bool,
) -> int:
    """Computes the batches that are missing; returns how many were lost with their workers."""
    plan, progress = specification.plan, current_progress()
    there = directory.sound(but_failed=retry)
    missing = [number for number in range(plan.batches) if number not in there]
    if not missing:
        return 0
    failed, lost = 0, 0
    progress.start(specification.target, plan.size)
    try:
        progress.advance(plan.size - _points_of(plan, missing))
        with ExitStack() as stack:
            results = _results(specification, missing, scheduler, workers, stack)
            try:
                for number, data in results:
                    if data is None:
                        lost += 1
                        continue
                    directory.write(number, data)
                    status = decode(data).status()
                    failed += int((status != OK).sum())
                    progress.advance(len(status), note=f"{failed} failed" if failed else "")
            finally:
                results.close()  # before the cluster is
    except KeyboardInterrupt:
        raise _interrupted(directory, plan, kept) from None
    except OSError as error:
        raise _stopped(error, directory, plan, kept) from error
    finally:
        progress.stop()
    return lost


def _results(
    specification: Specification, missing: list[int], scheduler: Any, workers: int, stack: ExitStack
) -> Generator[tuple[int, bytes | None], None, None]:
    plan, timeout = specification.plan, specification.timeout
    here = scheduler is None and not workers and timeout is None
    packed = description(specification, stays=here and specification.function is not None)
    # each run has children of its own, since what they have imported may have changed
    name = f"{specification.digest[:16]}-{secrets.token_hex(4)}"
    work: Iterator[cluster.Work] = (
        (number, plan.columns(points), len(points))
        for number in missing
        for points in [plan.points(number)]
    )
    if scheduler is not None or workers:
        client = stack.enter_context(cluster.client_of(scheduler, min(workers, len(missing))))
        yield from cluster.spread(client, name, packed, timeout, work)
    elif timeout is not None:
        evaluator = Evaluator()
        stack.callback(evaluator.close)
        for number, columns, size in work:
            yield number, evaluator.run(name, packed, columns, size, timeout)
    else:
        target = Target(packed, specification.function)
        for number, columns, size in work:
            yield number, run_here(target, columns, size)


def _points_of(plan: Plan, numbers: list[int]) -> int:
    return sum(len(plan.points(number)) for number in numbers)


def _interrupted(directory: Directory, plan: Plan, kept: bool) -> RunInterrupted:
    told = f"interrupted with {_points_of(plan, directory.finished())} of {plan.size} points"
    interruption = RunInterrupted(None, told if kept else f"{told}, kept nowhere (no out)")
    interruption.saved = directory.path if kept else None
    return interruption


def _stopped(error: OSError, directory: Directory, plan: Plan, kept: bool) -> OSError:
    """The same error, with what is kept."""
    what = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
        what = "the disk is full"
    done = _points_of(plan, directory.finished())
    where = f"{done} of {plan.size} points are kept in {directory.path}; {_KEPT_HINT}"
    text = f"{what}: {where if kept else 'nothing is kept, for want of a directory (out)'}"
    if isinstance(error, ConnectionError):
        return ConnectionError(text)
    return OSError(error.errno, text) if error.errno is not None else OSError(text)


def _tell(dataset: xarray.Dataset, lost: int) -> None:
    """Warns, now that the result is kept."""
    told = []
    if lost:
        told.append(f"{lost} batches were lost with their workers and are missing; {_KEPT_HINT}")
    told += [
        f"result {name}: {ROUNDED}, were rounded"
        for name, variable in dataset.variables.items()
        if variable.attrs.get("rounded") == ROUNDED
    ]
    for text in told:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
