"""The page: templates filled with a report's content."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from .. import claims
from ..claims import text
from ..claims.levels import CLAIM_LEVEL, FAMILY_LEVEL, FAMILY_SIZE
from ..claims.table import answered, counts
from ..plotting import plotly_renderer
from .content import Report, slug

if TYPE_CHECKING:
    import jinja2

MARKS = {
    "confirmed": ("✓", "confirmed"),
    "refuted as stated": ("✗", "refuted"),
    "inconclusive": ("?", "inconclusive"),
    claims.FAILED: ("!", "failed"),
}


def render_page(report: Report) -> str:
    """The HTML of a report: one file, with styles, scripts and figures inside."""
    has_figures = any(result.figure is not None for result in report.experiments)
    return (
        _environment()
        .get_template("report.html")
        .render(
            report=report,
            counts=counts(report.verdicts),
            answered=answered(report.verdicts),
            chart_style=plotly_renderer.chart_style(),
            plotly_script=plotly_renderer.plotly_script() if has_figures else "",
            drawing_script=plotly_renderer.drawing_script() if has_figures else "",
            levels={
                "claim": CLAIM_LEVEL,
                "family": FAMILY_LEVEL,
                "size": FAMILY_SIZE,
                "here": claims.family_level(len(report.verdicts)),
            },
        )
    )


def duration(seconds: float) -> str:
    """A time for readers: `0.4 s`, `12 s`, `3 min 20 s`, `1 h 5 min`."""
    if seconds < 0.05:
        return "< 0.1 s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def short_paths(details: str) -> str:
    """A traceback whose files are told by the ends of their paths: a page that is passed on need not
    tell where its author keeps things."""
    return re.sub(
        r'File "([^"]+)"',
        lambda match: f'File "{"/".join(PurePath(match[1]).parts[-3:])}"',
        details,
    )


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("attnlab.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        duration=duration,
        short_paths=short_paths,
        measured=text.measured_text,
        stated=text.stated_text,
        p_value=text.p_text,
        anchor=lambda id, kind: slug(kind, id),
        mark=lambda verdict: MARKS[verdict][0],
        kind=lambda verdict: MARKS[verdict][1],
        setting=lambda value: value if isinstance(value, str) else json.dumps(value),
    )
    environment.globals["chart"] = _chart
    return environment


def _chart(result: Any) -> str:
    import markupsafe

    alt = result.figure.alt or result.experiment.summary
    figure = replace(result.figure, alt=alt)
    return markupsafe.Markup(plotly_renderer.to_html_div(figure, f"{result.anchor}-figure"))
