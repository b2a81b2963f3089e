"""What points give: arrays with names and dimensions, stacked, and the file that keeps a batch."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.errors import InvalidArgument
from .naming import check_result, is_attribute, is_plain_text, plain_text

# What has become of a point; CF's `flag_meanings` of the variable `status`.
MISSING, OK, FAILED, TIMED_OUT, DIED = -1, 0, 1, 2, 3
MEANINGS = {MISSING: "missing", OK: "ok", FAILED: "failed", TIMED_OUT: "timeout", DIED: "died"}

_KINDS = "biufU"
_MOST_DIMS = 8  # of a result's own
_EXACT = 2**53  # up to here a float64 holds every whole number


@dataclass(frozen=True)
class Column:
    """One variable of several points, the first axis the points; `dims` are those of one point.

    `coordinate` tells whether it labels a dimension of the point's own.
    """

    dims: tuple[str, ...]
    values: np.ndarray
    attrs: Mapping[str, Any] = field(default_factory=dict)
    coordinate: bool = False


@dataclass(frozen=True)
class Part:
    """Points of one layout: their `positions` in the batch, and their variables by name."""

    positions: tuple[int, ...]
    columns: Mapping[str, Column]

    @property
    def layout(self) -> tuple[Any, ...]:
        """What has to be equal for two parts to be stacked."""
        return tuple(
            (name, column.dims, column.values.shape[1:], column.values.dtype.str)
            for name, column in self.columns.items()
        )


@dataclass
class BatchRecord:
    """A finished batch: what its points gave, what has become of each, and how long it took."""

    size: int
    parts: list[Part] = field(default_factory=list)
    errors: dict[int, tuple[int, str]] = field(default_factory=dict)  # position: status, text
    seconds: float = 0.0

    def status(self) -> np.ndarray:
        """That of each point, `(size,)`."""
        status = np.full(self.size, MISSING, np.int8)
        for part in self.parts:
            status[list(part.positions)] = OK
        for position, (code, _) in self.errors.items():
            status[position] = code
        return status


def part_of(position: int, value: Any, keep: Sequence[str] | None, select: Any) -> Part:
    """What one point gave, as a part: a dataset, a mapping of names to values, or a number.

    Raises `InvalidArgument` for values that no record can hold and for names in `keep` that are
    not there.
    """
    columns = dict(_columns(value, select, keep))
    return Part((position,), _kept(columns, keep))


def batch_part(positions: tuple[int, ...], value: Any, keep: Sequence[str] | None) -> Part:
    """What a function of arrays gave for several points: a mapping of names to arrays whose first
    axis is the points, or pairs `(dims, array)` with the dims of one point."""
    columns = {}
    for name, entry in (value if isinstance(value, Mapping) else {"value": value}).items():
        if keep is not None and name not in keep:
            continue
        dims, array = pair_of(entry)
        if hasattr(entry, "dims") and hasattr(entry, "values"):  # a labelled array
            dims, array = entry.dims[1:], entry.values
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
    """`(dims, array)`; dims None where only values are given."""
    if isinstance(entry, tuple) and len(entry) == 2:
        dims = entry[0]
        several = isinstance(dims, list | tuple) and all(isinstance(dim, str) for dim in dims)
        if several or (isinstance(dims, str) and not isinstance(entry[1], str)):
            return entry
    return None, entry


def common(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that two have alike."""
    return {name: value for name, value in left.items() if right.get(name) == value}


def merged(parts: Iterable[Part]) -> list[Part]:
    """Parts of one layout stacked into one, in the order of positions."""
    groups: dict[Any, list[Part]] = {}
    for part in parts:
        groups.setdefault(part.layout, []).append(part)
    return [_stacked(group) for group in groups.values()]


