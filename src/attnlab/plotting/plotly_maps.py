"""Maps as traces of Plotly: on a scale of colours, or of classes with a legend."""

from __future__ import annotations

import html
import math
from typing import Any

import numpy as np

from .prepare import PALETTE, classes, colour_range
from .spec import Heat, Panel

HOVER = "%{x:.5~g}, %{y:.5~g}"
# ColorBrewer's PuOr, as in matplotlib.
_PUOR = "7F3B08", "C6690B", "F9B158", "FDE2BA", "F7F7F7", "DBDBEB", "AFA6CE", "735BA4", "2D004B"
_DIVERGING = [[place / 8, f"#{colour}"] for place, colour in enumerate(_PUOR)]


def map_traces(mark: Heat, panel: Panel) -> list[dict[str, Any]]:
    """The traces of a prepared map."""
    if mark.names is not None:
        return _classes(mark)
    z = np.log10(mark.z) if mark.log else mark.z
    # Above the axes, where the other charts have their legends.
    bar: dict[str, Any] = {
        "title": {"text": html.escape(mark.label), "side": "top", "font": {"size": 14}},
        "orientation": "h",
        "y": 1.02,
        "yanchor": "bottom",
        "thickness": 12,
        "tickformat": "~g",
    }
    value = "%{z:.4~g}"
    if mark.log:
        bar |= {"tickprefix": "10<sup>", "ticksuffix": "</sup>"}
        if np.nanmax(z) - np.nanmin(z) >= 1.5:
            bar["dtick"] = 1
        value = "10^%{z:.3f}"
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": mark.x,
        "y": mark.y,
        "z": z,
        "colorscale": "Viridis",
        "colorbar": bar,
        "hovertemplate": f"{HOVER}: {value}<extra></extra>",
    }
    if mark.diverging:
        trace["colorscale"] = _DIVERGING
    ends = colour_range(mark)
    if ends is not None:
        trace["zmin"], trace["zmax"] = (math.log10(end) if mark.log else end for end in ends)
    return [trace]


def _classes(mark: Heat) -> list[dict[str, Any]]:
    shown, count = classes(mark), len(PALETTE)
    names = {number: name for number, name, _ in shown}
    texts = [[html.escape(names.get(number, "")) for number in row] for row in mark.z.tolist()]
    steps = [[(n + end) / count, PALETTE[n]] for n in range(count) for end in (0, 1)]
    trace = {
        "type": "heatmap",
        "x": mark.x,
        "y": mark.y,
        "z": mark.z,
        "colorscale": steps,
        "zmin": -0.5,
        "zmax": count - 0.5,
        "showscale": False,
        "text": texts,
        "hovertemplate": f"{HOVER}: %{{text}}<extra></extra>",
    }
    entries = [
        {
            "type": "scatter",
            "x": [None],
            "y": [None],
            "mode": "markers",
            "marker": {"symbol": "square", "size": 10, "color": colour},
            "name": html.escape(name),
            "showlegend": True,
        }
        for _, name, colour in shown
    ]
    return [trace, *entries]
