"""Checkpoints: the state of a long loop on disk, so that the same command goes on where it stopped.

A file belongs to one computation. It carries a key (in practice the whole configuration), and a
file with another key, a damaged one or none at all are the same to the reader: start afresh.
"""

from __future__ import annotations

import contextvars
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .errors import InvalidArgument
from .files import replacing

_KEY = "key"
_PREFIX = "array."  # keeps the arrays' names apart from the key and from savez's own arguments


class Checkpoint:
    """One file of named arrays, replaced as a whole at every save.

    **Arguments:** `path` of the file (`.npz`; its folder is made on the first save); `key`, the
    text that identifies the computation.
    """

    def __init__(self, path: str | os.PathLike[str], key: str):
        if not isinstance(key, str) or not key:
            raise InvalidArgument("key", key, "a non-empty string that identifies the computation")
        self.path, self.key = Path(path), key

    def load(self) -> dict[str, np.ndarray] | None:
        """The arrays of the last save; None when absent, of another key, or damaged."""
        try:
            with (
                open(self.path, "rb") as file,  # closed here even when its content is damaged
                np.load(file, allow_pickle=False) as stored,
            ):
                if _KEY not in stored or str(stored[_KEY]) != self.key:
                    return None
                names = [name for name in stored.files if name != _KEY]
                return {name.removeprefix(_PREFIX): stored[name] for name in names}
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            return None

    def save(self, arrays: Mapping[str, Any]) -> None:
        """Replaces the file by `arrays`. A reader sees the old file or the new one, never half.

        Raises `InvalidArgument` for arrays of Python objects (which would need pickles).
        """
        converted: dict[str, Any] = {_KEY: np.array(self.key)}
        for name, value in arrays.items():
            array = np.asarray(value)
            if array.dtype.hasobject:
                raise InvalidArgument(name, value, "a numeric, boolean or string array")
            converted[_PREFIX + name] = array
        with replacing(self.path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **converted)

    def clear(self) -> None:
        """Removes the file; nothing happens when there is none."""
        self.path.unlink(missing_ok=True)


_where: contextvars.ContextVar[tuple[Path, str, list[Checkpoint]] | None] = contextvars.ContextVar(
    "attnlab_checkpoints", default=None
)


def current_checkpoint(name: str) -> Checkpoint | None:
    """The checkpoint for the loop called `name`; None when nobody asked for checkpoints.

    A computation that runs the same loop several times has to give each its own name.
    """
    where = _where.get()
    if where is None:
        return None
    directory, key, used = where
    checkpoint = Checkpoint(directory / f"{name}.npz", f"{name}\n{key}")
    used.append(checkpoint)
    return checkpoint


@contextmanager
def use_checkpoints(directory: str | os.PathLike[str], key: str) -> Iterator[None]:
    """Loops in this block may keep checkpoints in `directory`, as parts of computation `key`.

    When the block ends without an exception the computation is done and its checkpoints are
    removed; otherwise they stay for the next try. So whatever is to be kept of the computation has
    to be saved inside the block.
    """
    folder = Path(directory)
    used: list[Checkpoint] = []
    token = _where.set((folder, key, used))
    try:
        yield
    finally:
        _where.reset(token)
    for checkpoint in used:
        checkpoint.clear()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
