"""Where the panels of a print figure stand, with their texts outside the axes.

Matplotlib's own layout engines shrink the axes when a title or a legend is wider than they are.
Here the axes of all panels keep one size: the room beside and below them is measured on a first
drawing, titles, notes and legends are broken to the width of their cell, and the height of the
figure follows.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Any

from .axis_texts import part_labels
from .prepare import is_square
from .spec import Figure, Panel

AXES_HEIGHT = 0.56  # of the width of a panel's cell
_GAP = 0.12  # inches between cells, and at the edges


@dataclass
class Cell:
    """One panel on the page; lengths in inches."""

    panel: Panel
    axes: Any
    colour_bar: Any = None
    title: str = ""
    note: str = ""
    left: float = 0.5
    right: float = 0.1
    below: float = 0.4
    legend_columns: int = 1
    legend_rows: int = 0


def wrapped(text: str, inches: float, points: float) -> str:
    """The text broken to this width at this font size; an average letter is 0.58 em wide."""
    return textwrap.fill(text, max(16, int(inches * 72 / (0.58 * points))))


def lay_out(figure: Figure, cells: list[Cell], drawing: Any, columns: int, width: float) -> None:
    """Places axes, titles, notes and legends; sets the height of the drawing."""
    size = float(_font_size())
    line = 1.3 * size / 72
    each = width / columns
    rows = [cells[i : i + columns] for i in range(0, len(cells), columns)]
    heading = wrapped(figure.title, width - 2 * _GAP, size + 3) if figure.title else ""
    top = _GAP + (heading.count("\n") + 1) * 1.3 * (size + 2) / 72 + 0.06 if heading else _GAP
    # The second pass sees the ticks that matplotlib chose for the final size.
    for _ in range(2):
        for cell in cells:
            _break_texts(cell, each - 2 * _GAP - cell.left, size)
        heights = [_row_height(row, each, line) for row in rows]
        total = top + sum(heights) + _GAP
        drawing.set_size_inches(width, total)
        y = total - top
        for row, height in zip(rows, heights, strict=True):
            above = max(_lines(cell.title) for cell in row) * line + 0.04
            for column, cell in enumerate(row):
                _place(cell, column * each, y - above, each, (width, total))
            y -= height
        drawing.draw_without_rendering()
        for cell in cells:
            part_labels(cell.axes, "x")
            part_labels(cell.axes, "y")
        for column in range(columns):  # axes that stand above each other line up
            _measure([row[column] for row in rows if column < len(row)], drawing.dpi)
    if heading:
        place = (_GAP / width, 1 - _GAP / total)
        drawing.text(*place, heading, size=size + 2, weight="bold", va="top", linespacing=1.2)
    for cell in cells:
        _write(cell, line, size)


def _font_size() -> float:
    import matplotlib

    return float(matplotlib.rcParams["font.size"])


def _lines(text: str) -> int:
    return text.count("\n") + 1 if text else 0


def _break_texts(cell: Cell, inches: float, size: float) -> None:
    """Breaks title and note to this width, and shares out the legend's entries."""
    cell.title = wrapped(cell.panel.title, inches, size + 1) if cell.panel.title else ""
    cell.note = wrapped(cell.panel.note, inches, size - 1) if cell.panel.note else ""
    labels = cell.axes.get_legend_handles_labels()[1]
    if not labels:
        return
    longest = max(len(label) for label in labels)
    room = int(inches * 72 / ((longest + 6) * 0.54 * (size - 0.5)))
    cell.legend_columns = max(1, min(len(labels), room))
    cell.legend_rows = math.ceil(len(labels) / cell.legend_columns)


def _row_height(row: list[Cell], each: float, line: float) -> float:
    above = max(_lines(cell.title) for cell in row) * line + 0.04
    below = max(cell.below + (_lines(cell.note) + 1.15 * cell.legend_rows) * line for cell in row)
    return above + each * AXES_HEIGHT + below + 0.14


def _place(cell: Cell, x: float, top: float, each: float, page: tuple[float, float]) -> None:
    left, height = x + _GAP + cell.left, each * AXES_HEIGHT
    right = x + each - _GAP - cell.right
    if cell.colour_bar is not None:
        right -= 0.18
    if is_square(cell.panel):
        right = min(right, left + height)
    if cell.colour_bar is not None:
        cell.colour_bar.set_position(_share(right + 0.08, top - height, 0.1, height, page))
    cell.axes.set_position(_share(left, top - height, right - left, height, page))


def _share(x: float, y: float, width: float, height: float, page: tuple[float, float]) -> Any:
    return (x / page[0], y / page[1], width / page[0], height / page[1])


def _measure(column: list[Cell], dpi: float) -> None:
    for cell in column:
        ax = cell.axes
        x_box, y_box = ax.xaxis.get_tightbbox(), ax.yaxis.get_tightbbox()
        cell.left = (ax.bbox.x0 - min(y_box.x0, x_box.x0)) / dpi
        cell.below = (ax.bbox.y0 - x_box.y0) / dpi + 0.05
        cell.right = max(0.0, x_box.x1 - ax.bbox.x1) / dpi
        if cell.colour_bar is not None:
            box = cell.colour_bar.yaxis.get_tightbbox()
            cell.right = (box.x1 - cell.colour_bar.bbox.x1) / dpi
    left = max(cell.left for cell in column)
    for cell in column:
        cell.left = left


def _write(cell: Cell, line: float, size: float) -> None:
    from matplotlib.transforms import ScaledTranslation

    ax = cell.axes
    ax.set_title(cell.title, loc="left", pad=4, linespacing=1.2)
    depth = cell.below
    if cell.note:
        ax.annotate(
            cell.note,
            (0, 0),
            (0, -depth * 72),
            xycoords="axes fraction",
            textcoords="offset points",
            va="top",
            color="#444444",
            fontsize=size - 1,
            linespacing=1.2,
        )
        depth += _lines(cell.note) * line
    if cell.legend_rows:
        down = ScaledTranslation(0, -depth, ax.figure.dpi_scale_trans)
        ax.legend(
            loc="upper left",
            bbox_to_anchor=(0, 0),
            bbox_transform=ax.transAxes + down,
            ncols=cell.legend_columns,
            frameon=False,
            borderpad=0.1,
            borderaxespad=0,
            handlelength=1.6,
            columnspacing=1.2,
            labelspacing=0.3,
        )
