"""What both renderers share: checks, colours, thinning, plotted numbers."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.errors import InvalidArgument
from attnlab.plotting import Axis, Band, Bars, Figure, Heat, Line, Panel, Paths, Points, Rule
from attnlab.plotting.prepare import (
    NAMED,
    PALETTE,
    arrow_ends,
    extent,
    plotted_numbers,
    prepare,
    thin,
    thin_band,
    thin_path,
)
from attnlab.plotting.spec import Arrows


def figure(*marks, log_x=False, log_y=False):
    return Figure("f", [Panel("p", Axis("x", log=log_x), Axis("y", log=log_y), marks)])


def prepared(*marks, **kwargs):
    return prepare(figure(*marks, **kwargs)).panels[0].marks


def test_colours_by_order_place_and_name():
    x = [0.0, 1.0]
    marks = [Line(x, x), Line(x, x, role=3), Line(x, x), Line(x, x, role="theory")]
    marks += [
        Line(x, x, role="kappa"),
        Points(x, x, role="kappa"),
        Line(x, x, role=len(PALETTE) + 2),
        Rule(1.0),
    ]
    colours = [mark.role for mark in prepared(*marks)]
    kappa = colours[4]
    assert colours[:4] == [PALETTE[0], PALETTE[3], PALETTE[1], NAMED["theory"]]
    assert colours[4:] == [kappa, kappa, PALETTE[2], NAMED["reference"]]


def test_a_name_has_one_colour_in_all_panels():
    x = [0.0, 1.0]
    panels = [
        Panel("", Axis(""), Axis(""), [Line(x, x, role="a"), Line(x, x, role="b")]),
        Panel("", Axis(""), Axis(""), [Line(x, x, role="b"), Line(x, x, role="a")]),
    ]
    (a, b), (b2, a2) = ([m.role for m in p.marks] for p in prepare(Figure("", panels)).panels)
    assert (a, b) == (a2, b2)
    assert a != b


def contrast(colour):
    """Contrast ratio of a colour with white (WCAG)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 1.05 / (np.dot(linear, (0.2126, 0.7152, 0.0722)) + 0.05)


def test_colours_are_seen_on_white():
    assert min(map(contrast, PALETTE)) > 2.1
    assert min(map(contrast, PALETTE[:4])) > 2.9
    assert len(set(PALETTE)) == len(PALETTE)


def test_log_axes_leave_gaps_where_nothing_can_be_shown():
    (line, band) = prepared(
        Line([0, 1], [1, 2]), Band([1, 2], [-1, 1], [1, 2]), log_x=True, log_y=True
    )
    assert np.isnan(line.x[0])
    assert np.isnan(band.low[0])
    assert list(band.high) == [1, 2]


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        (Line([1, 2], [1, 2, 3]), "lengths in Line 0 of panel 'p'"),
        (Line([[1, 2]], [[1, 2]]), "one-dimensional"),
        (Band([1], [1], [1, 2]), "lengths in Band 0"),
        (Points([1], [1], yerr=[1, 2]), "lengths in Points 0"),
        (Heat([1, 2], [1], [[1], [2]], "z"), "shape of z in Heat 0"),
        (Heat([1], [1], [[0.5]], "z", names=("a", "b")), "z of Heat 0 .* 0 to 1"),
        (Heat([1], [1], [[2]], "z", names=("a", "b")), "z of Heat 0"),
        (Heat([1], [1], [[0]], "z", names=("a",) * 10), "1 to 9 names"),
        (Heat([1], [1], [[0]], "z", names=("a",), log=True), "on no scale"),
        (Bars(["a"], [1, 2]), "lengths in Bars 0"),
        (Paths([([1], [1, 2])]), "lengths in Paths 0"),
        (Rule(1.0, axis="z"), "'x' or 'y'"),
        ("line", "one of the marks"),
    ],
)
def test_marks_that_do_not_fit_are_refused(mark, words):
    with pytest.raises(InvalidArgument, match=words):
        prepared(mark)


def test_empty_figures_are_refused():
    with pytest.raises(InvalidArgument, match="at least one panel"):
        prepare(Figure("f", []))


def test_thinning_keeps_peaks_ends_and_gaps():
    x = np.arange(100_000.0)
    y = np.sin(x / 3000)
    y[54_321], y[70_000], y[80_000] = 9.0, -9.0, np.nan
    for log_x in (False, True):
        a, b = thin(x, y, 1500, log_x)
        assert a.size <= 2100
        assert (a[0], a[-1]) == (0, x[-1])
        assert (np.nanmax(b), np.nanmin(b)) == (9.0, -9.0)
        assert np.isnan(b).any()
        assert np.all(np.diff(a) > 0)
    assert np.sum(thin(x, y, 1500, True)[0] < 100) > 50  # the first decades stay resolved


def test_short_curves_are_not_thinned():
    x = np.arange(10.0)
    assert thin(x, x, 1500, False)[0] is x


@given(st.integers(2, 3000), st.integers(10, 200), st.booleans())
def test_thinned_band_covers_the_band(size, limit, log_x):
    rng = np.random.default_rng(size)
    x = np.cumsum(rng.uniform(0.1, 1, size))
    low = rng.normal(size=size)
    a, below, above = thin_band(x, low, low + 1, limit, log_x)
    assert a.size <= max(limit + 3, 3)
    assert below.min() == low.min()
    assert above.max() == (low + 1).max()


def test_thinned_path_is_even_along_the_path():
    t = np.linspace(0, 1, 10_000) ** 8  # slow at first: most points lie near the start
    x, y = thin_path(t, t, 50)
    steps = np.hypot(np.diff(x), np.diff(y))
    assert x.size <= 51
    assert steps.max() < 3 * np.median(steps)
    assert (x[-1], y[-1]) == (1.0, 1.0)


def test_longest_arrow_spans_a_grid_step():
    x, y = (a.ravel() for a in np.meshgrid([0.0, 1, 2], [0.0, 10, 20]))
    (mark,) = prepared(Arrows(x, y, u=x, v=0 * y))
    tip_x, tip_y = arrow_ends(mark)
    assert np.max(tip_x - x) == pytest.approx(0.9)
    assert np.all(tip_y == y)
    (still,) = prepared(Arrows(x, y, 0 * x, 0 * y))
    assert np.all(arrow_ends(still)[0] == x)


def test_extent_of_everything_shown():
    paths = Paths([([0, 5], [1, -7])])
    panel = prepare(figure(Line([1, 2], [3, np.nan]), paths)).panels[0]
    assert extent(panel, "x") == (0, 5)
    assert extent(panel, "y") == (-7, 3)


def test_plotted_numbers_are_json():
    heat = Heat([0, 1], [0], [[np.inf, 1.5]], "z")
    numbers = plotted_numbers(figure(Line([0, 1], np.array([1.0, np.nan])), heat))
    text = json.dumps(numbers, allow_nan=False)
    marks = json.loads(text)["panels"][0]["marks"]
    assert marks[0]["y"] == [1.0, None]
    assert marks[1]["z"] == [[None, 1.5]]
    assert marks[0]["kind"] == "Line"
