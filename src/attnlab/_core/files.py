"""Files that appear whole or not at all, and what killed writers leave of them."""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_OLD = 3600.0  # seconds after which a file whose writer cannot be asked is taken for left over
# the host and the process of the writer, and a random part; earlier versions had a random part only
_NAME = re.compile(r"\.(?P<name>.+)\.((?P<host>[0-9a-f]{8})(?P<pid>[0-9a-f]{8}))?[0-9a-f]{8}\.tmp")
_open: set[Path] = set()  # those that this process is writing


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path` that takes its name when the block ends without an exception.

    Until then an older file stays as it is; a reader sees the old file or the new one, never half.
    The folder is made when missing. A writer that is killed leaves the temporary file, whose name
    starts with a dot and ends in `.tmp` (`clear_left_over` finds it); one that raises leaves nothing.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)
    # Not tempfile: its files are private to the user, whatever the umask says.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    _open.add(temporary)
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        _open.discard(temporary)


def temporary_name(path: Path) -> Path:
    """A new name beside `path` that says who writes: this host, this process."""
    writer = f"{_host()}{os.getpid():08x}"
    return path.parent / f".{path.name}.{writer}{secrets.token_hex(4)}.tmp"


def clear_left_over(
    folder: str | os.PathLike[str], prefix: str = "", *, below: bool = False
) -> int:
    """Removes the temporary files in `folder` of writers that are gone, for files whose names start
    with `prefix`; with `below`, in all folders below it too. Returns their number.

    A file of another machine, whose processes cannot be seen from here, goes when it is an hour old.
    """
    number = 0
    for path in (Path(folder).rglob if below else Path(folder).glob)(".*.tmp"):
        found = _NAME.fullmatch(path.name)
        if found and found["name"].startswith(prefix) and _is_left_over(path, found):
            with suppress(OSError):
                path.unlink()
                number += 1
    return number


def _is_left_over(path: Path, found: re.Match[str]) -> bool:
    if path in _open or path.is_symlink() or not path.is_file():
        return False
    pid = int(found["pid"] or "0", 16)
    if found["host"] == _host() and os.name == "posix" and pid > 0:
        return pid == os.getpid() or not _is_alive(pid)
    try:
        return time.time() - path.stat().st_mtime > _OLD
    except OSError:
        return False  # it has its name now


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # of another user
    return True


def _host() -> str:
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"
