"""A small TOML or JSON file that says where weights stand, for names that no family has."""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._core.errors import InvalidArgument, check_choice, check_flag, check_integer, check_real
from .configuration import check_answered
from .layout import NAMES, Layout, every_layer, layers_of
from .weights import Weights

_INTEGERS = ("heads", "kv_heads", "head_dim", "window")
_IN_CONTEXT = ("dim", "n_outputs", "normalization")
_CHOICES = {
    "convention": ("row", "column"),
    "qkv_order": ("parts", "heads"),
    "rotary_pairs": ("halves", "neighbours"),
}
_POSITIVE = ("scale", "rotary", "rotary_share")
_KNOWN = (
    *(*NAMES, *_CHOICES, *_INTEGERS, *_POSITIVE),
    *("causal", "beside", "ignored", *_IN_CONTEXT),
)


def read_mapping(
    mapping: Mapping[str, Any] | str | os.PathLike[str], weights: Weights
) -> tuple[Layout, dict[str, Any]]:
    """The layout that a mapping describes, and its `dim`, `n_outputs`, `normalization`, if any.

    **Arguments:** `mapping`, a dictionary or a `.toml` or `.json` file of one; keys are the fields
    of `Layout` except `by_layer`, `window_layers`, `family` and `layers`, with `qkv_order` for
    `order`. Nothing in a file tells the order of `qkv` and which entries rotary positions turn
    together, so both have to be said where there are any. Raises `InvalidArgument`.
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
    for key in _POSITIVE:
        if key in told:
            high = 1.0 if key == "rotary_share" else math.inf
            told[key] = check_real(f"mapping.{key}", told[key], low=0.0, high=high, low_open=True)
    for key, needed_by in (("qkv_order", "qkv"), ("rotary_pairs", "rotary")):
        if needed_by in told:
            told.setdefault(key, None)
    for key, choices in _CHOICES.items():
        if key in told:
            check_choice(f"mapping.{key}", told[key], choices)
    if "causal" in told:
        check_flag("mapping.causal", told["causal"])
    if "window" in told and not told.get("causal"):
        raise InvalidArgument("mapping.window", told["window"], "given with causal = true only")
    if "beside" in told and not (isinstance(told["beside"], str) and told["beside"].isprintable()):
        raise InvalidArgument("mapping.beside", told["beside"], "words on what enters the scores")
    names = told.get("ignored", ())
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidArgument("mapping.ignored", names, "a list of names")
    if "ignored" in told:
        told["ignored"] = tuple(names)
    if "qkv_order" in told:
        told["order"] = told.pop("qkv_order")
    check_answered(weights, told, names)
    in_context = {key: told.pop(key) for key in _IN_CONTEXT if key in told}
    layout = Layout(**told)
    if not layers_of(layout.first, weights).get(""):
        raise InvalidArgument(
            "path", str(weights.path), f"a file with arrays called {layout.first}"
        )
    return replace(layout, layers=every_layer(layout, weights)), in_context


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
