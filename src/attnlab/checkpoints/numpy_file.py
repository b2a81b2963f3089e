"""NumPy archives: `.npz` and `.npy`, without pickles, and never larger in memory than they say."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from .._core.errors import InvalidArgument
from .entry import Contents, Entry, refuse

# An entry that grows by more than this when unpacked is taken for an attack on the memory.
_LARGEST_GROWTH, _HARMLESS_BYTES = 200, 2**28
# What NumPy, zipfile and zlib raise when they are led astray by broken bytes.
_ERRORS = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, OverflowError, RuntimeError, SyntaxError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


def read_npy(path: Path) -> Contents:
    """The one array of an `.npy` file, called `arr_0`; raises `InvalidArgument`."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except _ERRORS as error:
        raise refuse(path, "a complete NumPy array without Python objects", error) from None
    if not isinstance(array, np.ndarray):
        array.close()  # an archive under another name
        raise refuse(path, "one NumPy array; an archive of several ends in .npz")
    _numeric(path, "it", array.dtype)
    return Contents({"arr_0": Entry(array.shape, lambda: np.asarray(array))})


def read_npz(path: Path) -> Contents:
    """The arrays of an `.npz` archive; single texts in it are metadata. Raises `InvalidArgument`."""
    entries, metadata = {}, {}
    try:
        with zipfile.ZipFile(path) as archive:
            for item in archive.infolist():
                if not item.filename.endswith(".npy"):
                    raise refuse(path, f"an archive of NumPy arrays; it holds {item.filename}")
                name = item.filename.removesuffix(".npy")
                packed = max(item.compress_size, 1)
                if item.file_size > max(_HARMLESS_BYTES, _LARGEST_GROWTH * packed):
                    told = f"{name} unpacks {packed} bytes to {item.file_size}"
                    raise refuse(path, f"an archive of moderate compression; {told}")
                with archive.open(item) as file:
                    shape, dtype = _header(file)
                    space = int(np.prod(shape, dtype=object)) * dtype.itemsize
                    if not dtype.hasobject and space > item.file_size:
                        raise refuse(path, f"complete; {name} has less data than its shape {shape}")
                if dtype.kind == "U" and shape == ():
                    metadata[name] = str(_read(path, item.filename))
                    continue
                _numeric(path, name, dtype)
                entries[name] = Entry(shape, partial(_read, path, item.filename))
    except InvalidArgument:
        raise
    except _ERRORS as error:
        raise refuse(path, "a complete NumPy archive without Python objects", error) from None
    return Contents(entries, metadata)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    return shape, dtype


def _numeric(path: Path, name: str, dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "fiub":
        what = "Python objects, which would need a pickle" if dtype.hasobject else str(dtype)
        raise refuse(path, f"of arrays of real numbers; {name} holds {what}")


def _read(path: Path, member: str) -> np.ndarray:
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except _ERRORS as error:
        raise refuse(path, f"a complete NumPy archive; {member} is broken", error) from None
