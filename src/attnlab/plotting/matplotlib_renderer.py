"""Print figures: PNG and PDF at conference column widths, with the plotted numbers beside them.

Fonts are embedded as Type 42 (TrueType), colours are colour-blind safe, no TeX is needed and no
global matplotlib state is touched. Texts stand outside the axes: titles above, notes and legends
below, so that nothing covers the data.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .axis_texts import label_log_axis
from .layout import Cell, lay_out
from .prepare import PALETTE, arrow_ends, classes, colour_range, plotted_numbers, prepare
from .spec import Arrows, Band, Bars, Figure, Heat, Line, Panel, Paths, Points, Rule

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

COLUMN_WIDTH, TEXT_WIDTH = 3.25, 6.75  # inches: one column and the full text of two-column venues
FONT_SIZE = 8.0
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib; has the Greek and the signs
    "font.size": FONT_SIZE,
    "axes.titlesize": FONT_SIZE + 0.5,
    "axes.titleweight": "bold",
    "axes.labelsize": FONT_SIZE,
    "xtick.labelsize": FONT_SIZE - 1,
    "ytick.labelsize": FONT_SIZE - 1,
    "legend.fontsize": FONT_SIZE - 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.6,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "text.usetex": False,
    "axes.formatter.use_mathtext": True,
    "figure.dpi": 100,
    "savefig.dpi": 200,
}
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")


def render(figure: Figure) -> matplotlib.figure.Figure:
    """The figure drawn by matplotlib, ready to be saved; no window opens.

    Raises `InvalidArgument` for marks whose arrays do not fit together.
    """
    import matplotlib

    figure = _without_math(prepare(figure))
    columns = min(figure.columns, len(figure.panels))
    width = COLUMN_WIDTH if columns == 1 else TEXT_WIDTH
    with matplotlib.rc_context(_STYLE):
        drawing = _drawing_class()(figsize=(width, width))
        cells = []
        for panel in figure.panels:
            ax = drawing.add_axes((0.0, 0.0, 0.9 / columns, 0.3))
            cells.append(Cell(panel, ax, _draw(panel, ax)))
        lay_out(figure, cells, drawing, columns, width)
    return drawing


def save_figure(
    figure: Figure, stem: str | Path, *, kinds: Sequence[str] = ("png", "pdf", "json")
) -> list[Path]:
    """Writes `stem.png`, `stem.pdf` and `stem.json` (the plotted numbers), or those of `kinds`;
    returns the paths.

    Missing directories are made.
    """
    drawing = render(figure)
    stem = Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = {kind: stem.with_name(f"{stem.name}.{kind}") for kind in kinds}
    if "png" in paths:
        drawing.savefig(paths["png"])
    if "pdf" in paths:
        # No date inside, so that the same figure gives the same file.
        drawing.savefig(paths["pdf"], metadata={"CreationDate": None, "Title": figure.title})
    if "json" in paths:
        numbers = json.dumps(plotted_numbers(figure), ensure_ascii=False, allow_nan=False)
        paths["json"].write_text(numbers + "\n", encoding="utf-8")
    return list(paths.values())


@functools.cache
def _drawing_class() -> type[matplotlib.figure.Figure]:
    """Figures that keep their style when they are saved: the kind of the embedded fonts is read
    from matplotlib's settings only then."""
    import matplotlib
    from matplotlib.figure import Figure

    class Drawing(Figure):
        def savefig(self, *args: Any, **kwargs: Any) -> None:
            with matplotlib.rc_context(_STYLE):
                super().savefig(*args, **kwargs)

    return Drawing


