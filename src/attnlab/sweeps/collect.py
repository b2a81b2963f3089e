"""Finished batches put together: one dataset with the swept settings as coordinates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .parts import MEANINGS, MISSING, BatchRecord
from .specification import Specification

if TYPE_CHECKING:
    import xarray

Read = Callable[[int], BatchRecord | None]


class Failure(NamedTuple):
    """A point without a result: its `settings`, its `status` in a word, and the `error`."""

    settings: dict[str, Any]
    status: str
    error: str


class _Variable:
    """What is known of a variable from all batches: its dims, its largest sizes, its kind."""

    def __init__(self, dims: tuple[str, ...], coordinate: bool, attrs: Any):
        self.dims, self.coordinate, self.attrs = dims, coordinate, dict(attrs)
        self.sizes = [0] * len(dims)
        self.types: set[np.dtype] = set()
        self.count = 0
        self.first: np.ndarray | None = None
        self.same = True


def assemble(specification: Specification, read: Read, numbers: Iterable[int]) -> xarray.Dataset:
    """The dataset of all points; those that `numbers` of batches do not cover are missing.

    Numbers are NaN and texts empty where there is no result (whole numbers become floats if that
    happens). Where points differ in the sizes of their own dimensions, the longest counts and the
    others are filled up. `status` says what has become of each point; if some failed, `failure`
    numbers them, with `failure_point`, the position in the order of the dims, and `failure_error`.
    """
    import xarray

    plan, numbers = specification.plan, list(numbers)
    found, failures = _survey(specification, read, numbers)
    status = np.full(plan.size, MISSING, np.int8)
    arrays = {n: _empty(v, plan.size) for n, v in found.items() if not v.coordinate}
    for number in numbers:
        record = read(number)
        if record is None:
            continue
        points = plan.points(number)
        status[points] = record.status()
        for part in record.parts:
            at = points[list(part.positions)]
            for name, column in part.columns.items():
                if name not in arrays:
                    continue  # a coordinate that is the same for all points
                array, values = arrays[name], column.values
                array[at, *(slice(0, size) for size in values.shape[1:])] = values
    data: dict[str, Any] = {}
    swept, coords = plan.dims, _coordinates(specification)
    taken = {*swept, *coords, "status", "failure"}
    renamed = {name: f"result_{name}" if name in taken else name for name in found}
    for name, variable in found.items():
        dims = tuple(renamed.get(d, f"result_{d}" if d in taken else d) for d in variable.dims)
        if name in arrays:
            values = _narrowed(arrays.pop(name), variable, plan.size)
            shape = (*plan.shape, *values.shape[1:])
            data[renamed[name]] = ((*swept, *dims), values.reshape(shape), variable.attrs)
        else:
            coords[renamed[name]] = (dims, variable.first, variable.attrs)
    flags = {
        "flag_values": np.array(list(MEANINGS), np.int8),
        "flag_meanings": " ".join(MEANINGS.values()),
    }
    data["status"] = (swept, status.reshape(plan.shape), flags)
    if failures:
        failures.sort()
        data["failure_point"] = ("failure", np.array([point for point, _ in failures], np.int64))
        data["failure_error"] = ("failure", np.array([text for _, text in failures], np.str_))
    return xarray.Dataset(data, coords=coords)


def failures(dataset: xarray.Dataset) -> list[Failure]:
    """The failed points of a sweep's dataset, in the order of the points."""
    found = []
    dims = dataset["status"].dims
    if "failure_point" not in dataset:
        return []
    for point, error in zip(
        dataset["failure_point"].values.tolist(),
        dataset["failure_error"].values.tolist(),
        strict=True,
    ):
        index = np.unravel_index(point, dataset["status"].shape)
        here = dataset["status"].isel(dict(zip(dims, index, strict=True)))
        settings = {str(name): value.values.item() for name, value in here.coords.items()}
        found.append(Failure(settings, MEANINGS[int(here)], error))
    return found


def _survey(
    specification: Specification, read: Read, numbers: list[int]
) -> tuple[dict[str, _Variable], list[tuple[int, str]]]:
    found: dict[str, _Variable] = {}
    failed: list[tuple[int, str]] = []
    for number in numbers:
        record = read(number)
        if record is None:
            continue
        points = specification.plan.points(number)
        failed += [(int(points[p]), text) for p, (_, text) in record.errors.items()]
        for part in record.parts:
            for name, column in part.columns.items():
                variable = found.setdefault(
                    name, _Variable(column.dims, column.coordinate, column.attrs)
                )
                _add(name, variable, column.dims, column.values)
    for variable in found.values():
        # a label that all points share stays a label; one that differs is a result
        variable.coordinate &= variable.same and variable.first is not None
    return found, failed


def _add(name: str, variable: _Variable, dims: tuple[str, ...], values: np.ndarray) -> None:
    if dims != variable.dims:
        from .._core.errors import InvalidArgument

        allowed = f"on the dimensions {variable.dims} in every point"
        raise InvalidArgument(f"variable {name}", dims, allowed)
    variable.sizes = [max(a, b) for a, b in zip(variable.sizes, values.shape[1:], strict=True)]
    variable.types.add(values.dtype)
    variable.count += len(values)
    if variable.coordinate and variable.same:
        first = values[0] if variable.first is None else variable.first
        variable.first = first
        variable.same = values.shape[1:] == first.shape and bool(np.all(values == first))


def _kind(variable: _Variable) -> np.dtype:
    if all(kind.kind in "SU" for kind in variable.types):
        return np.result_type(*variable.types)
    if any(kind.kind in "SU" for kind in variable.types):
        return np.dtype("U64")
    return np.result_type(*variable.types)


def _empty(variable: _Variable, size: int) -> Any:
    """An array for all points, filled with what stands for nothing."""
    kind = _kind(variable)
    shape = (size, *variable.sizes)
    if kind.kind in "SU":
        return np.zeros(shape, kind)
    return np.full(shape, np.nan, np.float64 if kind.kind != "f" else kind)


def _narrowed(array: np.ndarray, variable: _Variable, size: int) -> np.ndarray:
    """Whole numbers and booleans as such again, where nothing is missing."""
    kind = _kind(variable)
    if kind.kind in "SUf" or np.isnan(array).any():
        return array
    return array.astype(kind)


def _coordinates(specification: Specification) -> dict[str, Any]:
    names, coords = specification.names(), {}
    for factor in specification.plan.factors:
        for name, column in zip(factor.names, factor.columns, strict=True):
            scalar = all(isinstance(v, int | float | str) for v in column)
            alike = len({isinstance(v, str) for v in column}) == 1
            values = np.array(column if scalar and alike else [json.dumps(v) for v in column])
            coords[names[name]] = (factor.dim, values, {"setting": name})
    return coords
