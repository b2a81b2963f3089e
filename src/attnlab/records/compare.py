"""Two records side by side: which variables agree, and where the others differ most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.errors import check_real

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Difference:
    """How one variable compares.

    **Fields:** `variable`; `status`, one of `same` (equal within the tolerances), `differs`,
    `shape` (dimensions or sizes differ), `missing` (only in one record); `largest_absolute` and
    `largest_relative` difference (None where there are no numbers to subtract); `unequal`, the
    number of entries outside the tolerances; `where`, the coordinates of the worst entry.
    """

    variable: str
    status: str
    largest_absolute: float | None = None
    largest_relative: float | None = None
    unequal: int = 0
    where: str = ""


@dataclass(frozen=True)
class Comparison:
    """All variables of two records, by name. `same` is True when every one agrees."""

    rows: tuple[Difference, ...]
    rtol: float
    atol: float

    @property
    def same(self) -> bool:
        return all(row.status == "same" for row in self.rows)


def compare(
    left: xarray.Dataset, right: xarray.Dataset, *, rtol: float = 1e-9, atol: float = 1e-12
) -> Comparison:
    """Compares every variable and coordinate; `right` is the reference of relative differences.

    Numbers agree when `|left - right| <= atol + rtol |right|`; NaN agrees with NaN, an infinity
    with itself; everything else must be equal.

    Raises `InvalidArgument` for a negative tolerance.
    """
    rtol = check_real("rtol", rtol, low=0.0)
    atol = check_real("atol", atol, low=0.0)
    names = [str(name) for name in left.variables]
    names += [str(name) for name in right.variables if name not in left.variables]
    return Comparison(tuple(_row(left, right, name, rtol, atol) for name in names), rtol, atol)


def _row(
    left: xarray.Dataset, right: xarray.Dataset, name: str, rtol: float, atol: float
) -> Difference:
    if name not in left.variables or name not in right.variables:
        return Difference(name, "missing", where="left only" if name in left else "right only")
    a, b = left[name], right[name]
    if a.dims != b.dims or a.shape != b.shape:
        return Difference(name, "shape", where=f"{_sizes(a)} against {_sizes(b)}")
    if a.dtype.kind in "iufb" and b.dtype.kind in "iufb":
        return _numbers(name, a, np.float64(a.values), np.float64(b.values), rtol, atol)
    unequal = np.asarray(a.values != b.values)
    if not unequal.any():
        return Difference(name, "same")
    worst = np.unravel_index(int(np.argmax(unequal)), unequal.shape)
    return Difference(name, "differs", unequal=int(unequal.sum()), where=_position(a, worst))


def _numbers(
    name: str, labels: xarray.DataArray, a: Any, b: Any, rtol: float, atol: float
) -> Difference:
    a, b = np.asarray(a), np.asarray(b)
    alike = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        gap = np.where(alike, 0.0, np.abs(a - b))
        gap = np.where(np.isnan(gap), np.inf, gap)  # a number against NaN
        close = alike | ((gap <= atol + rtol * np.abs(b)) & np.isfinite(gap))
        relative = np.where(alike, 0.0, gap / np.abs(b))
    relative = np.where(np.isnan(relative), np.inf, relative)
    if gap.size == 0:
        return Difference(name, "same", 0.0, 0.0)
    unequal = int((~close).sum())
    worst = np.unravel_index(int(np.argmax(np.where(close, -1.0, gap))), gap.shape)
    return Difference(
        name,
        "differs" if unequal else "same",
        float(gap.max()),
        float(relative.max()),
        unequal,
        _position(labels, worst) if unequal else "",
    )


def _sizes(array: xarray.DataArray) -> str:
    return "(" + ", ".join(f"{dim}: {size}" for dim, size in array.sizes.items()) + ")"


def _position(array: xarray.DataArray, index: tuple[Any, ...]) -> str:
    parts = []
    for dim, i in zip(array.dims, index, strict=True):
        label = array.coords[dim].values[i] if dim in array.coords else i
        parts.append(f"{dim}={label}")
    return ", ".join(parts)
