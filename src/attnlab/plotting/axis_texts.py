"""Texts on the axes of print figures: numbers on every logarithmic axis, none over another."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any


def label_log_axis(ax: Any, name: str) -> None:
    """Powers of ten alone have labels; an axis that shows fewer than two of them has a few plain
    numbers instead."""
    import matplotlib.ticker

    axis = getattr(ax, f"{name}axis")
    axis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    low, high = sorted(getattr(ax, f"get_{name}lim")())
    if not 0 < low < high or math.floor(math.log10(high)) > math.ceil(math.log10(low)):
        return
    decades = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    for steps in ((1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        places = [step * 10.0**k for k in decades for step in steps]
        if sum(low <= place <= high for place in places) >= 3:
            break
    else:  # less than a factor of about three: steps of equal size
        places = [float(x) for x in matplotlib.ticker.MaxNLocator(5).tick_values(low, high)]
    shown = [place for place in places if low <= place <= high]
    getattr(ax, f"set_{name}ticks")(shown, _distinct(shown))


def _distinct(places: Sequence[float]) -> list[str]:
    """The numbers with as many digits as tell them apart."""
    texts: list[str] = []
    for digits in range(3, 17):
        texts = [f"{place:.{digits}g}" for place in places]
        if len(set(texts)) == len(places):
            break
    return texts


def part_labels(ax: Any, name: str) -> None:
    """Where texts on a drawn axis run into each other, names are turned and numbers left out."""
    import matplotlib

    shown = []
    low, high = sorted(getattr(ax, f"get_{name}lim")())
    for label in getattr(ax, f"get_{name}ticklabels")(which="both"):
        place = label.get_position()[name == "y"]
        if label.get_visible() and label.get_text() and low <= place <= high:
            box = label.get_window_extent()
            shown.append((*((box.x0, box.x1) if name == "x" else (box.y0, box.y1)), label))
    if any(label.get_rotation() for *_, label in shown):
        return
    shown.sort(key=lambda entry: entry[:2])
    size = float(matplotlib.rcParams["font.size"])
    gap = 0.35 * size * ax.figure.dpi / 72 if name == "x" else 0.0

    def apart(every: int) -> bool:
        kept = shown[::every]
        return all(later[0] - one[1] >= gap for one, later in itertools.pairwise(kept))

    names = any(not _is_number(label.get_text()) for *_, label in shown)
    if names and name == "x" and not apart(1):
        ax.tick_params(axis="x", which="both", labelrotation=90)
        return
    every = next(n for n in range(1, len(shown) + 2) if apart(n))
    for number, (*_, label) in enumerate(shown):
        label.set_visible(number % every == 0)


def _is_number(text: str) -> bool:
    """Also of a power of ten as matplotlib writes it."""
    return bool(re.fullmatch(r"[-\u2212+\d.,e%]+|\$\\mathdefault.*\$", text))
