"""What a point or a call gave, checked and copied: columns with names and dimensions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .._core.errors import InvalidArgument
from .naming import check_result, is_attribute, is_plain_text, plain_text
from .parts import Column, Part
from .values import EXACT

_KINDS = "biufU"
_MOST_DIMS = 8  # of a result's own


def part_of(
    position: int,
    value: Any,
    keep: Sequence[str] | None,
    select: Any,
    settings: Collection[str] = (),
) -> Part:
    """What one point gave, as a part: a dataset, a mapping of names to values, or a number. Numbers
    among a dataset's attributes are results too, but for those that repeat one of the `settings`.

    Raises `InvalidArgument` for values that no record can hold and for names in `keep` that are
    not there.
    """
    columns = dict(_columns(value, select, keep, settings))
    return Part((position,), _kept(columns, keep))


def batch_part(positions: tuple[int, ...], value: Any, keep: Sequence[str] | None) -> Part:
    """What a function of arrays gave for several points: a mapping of names to arrays whose first
    axis is the points, or pairs `(dims, array)` with the dims of one point."""
    columns = {}
    for name, entry in (value if isinstance(value, Mapping) else {"value": value}).items():
        if keep is not None and name not in keep:
            continue
        dims, array = pair_of(entry)
        if hasattr(entry, "dims"):  # a labelled array names the axis of the points too
            dims = dims[1:]
        if isinstance(array, list | tuple) and any(np.ndim(item) for item in array):
            allowed = (
                "an array, or a mapping of names to arrays (a list may be of points or results)"
            )
            raise InvalidArgument(f"result {name}", type(array).__name__, allowed)
        array = _array(name, array)
        if array.shape[:1] != (len(positions),):
            allowed = f"an array whose first axis has the {len(positions)} points of the call"
            raise InvalidArgument(f"result {name}", array.shape, allowed)
        columns[check_result(name)] = Column(_dims(str(name), dims, array.ndim - 1), array)
    return Part(positions, _kept(columns, keep))


def pair_of(entry: Any) -> tuple[Any, Any]:
    """`(dims, array)` of a pair or a labelled array; dims None where only values are given."""
    if hasattr(entry, "dims") and hasattr(entry, "data"):
        return tuple(entry.dims), entry.data
    if isinstance(entry, tuple) and len(entry) == 2:
        dims = entry[0]
        several = isinstance(dims, list | tuple) and all(isinstance(dim, str) for dim in dims)
        if several or (isinstance(dims, str) and not isinstance(entry[1], str)):
            return entry
    return None, entry


def _columns(
    value: Any,
    select: Mapping[str, Any] | None,
    keep: Sequence[str] | None,
    settings: Collection[str],
) -> Iterable[tuple[str, Column]]:
    if hasattr(value, "to_dataset") and not hasattr(value, "data_vars"):  # a DataArray
        value = value.to_dataset(name=value.name or "value")
    dataset = hasattr(value, "data_vars")
    for dim in select or {}:
        if not dataset or dim not in value.dims:
            raise InvalidArgument("select", dim, "a dimension of the datasets that points give")
    if dataset:
        yield from _dataset_columns(value.isel(select or {}), keep, settings)
        return
    for name, entry in (value if isinstance(value, Mapping) else {"value": value}).items():
        if keep is not None and name not in keep:
            continue
        given, array = pair_of(entry)
        array = _array(str(name), array)
        yield check_result(name), Column(_dims(str(name), given, array.ndim), array[None])


def _dataset_columns(
    value: Any, keep: Sequence[str] | None, settings: Collection[str]
) -> Iterable[tuple[str, Column]]:
    for name, variable in value.variables.items():
        coordinate = name in value.coords
        wanted = keep is None or name in keep
        if not wanted and not coordinate:
            continue
        try:
            array = _array(str(name), variable.values)
        except InvalidArgument:
            if wanted:
                raise
            continue  # the label of something else, perhaps
        dims = _dims(str(name), variable.dims, array.ndim)
        found = {k: _unwrapped(v) for k, v in variable.attrs.items()}
        attrs = {k: v for k, v in found.items() if is_attribute(k, v)}
        attrs = {k: plain_text(v) if isinstance(v, str) else v for k, v in attrs.items()}
        yield check_result(name), Column(dims, array[None], attrs, coordinate)
    for name, number in value.attrs.items():
        repeated = name in value.variables or name in settings
        wanted = name in keep if keep is not None else not repeated
        if wanted and isinstance(_unwrapped(number), bool | int | float):
            yield check_result(name), Column((), _array(str(name), number)[None])


def _unwrapped(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _dims(name: str, given: Any, rank: int) -> tuple[str, ...]:
    if rank > _MOST_DIMS:
        raise InvalidArgument(f"result {name}", f"{rank} dimensions", f"of at most {_MOST_DIMS}")
    if given is None:
        return tuple(f"{name}_{axis}" for axis in range(rank))
    dims = (given,) if isinstance(given, str) else tuple(given)
    if len(dims) != rank or len(set(dims)) < rank:
        raise InvalidArgument(f"result {name}", dims, f"{rank} different names of dimensions")
    return tuple(check_result(dim) for dim in dims)


def _array(name: str, value: Any) -> np.ndarray:
    """A copy, for the function may go on to use what it gave."""
    allowed = "numbers of at most 64 bits, booleans or text, or arrays of them"
    try:
        if isinstance(value, np.ma.MaskedArray):
            real = np.ma.is_masked(value) and value.dtype.kind in "biuf"
            value = np.ma.filled(value.astype(np.float64), np.nan) if real else value.data
        array = np.array(value)
        listed = isinstance(value, list | tuple) or array.dtype == object
        items = np.array(value, object).ravel().tolist() if listed else []
    except (TypeError, ValueError):
        array, items = np.asarray(None), []
    if array.dtype == object and items and all(isinstance(item, str) for item in items):
        array = array.astype(np.str_)
    wide = array.dtype.itemsize > 8 and array.dtype.kind != "U"
    if array.dtype.kind not in _KINDS or wide:
        raise InvalidArgument(f"result {name}", value, allowed)
    whole = [isinstance(item, int | np.integer) for item in items]
    if array.dtype.kind == "f" and whole and all(whole) and 0 <= min(items) <= max(items) < 2**64:
        array = np.array(value, np.uint64)
    large = any(w and abs(int(x)) > EXACT for w, x in zip(whole, items, strict=True))
    if array.dtype.kind == "f" and large:
        allowed = "whole numbers that float64 holds (to 2^53) where others are not whole"
        raise InvalidArgument(f"result {name}", value, allowed)
    if array.dtype.kind == "U":
        # NumPy drops NUL at the end of a text, so that it is looked for in what was given
        texts = items or ([value] if isinstance(value, str) else array.ravel().tolist())
        if not all(is_plain_text(text) for text in texts if isinstance(text, str)):
            raise InvalidArgument(f"result {name}", value, "text in Unicode, without NUL")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _kept(columns: dict[str, Column], keep: Iterable[str] | None) -> dict[str, Column]:
    if not columns:
        raise InvalidArgument("result", {}, "at least one named value")
    _check_sizes(columns)
    if keep is None:
        return columns
    missing = [name for name in keep if name not in columns]
    if missing:
        raise InvalidArgument("variables", missing, f"some of {', '.join(columns)}")
    wanted = set(keep)
    used = {dim for name in wanted for dim in columns[name].dims}
    return {
        name: column
        for name, column in columns.items()
        if name in wanted or (column.coordinate and name in used)
    }


def _check_sizes(columns: Mapping[str, Column]) -> None:
    sizes: dict[str, int] = {}
    for name, column in columns.items():
        for dim, size in zip(column.dims, column.values.shape[1:], strict=True):
            if sizes.setdefault(dim, size) != size:
                allowed = f"of {sizes[dim]} entries on {dim!r}, as other results are"
                raise InvalidArgument(f"result {name}", size, allowed)
