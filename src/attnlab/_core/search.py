"""Minima on grids, told apart from ends of grids.

The least of some values is a minimum only if the values rise on both sides of it. Where the least
lies at an end, or the values are flat to rounding towards one, the grid holds no more than a bound:
the minimum may lie beyond, or be an infimum that is not attained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Bool, Float, Int

_ROUNDING = 1e-12  # relative: by how much values have to rise


class GridMinimum(NamedTuple):
    """The least value along the last axis; everything of the shape of the other axes.

    - `inside`: whether values rise on both sides of it
    - `at`: its place, NaN where it is not `inside`
    - `value`: the least value, where not `inside` no more than an upper bound of an infimum
    - `argmin`: its index, whether `inside` or not
    """

    inside: Bool[np.ndarray, "*batch"]
    at: Float[np.ndarray, "*batch"]
    value: Float[np.ndarray, "*batch"]
    argmin: Int[np.ndarray, "*batch"]


def interior_minimum(
    grid: Float[ArrayLike, "*#batch points"],
    values: Float[ArrayLike, "*batch points"],
    *,
    rounding: float = _ROUNDING,
) -> GridMinimum:
    """The least of `values` on a rising `grid`, and whether it is a minimum inside of it.

    NaN is unknown: beside one the grid ends. `inf` is a value like others. `rounding`: how far,
    relative to them, the values at both ends have to be above the least. `value` is NaN where all
    are unknown.
    """
    values = np.asarray(values, np.float64)
    grid = np.broadcast_to(np.asarray(grid, np.float64), values.shape)
    known = ~np.isnan(values)
    index = np.argmin(np.where(known, values, np.inf), axis=-1)
    at, places = index[..., None], np.arange(values.shape[-1])
    least = np.take_along_axis(values, at, -1)
    # without an unknown value in between
    gaps = np.cumsum(~known, axis=-1)
    seen = known & (gaps == np.take_along_axis(gaps, at, -1))
    with np.errstate(invalid="ignore"):
        rises = values - least > rounding * np.maximum(np.abs(values), np.abs(least))
    rises = seen & (rises | np.isposinf(values)) & np.isfinite(least)
    inside = (rises & (places < at)).any(-1) & (rises & (places > at)).any(-1)
    place = np.take_along_axis(grid, at, -1)[..., 0]
    return GridMinimum(inside, np.where(inside, place, np.nan), least[..., 0], index)


def minimum_on_line(
    function: Callable[[np.ndarray], np.ndarray],
    low: Float[ArrayLike, "*batch"],
    high: Float[ArrayLike, "*batch"],
    *,
    points: int = 32,
    rounds: int = 4,
    rounding: float = _ROUNDING,
) -> GridMinimum:
    """The least value of `function` between `low` and `high`: a grid, and grids around its minimum.

    `function` takes `(*batch, points)` and returns as much. Whether the minimum lies inside is told
    by the first grid: where it does not, `at` is NaN and `value` a bound (see `GridMinimum`).
    `argmin` is that in the last grid.
    """
    low, high = (np.asarray(end, np.float64) for end in np.broadcast_arrays(low, high))
    inside = np.ones(low.shape, bool)
    for number in range(rounds):
        grid = low[..., None] + (high - low)[..., None] * np.linspace(0.0, 1.0, points)
        found = interior_minimum(grid, function(grid), rounding=rounding)
        inside = inside if number else found.inside
        low, high = (
            np.take_along_axis(grid, np.clip(found.argmin + step, 0, points - 1)[..., None], -1)[
                ..., 0
            ]
            for step in (-1, 1)
        )
    at = np.take_along_axis(grid, found.argmin[..., None], -1)[..., 0]
    return found._replace(inside=inside, at=np.where(inside, at, np.nan))
