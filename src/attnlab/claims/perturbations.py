"""Small perturbations of formulas: a factor, a sign, an exponent, a shift, a dropped or wrong part.

Each is a frozen dataclass whose `apply` makes a wrong version of what it is given: of a function (the
wrong one calls the right one), of a property, or of a constant. Results may be numbers, arrays,
fractions, symbols, or tuples, named tuples, lists, dicts and xarray objects of them.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .._core.errors import InvalidArgument, check_choice
from .._core.workers import resolve

Part = str | int | None


class Perturbation(Protocol):
    """What a `Mutation` does to its target."""

    def apply(self, right: Any) -> Any:
        """The wrong version of a function, property or constant."""
        ...


@dataclass(frozen=True)
class Scalar:
    """A change of numbers: `kind` with `amount`, of all of a result or of its part `of`."""

    kind: str
    amount: float
    of: Part = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ("factor", "power", "offset"))

    def apply(self, right: Any) -> Any:
        return _after(right, self.change)

    def change(self, value: Any) -> Any:
        """The changed value."""
        if self.of is None:
            return _everywhere(value, self._number)
        return _in_part(value, self.of, lambda part: _everywhere(part, self._number))

    def _number(self, value: Any) -> Any:
        if hasattr(value, "__float__") and not hasattr(value, "__mul__"):
            value = float(value)  # a risk with its method
        if self.kind == "factor":
            return value * self.amount
        if self.kind == "offset":
            return value + self.amount
        if isinstance(value, int | float | np.generic) or hasattr(value, "__array__"):
            return np.sign(value) * np.abs(value) ** self.amount
        return value**self.amount  # symbols


@dataclass(frozen=True)
class Constant:
    """One value in place of whatever a function gives, or of its part `of`."""

    value: Any
    of: Part = None

    def apply(self, right: Any) -> Any:
        return _after(right, self.change)

    def change(self, value: Any) -> Any:
        """The constant, or `value` with that part replaced."""
        return self.value if self.of is None else _in_part(value, self.of, lambda _: self.value)


@dataclass(frozen=True)
class Argument:
    """A change of one argument of a function: of the place `which`, or of that keyword."""

    which: str | int
    change: Scalar | Constant

    def apply(self, right: Any) -> Any:
        def wrong(*args: Any, **options: Any) -> Any:
            if isinstance(self.which, str):
                options[self.which] = self.change.change(options[self.which])
            else:
                given = list(args)
                given[self.which] = self.change.change(given[self.which])
                args = tuple(given)
            return right(*args, **options)

        return functools.update_wrapper(wrong, right)


@dataclass(frozen=True)
class Swap:
    """Another function (or value) in place of the right one."""

    by: str

    def apply(self, right: Any) -> Any:
        return resolve(self.by)


@dataclass(frozen=True)
class Wrap:
    """What the function `by` makes of the right one."""

    by: str

    def apply(self, right: Any) -> Any:
        return resolve(self.by)(right)


def factor(amount: float, of: Part = None) -> Scalar:
    """The result times `amount`; only its part `of` (a name or a place) if given."""
    return Scalar("factor", amount, of)


def sign(of: Part = None) -> Scalar:
    """The other sign."""
    return Scalar("factor", -1, of)


def power(amount: float, of: Part = None) -> Scalar:
    """The result's modulus to that power, with its sign (of symbols, the power itself)."""
    return Scalar("power", amount, of)


def offset(amount: float, of: Part = None) -> Scalar:
    """The result plus `amount`."""
    return Scalar("offset", amount, of)


def constant(value: Any, of: Part = None) -> Constant:
    """`value` in place of the result."""
    return Constant(value, of)


def argument(which: str | int, change: Scalar | Constant) -> Argument:
    """A change of one argument: `argument(1, power(2))`, or `argument("d", factor(0))`, which drops
    the terms with `d`."""
    return Argument(which, change)


def swap(by: str) -> Swap:
    """The function `"module:name"` in place of the right one."""
    return Swap(by)


def wrap(by: str) -> Wrap:
    """What the function `"module:name"` returns when given the right one."""
    return Wrap(by)


def _after(right: Any, change: Any) -> Any:
    if isinstance(right, property):
        return property(lambda self: change(right.fget(self)))  # type: ignore[misc]
    if not callable(right):
        return change(right)

    def wrong(*args: Any, **options: Any) -> Any:
        return change(right(*args, **options))

    return functools.update_wrapper(wrong, right)


def _everywhere(value: Any, change: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, dict):
        return {key: _everywhere(part, change) for key, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [_everywhere(part, change) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return change(value)


def _in_part(value: Any, of: str | int, change: Any) -> Any:
    """`value` with one part changed: a key, a field, a variable, a place; of each item of a list."""
    if isinstance(of, int):
        parts = list(value)
        parts[of] = change(parts[of])
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {**value, of: change(value[of])}
    if hasattr(value, "data_vars"):
        return value.assign({of: change(value[of])})
    if hasattr(value, "_replace"):
        return value._replace(**{of: change(getattr(value, of))})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{of: change(getattr(value, of))})
    if isinstance(value, tuple | list):
        return type(value)(_in_part(item, of, change) for item in value)
    raise InvalidArgument("of", of, f"a part of what the target gives, a {type(value).__name__}")
