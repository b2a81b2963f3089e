"""State dicts of PyTorch, loaded as weights only: a pickle that asks for anything else is refused."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .entry import Contents, Entry, refuse

_LEVELS = ("state_dict", "model_state_dict", "model")  # where trainers put it in a larger file


def read_torch(path: Path) -> Contents:
    """The tensors of a state dict, or of the state dict in a training file.

    A file in today's format is mapped, not read. Raises `InvalidArgument`.
    """
    mapped = _is_whole_archive(path)
    try:
        import torch
    except ImportError:
        raise refuse(path, 'read with PyTorch, which pip install "attnlab[bert]" adds') from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on pickles of other programs, which are refused
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        reason = next((x for x in str(error).splitlines() if "global" in x.lower()), error)
        allowed = "a PyTorch file of weights only, since code in it is never run"
        raise refuse(path, allowed, str(reason).strip()) from None
    except MemoryError:
        raise
    except Exception as error:  # broken bytes lead its reader to errors of any kind
        raise refuse(path, "a complete PyTorch file", error) from None
    tensors = _state_dict(loaded, torch.Tensor)
    if not tensors:
        raise refuse(path, "a state dict: names with tensors")
    return Contents(
        {
            name: Entry(tuple(tensor.shape), partial(_read, path, name, tensor))
            for name, tensor in tensors.items()
        }
    )


def _is_whole_archive(path: Path) -> bool:
    """Whether the file is of today's format, a zip archive; the older one is one pickle."""
    try:
        with open(path, "rb") as file:
            zipped = file.read(4) == b"PK\x03\x04"
        if not zipped:
            return False
        with zipfile.ZipFile(path) as archive:
            packed = [x for x in archive.infolist() if x.compress_type != zipfile.ZIP_STORED]
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError) as error:
        raise refuse(path, "a complete PyTorch file", error) from None
    if packed:  # PyTorch never compresses, so that it can map; a bomb would
        raise refuse(path, f"a PyTorch file; {packed[0].filename} in it is compressed")
    return True


def _state_dict(loaded: Any, kind: type) -> dict[str, Any]:
    if not isinstance(loaded, dict):
        return {}
    found = {str(name): value for name, value in loaded.items() if isinstance(value, kind)}
    if found:
        return found
    for level in _LEVELS:
        found = _state_dict(loaded.get(level), kind)
        if found:
            return found
    return {}


def _read(path: Path, name: str, tensor: Any) -> np.ndarray:
    import torch

    try:
        plain = tensor.detach()
        if plain.is_floating_point() and plain.dtype not in (torch.float64, torch.float32):
            plain = plain.float()
        return np.asarray(plain.numpy())
    except (RuntimeError, TypeError) as error:
        raise refuse(path, f"of dense tensors of real numbers; {name} is not", error) from None
