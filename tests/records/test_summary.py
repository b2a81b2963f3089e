"""A record in a few words."""

import numpy as np
import xarray as xr

from attnlab import records


def test_few_values_are_written_out_and_many_as_their_range():
    dataset = xr.Dataset(
        {
            "rate": ((), 0.123456, {"long_name": "rate", "units": "1/step"}),
            "few": ("k", [1, 20], {"units": "1"}),
            "many": (("j", "k"), np.arange(8.0).reshape(4, 2) / 3),
            "holes": ("n", [np.nan, 2.0, np.inf, -1.0, 0.0, 0.0]),
            "none": ("n", [np.nan] * 6),
            "flags": ("n", [True, False, True, True, False, False]),
            "one": ("m", [True]),
            "words": ("k", ["a", "b"]),
            "nothing": ("empty", np.zeros(0)),
        }
    )
    rows = {row.name: tuple(row)[1:] for row in records.summary(dataset)}
    assert rows == {
        "rate": ("", "0.1235", "rate [1/step]"),
        "few": ("k 2", "1, 20", ""),
        "many": ("j 4, k 2", "0 to 2.333", ""),
        "holes": ("n 6", "-1 to 2, 2 not finite", ""),
        "none": ("n 6", "no finite value", ""),
        "flags": ("n 6", "true for 3 of 6", ""),
        "one": ("m 1", "true", ""),
    }
