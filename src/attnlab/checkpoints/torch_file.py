"""State dicts of PyTorch, loaded as weights only: a pickle that asks for anything else is refused."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .entry import Contents, Entry, refuse

# where trainers put it in a larger file
_LEVELS = ("state_dict", "model_state_dict", "model", "module", "model_state", "net", "weights")
_HISTORY = (
    "hist_dict"  # parameters over a training, for each run, as the code of ahn2023 keeps them
)


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
    tensors = _state_dict(path, loaded, torch.Tensor) or _history(loaded, torch.Tensor)
    if not tensors:
        raise refuse(path, "a state dict: names with tensors")
    _check_storages(path, tensors, mapped)
    return Contents(
        {
            name: Entry(
                tuple(tensor.shape),
                partial(_read, path, name, tensor),
                tensor.is_floating_point() and tensor.element_size() < 2,
            )
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


def _state_dict(path: Path, loaded: Any, kind: type) -> dict[str, Any]:
    """The tensors of a level that trainers use, whatever stands beside it, else those at hand."""
    if not isinstance(loaded, dict):
        return {}
    deeper = {x: found for x in _LEVELS if (found := _state_dict(path, loaded.get(x), kind))}
    if len(deeper) > 1:
        raise refuse(path, f"of one state dict; there is one under each of {', '.join(deeper)}")
    if deeper:
        return next(iter(deeper.values()))
    return {str(name): value for name, value in loaded.items() if isinstance(value, kind)}


def _history(loaded: Any, kind: type) -> dict[str, Any]:
    """`hist_dict[run][step]` of every run and step."""
    runs = loaded.get(_HISTORY) if isinstance(loaded, dict) else None
    if not isinstance(runs, dict):
        return {}
    return {
        f"{_HISTORY}[{run!r}][{step}]": value
        for run, values in runs.items()
        if isinstance(values, list | tuple)
        for step, value in enumerate(values)
        if isinstance(value, kind)
    }


def _check_storages(path: Path, tensors: dict[str, Any], mapped: bool) -> None:
    """Each tensor within its storage, each storage as large as its record in the file: PyTorch maps
    what the pickle says, which may be the bytes of others."""
    storages = {}
    for name, tensor in tensors.items():
        if tensor.layout != _strided() or tensor.is_quantized or tensor.is_meta:
            continue  # refused when it is read
        storage = tensor.untyped_storage()
        if tensor.numel() * tensor.element_size() > storage.nbytes():
            told = f"{name} of shape {tuple(tensor.shape)} has {storage.nbytes()} bytes"
            raise refuse(path, f"complete, with a place for every number; {told}")
        storages[storage.data_ptr()] = storage.nbytes()
    sizes = Counter(size for size in storages.values() if size)
    if mapped:
        with zipfile.ZipFile(path) as archive:
            known = Counter(x.file_size for x in archive.infolist() if "/data/" in x.filename)
        if sizes - known:
            told = f"{next(iter(sizes - known))} bytes of a tensor are no record of it"
            raise refuse(path, f"a complete PyTorch file; {told}")
    elif sum(storages.values()) > path.stat().st_size:
        raise refuse(path, "a complete PyTorch file; its tensors are larger than it")


def _strided() -> Any:
    import torch

    return torch.strided


def _read(path: Path, name: str, tensor: Any) -> np.ndarray:
    import torch

    try:
        plain = tensor.detach()
        if plain.is_floating_point() and plain.dtype not in (torch.float64, torch.float32):
            plain = plain.float()
        return np.asarray(plain.numpy())
    except (RuntimeError, TypeError) as error:
        raise refuse(path, f"of dense tensors of real numbers; {name} is not", error) from None
