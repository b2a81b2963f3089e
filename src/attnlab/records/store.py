"""Writing records whole or not at all, and reading them back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.errors import InvalidArgument
from .._core.files import replacing
from .outside import check_own_content
from .provenance import checked_json

if TYPE_CHECKING:
    import xarray

# netCDF attributes hold text, numbers and arrays of them. Everything else (None, booleans,
# mappings, lists, tuples) is stored as JSON text behind this mark and restored on reading.
_JSON_MARK = "json:"
_RESERVED = (
    "_FillValue",
    "missing_value",
    "scale_factor",
    "add_offset",
    "coordinates",
    "_Unsigned",
)
_COMPRESS_ABOVE = 65_536  # bytes; below it the filters cost more than they save


def default_directory() -> Path:
    """Where outputs go when nobody says: `$ATTNLAB_OUTPUT`, else `attnlab-output` here."""
    return Path(os.environ.get("ATTNLAB_OUTPUT") or "attnlab-output")


def save(dataset: xarray.Dataset, path: str | os.PathLike[str]) -> Path:
    """Writes `dataset` to netCDF-4 at `path` and returns the path.

    The file appears complete or not at all, whatever happens to the writer; an older file of that
    name stays until then. Attributes of any JSON type survive the round trip.

    Raises `InvalidArgument` for variables, names or attributes that netCDF cannot hold, `OSError`
    when the disk refuses.
    """
    path = Path(path)
    _check_names(dataset)
    stored = _with_attributes(dataset, _encode)
    encoding = {}
    for name, variable in stored.variables.items():
        if variable.dtype.kind == "O":
            _check_text(str(name), variable.values)
        if variable.dtype.kind not in "biufSUOTmM":
            raise InvalidArgument(
                str(name), variable.dtype, "a variable of numbers, booleans, text or times"
            )
        if variable.dtype.kind in "iuf" and variable.nbytes > _COMPRESS_ABOVE:
            encoding[name] = {"zlib": True, "complevel": 1, "shuffle": True}
    try:
        with replacing(path) as temporary:
            stored.to_netcdf(temporary, engine="h5netcdf", format="NETCDF4", encoding=encoding)
    except (ValueError, TypeError) as error:  # text with NUL, attributes that say what is encoded
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidArgument("dataset", list(dataset.variables), f"storable ({reason})") from None
    return path


def load(path: str | os.PathLike[str]) -> xarray.Dataset:
    """The record at `path`, in memory; the file is closed.

    Raises `InvalidArgument` when there is no such file, when it is no netCDF-4 file or damaged, and
    when parts of it lie in other files.
    """
    import xarray as xr

    try:
        path = Path(path)
        there = path.is_file()
    except (TypeError, ValueError):  # no path, or one with a NUL
        raise InvalidArgument("record", path, "the name of a file") from None
    if not there:
        raise InvalidArgument("record", str(path), "an existing file")
    try:
        check_own_content(path)
        return _with_attributes(xr.load_dataset(path, engine="h5netcdf"), _decode)
    except InvalidArgument:
        raise
    except Exception as error:  # of many kinds, as the damage is
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidArgument("record", str(path), f"a complete netCDF-4 file ({reason})") from None


def _check_names(dataset: xarray.Dataset) -> None:
    """A name with `/` would be a path of groups, one without text or of other types is none."""
    owners: list[tuple[str, Iterable[Any]]] = [("attribute", dataset.attrs)]
    owners += [("attribute", variable.attrs) for variable in dataset.variables.values()]
    owners += [("variable", dataset.variables), ("dimension", dataset.sizes)]
    for what, names in owners:
        for name in names:
            plain = isinstance(name, str) and name.isprintable() and name.strip(" .") == name
            if not plain or not name or "/" in name:
                allowed = "printable text without /, and without spaces or dots at its ends"
                raise InvalidArgument(f"name of a {what}", name, allowed)
            if what == "attribute" and name in _RESERVED:
                allowed = "none of those that say how numbers are encoded: they would be decoded"
                raise InvalidArgument("name of an attribute", name, allowed)
    for variable in dataset.variables.values():
        units = variable.attrs.get("units")
        if isinstance(units, str) and " since " in units:
            allowed = "no date to count from: the numbers would come back as times"
            raise InvalidArgument("attribute units", units, allowed)


def _check_text(name: str, values: np.ndarray) -> None:
    """Of Python objects only text comes back as it was; None would come back as empty text."""
    for value in values.ravel():
        if not isinstance(value, str):
            raise InvalidArgument(name, value, "text throughout, in an array of Python objects")


def _encode(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return _JSON_MARK + json.dumps(value) if value.startswith(_JSON_MARK) else value
    if isinstance(value, bool | np.bool_) or value is None:
        return _JSON_MARK + json.dumps(None if value is None else bool(value))
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind in "iuf" and value.size:
            return value
        value = value.tolist()
    if isinstance(value, int | float):
        return value
    return _JSON_MARK + json.dumps(checked_json(f"attribute {name}", value))


def _decode(name: str, value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_JSON_MARK):
        return json.loads(value[len(_JSON_MARK) :])
    return value


def _with_attributes(dataset: xarray.Dataset, convert: Any) -> xarray.Dataset:
    """A shallow copy whose attributes went through `convert`."""

    def converted(owner: str, attributes: Mapping[Any, Any]) -> dict[str, Any]:
        return {name: convert(f"{owner}{name}", value) for name, value in attributes.items()}

    copy = dataset.copy(deep=False)
    copy.attrs = converted("", dataset.attrs)
    for name, variable in dataset.variables.items():
        copy[name].attrs = converted(f"{name}.", variable.attrs)
    return copy