def _without_math(value: Any) -> Any:
    """The same figure with every `$` in its texts escaped, which would start a formula."""
    if isinstance(value, str):
        return value.replace("$", r"\$")
    if isinstance(value, tuple | list):
        return tuple(_without_math(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: _without_math(getattr(value, f.name)) for f in fields(value)}
        return replace(value, **changed)
    return value


def _draw(panel: Panel, ax: matplotlib.axes.Axes) -> Any:
    """Draws the marks; returns the axes of the colour bar, if there is one."""
    import matplotlib.ticker

    for axis, name in ((panel.x, "x"), (panel.y, "y")):
        getattr(ax, f"set_{name}label")(axis.label)
        if axis.log:
            getattr(ax, f"set_{name}scale")("log")
    bars = sum(isinstance(mark, Bars) for mark in panel.marks)
    drawn, colour_bar = 0, None
    for mark in panel.marks:
        if isinstance(mark, Bars):
            _draw_bars(mark, drawn, bars, ax)
            drawn += 1
        elif isinstance(mark, Heat):
            colour_bar = _draw_heat(mark, ax)
        else:
            _DRAW[type(mark)](mark, ax)
    for axis, name in ((panel.x, "x"), (panel.y, "y")):
        if axis.ticks is not None:
            places, texts = zip(*axis.ticks) if axis.ticks else ((), ())
            getattr(ax, f"set_{name}ticks")(places, texts)
            if axis.log:  # whose minor ticks have labels of their own within a decade
                getattr(ax, f"{name}axis").set_minor_formatter(matplotlib.ticker.NullFormatter())
        if axis.limits is not None:
            getattr(ax, f"set_{name}lim")(*axis.limits)
        if axis.log and axis.ticks is None:
            label_log_axis(ax, name)
    return colour_bar


def _draw_line(mark: Line, ax: Any) -> None:
    style = "--" if mark.dash else "-"
    ax.plot(mark.x, mark.y, style, color=mark.role, lw=mark.width * 0.8, label=mark.label)


def _draw_band(mark: Band, ax: Any) -> None:
    ax.fill_between(
        mark.x, mark.low, mark.high, color=mark.role, alpha=0.22, lw=0, label=mark.label
    )


def _draw_points(mark: Points, ax: Any) -> None:
    marker = _MARKERS[PALETTE.index(mark.role)] if mark.role in PALETTE else "o"
    style = {"fmt": marker, "color": mark.role, "ms": 3.5, "elinewidth": 0.9, "capsize": 1.5}
    ax.errorbar(mark.x, mark.y, yerr=mark.yerr, label=mark.label, **style)


def _draw_heat(mark: Heat, ax: Any) -> Any:
    import matplotlib.colors

    if mark.names is not None:
        _draw_classes(mark, ax)
        return None
    kind = matplotlib.colors.LogNorm if mark.log else matplotlib.colors.Normalize
    norm: Any = kind(*(colour_range(mark) or (None, None)))
    mesh = ax.pcolormesh(
        _cell_edges(mark.x, ax.get_xscale() == "log"),
        _cell_edges(mark.y, ax.get_yscale() == "log"),
        mark.z,
        norm=norm,
        cmap="PuOr" if mark.diverging else "viridis",
        rasterized=True,
    )
    ax.grid(False)
    colour_bar = ax.figure.add_axes((0.9, 0.2, 0.02, 0.3))
    ax.figure.colorbar(mesh, cax=colour_bar, label=mark.label)
    return colour_bar


def _draw_classes(mark: Heat, ax: Any) -> None:
    import matplotlib.colors

    ax.pcolormesh(
        _cell_edges(mark.x, ax.get_xscale() == "log"),
        _cell_edges(mark.y, ax.get_yscale() == "log"),
        mark.z,
        norm=matplotlib.colors.BoundaryNorm(np.arange(len(PALETTE) + 1) - 0.5, len(PALETTE)),
        cmap=matplotlib.colors.ListedColormap(PALETTE),
        rasterized=True,
    )
    ax.grid(False)
    for _, name, colour in classes(mark):
        ax.plot([], [], "s", color=colour, ms=5, label=name)


def _cell_edges(centres: np.ndarray, log: bool) -> np.ndarray:
    """Edges of cells around `centres`, halfway on the axis as it is drawn."""
    at = np.log(centres) if log else centres
    if at.size == 1:
        edges = np.array([at[0] - 0.5, at[0] + 0.5])
    else:
        middle = (at[1:] + at[:-1]) / 2
        edges = np.concatenate([[2 * at[0] - middle[0]], middle, [2 * at[-1] - middle[-1]]])
    return np.exp(edges) if log else edges


def _draw_arrows(mark: Arrows, ax: Any) -> None:
    tip_x, tip_y = arrow_ends(mark)
    ax.quiver(
        mark.x,
        mark.y,
        tip_x - mark.x,
        tip_y - mark.y,
        angles="xy",
        scale_units="xy",
        scale=1,
        color=mark.role,
        width=0.005,
        headwidth=4,
    )
    if mark.label is not None:  # a quiver has no entry of its own in a legend
        ax.plot([], [], color=mark.role, marker=">", markevery=[-1], ms=4, label=mark.label)


def _draw_rule(mark: Rule, ax: Any) -> None:
    draw = ax.axhline if mark.axis == "y" else ax.axvline
    draw(mark.value, color=mark.role, lw=0.9, ls=(0, (4, 2)), label=mark.label, zorder=1.5)


def _draw_paths(mark: Paths, ax: Any) -> None:
    for number, (x, y) in enumerate(mark.paths):
        label = mark.label if number == 0 else None
        ax.plot(x, y, color=mark.role, lw=0.7, alpha=0.75, label=label)
        ax.plot(x[-1:], y[-1:], "o", color=mark.role, ms=2.5)


def _draw_bars(mark: Bars, number: int, count: int, ax: Any) -> None:
    place = np.arange(len(mark.labels))
    width = 0.8 / count
    ax.bar(
        place + (number - (count - 1) / 2) * width,
        mark.values,
        width * 0.92,
        yerr=mark.errors,
        color=mark.role,
        label=mark.label,
        error_kw={"elinewidth": 0.9, "capsize": 2},
    )
    longest = max((len(str(label)) for label in mark.labels), default=0)
    inches = 0.8 * ax.bbox.width / ax.figure.dpi
    room = inches * 72 / (0.65 * FONT_SIZE) / max(1, len(mark.labels))
    slanted = longest > room
    ax.set_xticks(
        place, mark.labels, rotation=30 if slanted else 0, ha="right" if slanted else "center"
    )
    ax.grid(False, axis="x")


_DRAW: dict[type, Any] = {
    Line: _draw_line,
    Band: _draw_band,
    Points: _draw_points,
    Arrows: _draw_arrows,
    Rule: _draw_rule,
    Paths: _draw_paths,
}
