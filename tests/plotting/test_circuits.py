"""Heatmaps of circuits: what they show, on which scale, and that both renderers draw it."""

import numpy as np
import pytest

import attnlab as al
from attnlab.errors import InvalidArgument
from attnlab.plotting import (
    Axis,
    Figure,
    Heat,
    Panel,
    circuit_figure,
    circuit_panels,
    render,
    to_plotly,
)

FOUR = al.circuits.extract(
    al.KernelHeads([0.13, -0.12, 0.01, -0.14], [3.5, -1.7, 0.1, -1.8]), dim=5
)
TASKS = al.circuits.extract(
    al.KernelHeads(np.array([[1.0, 1, 0], [-1, -1, 0]]), [[2.0, 0.5], [-2.0, -0.5]])
)


def heats(panels):
    return [panel.marks[0] for panel in panels]


def test_panels_show_the_effective_blocks_on_one_signed_scale():
    panels = circuit_panels(FOUR)
    *kq, ov = heats(panels)
    assert len(kq) == 4
    for shown, matrix in zip(kq, FOUR.effective_kq):
        np.testing.assert_array_equal(shown.z, matrix)
        assert shown.limits == pytest.approx((-0.14, 0.14))
        assert shown.diverging
    np.testing.assert_array_equal(ov.z, FOUR.effective_ov[:, 0])
    assert ov.limits == pytest.approx((-3.5, 3.5))
    assert panels[0].y.limits == (5.5, -0.5)  # the first row stands on top
    assert [text for _, text in panels[0].y.ticks] == ["0", "1", "2", "3", "4", "y"]

    several = circuit_panels(TASKS, kq_limit=3.0, ov_limit=5.0)
    np.testing.assert_array_equal(several[-1].marks[0].z, TASKS.effective_ov.reshape(4, 5))
    assert several[0].marks[0].limits == (-3.0, 3.0)
    assert several[-1].marks[0].limits == (-5.0, 5.0)
    assert [text for _, text in several[-1].y.ticks] == ["0: y₀", "0: y₁", "1: y₀", "1: y₁"]
    nothing = al.circuits.Circuits(np.zeros((1, 2, 2)), np.zeros((1, 2, 2)), dim=1)
    assert heats(circuit_panels(nothing))[0].limits == (-1.0, 1.0)


def test_a_diagnosis_names_the_roles():
    titles = [panel.title for panel in circuit_panels(al.circuits.diagnose(FOUR))]
    assert titles[0] == "KQ, head 0 (positive)"
    assert titles[2] == "KQ, head 2 (dummy)"


@pytest.mark.parametrize("found", [FOUR, TASKS], ids=["four heads", "two tasks"])
def test_the_print_figure_is_tidy(found, check_tidy):
    drawing = render(circuit_figure(found))
    assert len(check_tidy(drawing)) > 30
    maps = [ax for ax in drawing.axes if ax.get_ylabel() == "key entry"]
    assert len(maps) == found.n_heads
    assert len({ax.collections[0].get_clim() for ax in maps}) == 1
    assert maps[0].get_ylim() == (found.dim + found.n_outputs - 0.5, -0.5)


def test_the_interactive_figure_has_the_same_scale_and_names():
    charts = to_plotly(circuit_figure(FOUR))
    assert [(c.data[0].zmin, c.data[0].zmax) for c in charts[:4]] == [(-0.14, 0.14)] * 4
    assert charts[0].layout.yaxis.range == (5.5, -0.5)
    assert charts[0].layout.yaxis.ticktext[-1] == "y"
    assert charts[0].layout.yaxis.tickvals[-1] == 5.0


def test_limits_of_colours():
    def drawn(**options):
        heat = Heat([0, 1], [0, 1], [[1.0, 2.0], [3.0, 4.0]], "z", **options)
        figure = Figure("", [Panel("", Axis("x"), Axis("y"), [heat])])
        (mesh,) = render(figure).axes[0].collections
        trace = to_plotly(figure)[0].data[0]
        return mesh.get_clim(), (trace.zmin, trace.zmax)

    assert drawn() == ((1.0, 4.0), (None, None))
    assert drawn(diverging=True) == ((-4.0, 4.0), (-4.0, 4.0))
    assert drawn(limits=(0.0, 10.0)) == ((0.0, 10.0), (0.0, 10.0))
    assert drawn(limits=(0.1, 10.0), log=True) == ((0.1, 10.0), (-1.0, 1.0))
    for bad in (
        {"limits": (1.0, 1.0)},
        {"limits": (0.0, np.nan)},
        {"limits": (-1.0, 2.0), "diverging": True},
        {"limits": (0.0, 2.0), "log": True},
    ):
        with pytest.raises(InvalidArgument, match="limits of Heat"):
            drawn(**bad)
    for limit in (0.0, -1.0, np.inf):
        with pytest.raises(InvalidArgument, match="kq_limit"):
            circuit_panels(FOUR, kq_limit=limit)
