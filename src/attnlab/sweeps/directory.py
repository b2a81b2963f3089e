"""A sweep's directory: what is computed in it, and one file for each finished batch.

    manifest.json       the configuration, its digest, the versions it was computed with
    batches/0000012.npz what batch 12 gave; appears whole or not at all. The comment of the archive
                        says of which sweep and which batch it is
    lock                who works here
    sweep.nc            the result, once all batches are there

Nothing but the directory is needed to go on: a batch whose file is there is finished.
"""

from __future__ import annotations

import datetime
import errno
import json
import re
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import InvalidArgument
from .._core.files import replacing
from ..records import writable_directory, writable_files
from .differences import differences
from .lock import NAME as LOCK
from .lock import Lock, holder
from .parts import OK, BatchRecord, decode
from .specification import Specification
from .versions import versions

RESULT, MANIFEST = "sweep.nc", "manifest.json"
_BATCHES, _FORMAT = "batches", 1
_BATCH = re.compile(r"[0-9]{7}\.npz")
_TEMPORARY = re.compile(
    r"\.(manifest\.json|sweep\.nc|[0-9]{7}\.npz)\.([0-9a-f]{8}|[0-9a-f]{24})\.tmp"
)


@dataclass(frozen=True)
class Status:
    """How far a sweep is: numbers of `points` in all, `done` (failures included), `failed`, of
    `batches` and `finished` batches, computing `seconds` so far, `target`, and the `owner` who works
    on it just now, or None."""

    directory: Path
    target: str
    points: int
    done: int
    failed: int
    batches: int
    finished: int
    seconds: float
    started: str
    owner: Mapping[str, Any] | None


class Directory:
    """A sweep's directory, locked; use it as a context manager.

    **Arguments:** `path`, made when missing; the `specification`; `fresh` throws away what other
    settings have left there.

    Raises `InvalidArgument` when it cannot be written to, when another sweep is at work there, and
    when what is there was computed from other settings or with other versions, saying what differs.
    """

    def __init__(self, path: Path, specification: Specification, *, fresh: bool = False):
        self.path = writable_files(path, [RESULT, MANIFEST, LOCK])
        self._plan = specification.plan
        self._digest = specification.digest
        self._lock = Lock(self.path)
        try:
            writable_directory(self.path / _BATCHES)
            if fresh:
                self._clear()
            self._agree(specification)
            self._sweep_up()
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def write(self, number: int, data: bytes) -> None:
        """Keeps a finished batch. The result of an earlier run no longer stands.

        Raises `OSError` when the disk refuses, or when the directory was moved or removed.
        """
        if not self._lock.in_place():
            raise OSError(errno.ENOENT, "the directory was moved or removed by somebody")
        (self.path / RESULT).unlink(missing_ok=True)
        with replacing(_file(self.path, number)) as temporary:
            temporary.write_bytes(data)
            with zipfile.ZipFile(temporary, "a") as archive:
                archive.comment = _mark(self._digest, number)

    def finished(self) -> list[int]:
        """Numbers of this sweep's batches whose files are there."""
        return [number for number in _numbers(self.path) if number < self._plan.batches]

    def sound(self, *, but_failed: bool = False) -> set[int]:
        """Those of them that can be read; without those that have failed points if so wished.
        Damaged files are removed."""
        found = set()
        for number in self.finished():
            record = self.read(number)
            if record is not None and not (but_failed and record.errors):
                found.add(number)
        return found

    def read(self, number: int) -> BatchRecord | None:
        """A finished batch; None where the file is missing or damaged, which is then removed."""
        record = _read(self.path, self._digest, number, remove=True)
        if record is not None and record.size != len(self._plan.points(number)):
            _file(self.path, number).unlink(missing_ok=True)
            return None
        return record

    def _sweep_up(self) -> None:
        """Removes what a writer that was killed has left: files with our names only."""
        for pattern in (f".{MANIFEST}.*.tmp", f".{RESULT}.*.tmp", f"{_BATCHES}/.*.npz.*.tmp"):
            for left in self.path.glob(pattern):
                if left.is_file() and _TEMPORARY.fullmatch(left.name):
                    left.unlink(missing_ok=True)

    def _clear(self) -> None:
        for number in _numbers(self.path):
            _file(self.path, number).unlink()
        for name in (MANIFEST, RESULT):
            (self.path / name).unlink(missing_ok=True)

    def _agree(self, specification: Specification) -> None:
        """Writes the manifest, or compares with the one that is there."""
        now: dict[str, Any] = {
            "format": _FORMAT,
            "configuration": specification.configuration(brief=True),
            "digest": specification.digest,
            "points": specification.plan.size,
            "batches": specification.plan.batches,
            "versions": versions(),
        }
        then = _manifest(self.path)
        if then is None:
            if _numbers(self.path):
                allowed = "a directory with its manifest.json, or an empty one (fresh discards it)"
                raise InvalidArgument("out", str(self.path), allowed)
            started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            with replacing(self.path / MANIFEST) as temporary:
                temporary.write_text(json.dumps(now | {"started": started}, indent=1))
            return
        changed = differences(then["configuration"], now["configuration"])
        changed += differences(then["versions"], now["versions"])
        if then["digest"] != now["digest"] and not changed:
            changed = ["its manifest is of other settings"]
        if changed:
            text = "; ".join(changed[:5]) + (f" and {len(changed) - 5} more" if changed[5:] else "")
            allowed = (
                f"the directory of this very sweep. {text}. Take another directory, or discard "
                "what is there (--fresh, fresh=True)"
            )
            raise InvalidArgument("out", str(self.path), allowed)


