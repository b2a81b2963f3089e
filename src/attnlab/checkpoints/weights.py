"""One mapping from names to arrays, whatever the file; arrays are read when they are asked for."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import InvalidArgument
from .entry import Contents
from .hugging_face import find_directory, read_directory
from .numpy_file import read_npy, read_npz
from .safetensors_file import read_safetensors
from .torch_file import read_torch

_READERS = {
    ".safetensors": read_safetensors,
    ".npz": read_npz,
    ".npy": read_npy,
    ".pt": read_torch,
    ".pth": read_torch,
    ".bin": read_torch,
}
_SCALES = ("_scale_inv", "_scale")  # both multiply, whatever the first is called


class Weights(Mapping[str, np.ndarray]):
    """Arrays by name, read from a file one at a time, as float32 or float64.

    - `path`: the file or directory.
    - `config`: the `config.json` of a Hugging Face directory, else empty.
    - `metadata`: text that the file holds beside its arrays.

    `weights[name]` is an array of finite numbers: float64 stays float64, integers and booleans stay
    as they are, all other numbers become float32. Weights of 8 bits are multiplied by the scale that
    stands beside them (`name_scale_inv` or `name_scale`). It raises `InvalidArgument` for a name that
    is not there, for 8 bits without a scale and for weights that are NaN or infinite. `shape(name)`
    reads nothing.
    """

    def __init__(self, path: Path, contents: Contents, config: Mapping[str, Any]):
        self.path = path
        self.config = dict(config)
        self.metadata = dict(contents.metadata)
        self._entries = contents.entries
        for name in self._entries:
            if not name.isprintable():  # it could write anything on a terminal
                raise InvalidArgument("path", str(path), f"of printable names; {name!r} is not")

    def __getitem__(self, name: str) -> np.ndarray:
        self._known(name)
        array = np.asarray(self._entries[name].read())
        if array.dtype.kind == "c":
            raise InvalidArgument("path", str(self.path), f"of real numbers; {name} is complex")
        if self._entries[name].eight_bit or array.dtype.kind in "iu":
            array = self._scaled(name, array)
        if array.dtype.kind not in "biu" and array.dtype != np.float64:
            array = array.astype(np.float32)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            count = int(np.count_nonzero(~np.isfinite(array)))
            raise InvalidArgument(
                "path", str(self.path), f"of finite weights; {name} has {count} NaN or infinite"
            )
        return array

    def _scaled(self, name: str, array: np.ndarray) -> np.ndarray:
        """Weights of few bits times their scale; whole numbers without one are what they are."""
        beside = [name + end for end in _SCALES if name + end in self]
        if not beside and not self._entries[name].eight_bit:
            return array
        told = f"{name} has {', '.join(beside) or 'none'} beside it"
        unknown = [x for x in (name + "_zero_point", name + "_shape") if x in self]
        codes = self._entries[name].eight_bit or array.dtype == np.int8
        if len(beside) != 1 or unknown or array.ndim != 2 or not codes:
            raise InvalidArgument("path", str(self.path), f"of FP8 weights with one scale; {told}")
        scale = self[beside[0]].astype(np.float32)
        rows, columns = array.shape
        told_by = self.config.get("quantization_config")
        block: Any = told_by.get("weight_block_size") if isinstance(told_by, Mapping) else None
        if scale.size == 1:
            return array.astype(np.float32) * scale.reshape(())
        if scale.shape in ((rows,), (rows, 1)):
            return array.astype(np.float32) * scale.reshape(rows, 1)
        sound = isinstance(block, list) and len(block) == 2
        if sound and all(isinstance(x, int) and not isinstance(x, bool) and x > 0 for x in block):
            high, wide = block
            if scale.shape == (-(-rows // high), -(-columns // wide)):
                high, wide = min(high, rows), min(wide, columns)
                full = np.repeat(np.repeat(scale, high, axis=0), wide, axis=1)
                return array.astype(np.float32) * full[:rows, :columns]
        allowed = f"of FP8 weights whose scales fit; {beside[0]} has shape {scale.shape}"
        raise InvalidArgument("path", str(self.path), f"{allowed} for {array.shape}")

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def get(self, name: str, default: Any = None) -> Any:
        """`weights[name]` if there is one, else `default`."""
        return self[name] if name in self else default  # noqa: SIM401

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an array, without reading it. Raises `InvalidArgument`."""
        self._known(name)
        return self._entries[name].shape

    def few_bits(self, name: str) -> bool:
        """Whether `name` is there with numbers of 8 bits or fewer, without reading it all."""
        if name not in self:
            return False
        entry = self._entries[name]
        return entry.eight_bit or np.asarray(entry.read()).dtype.kind in "iu"

    def __repr__(self) -> str:
        return f"Weights({str(self.path)!r}, {len(self)} arrays)"

    def _known(self, name: str) -> None:
        if name not in self._entries:
            near = difflib.get_close_matches(name, self._entries, n=1)
            hint = f" (near: {near[0]})" if near else ""
            allowed = f"a file that holds {name}; it holds {len(self)} other arrays{hint}"
            raise InvalidArgument("path", str(self.path), allowed)


def read_weights(path: str | os.PathLike[str]) -> Weights:
    """The weights in a file or directory, by name; nothing in it is executed.

    **Arguments:** `path` of

    - a `.safetensors` file,
    - a Hugging Face directory: `config.json` with `model.safetensors` or `pytorch_model.bin`,
      whole or in shards; a file of that name in such a directory counts as the directory,
    - a PyTorch state dict, `.pt`, `.pth` or `.bin` (needs PyTorch),
    - a NumPy archive `.npz`, or one array `.npy`, whose name then is `arr_0`.

    Raises `InvalidArgument`, naming the file: missing, cut short, of another kind, with pickled
    code or Python objects; also when the package that reads it is not installed.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgument("path", path, "the path of a file or directory")
    place = Path(path)
    directory = find_directory(place)
    if directory is not None:
        contents, config = read_directory(directory)
        return Weights(place, contents, config)
    if not place.is_file():
        raise InvalidArgument("path", str(place), "an existing file or directory")
    reader = _READERS.get(place.suffix.lower())
    if reader is None:
        known = ", ".join(_READERS)
        raise InvalidArgument("path", str(place), f"a directory, or a file that ends in {known}")
    return Weights(place, reader(place), {})
