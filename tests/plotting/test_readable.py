"""Figures that can be read: numbers on every axis, none over another, colours that say no more than the data."""

import io
import itertools

import numpy as np
import pytest

from attnlab import plotting
from attnlab.plotting import Axis, Figure, Heat, Line, Panel, Paths
from attnlab.plotting.prepare import LEAST_SPREAD, PALETTE, colour_range, is_square, prepare


def figure(*panels, columns=2):
    return Figure("", panels, columns=columns)


def drawn(panel, columns=2):
    drawing = plotting.render(figure(*[panel] * columns, columns=columns))
    drawing.draw_without_rendering()
    return drawing.axes[0]


def texts(ax, name):
    low, high = sorted(getattr(ax, f"get_{name}lim")())
    labels = getattr(ax, f"get_{name}ticklabels")(which="both")

    def at(label):
        return label.get_position()[name == "y"]

    return [
        label
        for label in labels
        if label.get_visible() and label.get_text() and low <= at(label) <= high
    ]


@pytest.mark.parametrize(
    "ends", [(3.8, 5.7), (0.99, 1.01), (1.0, 1.0 + 1e-6), (2, 9.5), (1e-4, 30)]
)
def test_a_log_axis_of_any_range_has_numbers(ends):
    x = np.linspace(0, 1, 9)
    ax = drawn(Panel("", Axis("x"), Axis("y", log=True), [Line(x, np.linspace(*ends, 9))]))
    shown = [label.get_text() for label in texts(ax, "y")]
    assert len(shown) >= 2
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize(
    "x", [Axis("x"), Axis("x", ticks=tuple((v, str(v)) for v in range(8, 14))),
          Axis("x", log=True, limits=(8, 21), ticks=tuple((v, str(v)) for v in (8, 9, 10, 20))),
          Axis("x", ticks=tuple((v, f"name {v}") for v in range(14)))],
)  # fmt: skip
def test_no_text_on_an_axis_runs_into_the_next(x, columns):
    places = np.linspace(8, 13, 9)
    y = 1e-3 * np.linspace(-1, 1, 9)
    ax = drawn(Panel("", x, Axis("y"), [Line(places, y)]), columns)
    boxes = sorted((box.x0, box.x1) for box in (t.get_window_extent() for t in texts(ax, "x")))
    assert len(boxes) >= 2
    assert all(later[0] > one[1] for one, later in itertools.pairwise(boxes))


def test_nine_curves_have_nine_looks():
    x = np.arange(3.0)
    panel = Panel("", Axis("x"), Axis("y"), [Line(x, x + k, f"{k}", k) for k in range(9)])
    colours = {line.get_color() for line in drawn(panel).get_lines()}
    assert colours == set(PALETTE)
    assert len(PALETTE) >= 9


def test_a_drawing_saved_by_hand_embeds_its_fonts():
    x = np.arange(3.0)
    drawing = plotting.render(figure(Panel("α", Axis("x"), Axis("y"), [Line(x, x)])))
    file = io.BytesIO()
    drawing.savefig(file, format="pdf")
    assert b"/FontFile2" in file.getvalue()  # TrueType, as editors and venues ask for
    assert b"/Type3" not in file.getvalue()


def test_planes_of_one_scale_are_square():
    paths = [(np.linspace(-1, 1, 5), np.linspace(-1, 1, 5) ** 3)]
    ends = (-1.1, 1.1)
    plane = Panel("", Axis("κ", limits=ends), Axis("ν", limits=ends), [Paths(paths)])
    matrix = Panel("", Axis("i"), Axis("j"), [Heat(np.arange(4), np.arange(4), np.eye(4), "")])
    other = Panel("", Axis("t"), Axis("R"), [Line(np.arange(4.0), np.arange(4.0))])
    long = Panel("", Axis("i"), Axis("j"), [Heat(np.arange(9), np.arange(2), np.ones((2, 9)), "")])
    for panel, square in ((plane, True), (matrix, True), (other, False), (long, False)):
        (prepared,) = prepare(figure(panel)).panels
        assert is_square(prepared) is square
        box = drawn(panel).bbox
        assert (float(abs(box.width / box.height - 1)) < 0.02) is square
        (chart,) = plotting.to_plotly(figure(panel))
        assert (chart.layout.yaxis.scaleanchor == "x") is square


def test_a_map_of_almost_equal_values_looks_almost_equal():
    z = np.array([[4.0, 4.04], [4.02, 4.0]])
    panel = Panel("", Axis("i"), Axis("j"), [Heat(np.arange(2), np.arange(2), z, "rank")])
    mark = prepare(figure(panel)).panels[0].marks[0]
    low, high = colour_range(mark)
    assert low < 4.0 < 4.04 < high
    assert (4.04 - 4.0) / (high - low) == pytest.approx(0.01 / LEAST_SPREAD, rel=0.02)
    varied = prepare(
        figure(Panel("", Axis("i"), Axis("j"), [Heat(np.arange(2), np.arange(2), 10 * z - 39, "")]))
    )
    assert colour_range(varied.panels[0].marks[0]) is None
