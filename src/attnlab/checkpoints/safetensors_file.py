"""Files in the safetensors format: a header with names, types and places, then plain numbers."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .entry import Contents, Entry, refuse

_EIGHT_BITS = {"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}


def read_safetensors(path: Path) -> Contents:
    """The arrays of a `.safetensors` file; raises `InvalidArgument`."""
    try:
        import ml_dtypes  # bfloat16 and numbers of 8 bits for NumPy; JAX brings it
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise refuse(
            path, 'read with safetensors, which pip install "attnlab[probing]" adds'
        ) from None
    try:
        file = safe_open(path, framework="numpy")
        names = list(file.keys())
        slices = [file.get_slice(name) for name in names]
        shapes = [tuple(part.get_shape()) for part in slices]
        kinds = [str(part.get_dtype()) for part in slices]
        metadata = file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise refuse(path, "a complete safetensors file", error) from None

    def read(name: str, kind: str) -> np.ndarray:
        try:
            if kind in _EIGHT_BITS:
                return _read_eight_bits(path, name, getattr(ml_dtypes, _EIGHT_BITS[kind]))
            return np.asarray(file.get_tensor(name))
        except (SafetensorError, OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise refuse(path, f"of numbers that NumPy knows; {name} is not", error) from None

    entries = {
        name: Entry(shape, partial(read, name, kind), kind.startswith(("F8_", "F6_", "F4")))
        for name, shape, kind in zip(names, shapes, kinds)
    }
    return Contents(entries, metadata)


def _read_eight_bits(path: Path, name: str, dtype: Any) -> np.ndarray:
    """Numbers that NumPy has no type of its own for, from their bytes; the reader that has seen the
    file before has checked that its header is sound."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        told = json.loads(file.read(size))[name]
        start, end = told["data_offsets"]
        file.seek(8 + size + start)
        return np.frombuffer(file.read(end - start), dtype).reshape(told["shape"])
