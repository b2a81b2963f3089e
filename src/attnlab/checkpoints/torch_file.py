"""State dicts of PyTorch: today's archives by ourselves, files of before 2020 by PyTorch itself."""

from __future__ import annotations

import pickle
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .entry import Contents, Entry, refuse
from .torch_archive import read_torch_archive


def read_torch(path: Path) -> Contents:
    """The tensors of a state dict, or of the state dict in a training file.

    Nothing in the file is run. Raises `InvalidArgument`, also where PyTorch is needed and not there.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(4)
    except OSError as error:
        raise refuse(path, "a file that can be read", error) from None
    if start == b"PK\x03\x04":
        return read_torch_archive(path)
    if not start.startswith(b"\x80"):
        raise refuse(path, "a complete PyTorch file")
    return _read_old(path)


def _read_old(path: Path) -> Contents:
    try:
        import torch
    except ImportError:
        allowed = (
            'in the format of PyTorch 1.6 or newer, or read by PyTorch: pip install "attnlab[bert]"'
        )
        raise refuse(path, allowed) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on pickles of other programs, which are refused
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = next((x for x in str(error).splitlines() if "global" in x.lower()), error)
        allowed = "a PyTorch file of weights only, since code in it is never run"
        raise refuse(path, allowed, str(reason).strip()) from None
    except MemoryError:
        raise
    except Exception as error:  # broken bytes lead its reader to errors of any kind
        raise refuse(path, "a complete PyTorch file", error) from None
    return Contents(
        {
            name: Entry(tuple(tensor.shape), partial(_read, path, name, tensor))
            for name, tensor in _state_dict(path, loaded, torch.Tensor).items()
        }
    )


def _state_dict(path: Path, loaded: Any, kind: type) -> dict[str, Any]:
    for level in (None, "state_dict", "model_state_dict", "model"):
        found = loaded.get(level) if level and isinstance(loaded, dict) else loaded
        if isinstance(found, dict) and any(isinstance(x, kind) for x in found.values()):
            return {str(name): x for name, x in found.items() if isinstance(x, kind)}
    raise refuse(path, "a state dict: names with tensors")


def _read(path: Path, name: str, tensor: Any) -> np.ndarray:
    import torch

    try:
        plain = tensor.detach()
        if plain.is_floating_point() and plain.dtype not in (torch.float64, torch.float32):
            plain = plain.float()
        return np.asarray(plain.numpy())
    except (RuntimeError, TypeError) as error:
        raise refuse(path, f"of dense tensors of real numbers; {name} is not", error) from None
