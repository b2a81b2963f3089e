"""Variables of a sweep: what all batches together know of one, its type, its array for all points."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from .parts import Column

_EXACT = 2**53  # up to here a float64 holds every whole number


class Variable:
    """What is known of a variable from all batches: dims, whether it labels one, types, range."""

    def __init__(self, column: Column):
        self.dims, self.coordinate, self.attrs = column.dims, column.coordinate, dict(column.attrs)
        self.types: set[np.dtype] = set()
        self.sizes: set[tuple[int, ...]] = set()
        self.count = 0
        self.first: np.ndarray | None = None
        self._same = True
        self._least, self._most, self._width = 0, 0, 0  # of whole numbers; of texts for all values

    def add(self, values: np.ndarray) -> None:
        """Takes note of the values at some points, the first axis."""
        self.types.add(values.dtype)
        self.sizes.add(values.shape[1:])
        self.count += len(values)
        if values.size and values.dtype.kind in "iu":
            self._least = min(self._least, int(values.min()))
            self._most = max(self._most, int(values.max()))
        if values.dtype.kind == "U":
            self._width = max(self._width, values.dtype.itemsize // 4)
        if self.coordinate and self._same:
            self.first = values[0] if self.first is None else self.first
            same_shape = values.shape[1:] == self.first.shape
            self._same = same_shape and bool(np.all(values == self.first))

    def is_label(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is one label for all points: they agree in it, and it covers its dimensions."""
        if not (self.coordinate and self._same) or self.first is None:
            return False
        return self.first.shape == tuple(sizes[dim] for dim in self.dims)

    def array(self, name: str, points: int, sizes: Mapping[str, int]) -> tuple[np.ndarray, str]:
        """An array for all points, filled with what stands for nothing, and what that is (empty
        where nothing is missing, or where it is NaN or an empty text).

        Whole numbers and booleans are such where nothing is missing, else floats, unless a float
        would not be exact.
        """
        shape = (points, *(sizes[dim] for dim in self.dims))
        complete = self.count == points and self.sizes == {shape[1:]}
        if any(kind.kind == "U" for kind in self.types):
            return np.zeros(shape, self._text()), ""
        kind = self._number(name)
        if complete:
            return np.zeros(shape, kind), ""
        if kind.kind == "b":
            kind = np.dtype(np.float64)
        if kind.kind in "iu" and max(-self._least, self._most) <= _EXACT:
            kind = np.dtype(np.float64)
        if kind.kind == "f":
            return np.full(shape, np.nan, kind), ""
        nothing = np.iinfo(kind).max if kind.kind == "u" else np.iinfo(kind).min
        return np.full(shape, nothing, kind), str(nothing)

    def _text(self) -> np.dtype:
        width = self._width
        for kind in self.types:
            if kind.kind != "U":  # where texts and numbers meet, numbers are written out
                width = max(width, np.zeros(0, kind).astype(np.str_).dtype.itemsize // 4)
        return np.dtype(f"U{max(1, width)}")

    def _number(self, name: str) -> np.dtype:
        kind = np.result_type(*self.types)
        whole = all(each.kind in "biu" for each in self.types)
        if kind.kind == "f" and whole and (self._most < 2**63 or self._least >= 0):
            return np.dtype(np.int64 if self._most < 2**63 else np.uint64)
        if kind.kind == "f" and max(-self._least, self._most) > _EXACT:
            warnings.warn(
                f"result {name}: whole numbers beyond 2^53 are rounded, for other points gave "
                "numbers that are not whole",
                RuntimeWarning,
                stacklevel=2,
            )
        return kind
