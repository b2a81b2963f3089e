"""Variables of a sweep: what all batches together know of one, its type, its array for all points."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .parts import Column, common
from .values import EXACT

TEXT = np.dtype(object)  # of results: as long as they are, and as they are read back


class Variable:
    """What is known of a variable from all batches: dims, whether it labels one, types, range."""

    def __init__(self, column: Column):
        self.dims, self.coordinate, self.attrs = column.dims, column.coordinate, dict(column.attrs)
        self.types: set[np.dtype] = set()
        self.sizes: set[tuple[int, ...]] = set()
        self.count = 0
        self.first: np.ndarray | None = None
        self._same = True
        self._least, self._most = 0, 0  # of whole numbers
        self._used: set[int] = set()  # of the numbers that could stand for nothing

    def add(self, column: Column) -> None:
        """Takes note of the values at some points, the first axis."""
        values = column.values
        self.attrs = common(self.attrs, column.attrs)
        self.types.add(values.dtype)
        self.sizes.add(values.shape[1:])
        self.count += len(values)
        if values.size and values.dtype.kind in "iu":
            self._least = min(self._least, int(values.min()))
            self._most = max(self._most, int(values.max()))
            self._used |= {end for end in _ends(values.dtype) if (values == end).any()}
        if self.coordinate and self._same:
            self.first = values[0] if self.first is None else self.first
            alike = [_alike(value, self.first) for value in values]
            self._same = all(alike)

    def is_label(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is one label for all points: they agree in it, and it covers its dimensions."""
        if not (self.coordinate and self._same) or self.first is None:
            return False
        return self.first.shape == tuple(sizes[dim] for dim in self.dims)

    def array(self, points: int, sizes: Mapping[str, int]) -> np.ndarray:
        """An array for all points, filled with what stands for nothing: NaN, an empty text, or a
        number that the attribute `nothing` names.

        Whole numbers and booleans are such where nothing is missing, else floats, unless a float
        would not be exact.
        """
        shape = (points, *(sizes[dim] for dim in self.dims))
        complete = self.count == points and self.sizes == {shape[1:]}
        if any(kind.kind == "U" for kind in self.types):
            return np.full(shape, "", TEXT)
        kind = self._number()
        if complete:
            return np.zeros(shape, kind)
        small = kind.kind in "iu" and max(-self._least, self._most) <= EXACT
        if kind.kind == "b" or small:
            kind = np.dtype(np.float64)
        if kind.kind == "f":
            return np.full(shape, np.nan, kind)
        nothing = next(end for end in (*_ends(kind), 0) if end not in self._used)
        self.attrs["nothing"] = str(nothing)
        return np.full(shape, nothing, kind)

    @property
    def is_rounded(self) -> bool:
        """Whether whole numbers lose digits, for other points gave numbers that are not whole."""
        if any(kind.kind == "U" for kind in self.types) or self._number().kind != "f":
            return False
        return max(-self._least, self._most) > EXACT

    def _number(self) -> np.dtype:
        kind = np.result_type(*self.types)
        whole = all(each.kind in "biu" for each in self.types)
        if kind.kind == "f" and whole and (self._most < 2**63 or self._least >= 0):
            return np.dtype(np.int64 if self._most < 2**63 else np.uint64)
        return kind


def _ends(kind: np.dtype) -> tuple[int, ...]:
    """Numbers of this type that hardly any point gives, the first choice first."""
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    return (high, high - 1, high - 2, high // 2) if low == 0 else (low, high, low + 1, high - 1)


def _alike(value: np.ndarray, first: np.ndarray) -> bool:
    both = value.dtype.kind == first.dtype.kind == "f"
    return np.array_equal(value, first, equal_nan=both)
