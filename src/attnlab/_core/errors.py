"""The one error that bad input raises, and the checks that raise it."""

from __future__ import annotations

import difflib
import math
import numbers
import sys
from collections.abc import Iterable
from typing import Any

_LARGEST_INTEGER = 2**63


class InvalidArgument(ValueError):
    """An argument outside what is allowed.

    The message names the argument, the value it had and what is allowed, in this order.

    **Arguments:** `name` of the argument, its `value`, and `allowed`, a phrase that completes
    "must be ...".
    """

    def __init__(self, name: str, value: Any, allowed: str):
        self.name, self.value, self.allowed = name, value, allowed
        try:
            shown = repr(value)
        except Exception:  # of a foreign class
            shown = f"<{type(value).__name__}>"
        if "\n" in shown:  # of an object with parts: an error is one line
            shown = " ".join(shown.split())
        if len(shown) > 120:
            shown = shown[:117] + "..."
        super().__init__(printable(f"{name} = {shown} is not allowed: it must be {allowed}"))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.name, self.value, self.allowed))


def printable(text: str) -> str:
    """`text` with its control characters escaped: names from files could write on a terminal."""
    return "".join(x if x.isprintable() or x == "\n" else ascii(x)[1:-1] for x in text)


def is_traced(*values: Any) -> bool:
    """Whether any value is an abstract JAX one, whose number cannot be looked at.

    Asks JAX only if somebody imported it already, so that argument checks stay light.
    """
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(value, jax.core.Tracer) for value in values)


def check_integer(name: str, value: Any, *, minimum: int, maximum: int | None = None) -> int:
    """`value` as an int in `[minimum, maximum]`; raises `InvalidArgument`."""
    allowed = f"an integer >= {minimum}" + ("" if maximum is None else f" and <= {maximum}")
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    whole = is_number and (isinstance(value, numbers.Integral) or math.isfinite(value))
    if not whole or value != math.floor(value):
        raise InvalidArgument(name, value, allowed)
    number = math.floor(value)  # exact for every kind of number that holds an integer
    if maximum is None and number >= _LARGEST_INTEGER:
        raise InvalidArgument(name, value, f"{allowed} and below 2^63")
    if number < minimum or (maximum is not None and number > maximum):
        raise InvalidArgument(name, value, allowed)
    return number


def check_real(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """`value` as a finite float between `low` and `high`; raises `InvalidArgument`.

    A value that JAX traces (to differentiate in it, say) passes unchecked.
    """
    if is_traced(value):
        return value
    parts = []
    if low > -math.inf:
        parts.append(f"{'>' if low_open else '>='} {low:g}")
    if high < math.inf:
        parts.append(f"{'<' if high_open else '<='} {high:g}")
    allowed = "a finite number" + (" " + " and ".join(parts) if parts else "")
    try:
        if isinstance(value, bool | str | bytes | complex) or str(_dtype(value)) == "bool":
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(name, value, allowed) from None
    below = number <= low if low_open else number < low
    above = number >= high if high_open else number > high
    if not math.isfinite(number) or below or above:
        raise InvalidArgument(name, value, allowed)
    return number


def _dtype(value: Any) -> Any:
    return getattr(value, "dtype", None)


def check_amount(name: str, number: int, most: int, *, seconds: float = 0.0, size: int = 0) -> int:
    """`number` if it is at most `most`; else raises `InvalidArgument`, which says what it would need:
    `seconds` and bytes (`size`) for each."""
    if number <= most:
        return number
    needs = []
    if seconds:
        hours = number * seconds / 3600
        needs.append(f"{hours:.3g} hours" if hours < 1000 else f"{hours / 8766:.3g} years")
    if size:
        needs.append(f"{number * size / 1e9:.3g} GB")
    allowed = f"at most {most} (this would need about {' and '.join(needs)})"
    raise InvalidArgument(name, number, allowed)


def check_several(name: str, value: Any, allowed: str) -> list[Any]:
    """The items of `value`, of which there may be none; raises `InvalidArgument` unless it is a list
    or something like it. A text, whose items would be its letters, is none."""
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        return list(value)
    except TypeError:
        raise InvalidArgument(name, value, allowed) from None


def check_flag(name: str, value: Any) -> bool:
    """`value` if it is True or False; raises `InvalidArgument`."""
    if not isinstance(value, bool):
        raise InvalidArgument(name, value, "True or False")
    return value


def check_choice(name: str, value: Any, options: Iterable[str]) -> str:
    """`value` if it is one of `options`; raises `InvalidArgument` with the nearest option."""
    known = sorted(options)
    if isinstance(value, str) and value in known:
        return value
    near = difflib.get_close_matches(str(value), known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise InvalidArgument(name, value, "one of " + ", ".join(known) + hint)
