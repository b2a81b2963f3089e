"""Points, their numbers, and the batches that go through them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnlab as al
from attnlab.sweeps.axes import Factor, Plan, grid_factor, points_factor, values_of, zip_factor


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    batch=st.integers(1, 20),
    held=st.sets(st.integers(0, 3)),
)
def test_every_point_is_in_one_batch_and_has_its_own_settings(sizes, batch, held):
    factors = tuple(
        Factor(f"n{k}", (f"n{k}",), (tuple(range(size)),)) for k, size in enumerate(sizes)
    )
    held = frozenset(k for k in held if k < len(sizes))
    plan = Plan(factors, batch, held)
    seen = []
    for number in range(plan.batches):
        points = plan.points(number)
        assert 1 <= len(points) <= batch
        columns = plan.columns(points)
        for place, index in enumerate(np.array(np.unravel_index(points, plan.shape)).T.tolist()):
            assert [columns[f"n{k}"][place] for k in range(len(sizes))] == index
        for k in held:  # a batch is for one value of each held factor
            assert len(set(columns[f"n{k}"])) == 1
        seen += points.tolist()
    assert sorted(seen) == list(range(plan.size))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([1, 2.5, "a", True, None], (1, 2.5, "a", True, None)),
        (np.array([1.0, 2.0]), (1.0, 2.0)),
        (range(3), (0, 1, 2)),
        ({"linspace": [0, 1, 3]}, (0.0, 0.5, 1.0)),
        ({"logspace": [0, 2, 3]}, (1.0, 10.0, 100.0)),
        ({"geomspace": [1, 100, 3], "integers": True}, (1, 10, 100)),
        ({"range": [0, 6, 2]}, (0, 2, 4)),
        ({"linspace": [0, 2**53, 2], "integers": True}, (0, 2**53)),
        ({"linspace": [10, 1, 4], "integers": True}, (10, 7, 4, 1)),
        ({"linspace": [0, 1, 5], "integers": True}, (0, 0, 0, 1, 1)),
        ({"range": [2**53 + 1, 2**53 + 3]}, (2**53 + 1, 2**53 + 2)),
        ({"range": [1, 1.3, 0.1]}, (1.0, 1.1, 1.2)),
        ({"range": [3, 0, -1]}, (3, 2, 1)),
        ({"range": [0, 3]}, (0, 1, 2)),
        ({"range": [np.int64(2**53 + 1), np.int64(2**53 + 2)]}, (2**53 + 1,)),
        ({"range": [0, 1, 0.25]}, (0.0, 0.25, 0.5, 0.75)),
        ([[0.1, -0.1], [0.2, -0.2]], ([0.1, -0.1], [0.2, -0.2])),
    ],
)
def test_values_of_an_axis(given, expected):
    found = values_of("x", given)
    assert found == pytest.approx(expected) if isinstance(given, dict) else found == expected


@pytest.mark.parametrize(
    "wrong",
    [
        "abc",
        3,
        [],
        [float("nan")],
        {"linspace": [0, 1]},
        {"linspace": "abc"},
        {"geomspace": [0, 1, 5]},
        {"space": [0, 1, 5]},
        {"range": [0, 1, 0]},
        {"linspace": [0, 1e300, 3], "integers": True},
        {"logspace": [0, 400, 3]},
        {"logspace": [-400, 0, 3]},
        {"linspace": [2**53 + 2, 2**53 + 2, 1], "integers": True},
        [2**63],
        ["a\0"],
        [{"a": -(2**63) - 1}],
        {"linspace": [0, 1, 3], "geomspace": [1, 2, 3]},
        [object()],
    ],
)
def test_values_that_are_none(wrong):
    with pytest.raises(al.InvalidArgument):
        values_of("x", wrong)


def test_a_rounded_range_repeats_nothing_on_an_axis_of_its_own():
    given = {"linspace": [0, 1, 5], "integers": True}
    assert grid_factor("x", given).columns == ((0, 1),)
    assert zip_factor({"x": given, "y": range(5)}).columns[0] == (0, 0, 0, 1, 1)


def test_axes_that_do_not_fit():
    with pytest.raises(al.InvalidArgument, match="different values"):
        grid_factor("x", [1, 2, 1])
    with pytest.raises(al.InvalidArgument, match="one length"):
        zip_factor({"a": [1, 2], "b": [1]})
    with pytest.raises(al.InvalidArgument, match="the same names"):
        points_factor([{"a": 1}, {"b": 1}])
