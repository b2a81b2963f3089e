"""Finished batches put together: one dataset with the swept settings as coordinates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .axes import Plan
from .naming import RESERVED, unused
from .parts import FAILED, MEANINGS, MISSING, OK, BatchRecord, Part
from .specification import Specification
from .variables import TEXT, Variable

if TYPE_CHECKING:
    import xarray

ROUNDED = "whole numbers beyond 2^53, beside numbers that are not whole"
Read = Callable[[int], BatchRecord | None]


class Failure(NamedTuple):
    """A point without a result: its `settings`, its `status` in a word, and the `error`."""

    settings: dict[str, Any]
    status: str
    error: str


def assemble(specification: Specification, read: Read, numbers: Iterable[int]) -> xarray.Dataset:
    """The dataset of all points; those that `numbers` of batches do not cover are missing.

    Numbers are NaN and texts empty where there is no result (whole numbers become floats if that
    happens, or where floats would not be exact the number named in the attribute `nothing`). Where
    points differ in the sizes of their own dimensions, the longest counts and the others are filled
    up; a point whose variables have other dimensions than those of the first has failed. `status`
    says what has become of each point; if some failed, `failure_number` is the place of theirs in
    `failure_error`, and -1 for the others.
    """
    import xarray

    plan, numbers = specification.plan, list(numbers)
    found, failures = _survey(specification, read, numbers)
    sizes = _sizes(found)
    status = np.full(plan.size, MISSING, np.int8)
    arrays, coords = {}, _coordinates(specification)
    names, dims = _names(found, {*plan.dims, *coords})
    for name, variable in found.items():
        if variable.is_label(sizes):
            own = tuple(dims[dim] for dim in variable.dims)
            coords[names[name]] = (own, variable.first, variable.attrs)
            continue
        arrays[name] = variable.array(plan.size, sizes)
        if variable.is_rounded:
            variable.attrs["rounded"] = ROUNDED
    for number in numbers:
        record = read(number)
        if record is None:
            continue
        points = plan.points(number)
        status[points] = record.status()
        for part in record.parts:
            if _misfit(part, found):
                continue
            at = points[list(part.positions)]
            for name, column in part.columns.items():
                if name in arrays:
                    values = column.values
                    if arrays[name].dtype == TEXT:
                        values = values.astype(np.str_).astype(TEXT)
                    place: Any = (at, *(slice(0, size) for size in values.shape[1:]))
                    arrays[name][place] = values
    data: dict[str, Any] = {}
    for name in list(arrays):
        variable, values = found[name], arrays.pop(name)
        own = tuple(dims[dim] for dim in variable.dims)
        entry = ((*plan.dims, *own), values.reshape(*plan.shape, *values.shape[1:]), variable.attrs)
        (coords if variable.coordinate else data)[names[name]] = entry
    for point, _ in failures:
        if status[point] == OK:
            status[point] = FAILED
    data |= _told(failures, plan)
    flags = {
        "flag_values": np.array(list(MEANINGS), np.int8),
        "flag_meanings": " ".join(MEANINGS.values()),
    }
    data["status"] = (plan.dims, status.reshape(plan.shape), flags)
    return xarray.Dataset(data, coords=coords)


def failures(dataset: xarray.Dataset) -> list[Failure]:
    """The failed points of a sweep's dataset, or of a part of it, in the order of the points."""
    if "failure_number" not in dataset:
        return []
    found = []
    numbers = dataset["failure_number"]
    for index in np.argwhere(numbers.values >= 0).tolist():
        at = dict(zip(numbers.dims, index, strict=True))
        here = dataset["status"].isel(at)
        settings = {
            str(name): value.values.item()
            for name, value in here.coords.items()
            if "setting" in value.attrs
        }
        error = str(dataset["failure_error"].values[int(numbers.isel(at))])
        found.append(Failure(settings, MEANINGS[int(here)], error))
    return found


def _told(failures: list[tuple[int, str]], plan: Plan) -> dict[str, Any]:
    if not failures:
        return {}
    failures.sort()
    numbers = np.full(plan.size, -1, np.int64)
    numbers[[point for point, _ in failures]] = np.arange(len(failures))
    texts = np.array([text for _, text in failures], TEXT)
    return {
        "failure_number": (plan.dims, numbers.reshape(plan.shape)),
        "failure_error": ("failure", texts),
    }


def _survey(
    specification: Specification, read: Read, numbers: list[int]
) -> tuple[dict[str, Variable], list[tuple[int, str]]]:
    found: dict[str, Variable] = {}
    failed: list[tuple[int, str]] = []
    for number in numbers:
        record = read(number)
        if record is None:
            continue
        points = specification.plan.points(number)
        failed += [(int(points[p]), text) for p, (_, text) in record.errors.items()]
        for part in record.parts:
            wrong = _misfit(part, found)
            if wrong:
                failed += [(int(points[p]), wrong) for p in part.positions]
                continue
            for name, column in part.columns.items():
                found.setdefault(name, Variable(column)).add(column)
    return found, failed


def _misfit(part: Part, found: Mapping[str, Variable]) -> str:
    """Why points cannot stand beside the others; empty where they can."""
    for name, column in part.columns.items():
        if name in found and column.dims != found[name].dims:
            return (
                f"result {name} has the dimensions {column.dims}, other points {found[name].dims}"
            )
    return ""


def _sizes(found: Mapping[str, Variable]) -> dict[str, int]:
    """The largest size of each dimension of the points' own."""
    sizes: dict[str, int] = {}
    for variable in found.values():
        for shape in variable.sizes:
            for dim, size in zip(variable.dims, shape, strict=True):
                sizes[dim] = max(size, sizes.get(dim, 0))
    return sizes


def _names(found: Mapping[str, Variable], swept: set[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The names of variables and of their dimensions in the dataset, none of them used twice."""
    taken = {*swept, *RESERVED}
    dims: dict[str, str] = {}
    for variable in found.values():
        for dim in variable.dims:
            if dim not in dims:
                dims[dim] = unused(dim, {*taken, *dims.values()})
    names: dict[str, str] = {}
    for name, variable in found.items():
        if name in variable.dims and variable.coordinate:
            names[name] = dims[name]
            continue
        names[name] = unused(name, {*taken, *dims.values(), *names.values()})
    return names, dims


def _coordinates(specification: Specification) -> dict[str, Any]:
    names, coords = specification.names(), {}
    for factor in specification.plan.factors:
        for name, column in zip(factor.names, factor.columns, strict=True):
            coords[names[name]] = (factor.dim, _labels(column), {"setting": name})
    return coords


def _labels(column: Sequence[Any]) -> np.ndarray:
    """The values of a setting as an array, or their JSON where they are of several kinds."""
    kinds = {type(value) for value in column}
    if len(kinds) == 1 and kinds <= {bool, int, float, str}:
        return np.array(column)
    if kinds == {int, float} and all(
        int(float(value)) == value for value in column if type(value) is int
    ):
        return np.array(column, np.float64)
    return np.array([json.dumps(value) for value in column])
