"""Files in the safetensors format: a header with names, types and places, then plain numbers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from .entry import Contents, Entry, refuse


def read_safetensors(path: Path) -> Contents:
    """The arrays of a `.safetensors` file; raises `InvalidArgument`."""
    try:
        import ml_dtypes  # noqa: F401  (bfloat16 for NumPy; JAX brings it)
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise refuse(
            path, 'read with safetensors, which pip install "attnlab[probing]" adds'
        ) from None
    try:
        file = safe_open(path, framework="numpy")
        names = list(file.keys())
        shapes = [tuple(file.get_slice(name).get_shape()) for name in names]
        metadata = file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise refuse(path, "a complete safetensors file", error) from None

    def read(name: str) -> np.ndarray:
        try:
            return np.asarray(file.get_tensor(name))
        except (SafetensorError, OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise refuse(path, f"of numbers that NumPy knows; {name} is not", error) from None

    entries = {name: Entry(shape, partial(read, name)) for name, shape in zip(names, shapes)}
    return Contents(entries, metadata)
