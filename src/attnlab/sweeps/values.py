"""Values of settings: lists and ranges, as JSON and the file of a result can hold them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._core.errors import InvalidArgument, check_flag, check_integer, check_real
from ..records.provenance import checked_json
from .naming import fits, is_plain_text

LONGEST = 10**7  # values of one axis
EXACT = 2**53  # up to here a float64 holds every whole number
_RANGES = ("linspace", "logspace", "geomspace", "range")
_ALLOWED = (
    "a list of values, or one of { linspace = [first, last, number] }, { geomspace = ... }, "
    "{ logspace = [exponents of 10] }, { range = [first, end, step] }, with integers = true to round"
)


def listed(name: str, given: Any, allowed: str, most: int = LONGEST) -> list[Any]:
    """The items of anything that has items in an order. Raises `InvalidArgument`."""
    if isinstance(given, str | bytes | bytearray | memoryview | Mapping | set | frozenset):
        raise InvalidArgument(name, given, allowed)
    try:
        found = list(itertools.islice(iter(given), most + 1))
    except TypeError:  # no items, like an array without dimensions
        raise InvalidArgument(name, given, allowed) from None
    if len(found) > most:
        raise InvalidArgument(name, given, f"{allowed}, at most {most}")
    return found


def values_of(name: str, given: Any) -> tuple[Any, ...]:
    """The values of one axis, as JSON knows them. Raises `InvalidArgument`."""
    if isinstance(given, Mapping):
        given = _range(name, dict(given))
    if np.ma.is_masked(given):
        raise InvalidArgument(name, given, "values of which none is masked")
    if isinstance(given, np.ndarray):
        given = given.tolist()
    values = tuple(plain(name, value) for value in listed(name, given, _ALLOWED))
    if not values:
        raise InvalidArgument(name, given, "at least one value")
    return values


def plain(name: str, value: Any) -> Any:
    """`value` as JSON will give it back: NumPy's numbers and arrays become Python's.

    Raises `InvalidArgument` for what JSON does not know, and for what the file of a result cannot
    hold: whole numbers beyond 64 bits, texts with a NUL.
    """
    kind = type(value)
    if (kind is float and math.isfinite(value)) or (kind is int and fits(value)):
        return value  # most are, and there may be millions
    try:
        found = checked_json(name, _without_numpy(value))
        _check_storable(name, found)
    except RecursionError:
        raise InvalidArgument(name, "a nested value", "nested a few times at most") from None
    return found


def _range(name: str, given: dict[str, Any]) -> Any:
    rounded = check_flag(f"{name}.integers", given.pop("integers", False))
    if len(given) != 1 or next(iter(given)) not in _RANGES:
        raise InvalidArgument(name, given, _ALLOWED)
    kind, numbers = next(iter(given.items()))
    if not isinstance(numbers, Sequence) or isinstance(numbers, str) or len(numbers) not in (2, 3):
        raise InvalidArgument(f"{name}.{kind}", numbers, "a list of three numbers")
    if kind == "range":
        values = _steps(f"{name}.range", numbers)
    else:
        values = _space(f"{name}.{kind}", kind, numbers)
    if not rounded:
        return values
    if any(abs(value) > EXACT for value in values):
        raise InvalidArgument(f"{name}.{kind}", numbers, "within ±2^53, where floats are whole")
    return [round(value) for value in values]


def _steps(name: str, numbers: Sequence[Any]) -> list[Any]:
    """From the first, in steps, up to the end, which is not among them."""
    first, end, step = (x.item() if isinstance(x, np.generic) else x for x in (*numbers, 1)[:3])
    if all(isinstance(x, int) and not isinstance(x, bool) for x in (first, end, step)):
        if step == 0 or (end - first) // step > LONGEST:
            raise InvalidArgument(name, list(numbers), "of a step that ends it")
        return list(range(first, end, step))
    first, end, step = (check_real(name, x) for x in (first, end, step))
    steps = math.inf if step == 0 else (end - first) / step
    if not steps <= LONGEST:
        raise InvalidArgument(name, list(numbers), "of a step that ends it")
    number = max(0, math.ceil(steps - 1e-9 * max(1.0, abs(steps))))  # 0.3 is three steps of 0.1
    return [first + k * step for k in range(number)]


def _space(name: str, kind: str, numbers: Sequence[Any]) -> list[float]:
    if len(numbers) != 3:
        raise InvalidArgument(name, list(numbers), "a list [first, last, number]")
    first, last = (check_real(name, x) for x in numbers[:2])
    number = check_integer(name, numbers[2], minimum=1, maximum=LONGEST)
    if kind == "geomspace" and not (first > 0 and last > 0):
        raise InvalidArgument(name, list(numbers), "between positive numbers")
    with np.errstate(all="ignore"):
        values = getattr(np, kind)(first, last, number)
    if not np.isfinite(values).all() or (kind != "linspace" and (values == 0).any()):
        raise InvalidArgument(name, list(numbers), "a range of numbers that floats can hold")
    return values.tolist()


def _check_storable(name: str, value: Any) -> None:
    if isinstance(value, int) and not fits(value):
        raise InvalidArgument(name, value, "a whole number of at most 64 bits")
    if isinstance(value, str) and not is_plain_text(value):
        raise InvalidArgument(name, value, "text in Unicode, without NUL")
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_storable(name, key)
            _check_storable(f"{name}.{key}", item)
    if isinstance(value, list):
        for item in value:
            _check_storable(name, item)


def _without_numpy(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {_without_numpy(key): _without_numpy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_numpy(item) for item in value]
    return value
