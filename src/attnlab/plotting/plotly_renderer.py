"""Interactive figures for the report: one Plotly chart per panel, in a grid that reflows.

Charts are described by plain dicts with typed arrays (base64), so that a page with many of them
stays small; a script of a few lines draws each when it comes near the screen. Nothing is loaded
from a network: `plotly_script()` is the whole library, to be put into a page once.
"""

from __future__ import annotations

import base64
import html
import json
import math
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from .plotly_maps import HOVER, map_traces
from .prepare import PALETTE, arrow_ends, extent, is_square, prepare, thin, thin_band, thin_path
from .spec import Arrows, Axis, Band, Bars, Figure, Heat, Line, Panel, Paths, Points, Rule

if TYPE_CHECKING:
    import plotly.graph_objects

LIMIT = 1500  # points per curve; more cannot be told apart on a screen
_SYMBOLS = (
    "circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "triangle-left",
    "triangle-right",
)  # fmt: skip

_ABOVE = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
_BELOW = {"orientation": "h", "x": 0, "y": 0, "yanchor": "bottom", "yref": "container"}


def to_plotly(figure: Figure) -> list[plotly.graph_objects.Figure]:
    """One Plotly figure per panel, e.g. for a notebook."""
    import plotly.graph_objects as go

    return [
        go.Figure(data=chart["data"], layout=_titled(panel.title, chart))
        for panel, chart in _charts(figure)
    ]


def _titled(title: str, chart: dict[str, Any]) -> dict[str, Any]:
    """The layout with the title of the panel above the legend, which Plotly would write over it."""
    layout = chart["layout"]
    if not title:
        return layout
    names = [trace["name"] for trace in chart["data"] if trace.get("showlegend")]
    above = layout["legend"] is _ABOVE
    # entries stand in columns as wide as the longest, on a chart of about 400 pixels
    columns = max(1, int(400 / (50 + 8 * max(map(len, names), default=0))))
    rows = math.ceil(len(names) / columns) if above else 3
    place = {"x": 0.0, "xanchor": "left", "y": 1.0, "yanchor": "top", "pad": {"t": 8, "l": 8}}
    margin = {**layout["margin"], "t": 40 + 20 * rows}
    return {**layout, "title": {"text": html.escape(title), **place}, "margin": margin}


def to_html_div(figure: Figure, id: str) -> str:
    """HTML of the figure: a grid of charts whose element ids start with `id`.

    The page has to contain `plotly_script()` and `drawing_script()` once. The caption is left to
    the page.
    """
    parts = []
    charts = _charts(figure)
    for number, (panel, chart) in enumerate(charts):
        description = " ".join(text for text in (figure.alt, panel.title, panel.note) if text)
        data = json.dumps(_encoded(chart), ensure_ascii=False, allow_nan=False)
        data = data.replace("</", "<\\/").replace("<!--", "<\\!--")
        name = f"{id}-{number + 1}"
        entries = sum(trace.get("showlegend", False) for trace in chart["data"])
        if chart["layout"]["legend"] is _BELOW:
            entries += 6  # room for the bar of colours besides
        title = f'<p class="chart-title">{html.escape(panel.title)}</p>' if panel.title else ""
        note = f'<p class="chart-note">{html.escape(panel.note)}</p>' if panel.note else ""
        parts.append(
            f'<div class="chart-cell">{title}'
            f'<div class="chart" id="{name}" role="img" aria-label="{html.escape(description)}"'
            f' style="--entries: {entries}">'
            f"</div>{note}"
            f'<script type="application/json" id="{name}-data">{data}</script></div>'
        )
    columns = min(figure.columns, len(charts))
    inside = "\n".join(parts)
    return f'<div class="charts" id="{id}" style="--columns: {columns}">\n{inside}\n</div>'


def plotly_script() -> str:
    """The Plotly library as a script element, about 5 MB."""
    from plotly.offline import get_plotlyjs

    return f"<script>{get_plotlyjs()}</script>"


def drawing_script() -> str:
    """The script that draws the charts of a page: near the screen, and all before printing."""
    return f"<script>{_asset('charts.js')}</script>"


def chart_style() -> str:
    """CSS rules of the grid of charts: `--columns` beside each other on a wide screen."""
    return _asset("charts.css")