def status(directory: Path) -> Status:
    """How far the sweep in a directory is; disturbs nobody.

    Raises `InvalidArgument` when there is no sweep in it.
    """
    manifest = _manifest(directory)
    if manifest is None:
        raise InvalidArgument(
            "out", str(directory), "the directory of a sweep (with manifest.json)"
        )
    done = failed = finished = 0
    seconds = 0.0
    for number in _numbers(directory):
        inside = number < manifest["batches"]
        record = _read(directory, manifest["digest"], number) if inside else None
        if record is None:
            continue
        finished += 1
        done += record.size
        failed += int(np.sum(record.status() != OK))
        seconds += record.seconds
    return Status(
        directory,
        str(manifest["configuration"].get("target")),
        int(manifest["points"]),
        done,
        failed,
        int(manifest["batches"]),
        finished,
        seconds,
        str(manifest["started"]),
        holder(directory),
    )


def _manifest(directory: Path) -> dict[str, Any] | None:
    try:
        data = (directory / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    with suppress(ValueError):  # no JSON, or not even text
        found = json.loads(data)
        if isinstance(found, dict) and found.get("format") == _FORMAT and _is_whole(found):
            return found
    allowed = f"a directory whose {MANIFEST} this version reads (fresh discards it)"
    raise InvalidArgument("out", str(directory), allowed)


def _is_whole(manifest: Mapping[str, Any]) -> bool:
    kinds: dict[str, type] = {"configuration": dict, "versions": dict, "digest": str}
    kinds |= {"started": str, "points": int, "batches": int}
    there = all(isinstance(manifest.get(name), kind) for name, kind in kinds.items())
    return there and manifest["points"] > 0 and manifest["batches"] > 0


def _numbers(directory: Path) -> list[int]:
    found = (directory / _BATCHES).glob("*.npz")
    return sorted(int(p.stem) for p in found if _BATCH.fullmatch(p.name) and p.is_file())


def _file(directory: Path, number: int) -> Path:
    return directory / _BATCHES / f"{number:07d}.npz"


def _mark(digest: str, number: int) -> bytes:
    return f"{digest} {number}".encode()


def _read(directory: Path, digest: str, number: int, *, remove: bool = False) -> BatchRecord | None:
    path = _file(directory, number)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return decode(data, _mark(digest, number))
    except ValueError:
        if remove:
            path.unlink(missing_ok=True)
        return None
