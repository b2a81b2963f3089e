"""What points give: arrays with names and dimensions, stacked, and the file that keeps a batch."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# What has become of a point; CF's `flag_meanings` of the variable `status`.
MISSING, OK, FAILED, TIMED_OUT, DIED = -1, 0, 1, 2, 3
MEANINGS = {MISSING: "missing", OK: "ok", FAILED: "failed", TIMED_OUT: "timeout", DIED: "died"}


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
