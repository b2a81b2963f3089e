"""A figure from its plotted numbers: the way back from the JSON beside a PDF.

So that a picture can be drawn again, by either renderer and without the program that computed it.
Every field is checked for its kind: the file may come from anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._core.errors import InvalidArgument
from .spec import Arrows, Axis, Band, Bars, Figure, Heat, Line, Panel, Paths, Points, Rule


def figure_from_numbers(numbers: Mapping[str, Any]) -> Figure:
    """The figure whose `plotted_numbers` these are; gaps (None) become NaN.

    Raises `InvalidArgument` naming the entry that is missing or of another kind.
    """
    return _build(numbers, "figure", "Figure")


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(where, value, "a text")
    return value


def _name(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidArgument(where, value, "a text or a number")
    return str(value)


def _real(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(where, value, "a number")
    return float(value)


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(where, value, "true or false")
    return value


def _whole(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(where, value, "an integer")
    return value


def _role(value: Any, where: str) -> int | str | None:
    if isinstance(value, bool) or not isinstance(value, int | str | None):
        raise InvalidArgument(where, value, "an integer, a name or null")
    return value


def _array(value: Any, where: str) -> np.ndarray:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(where, value, "numbers, with null for a gap") from None


def _list(of: Callable[[Any, str], Any]) -> Callable[[Any, str], tuple[Any, ...]]:
    def read(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise InvalidArgument(where, value, "a list")
        return tuple(of(item, f"{where}[{number}]") for number, item in enumerate(value))

    return read


def _pair(
    first: Callable[[Any, str], Any], second: Callable[[Any, str], Any]
) -> Callable[[Any, str], tuple[Any, Any]]:
    def read(value: Any, where: str) -> tuple[Any, Any]:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise InvalidArgument(where, value, "a pair")
        return first(value[0], where), second(value[1], where)

    return read


def _optional(of: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    return lambda value, where: None if value is None else of(value, where)


def _side(value: Any, where: str) -> str:
    if value not in ("x", "y"):
        raise InvalidArgument(where, value, "'x' or 'y'")
    return str(value)


def _object(*kinds: str) -> Callable[[Any, str], Any]:
    return lambda value, where: _build(value, where, *kinds)


def _build(value: Any, where: str, *kinds: str) -> Any:
    if not isinstance(value, Mapping) or value.get("kind") not in kinds:
        raise InvalidArgument(where, value, f"an object of kind {', '.join(kinds)}")
    kind, fields = _KINDS[value["kind"]]
    value = _ADDED.get(value["kind"], {}) | dict(value)
    missing = [name for name in fields if name not in value]
    if missing:
        raise InvalidArgument(where, sorted(value), f"complete: {', '.join(missing)} is missing")
    return kind(**{name: read(value[name], f"{where}.{name}") for name, read in fields.items()})


_LABEL = _optional(_text)
_LIMITS = _optional(_pair(_real, _real))
_MARKS = ("Line", "Band", "Points", "Heat", "Arrows", "Rule", "Bars", "Paths")
_ADDED = {"Heat": {"names": None}}  # fields that older files do not have
_KINDS: dict[str, tuple[type, dict[str, Callable[[Any, str], Any]]]] = {
    "Figure": (
        Figure,
        {
            "title": _text,
            "panels": _list(_object("Panel")),
            "columns": _whole,
            "caption": _text,
            "alt": _text,
        },
    ),
    "Panel": (
        Panel,
        {
            "title": _text,
            "x": _object("Axis"),
            "y": _object("Axis"),
            "marks": _list(_object(*_MARKS)),
            "note": _text,
        },
    ),
    "Axis": (
        Axis,
        {
            "label": _text,
            "log": _flag,
            "limits": _LIMITS,
            "ticks": _optional(_list(_pair(_real, _text))),
        },
    ),
    "Line": (
        Line,
        {"x": _array, "y": _array, "label": _LABEL, "role": _role, "dash": _flag, "width": _real},
    ),
    "Band": (Band, {"x": _array, "low": _array, "high": _array, "label": _LABEL, "role": _role}),
    "Points": (
        Points,
        {"x": _array, "y": _array, "yerr": _optional(_array), "label": _LABEL, "role": _role},
    ),
    "Heat": (
        Heat,
        {
            "x": _array,
            "y": _array,
            "z": _array,
            "label": _text,
            "diverging": _flag,
            "log": _flag,
            "limits": _LIMITS,
            "names": _optional(_list(_text)),
        },
    ),
    "Arrows": (
        Arrows,
        {"x": _array, "y": _array, "u": _array, "v": _array, "label": _LABEL, "role": _role},
    ),
    "Rule": (Rule, {"value": _real, "axis": _side, "label": _LABEL, "role": _role}),
    "Bars": (
        Bars,
        {
            "labels": _list(_name),
            "values": _array,
            "errors": _optional(_array),
            "label": _LABEL,
            "role": _role,
        },
    ),
    "Paths": (
        Paths,
        {"paths": _list(_pair(_array, _array)), "label": _LABEL, "role": _role},
    ),
}
