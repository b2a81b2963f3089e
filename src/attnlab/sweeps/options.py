"""The arguments of a sweep that only some kinds of target read, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._core.errors import InvalidArgument, check_choice, check_integer
from .naming import TEXTS, is_plain_text
from .risks import SECTIONS
from .values import listed

BATCHING = ("each", "vmap", "arrays")
QUANTITIES = ("risk", "error", "components", "gradient")
THEORIES = ("exact", "mean field", "approximate")
_TARGETS = {"risk": "a risk", "experiment": "an experiment", "function": "a function"}
_OPTIONS = {
    "risk": (*SECTIONS, "quantities", "theory"),
    "experiment": ("preset", "variables", "select"),
    "function": ("batching", "static", "seed", "variables", "select"),
}


def kind_of(target: Any) -> str:
    """`"risk"`, `"experiment"` or `"function"`. Raises `InvalidArgument` for anything else."""
    if not isinstance(target, str):
        if not callable(target):
            raise InvalidArgument("target", target, "an experiment id, 'risk' or a function")
        return "function"
    if target == "risk":
        return "risk"
    return "function" if ":" in target else "experiment"


def check_options(kind: str, given: Mapping[str, Any]) -> None:
    """Raises `InvalidArgument` for options that nothing, or not this kind of target, reads."""
    for name, value in given.items():
        check_choice("argument", name, {name for names in _OPTIONS.values() for name in names})
        if name not in _OPTIONS[kind]:
            raise InvalidArgument(name, value, f"left out: {_TARGETS[kind]} knows no such thing")


def risk_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is computed of a risk, and by which theory."""
    quantities = names_in("quantities", given.get("quantities", ("risk", "error")))
    for name in quantities:
        check_choice("quantities", name, QUANTITIES)
    if not quantities:
        raise InvalidArgument("quantities", quantities, f"some of {', '.join(QUANTITIES)}")
    return {
        "quantities": quantities,
        "theory": check_choice("theory", given.get("theory", "exact"), THEORIES),
    }


def function_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """How a function is called, and what of its results is kept."""
    return {
        "batching": check_choice("batching", given.get("batching", "each"), BATCHING),
        "static": names_in("static", given.get("static", ())),
        "seed": check_integer("seed", given.get("seed", 0), minimum=0, maximum=2**32 - 1),
        **kept(given),
    }


def kept(given: Mapping[str, Any]) -> dict[str, Any]:
    """Which results of a point are kept, and at which positions of their dimensions."""
    variables = given.get("variables")
    limit = 2**31
    select = {
        dim: check_integer(f"select.{dim}", at, minimum=-limit, maximum=limit)
        for dim, at in mapping("select", given.get("select")).items()
    }
    names = None if variables is None else names_in("variables", variables)
    if names == []:
        raise InvalidArgument("variables", names, "at least one name, or left out for all results")
    return {"variables": names, "select": select}


def mapping(name: str, value: Any) -> dict[str, Any]:
    """A mapping of names, empty for None. Raises `InvalidArgument`."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidArgument(name, value, "a mapping of names to values")
    return {str(key): item for key, item in value.items()}


def about_of(value: Any) -> dict[str, str]:
    """The texts for readers. Raises `InvalidArgument`."""
    found = mapping("about", value)
    for name, text in found.items():
        check_choice("about", name, TEXTS)
        if not isinstance(text, str) or not is_plain_text(text):
            raise InvalidArgument(name, text, "a text in Unicode, without NUL")
    return found


def names_in(name: str, value: Any) -> list[str]:
    """A list of names, or one. Raises `InvalidArgument`."""
    names = [value] if isinstance(value, str) else listed(name, value, "a list of names")
    if not all(isinstance(item, str) for item in names):
        raise InvalidArgument(name, value, "a list of names")
    return [str(item) for item in names]
