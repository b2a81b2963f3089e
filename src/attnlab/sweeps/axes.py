"""The points of a sweep: products, zips and lists of settings, numbered and cut into batches.

A sweep is a product of factors. A factor is one dimension of the result: one setting, or several
that vary together. Point number `i` is found from the shape alone, so that a million points are
never listed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import InvalidArgument, check_flag, check_integer, check_real
from ..records.provenance import checked_json
from .naming import check_dim, is_plain_text

_RANGES = ("linspace", "logspace", "geomspace", "range")
_ALLOWED = (
    "a list of values, or one of { linspace = [first, last, number] }, { geomspace = ... }, "
    "{ logspace = [exponents of 10] }, { range = [first, end, step] }, with integers = true to round"
)


@dataclass(frozen=True)
class Factor:
    """One dimension of the result: `names` of settings, and for each the `columns` of its values."""

    dim: str
    names: tuple[str, ...]
    columns: tuple[tuple[Any, ...], ...]

    @property
    def size(self) -> int:
        return len(self.columns[0])


@dataclass(frozen=True)
class Plan:
    """All points, and the order in which batches go through them.

    Points are numbered in the order of `factors`, the last one fastest. Batches go through the
    `held` factors slowest, and none reaches over two of their values: these are the settings that
    decide which program is compiled.
    """

    factors: tuple[Factor, ...]
    batch: int
    held: frozenset[int] = frozenset()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(factor.size for factor in self.factors)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(factor.dim for factor in self.factors)

    @property
    def order(self) -> list[int]:
        """The factors, slowest first, as batches see them."""
        return sorted(range(len(self.factors)), key=lambda i: (i not in self.held, i))

    @property
    def run_length(self) -> int:
        """Points that share the values of all held factors."""
        return math.prod(f.size for i, f in enumerate(self.factors) if i not in self.held)

    @property
    def batches(self) -> int:
        """Their number."""
        runs = self.size // self.run_length
        return runs * -(-self.run_length // self.batch)

    def points(self, number: int) -> np.ndarray:
        """The numbers of the points in batch `number`."""
        run, part = divmod(number, -(-self.run_length // self.batch))
        first, last = part * self.batch, min((part + 1) * self.batch, self.run_length)
        positions = np.arange(first, last) + run * self.run_length
        order = self.order
        index = np.unravel_index(positions, [self.shape[i] for i in order])
        by_factor = {factor: index[place] for place, factor in enumerate(order)}
        return np.ravel_multi_index([by_factor[i] for i in range(len(self.factors))], self.shape)

    def columns(self, points: np.ndarray) -> dict[str, list[Any]]:
        """For each swept setting its values at these points."""
        index = np.unravel_index(points, self.shape)
        return {
            name: [column[k] for k in at.tolist()]
            for factor, at in zip(self.factors, index, strict=True)
            for name, column in zip(factor.names, factor.columns, strict=True)
        }


def values_of(name: str, given: Any) -> tuple[Any, ...]:
    """The values of one axis, as JSON knows them. Raises `InvalidArgument`."""
    if isinstance(given, Mapping):
        given = _range(name, dict(given))
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidArgument(name, given, _ALLOWED)
    values = tuple(plain(name, value) for value in given)
    if not values:
        raise InvalidArgument(name, given, "at least one value")
    return values


def grid_factor(name: str, given: Any) -> Factor:
    """One setting with values of its own. Raises `InvalidArgument` for repeated values."""
    values = values_of(name, given)
    if len({_label(value) for value in values}) < len(values):
        raise InvalidArgument(name, list(values), "different values on one axis")
    return Factor(name, (name,), (values,))


def zip_factor(given: Mapping[str, Any]) -> Factor:
    """Settings that vary together, lists of one length; an entry `dim` names their dimension."""
    entries = dict(given)
    dim = entries.pop("dim", None)
    if not entries or not (dim is None or isinstance(dim, str)):
        raise InvalidArgument("zip", given, "a mapping of names to lists of one length")
    if dim is not None:
        check_dim(dim)
    columns = {name: values_of(name, values) for name, values in entries.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidArgument("zip", lengths, "lists of one length")
    return Factor(dim or next(iter(columns)), tuple(columns), tuple(columns.values()))


def points_factor(given: Sequence[Mapping[str, Any]]) -> Factor:
    """A list of settings, each a mapping with the same names."""
    allowed = "a list of mappings with the same names"
    rows = list(given) if isinstance(given, Iterable) else []
    if not rows or not all(isinstance(row, Mapping) and row for row in rows):
        raise InvalidArgument("points", given, allowed)
    names = tuple(rows[0])
    for row in rows:
        if set(row) != set(names):
            raise InvalidArgument("points", dict(row), f"{allowed}: {', '.join(names)}")
    columns = tuple(tuple(plain(name, row[name]) for row in rows) for name in names)
    return Factor("point", names, columns)


def seeds_factor(given: Any, name: str = "seed") -> Factor:
    """`N`: the seeds 0 to N-1; or a list of seeds."""
    if isinstance(given, Iterable) and not isinstance(given, str | Mapping):
        seeds = [check_integer("seeds", seed, minimum=0, maximum=2**32 - 1) for seed in given]
    else:
        seeds = list(range(check_integer("seeds", given, minimum=1, maximum=10**7)))
    return grid_factor(name, seeds)


def _range(name: str, given: dict[str, Any]) -> Any:
    rounded = check_flag(f"{name}.integers", given.pop("integers", False))
    if len(given) != 1 or next(iter(given)) not in _RANGES:
        raise InvalidArgument(name, given, _ALLOWED)
    kind, numbers = next(iter(given.items()))
    if not isinstance(numbers, Sequence) or isinstance(numbers, str) or len(numbers) not in (2, 3):
        raise InvalidArgument(f"{name}.{kind}", numbers, "a list of three numbers")
    first, last = (check_real(f"{name}.{kind}", x) for x in numbers[:2])
    if kind == "range":
        step = check_real(f"{name}.range", numbers[2] if len(numbers) == 3 else 1.0)
        if step == 0 or (last - first) / step > 10**7:
            raise InvalidArgument(f"{name}.range", numbers, "of a step that ends it")
        if all(float(x).is_integer() for x in numbers):
            return list(range(int(first), int(last), int(step)))
        values = np.arange(first, last, step)
    else:
        if len(numbers) != 3:
            raise InvalidArgument(f"{name}.{kind}", numbers, "a list [first, last, number]")
        number = check_integer(f"{name}.{kind}", numbers[2], minimum=1, maximum=10**7)
        if kind == "geomspace" and not (first > 0 and last > 0):
            raise InvalidArgument(f"{name}.geomspace", numbers, "between positive numbers")
        with np.errstate(all="ignore"):
            values = getattr(np, kind)(first, last, number)
    if not np.isfinite(values).all():
        raise InvalidArgument(f"{name}.{kind}", numbers, "a range of finite numbers")
    if rounded:
        return sorted({round(value) for value in values.tolist()})
    return values.tolist()


def plain(name: str, value: Any) -> Any:
    """`value` as JSON will give it back: NumPy's numbers and arrays become Python's.

    Raises `InvalidArgument` for what JSON does not know, and for what the file of a result cannot
    hold: whole numbers beyond 64 bits, texts with a NUL.
    """
    found = checked_json(name, _without_numpy(value))
    _check_storable(name, found)
    return found


def _check_storable(name: str, value: Any) -> None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
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


def _label(value: Any) -> Any:
    """What tells one value of an axis from another: 1 and 1.0 are the same, True is not."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number else json.dumps(value, sort_keys=True)


def _without_numpy(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _without_numpy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_numpy(item) for item in value]
    return value
