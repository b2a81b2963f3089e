"""A small TOML or JSON file that says where weights stand, for names that no family has."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._core.errors import InvalidArgument, check_choice, check_flag, check_integer, check_real
from .layout import NAMES, Layout, every_layer, layers_of
from .weights import Weights

_INTEGERS = ("heads", "kv_heads", "head_dim")
_IN_CONTEXT = ("dim", "n_outputs", "normalization")
_KNOWN = (*NAMES, "convention", *_INTEGERS, "scale", "causal", "rotary", *_IN_CONTEXT)


def read_mapping(
    mapping: Mapping[str, Any] | str | os.PathLike[str], weights: Weights
) -> tuple[Layout, dict[str, Any]]:
    """The layout that a mapping describes, and its `dim`, `n_outputs`, `normalization`, if any.

    **Arguments:** `mapping`, a dictionary or a `.toml` or `.json` file of one; keys are the fields
    of `Layout` except `by_layer`, `beside`, `family` and `layers`. Raises `InvalidArgument`.
    """
    given = mapping if isinstance(mapping, Mapping) else _read(mapping)
    told = dict(given)
    for key in told:
        check_choice("mapping", key, _KNOWN)
    for key in NAMES:
        if key in told and (not isinstance(told[key], str) or not told[key]):
            raise InvalidArgument(f"mapping.{key}", told[key], "the name of an array")
    fused, single = "qkv" in told, [x for x in ("query", "key", "value") if x in told]
    if "output" not in told or fused == bool(single) or (not fused and len(single) < 3):
        allowed = "a table with output, and either qkv or all of query, key and value"
        raise InvalidArgument("mapping", sorted(told), allowed)
    for key in _INTEGERS:
        if key in told:
            told[key] = check_integer(f"mapping.{key}", told[key], minimum=1)
    for key in ("scale", "rotary"):
        if key in told:
            told[key] = check_real(f"mapping.{key}", told[key], low=0.0, low_open=True)
    if "convention" in told:
        check_choice("mapping.convention", told["convention"], ("row", "column"))
    if "causal" in told:
        check_flag("mapping.causal", told["causal"])
    in_context = {key: told.pop(key) for key in _IN_CONTEXT if key in told}
    layout = Layout(**told)
    if not layers_of(layout.first, weights).get(""):
        raise InvalidArgument(
            "path", str(weights.path), f"a file with arrays called {layout.first}"
        )
    return Layout(**told, layers=every_layer(layout, weights)), in_context


def _read(mapping: Any) -> dict[str, Any]:
    allowed = "a dictionary, or an existing file that ends in .toml or .json"
    if not isinstance(mapping, str | os.PathLike):
        raise InvalidArgument("mapping", mapping, allowed)
    path = Path(mapping)
    if path.suffix not in (".toml", ".json") or not path.is_file():
        raise InvalidArgument("mapping", str(path), allowed)
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidArgument(
            "mapping", str(path), f"a sound {path.suffix} file ({told})"
        ) from None
    if not isinstance(found, dict):
        raise InvalidArgument("mapping", str(path), "a table of names")
    return found
