"""Print figures: sizes, fonts, files, and that no text covers another."""

import json
from dataclasses import replace

import numpy as np
import pytest

from attnlab.plotting import Axis, Figure, Heat, Line, Panel, render, save_figure
from attnlab.plotting.matplotlib_renderer import COLUMN_WIDTH, TEXT_WIDTH


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_widths_are_those_of_the_venues(everything, columns):
    drawing = render(replace(everything, columns=columns))
    assert drawing.get_size_inches()[0] == (COLUMN_WIDTH if columns == 1 else TEXT_WIDTH)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_texts_do_not_overlap_and_stay_on_the_page(everything, columns, check_tidy):
    drawing = render(replace(everything, columns=columns))
    shown = check_tidy(drawing)
    assert len(shown) > 60


def test_files_of_a_saved_figure(everything, tmp_path):
    paths = save_figure(everything, tmp_path / "deep" / "figure")
    assert [p.name for p in paths] == ["figure.png", "figure.pdf", "figure.json"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    pdf = paths[1].read_bytes()
    assert b"/FontFile2" in pdf  # TrueType, embedded
    assert b"/Type3" not in pdf
    numbers = json.loads(paths[2].read_text())
    assert numbers["panels"][1]["marks"][0]["label"] == "|κ|"
    assert len(numbers["panels"][0]["marks"][0]["x"]) == 4001


def test_the_same_figure_gives_the_same_file(everything, tmp_path):
    first = [p.read_bytes() for p in save_figure(everything, tmp_path / "a")]
    assert first == [p.read_bytes() for p in save_figure(everything, tmp_path / "b")]


def test_no_global_state_is_touched(everything):
    import matplotlib

    before = dict(matplotlib.rcParams)
    render(everything)
    assert dict(matplotlib.rcParams) == before


def test_jax_arrays_and_a_figure_without_legend():
    import jax.numpy as jnp

    x = jnp.arange(5.0)
    drawing = render(Figure("", [Panel("", Axis("x"), Axis("y"), [Line(x, x**2)])]))
    (ax,) = drawing.axes
    assert ax.get_legend() is None
    assert np.array_equal(ax.lines[0].get_ydata(), np.arange(5.0) ** 2)


def test_dollar_signs_are_no_formulas(everything, check_tidy):
    (label,) = [t for t, _ in check_tidy(render(everything)) if "squared" in t]
    assert label.count("$") == 2


def test_error_bars_are_drawn(everything):
    drawing = render(everything)
    points, bars = drawing.axes[1].containers[0], drawing.axes[3].containers
    (stems,) = points.lines[2]
    lengths = [np.ptp(path.vertices[:, 1]) for path in stems.get_paths()]
    np.testing.assert_allclose(lengths[1:], 2 * 0.03)  # the first is at step 0 of a log axis
    kinds = [type(container).__name__ for container in bars]
    assert kinds == ["ErrorbarContainer", "BarContainer", "BarContainer"]


def test_cells_of_a_map_meet_halfway_on_the_axis_as_drawn():
    x, y = [1.0, 10.0, 100.0], [0.0, 1.0]
    panel = Panel("", Axis("x", log=True), Axis("y"), [Heat(x, y, np.ones((2, 3)), "z")])
    (mesh,) = render(Figure("", [panel])).axes[0].collections
    corners = mesh.get_coordinates()
    np.testing.assert_allclose(corners[0, :, 0], 10.0 ** np.array([-0.5, 0.5, 1.5, 2.5]))
    np.testing.assert_allclose(corners[:, 0, 1], [-0.5, 0.5, 1.5])


def test_named_ticks_of_a_log_axis_stand_alone(check_tidy):
    # less than a decade, where matplotlib would label the minor ticks too
    axis = Axis("x", log=True, ticks=((3, "3"), (20, "20")))
    drawing = render(Figure("", [Panel("", axis, axis, [Line([3, 20], [3, 20])])], columns=1))
    shown = [text for text, _ in check_tidy(drawing)]
    assert sorted(shown) == ["20", "20", "3", "3", "x", "x"]


@pytest.mark.parametrize(
    ("limits", "labels"),
    [
        ((10, 40), ["10", "20"]),  # and 50 lies outside: finer steps
        ((0.09, 0.95), ["0.1", "0.2", "0.5"]),
        ((3.2, 8.0), ["4", "5", "7"]),
        ((2.1, 2.4), None),
        ((0.5, 200), None),
    ],
)
def test_a_log_axis_of_less_than_two_powers_has_plain_numbers(check_tidy, limits, labels):
    axis = Axis("x", log=True, limits=limits)
    drawing = render(Figure("", [Panel("", axis, axis, [Line(limits, limits)])], columns=1))
    shown = [text for text, _ in check_tidy(drawing) if text != "x"]
    assert len(shown) >= 4  # two on each axis
    if labels is not None:
        assert set(labels) <= set(shown)
        assert not any("10^" in text for text in shown)


def test_classes_have_colours_and_names(everything):
    panel = next(p for p in everything.panels if p.title == "Classes")
    (ax,) = render(Figure("", [panel])).axes  # no colour bar
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "c"]
    (mesh,) = ax.collections
    drawn = {tuple(np.round(colour, 3)) for colour in mesh.to_rgba(mesh.get_array()).reshape(-1, 4)}
    from matplotlib.colors import to_rgba

    from attnlab.plotting.prepare import PALETTE

    assert drawn == {tuple(np.round(to_rgba(PALETTE[n]), 3)) for n in (0, 2)}
