"""Where outputs go, checked before anything is computed: what was computed must not be lost at the end
for want of a place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._core.errors import InvalidArgument
from .._core.files import clear_left_over, temporary_name


def checked_path(value: Any, name: str = "out") -> Path:
    """`value` as a path. Raises `InvalidArgument` (about argument `name`) for what is none."""
    try:
        text = os.fspath(value)
        os.fsencode(text)
    except (TypeError, ValueError):
        text = None
    if not isinstance(text, str) or "\0" in text:
        raise InvalidArgument(name, value, "the name of a file or directory")
    return Path(text)


def writable_directory(directory: str | os.PathLike[str], name: str = "out") -> Path:
    """`directory`, made when missing and tried by writing, so that a run fails before it computes.

    Raises `InvalidArgument` (about argument `name`) when nothing can be written there.
    """
    path = checked_path(directory, name)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path, prefix=".attnlab-", suffix=".tmp"):
            pass
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidArgument(
            name, str(path), f"a directory that can be written to ({reason})"
        ) from None
    return path


def writable_file(file: str | os.PathLike[str], name: str = "out") -> Path:
    """`file`, whose directory is made when missing; that it can be written is tried beside it, and
    what killed writers of it have left there is cleared.

    Raises `InvalidArgument` (about argument `name`) when a directory or a device has that name, and
    when nothing can be written there.
    """
    path = checked_path(file, name)
    if os.path.lexists(path) and not path.is_file() and not path.is_symlink():
        what = "a directory has that name" if path.is_dir() else "what has that name is none"
        raise InvalidArgument(name, str(path), f"the name of a file ({what})")
    if path.is_symlink() and path.exists() and not path.is_file():
        raise InvalidArgument(name, str(path), "the name of a file (it leads to something else)")
    if not path.name:
        raise InvalidArgument(name, str(path), "the name of a file")
    writable_directory(path.parent, name)
    try:
        temporary = temporary_name(path)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        temporary.unlink()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        allowed = f"the name of a file that can be written ({reason})"
        raise InvalidArgument(name, str(path), allowed) from None
    clear_left_over(path.parent, path.name)
    return path


def writable_files(folder: str | os.PathLike[str], names: Iterable[str], name: str = "out") -> Path:
    """`folder`, in which files of these names can be written. Raises `InvalidArgument`."""
    path = writable_directory(folder, name)
    for each in names:
        writable_file(path / each, name)
    return path
