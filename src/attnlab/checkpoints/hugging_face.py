"""Directories as Hugging Face writes them: `config.json` and weights, whole or in shards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

from .entry import Contents, refuse
from .safetensors_file import read_safetensors
from .torch_file import read_torch

Reader = Callable[[Path], Contents]

_WHOLE: dict[str, Reader] = {"model.safetensors": read_safetensors, "pytorch_model.bin": read_torch}
_SHARDED: dict[str, Reader] = {f"{name}.index.json": read for name, read in _WHOLE.items()}
_LARGEST_JSON = 2**26


def find_directory(path: Path) -> Path | None:
    """The directory that `path` stands for, if it does."""
    if path.is_dir():
        return path
    known = path.name in _WHOLE or path.name in _SHARDED
    inside = known and path.is_file() and (path.parent / "config.json").is_file()
    return path.parent if inside else None


def read_directory(directory: Path) -> tuple[Contents, dict[str, Any]]:
    """The arrays of the directory, and its configuration; raises `InvalidArgument`."""
    place = directory / "config.json"
    config = read_json(place) if place.is_file() else {}
    for name, read in _WHOLE.items():
        if (directory / name).is_file():
            return read(directory / name), config
    for name, read in _SHARDED.items():
        if (directory / name).is_file():
            return _shards(directory / name, read), config
    names = ", ".join((*_WHOLE, *_SHARDED))
    raise refuse(directory, f"a directory with weights, one of {names}")


def _shards(index: Path, read: Reader) -> Contents:
    places = read_json(index).get("weight_map")
    allowed = "an index whose weight_map gives the file in this directory for each array"
    if not isinstance(places, dict) or not places:
        raise refuse(index, allowed)
    for file in places.values():
        if not isinstance(file, str) or PurePath(file).name != file:
            raise refuse(index, f"{allowed}; {file!r} is none")
        if not (index.parent / file).is_file():
            raise refuse(index.parent, f"complete; {file} is missing")
    shards = {file: read(index.parent / file) for file in sorted(set(places.values()))}
    entries = {}
    for name, file in places.items():
        if name not in shards[file].entries:
            raise refuse(index.parent, f"complete; {file} does not hold {name}")
        entries[name] = shards[file].entries[name]
    return Contents(entries)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; raises `InvalidArgument`."""
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise refuse(path, f"a JSON file of at most {_LARGEST_JSON} bytes")
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise refuse(path, "a JSON file", error) from None
    if not isinstance(found, dict):
        raise refuse(path, "a JSON object")
    return found
