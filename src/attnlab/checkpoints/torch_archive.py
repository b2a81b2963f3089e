"""State dicts in today's PyTorch format, read without PyTorch and without running anything in them.

Such a file is a zip archive, never compressed: a pickle `data.pkl` that says which tensors there
are, and the numbers of each storage in a member of its own. The pickle is looked through first, so
that only the few operations which lay out dictionaries and tensors are left, and is then read with
a `find_class` that knows a handful of names and imports none.
"""

from __future__ import annotations

import collections
import io
import math
import pickle
import pickletools
import zipfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.errors import InvalidArgument
from .entry import Contents, Entry, refuse

_LARGEST_PICKLE = 2**28
_LEVELS = ("state_dict", "model_state_dict", "model")  # where trainers put it in a larger file
_OPERATIONS = frozenset(
    (
        *("PROTO", "STOP", "MARK", "POP", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1"),
        *("BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINSTRING", "EMPTY_LIST", "LIST"),
        *("APPEND", "APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_DICT"),
        *("DICT", "SETITEM", "SETITEMS", "EMPTY_SET", "BINPUT", "LONG_BINPUT", "BINGET"),
        *("LONG_BINGET", "GLOBAL", "REDUCE", "BUILD", "BINPERSID"),
    )
)
_KINDS = {
    "Double": "f8",
    "Float": "f4",
    "Half": "f2",
    "BFloat16": "u2",  # the upper half of a float32
    "Long": "i8",
    "Int": "i4",
    "Short": "i2",
    "Char": "i1",
    "Byte": "u1",
    "Bool": "?",
}
_BROKEN = (
    *(OSError, ValueError, EOFError, KeyError, IndexError, TypeError, AttributeError, RuntimeError),
    *(OverflowError, MemoryError, zipfile.BadZipFile, pickle.UnpicklingError),
)


class _Kind(NamedTuple):
    """What stands for a type of storage, such as `torch.FloatStorage`."""

    name: str


class _Storage(NamedTuple):
    """Numbers in a member of the archive."""

    kind: str
    member: str


class _Tensor(NamedTuple):
    """A view of a storage, in numbers."""

    storage: Any
    offset: Any
    shape: Any
    stride: Any


class _Rebuild:
    """What stands for the functions that put a tensor together. No attribute can be set on it."""

    __slots__ = ()

    def __call__(self, storage: Any, *layout: Any) -> _Tensor:
        if isinstance(storage, _Tensor):  # a parameter around a tensor
            return storage
        return _Tensor(storage, *layout[:3])


class _Unpickler(pickle.Unpickler):
    """Knows the names of tensors and dictionaries, and nothing else."""

    def __init__(self, data: bytes, path: Path):
        super().__init__(io.BytesIO(data))
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        known: dict[str, Any] = {
            "collections.OrderedDict": collections.OrderedDict,
            "torch.Size": tuple,
            "torch._utils._rebuild_tensor_v2": _Rebuild(),
            "torch._utils._rebuild_parameter": _Rebuild(),
        }
        full = f"{module}.{name}"
        if full in known:
            return known[full]
        kind = name.removesuffix("Storage")
        if module == "torch" and kind in _KINDS and kind != name:
            return _Kind(kind)
        allowed = "a PyTorch file of weights only, since code in it is never run"
        raise refuse(self._path, allowed, f"it asks for {full!r}")

    def persistent_load(self, pid: Any) -> _Storage:
        word, kind, member, _, _ = pid
        if word != "storage" or not isinstance(kind, _Kind) or not isinstance(member, str):
            raise ValueError(f"no storage: {pid!r}")
        return _Storage(kind.name, member)


def read_torch_archive(path: Path) -> Contents:
    """The tensors of a state dict, or of the state dict in a training file.

    Numbers are read when they are asked for. Raises `InvalidArgument`.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {item.filename: item for item in archive.infolist()}
            for item in members.values():
                if item.compress_type != zipfile.ZIP_STORED:  # PyTorch never does, a bomb would
                    raise refuse(path, f"a PyTorch file; {item.filename} in it is compressed")
            (place,) = [name for name in members if name.rpartition("/")[2] == "data.pkl"]
            stem = place.removesuffix("data.pkl")
            if members[place].file_size > _LARGEST_PICKLE:
                raise refuse(
                    path, f"a PyTorch file with a table of at most {_LARGEST_PICKLE} bytes"
                )
            order = archive.read(stem + "byteorder") if stem + "byteorder" in members else b"little"
            data = archive.read(place)
        _look_through(path, data)
        tensors = _state_dict(_Unpickler(data, path).load())
        if not tensors:
            raise refuse(path, "a state dict: names with tensors")
        sizes = {name: item.file_size for name, item in members.items()}
        big = {b"little": False, b"big": True}[order]
        return Contents(
            {name: _entry(path, stem, name, t, sizes, big) for name, t in tensors.items()}
        )
    except InvalidArgument:
        raise
    except _BROKEN as error:
        raise refuse(path, "a complete PyTorch file", error) from None


def _look_through(path: Path, data: bytes) -> None:
    """Refuses operations that no state dict needs, and places in the memo that would fill memory."""
    for operation, argument, _ in pickletools.genops(data):
        if operation.name not in _OPERATIONS:
            allowed = "a PyTorch file of weights only, since code in it is never run"
            raise refuse(path, allowed, f"it has the operation {operation.name}")
        if operation.name.endswith("BINPUT") and int(argument or 0) > len(data):
            raise ValueError(f"place {argument} in a memo of {len(data)} bytes")


def _state_dict(loaded: Any) -> dict[str, _Tensor]:
    if not isinstance(loaded, dict):
        return {}
    found = {str(name): value for name, value in loaded.items() if isinstance(value, _Tensor)}
    if found:
        return found
    for level in _LEVELS:
        found = _state_dict(loaded.get(level))
        if found:
            return found
    return {}


def _entry(
    path: Path, stem: str, name: str, tensor: _Tensor, sizes: dict[str, int], big: bool
) -> Entry:
    storage, offset, shape, stride = tensor
    whole = isinstance(storage, _Storage) and type(offset) is int and offset >= 0
    for sides in (shape, stride):
        whole = whole and isinstance(sides, tuple)
        whole = whole and all(type(n) is int and n >= 0 for n in sides)
    if not whole or len(shape) != len(stride):
        raise refuse(path, f"a PyTorch file of dense tensors; {name} is none")
    dtype = np.dtype((">" if big else "<") + _KINDS[storage.kind])
    member = f"{stem}data/{storage.member}"
    last = offset + sum((n - 1) * s for n, s in zip(shape, stride)) if math.prod(shape) else -1
    if max(last + 1, math.prod(shape)) * dtype.itemsize > sizes[member]:
        raise refuse(path, f"a complete PyTorch file; {name} reaches beyond its storage")
    return Entry(shape, partial(_read, path, member, dtype, tensor))


def _read(path: Path, member: str, dtype: np.dtype[Any], tensor: _Tensor) -> np.ndarray:
    try:
        with zipfile.ZipFile(path) as archive:
            numbers = np.frombuffer(archive.read(member), dtype)
    except _BROKEN as error:
        raise refuse(path, f"a complete PyTorch file; {member} is broken", error) from None
    if tensor.storage.kind == "BFloat16":
        numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
    strides = tuple(s * numbers.itemsize for s in tensor.stride)
    view = np.lib.stride_tricks.as_strided(
        numbers[tensor.offset :], tensor.shape, strides, writeable=False
    )
    return np.ascontiguousarray(view, view.dtype.newbyteorder("=")).reshape(tensor.shape)
