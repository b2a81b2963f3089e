"""The points of a sweep: products, zips and lists of settings, numbered and cut into batches.

A sweep is a product of factors. A factor is one dimension of the result: one setting, or several
that vary together. Point number `i` is found from the shape alone, so that a million points are
never listed.
"""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import InvalidArgument, check_integer
from .naming import check_dim
from .values import LONGEST, listed, plain, values_of


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


def grid_factor(name: str, given: Any) -> Factor:
    """One setting with values of its own. Raises `InvalidArgument` for repeated values."""
    values = values_of(name, given)
    if isinstance(given, Mapping) and given.get("integers"):  # which may repeat itself
        values = tuple(dict.fromkeys(values))
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


def points_factor(given: Any) -> Factor:
    """A list of settings, each a mapping with the same names."""
    allowed = "a list of mappings with the same names"
    rows = listed("points", given, allowed)
    if not rows or not all(isinstance(row, Mapping) and row for row in rows):
        raise InvalidArgument("points", given, allowed)
    if not all(isinstance(name, str) for row in rows for name in row):
        raise InvalidArgument("points", rows[0], f"{allowed}, which are texts")
    names = tuple(rows[0])
    for row in rows:
        if set(row) != set(names):
            raise InvalidArgument("points", dict(row), f"{allowed}: {', '.join(names)}")
    columns = tuple(tuple(plain(name, row[name]) for row in rows) for name in names)
    return Factor("point", tuple(str(name) for name in names), columns)


def seeds_factor(given: Any, name: str = "seed") -> Factor:
    """`N`: the seeds 0 to N-1; or a list of seeds."""
    if isinstance(given, numbers.Number) or getattr(given, "ndim", 1) == 0:
        seeds = list(range(check_integer("seeds", given, minimum=1, maximum=LONGEST)))
    else:
        items = listed("seeds", given, "a number of seeds, or a list of them")
        seeds = [check_integer("seeds", seed, minimum=0, maximum=2**32 - 1) for seed in items]
    return grid_factor(name, seeds)


def _label(value: Any) -> Any:
    """What tells one value of an axis from another: 1 and 1.0 are the same, True is not."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number else json.dumps(value, sort_keys=True)