def encode(record: BatchRecord) -> bytes:
    """The record as the bytes of an `.npz` file; nothing in it is a pickle."""
    arrays: dict[str, np.ndarray] = {}
    header: dict[str, Any] = {
        "size": record.size,
        "seconds": record.seconds,
        "errors": [[p, code, text] for p, (code, text) in sorted(record.errors.items())],
        "parts": [],
    }
    for number, part in enumerate(merged(record.parts)):
        columns = []
        for k, (name, column) in enumerate(part.columns.items()):
            arrays[f"{number}.{k}"] = column.values
            columns.append([name, list(column.dims), dict(column.attrs), column.coordinate])
        arrays[f"{number}"] = np.asarray(part.positions, np.int64)
        header["parts"].append(columns)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def decode(data: bytes, mark: bytes = b"") -> BatchRecord:
    """The inverse of `encode`. Raises `ValueError` for bytes that are damaged, and where the
    archive's comment is not `mark`."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if archive.comment != mark:
                raise ValueError(f"marked {archive.comment!r}")
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            header = json.loads(file["header"].tobytes())
            parts = []
            for number, columns in enumerate(header["parts"]):
                made = {
                    name: Column(tuple(dims), file[f"{number}.{k}"], attrs, coordinate)
                    for k, (name, dims, attrs, coordinate) in enumerate(columns)
                }
                parts.append(Part(tuple(file[f"{number}"].tolist()), made))
        errors = {int(p): (int(code), str(text)) for p, code, text in header["errors"]}
        record = BatchRecord(int(header["size"]), parts, errors, float(header["seconds"]))
        record.status()  # positions beyond the batch
    except Exception as error:  # of many kinds: each byte may be another
        raise ValueError(f"damaged: {error}") from None
    return record


def _columns(
    value: Any, select: Mapping[str, Any] | None, keep: Sequence[str] | None
) -> Iterable[tuple[str, Column]]:
    if hasattr(value, "to_dataset") and not hasattr(value, "data_vars"):  # a DataArray
        value = value.to_dataset(name=value.name or "value")
    dataset = hasattr(value, "data_vars")
    for dim in select or {}:
        if not dataset or dim not in value.dims:
            raise InvalidArgument("select", dim, "a dimension of the datasets that points give")
    if dataset:
        yield from _dataset_columns(value.isel(select or {}), keep)
        return
    for name, entry in (value if isinstance(value, Mapping) else {"value": value}).items():
        if keep is not None and name not in keep:
            continue
        if hasattr(entry, "dims") and hasattr(entry, "values"):  # a labelled array in a mapping
            entry = (tuple(entry.dims), entry.values)
        given, array = pair_of(entry)
        array = _array(str(name), array)
        yield check_result(name), Column(_dims(str(name), given, array.ndim), array[None])


def _dataset_columns(value: Any, keep: Sequence[str] | None) -> Iterable[tuple[str, Column]]:
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
    for name, number in value.attrs.items():  # results of one number are often kept there
        wanted = name in keep if keep is not None else name not in value.variables
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
    large = any(w and abs(int(x)) > _EXACT for w, x in zip(whole, items, strict=True))
    if array.dtype.kind == "f" and large:
        allowed = "whole numbers that float64 holds (to 2^53) where others are not whole"
        raise InvalidArgument(f"result {name}", value, allowed)
    if array.dtype.kind == "U":
        # NumPy drops NUL at the end of a text, so that it is looked for in what was given
        texts = items or [value if isinstance(value, str) else array]
        texts = texts if items or isinstance(value, str) else array.ravel().tolist()
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


def _stacked(group: list[Part]) -> Part:
    positions = np.concatenate([part.positions for part in group]).astype(int)
    order = np.argsort(positions, kind="stable")
    columns = {}
    for name, first in group[0].columns.items():
        values = first.values
        if len(group) > 1:
            values = np.concatenate([part.columns[name].values for part in group])
        attrs = dict(first.attrs)
        for part in group[1:]:
            attrs = common(attrs, part.columns[name].attrs)
        columns[name] = Column(first.dims, values[order], attrs, first.coordinate)
    return Part(tuple(positions[order].tolist()), columns)
