"""Minima on grids: told from ends of grids, from plateaus and from the edge of what is known."""

import numpy as np
import pytest

from attnlab._core.search import interior_minimum, minimum_on_line

GRID = np.linspace(-1.0, 2.0, 61)


def test_a_minimum_inside_is_found():
    found = interior_minimum(GRID, (GRID - 0.5) ** 2)
    assert found.inside
    assert found.at == pytest.approx(0.5)
    assert found.value == pytest.approx(0.0)
    assert found.argmin == 30


@pytest.mark.parametrize(
    "values",
    [
        GRID,  # least at the first point
        -GRID,  # at the last
        np.exp(-5 * GRID),  # an infimum beyond the last
        np.ones_like(GRID),  # flat
        1 + 1e-15 * np.cos(40 * GRID),  # flat but for rounding
        np.where(GRID < 0.5, 1 + 1e-15 * np.cos(40 * GRID), GRID + 1),  # a plateau up to the end
        np.full_like(GRID, np.nan),
        np.full_like(GRID, np.inf),
    ],
)
def test_an_end_is_no_minimum(values):
    found = interior_minimum(GRID, values)
    assert not found.inside
    assert np.isnan(found.at)
    # the least value is still told, as a bound
    assert found.value == np.min(values) or np.isnan(values).all()


def test_beside_unknown_values_the_grid_ends_and_infinite_ones_are_known():
    values = (GRID - 0.5) ** 2
    beside = np.where(GRID > 0.51, np.nan, values)
    assert np.isnan(interior_minimum(GRID, beside).at)
    # known again beyond: what lies in between may be lower
    again = np.where((GRID > 0.51) & (GRID < 1), np.nan, values)
    assert np.isnan(interior_minimum(GRID, again).at)
    walls = np.where(np.abs(GRID - 0.5) > 0.01, np.inf, values)
    assert interior_minimum(GRID, walls).at == pytest.approx(0.5)


def test_rows_are_told_apart():
    places = np.array([[0.5, 5.0], [-5.0, 1.0]])
    values = (GRID - places[..., None]) ** 2
    found = interior_minimum(GRID, values)
    np.testing.assert_array_equal(found.inside, [[True, False], [False, True]])
    np.testing.assert_allclose(found.at, [[0.5, np.nan], [np.nan, 1.0]])
    np.testing.assert_allclose(found.value, [[0, 9], [16, 0]], atol=1e-12)


def test_on_a_line_by_finer_and_finer_grids():
    places = np.array([0.3, 7.0, -7.0])

    def cost(x):
        return np.cosh(x - places[:, None])

    found = minimum_on_line(cost, -1.0 + 0 * places, 2.0, points=16, rounds=8)
    np.testing.assert_array_equal(found.inside, [True, False, False])
    np.testing.assert_allclose(found.at, [0.3, np.nan, np.nan], atol=1e-6)
    np.testing.assert_allclose(found.value, [1.0, np.cosh(5.0), np.cosh(6.0)])
