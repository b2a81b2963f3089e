"""Comparison of records, variable by variable."""

import numpy as np
import pytest
import xarray as xr

from attnlab import records
from attnlab.errors import InvalidArgument


def dataset(**changes):
    variables = {
        "risk": (("run", "step"), np.array([[1.0, 2.0, np.nan], [np.inf, -4.0, 0.0]])),
        "status": ("run", np.array(["ok", "diverged"])),
    }
    variables.update(changes)
    return xr.Dataset(variables, coords={"step": [0, 10, 20]})


def rows(left, right, **tolerances):
    comparison = records.compare(left, right, **tolerances)
    return comparison, {row.variable: row for row in comparison.rows}


def test_equal_records_agree_nan_and_infinities_included():
    comparison, table = rows(dataset(), dataset(), rtol=0.0, atol=0.0)
    assert comparison.same
    assert set(table) == {"risk", "status", "step"}
    assert table["risk"].largest_absolute == 0.0


@pytest.mark.parametrize(("change", "status"), [(1e-11, "same"), (1e-6, "differs")])
def test_tolerances_decide_and_the_worst_entry_is_located(change, status):
    values = dataset()["risk"].values.copy()
    values[1, 1] -= 4 * change
    _, table = rows(dataset(risk=(("run", "step"), values)), dataset(), rtol=1e-9, atol=0.0)
    row = table["risk"]
    assert row.status == status
    assert row.largest_absolute == pytest.approx(4 * change, rel=1e-4)
    assert row.largest_relative == pytest.approx(change, rel=1e-4)
    if status == "differs":
        assert (row.unequal, row.where) == (1, "run=1, step=10")


@pytest.mark.parametrize("value", [5.0, -np.inf])
def test_a_number_against_nan_or_infinity_differs(value):
    values = dataset()["risk"].values.copy()
    values[0, 2] = value
    values[1, 0] = 1.0
    comparison, table = rows(dataset(risk=(("run", "step"), values)), dataset())
    assert not comparison.same
    assert table["risk"].unequal == 2
    assert table["risk"].largest_absolute == np.inf


def test_text_shapes_and_missing_variables():
    other = dataset(status=("run", np.array(["ok", "ok"])), extra=("run", np.zeros(2)))
    _, table = rows(dataset(), other)
    assert (table["status"].status, table["status"].where) == ("differs", "run=1")
    assert (table["extra"].status, table["extra"].where) == ("missing", "right only")
    _, table = rows(dataset(), dataset().isel(step=slice(0, 2)))
    assert table["risk"].status == "shape"
    assert "step: 3" in table["risk"].where


def test_empty_variables_and_scalars():
    left = xr.Dataset({"none": ("run", np.zeros(0)), "total": 3.0})
    right = xr.Dataset({"none": ("run", np.zeros(0)), "total": 3.5})
    _, table = rows(left, right)
    assert table["none"].status == "same"
    assert table["total"].status == "differs"


def test_negative_tolerance_is_refused():
    with pytest.raises(InvalidArgument, match="rtol"):
        records.compare(dataset(), dataset(), rtol=-1.0)
