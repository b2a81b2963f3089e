"""What a record holds, in a few words for each variable."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import xarray

_WRITTEN_OUT = 5  # values of a variable that are all shown


class Row(NamedTuple):
    """A variable: its `name`, its `dims` with their sizes, its `values` in brief, its `meaning`."""

    name: str
    dims: str
    values: str
    meaning: str


def summary(dataset: xarray.Dataset) -> list[Row]:
    """One row for each variable of numbers: its values where they are few, else their range."""
    rows = []
    for name, variable in dataset.data_vars.items():
        if variable.dtype.kind not in "biuf" or not variable.size:
            continue
        dims = ", ".join(f"{dim} {size}" for dim, size in variable.sizes.items())
        meaning = str(variable.attrs.get("long_name", ""))
        units = str(variable.attrs.get("units", "1"))
        if units not in ("1", ""):
            meaning = f"{meaning} [{units}]".strip()
        rows.append(Row(str(name), dims, _brief(variable.values.ravel()), meaning))
    return rows


def _brief(values: np.ndarray) -> str:
    if values.size <= _WRITTEN_OUT:
        return ", ".join(_number(value) for value in values.tolist())
    if values.dtype.kind == "b":
        return f"true for {int(values.sum())} of {values.size}"
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "no finite value"
    text = f"{_number(finite.min().item())} to {_number(finite.max().item())}"
    missing = values.size - finite.size
    return f"{text}, {missing} not finite" if missing else text


def _number(value: float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else f"{value:.4g}"
