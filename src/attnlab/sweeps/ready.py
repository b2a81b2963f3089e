"""Sweeps in TOML files: a user's own, and those that papers bring ready-made."""

from __future__ import annotations

import difflib
import importlib.resources
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._core.errors import InvalidArgument
from .naming import TEXTS

_KEYS = (
    "target",
    "settings",
    "grid",
    "zip",
    "points",
    "seeds",
    "preset",
    "variables",
    "select",
    "quantities",
    "theory",
    "batching",
    "static",
    "batch",
    "timeout",
    "seed",
    "task",
    "student",
    "overlaps",
    "quick",
    *TEXTS,
)


def ready() -> dict[str, str]:
    """The sweeps that the papers bring: `{"dohmatob2025/phase-diagram": its title, ...}`."""
    return {name: _parsed(text, name)["title"] for name, text in _ready_files().items()}


def read(source: str | os.PathLike[str], *, quick: bool = False) -> dict[str, Any]:
    """The arguments of a sweep from a TOML file, or from a ready sweep of this name.

    `quick`: with what its table `quick` changes, sizes that take seconds. Raises `InvalidArgument`
    when there is no such file or sweep, or when it is no TOML with the keys of a sweep.
    """
    path = Path(source)
    name, paths = str(source), []
    if path.suffix == ".toml" or _is_file(path):
        try:
            text = path.read_text(encoding="utf-8")
        except (
            OSError,
            ValueError,
        ) as error:  # also for bytes that are no text, and names with NUL
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidArgument("sweep", name, f"a TOML file ({reason})") from None
        paths = [str(path.resolve().parent)]  # functions may lie beside the file
    else:
        files = _ready_files()
        if name not in files:
            near = difflib.get_close_matches(name, files, n=3, cutoff=0.5)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            allowed = f"a TOML file or one of {', '.join(files) or 'none'}{hint}"
            raise InvalidArgument("sweep", name, allowed)
        text = files[name]
    found = _parsed(text, name)
    changes = found.pop("quick", {})
    if quick:
        found = _merged(found, changes)
    about = {key: found.pop(key) for key in TEXTS if key in found}
    return found | {"paths": paths, "about": about}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument("sweep", name, f"a TOML file ({error})") from None
    for key in found:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise InvalidArgument(f"{name}: key", key, f"one of {', '.join(_KEYS)}{hint}")
    if not isinstance(found.get("target"), str):
        allowed = "an experiment id, 'risk' or 'module:function'"
        raise InvalidArgument(f"{name}: target", found.get("target"), allowed)
    if not isinstance(found.get("quick", {}), Mapping):
        raise InvalidArgument(f"{name}: quick", found["quick"], "a table")
    return found


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes`; tables are merged, but the values of one axis are replaced."""
    made = dict(base)
    for key, value in changes.items():
        old = made.get(key)
        tables = isinstance(old, Mapping) and isinstance(value, Mapping)
        made[key] = dict(old) | dict(value) if tables else value  # type: ignore[arg-type]
    return made


def _ready_files() -> dict[str, str]:
    from ..papers import all_papers

    found = {}
    for paper in all_papers():
        for reference in paper.sweeps:
            package, _, file = reference.partition(":")
            text = (importlib.resources.files(package) / file).read_text(encoding="utf-8")
            found[f"{paper.key}/{Path(file).stem}"] = text
    return found