def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _charts(figure: Figure) -> list[tuple[Panel, dict[str, Any]]]:
    return [(panel, _chart(panel)) for panel in prepare(figure).panels]


def _chart(panel: Panel) -> dict[str, Any]:
    data: list[dict[str, Any]] = []
    for mark in panel.marks:
        data += _TRACES[type(mark)](mark, panel)
    bars = any(isinstance(mark, Bars) for mark in panel.marks)
    named = any(trace.get("showlegend", False) for trace in data)
    # a bar of colours stands above the axes
    coloured = any("colorbar" in trace for trace in data)
    legend = _BELOW if named and coloured else _ABOVE
    x_axis, y_axis = _axis(panel.x, extent(panel, "x")), _axis(panel.y, extent(panel, "y"))
    if is_square(panel):
        # as large as fits, beside the axis labels
        y_axis |= {"scaleanchor": "x", "constrain": "domain"}
        x_axis |= {"constrain": "domain", "domain": [0.0, 1.0]}
    if coloured:  # Plotly then measures from the axis itself, not from its numbers
        x_axis["title"] = {**x_axis["title"], "standoff": 30}
    if bars:
        x_axis |= {"type": "category", "tickformat": ""}
    layout = {
        "xaxis": x_axis,
        "yaxis": y_axis,
        "barmode": "group",
        "template": "none",
        "colorway": list(PALETTE),
        "font": {"size": 13, "color": "#222222", "family": "system-ui, sans-serif"},
        # On the right there is room for the buttons, which would cover data or text else.
        "margin": {"l": 60, "r": 40, "t": 12, "b": 48 if legend is _ABOVE else 84},
        "legend": legend,
        "showlegend": named,
        "hovermode": "closest",
        "dragmode": "zoom",
        "modebar": {"orientation": "v", "bgcolor": "rgba(255,255,255,0.8)", "color": "#777777"},
    }
    return {"data": data, "layout": layout}


def _axis(axis: Axis, shown: tuple[float, float]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "title": {"text": html.escape(axis.label), "standoff": 8, "font": {"size": 14}},
        "automargin": True,
        "gridcolor": "#E3E3E3",
        "zeroline": False,
        "linecolor": "#444444",
        "ticks": "outside",
        "tickformat": "~g",
    }
    if axis.log:
        described |= {"type": "log", "tickformat": "", "exponentformat": "power"}
        low, high = shown
        decades = math.log10(high / low) if 0 < low < high else 0.0
        if decades >= 1.5:  # powers of ten only; the digits between them would crowd
            described |= {"dtick": math.ceil(decades / 8)}
            if decades < 8:
                described["minor"] = {"ticks": "outside", "ticklen": 3}
    if axis.ticks is not None:
        described |= {
            "tickmode": "array",
            "tickvals": [float(value) for value, _ in axis.ticks],
            "ticktext": [html.escape(text) for _, text in axis.ticks],
        }
    if axis.limits is not None:
        limits = np.log10(axis.limits) if axis.log else np.asarray(axis.limits, dtype=float)
        described["range"] = [float(limit) for limit in limits]
    return described


def _trace(mark: Any, x: Any, y: Any, **more: Any) -> dict[str, Any]:
    named = {"name": html.escape(mark.label), "showlegend": True} if mark.label else {}
    unnamed = {"showlegend": False, "name": ""}
    hover = {"hovertemplate": f"{HOVER}<extra>{html.escape(mark.label or '')}</extra>"}
    return {"type": "scatter", "x": x, "y": y, **unnamed, **named, **hover, **more}


def _line(mark: Line, panel: Panel) -> list[dict[str, Any]]:
    x, y = thin(mark.x, mark.y, LIMIT, panel.x.log)
    style = {
        "color": mark.role,
        "width": mark.width * 1.2,
        "dash": "dash" if mark.dash else "solid",
    }
    return [_trace(mark, x, y, mode="lines", line=style)]


def _band(mark: Band, panel: Panel) -> list[dict[str, Any]]:
    x, low, high = thin_band(mark.x, mark.low, mark.high, LIMIT, panel.x.log)
    inside = np.isfinite(low) & np.isfinite(high)
    around = np.concatenate([x[inside], x[inside][::-1]])
    edge = np.concatenate([high[inside], low[inside][::-1]])
    fill = {"fill": "toself", "fillcolor": _faint(mark.role), "line": {"width": 0}}
    return [_trace(mark, around, edge, mode="lines", hoverinfo="skip", **fill)]


