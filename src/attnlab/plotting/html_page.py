"""An interactive figure as a page of its own, readable without a network."""

from __future__ import annotations

import html
import os
from pathlib import Path

from .._core.files import replacing
from .plotly_renderer import chart_style, drawing_script, plotly_script, to_html_div
from .spec import Figure

_STYLE = "body{font-family:sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}"


def save_html(figure: Figure, path: str | os.PathLike[str], *, text: str = "") -> Path:
    """Writes the figure with its caption to one HTML file, and `text`, such as a table, below it.

    Returns the path. The Plotly library is in the file, about 5 MB.
    """
    place = Path(path)
    table = f"<pre>{html.escape(text)}</pre>" if text else ""
    title = html.escape(figure.title)
    page = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><link rel="icon" href="data:,">
<style>{_STYLE}
{chart_style()}</style>
{plotly_script()}</head><body>
<h1>{title}</h1>
{to_html_div(figure, "figure")}
<p>{html.escape(figure.caption)}</p>
{table}
{drawing_script()}
</body></html>
"""
    with replacing(place) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return place
