"""One sweep at a time in a directory.

The lock is held by the operating system for as long as its process lives, so that one that was
killed leaves none behind. The file also says who holds it: for the message, and for a directory
shared by several machines, where the system of one may not see the locks of another.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._core.errors import InvalidArgument

NAME = "lock"
_BYTE = 1 << 30  # of the file that is locked where whole files cannot be: far behind the text


class Lock:
    """Holds a directory from its making to `release`.

    Raises `InvalidArgument` when another process holds it, or a process of another machine that did
    not release it.
    """

    def __init__(self, directory: Path):
        self._path = directory / NAME
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            free = any(_take(self._file) for _ in _tries())  # a look at the status holds it too
            owner = _read(self._file)
            elsewhere = owner is not None and owner.get("host") != socket.gethostname()
            if not free or elsewhere:
                hint = f"; if it is known to have ended, remove {self._path}" if elsewhere else ""
                raise InvalidArgument(
                    "out", str(directory), f"used by one sweep at a time ({told(owner)}{hint})"
                )
        except BaseException:
            os.close(self._file)
            raise
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        _write(self._file, {"pid": os.getpid(), "host": socket.gethostname(), "since": now})

    def in_place(self) -> bool:
        """Whether the directory is still where it was."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._file))
        except OSError:
            return False

    def release(self) -> None:
        """Lets go of the directory, also for processes that were forked meanwhile."""
        _write(self._file, None)
        _give_back(self._file)
        os.close(self._file)


def holder(directory: Path) -> dict[str, Any] | None:
    """Who works in the directory, or None; takes nothing. A process that was killed is not told."""
    try:
        file = os.open(directory / NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        owner = _read(file)
        if owner is None or owner.get("host") != socket.gethostname():
            return owner
        return None if _take(file) else owner
    finally:
        os.close(file)


def told(owner: dict[str, Any] | None) -> str:
    """The holder in words."""
    if owner is None:
        return "another process has it"
    return f"process {owner.get('pid')} on {owner.get('host')} has it since {owner.get('since')}"


def _tries() -> Iterator[int]:
    for number in range(5):
        if number:
            time.sleep(0.02)
        yield number


def _take(file: int) -> bool:
    try:
        import fcntl
    except ImportError:
        import msvcrt  # of Windows

        os.lseek(file, _BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: what the file says has to do
        owner = _read(file)
        return owner is None or not _alive(owner)
    return True


def _give_back(file: int) -> None:
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)


def _alive(owner: dict[str, Any]) -> bool:
    try:
        os.kill(int(owner["pid"]), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _read(file: int) -> dict[str, Any] | None:
    try:
        found = json.loads(os.pread(file, 4096, 0) if hasattr(os, "pread") else _start(file))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _start(file: int) -> bytes:
    os.lseek(file, 0, os.SEEK_SET)
    return os.read(file, 4096)


def _write(file: int, owner: dict[str, Any] | None) -> None:
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)
    if owner is not None:
        os.write(file, json.dumps(owner).encode())