def _points(mark: Points, panel: Panel) -> list[dict[str, Any]]:
    symbol = _SYMBOLS[PALETTE.index(mark.role)] if mark.role in PALETTE else "circle"
    marker = {"color": mark.role, "size": 7, "symbol": symbol}
    bars = {}
    if mark.yerr is not None:
        bars["error_y"] = {"type": "data", "array": mark.yerr, "thickness": 1.2, "width": 3}
    return [_trace(mark, mark.x, mark.y, mode="markers", marker=marker, **bars)]


def _arrows(mark: Arrows, panel: Panel) -> list[dict[str, Any]]:
    # Each arrow is a segment whose second point is a head turned away from the first.
    tips = arrow_ends(mark)
    gap = np.full_like(mark.x, np.nan)
    x, y = (np.stack([a, b, gap], axis=1).ravel() for a, b in zip((mark.x, mark.y), tips))
    marker = {
        "symbol": "arrow",
        "angleref": "previous",
        "color": mark.role,
        "size": np.tile([0.0, 7.0, 0.0], mark.x.size),
    }
    line = {"color": mark.role, "width": 1}
    return [_trace(mark, x, y, mode="lines+markers", marker=marker, line=line, hoverinfo="skip")]


def _rule(mark: Rule, panel: Panel) -> list[dict[str, Any]]:
    across = np.array(extent(panel, "x" if mark.axis == "y" else "y"))
    along = np.array([mark.value, mark.value])
    x, y = (across, along) if mark.axis == "y" else (along, across)
    line = {"color": mark.role, "width": 1.4, "dash": "dash"}
    return [_trace(mark, x, y, mode="lines", line=line)]


def _paths(mark: Paths, panel: Panel) -> list[dict[str, Any]]:
    limit = max(20, 4 * LIMIT // max(1, len(mark.paths)))
    xs: list[np.ndarray] = []
    ys: list[np.ndarray] = []
    sizes: list[np.ndarray] = []
    for path in mark.paths:
        x, y = thin_path(*path, limit)
        xs += [x, np.array([np.nan])]
        ys += [y, np.array([np.nan])]
        sizes.append(np.r_[np.zeros(x.size - 1), 6.0, 0.0])  # a dot at the end only
    if not xs:
        return []
    marker = {"color": mark.role, "size": np.concatenate(sizes), "line": {"width": 0}}
    x, y = np.concatenate(xs), np.concatenate(ys)
    style = {"color": mark.role, "width": 1}
    return [_trace(mark, x, y, mode="lines+markers", line=style, marker=marker, opacity=0.8)]


def _bars(mark: Bars, panel: Panel) -> list[dict[str, Any]]:
    errors = {}
    if mark.errors is not None:
        errors["error_y"] = {"type": "data", "array": mark.errors, "thickness": 1.2, "width": 4}
    labels = [html.escape(str(label)) for label in mark.labels]
    trace = _trace(mark, labels, mark.values, marker={"color": mark.role}, **errors)
    return [{**trace, "type": "bar"}]


_TRACES: dict[type, Any] = {
    Line: _line,
    Band: _band,
    Points: _points,
    Heat: map_traces,
    Arrows: _arrows,
    Rule: _rule,
    Paths: _paths,
    Bars: _bars,
}


def _faint(colour: Any) -> str:
    r, g, b = (int(str(colour)[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({r},{g},{b},0.22)"


def _encoded(value: Any) -> Any:
    """JSON-ready, with arrays as Plotly's typed arrays: float32 where that shows the same."""
    if isinstance(value, dict):
        return {key: _encoded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encoded(item) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    size = np.abs(value[np.isfinite(value) & (value != 0)])
    small = size.size == 0 or (size.min() > 1e-35 and size.max() < 1e35)
    array = np.ascontiguousarray(value, dtype="<f4" if small else "<f8")
    coded: dict[str, Any] = {
        "dtype": "f4" if small else "f8",
        "bdata": base64.b64encode(array.tobytes()).decode(),
    }
    if array.ndim > 1:
        coded["shape"] = ", ".join(str(n) for n in array.shape)
    return coded
