"""A figure with every mark, long texts, log axes and special characters."""

import itertools

import numpy as np
import pytest

from attnlab.plotting import (
    Arrows,
    Axis,
    Band,
    Bars,
    Figure,
    Heat,
    Line,
    Panel,
    Paths,
    Points,
    Rule,
)


@pytest.fixture(scope="session")
def everything():
    t = np.linspace(0, 20_000, 4001)
    r = np.exp(-t / 2500)
    grid = np.linspace(-1, 1, 9)
    k, n = (a.ravel() for a in np.meshgrid(grid, grid))
    names = ["erf", "tanh", "relu", "sigmoid-centred, a long name"]
    paths = [(1 - np.exp(-t / a), 1 - np.exp(-t / b)) for a, b in ((1e3, 3e3), (5e3, 2e3))]
    step, log_step = Axis("step"), Axis("step (log scale)", log=True)
    kappa, nu = Axis("κ"), Axis("ν")
    panels = [
        Panel(
            "Excess risk <R> & its band, with a title too long for one line of its panel",
            step,
            Axis("R − R(teacher), $ squared units $", log=True),
            [
                Line(t, r, label="mean"),
                Band(t, r / 2, 2 * r, label="10 %–90 %"),
                Rule(1e-3, label="error"),
            ],
            note="A remark that says something about the panel at some length.",
        ),
        Panel(
            "Alignment",
            log_step,
            Axis("|κ|, |ν|", limits=(0, 1.05)),
            [
                Line(t, 1 - r, label="|κ|", role="kappa"),
                Line(t, 1 - r**2, label="|ν|", role="nu", dash=True),
                Points(
                    t[::400], 1 - r[::400], 0.03 + 0 * t[::400], label="Monte Carlo", role="kappa"
                ),
                Rule(100.0, axis="x"),
            ],
        ),
        Panel("Paths", kappa, nu, [Arrows(k, n, k, n, label="flow"), Paths(paths, label="runs")]),
        Panel(
            "Bars",
            Axis("activation"),
            Axis("risk"),
            [
                Bars(names, [0.1, 0.2, 0.3, 0.2], [0.01, 0.02, 0.02, 0.01], label="trained"),
                Bars(names, [0.1, 0.1, 0.2, 0.1], label="teacher"),
            ],
        ),
        Panel(
            "Log map",
            kappa,
            nu,
            [Heat(grid, grid, 1.01 - np.outer(grid, grid) ** 2, "risk", log=True)],
        ),
        Panel(
            "Signed map",
            kappa,
            nu,
            [Heat(grid, grid, np.outer(grid, grid), "slope", diverging=True)],
        ),
        Panel(
            "Classes",
            kappa,
            nu,
            [Heat(grid, grid, np.outer(grid > 0, grid > 0) * 2.0, "end", names=("a", "none", "c"))],
        ),
    ]
    return Figure("Everything at once", panels, caption="Made up.", alt="Seven made-up panels.")


@pytest.fixture
def check_tidy():
    """Checks that all texts of a drawing stay on the page and that none covers another."""
    return _check_tidy


def _check_tidy(drawing):
    shown = visible_texts(drawing)
    width, height = drawing.get_size_inches() * drawing.dpi
    for text, box in shown:
        assert box.x0 >= -1, text
        assert box.x1 <= width + 1, text
        assert box.y0 >= -1, text
        assert box.y1 <= height + 1, text
    for (a, one), (b, two) in itertools.combinations(shown, 2):
        overlap_x = min(one.x1, two.x1) - max(one.x0, two.x0)
        overlap_y = min(one.y1, two.y1) - max(one.y0, two.y0)
        if "long name" in a or "long name" in b:
            continue  # slanted: its box is not its shape
        assert overlap_x < 1 or overlap_y < 2, (a, b)
    return shown


def visible_texts(drawing):
    """All texts that show something, with their boxes in pixels."""
    import matplotlib.text

    drawing.draw_without_rendering()
    hidden = set()
    for ax in drawing.axes:
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not min(limits) <= tick.get_loc() <= max(limits):
                    hidden |= {tick.label1, tick.label2}  # exist, but are not drawn
    return [
        (text.get_text(), text.get_window_extent())
        for text in drawing.findobj(matplotlib.text.Text)
        if text.get_visible() and text.get_text().strip() and text not in hidden
    ]
