"""Pictures: what a figure shows (`spec`) and two ways of drawing it.

`matplotlib_renderer` makes print figures (PNG, PDF), `plotly_renderer` interactive ones for the
report. `prepare` holds what both share: checks, colours, thinning, the plotted numbers. This room
draws; it computes nothing about attention. `circuit_figure` draws the circuits of a layer,
`head_figure` the diagnosis of any heads.

    from attnlab import plotting
    figure = plotting.Figure("Risk", [plotting.Panel("", plotting.Axis("step"), plotting.Axis("R"), [
        plotting.Line(steps, risk, label="gradient descent")])])
    plotting.save_figure(figure, "risk")                # risk.png, risk.pdf, risk.json
"""

from typing import TYPE_CHECKING

from .._core.lazy import lazy_names
from .spec import Arrows as Arrows
from .spec import Axis as Axis
from .spec import Band as Band
from .spec import Bars as Bars
from .spec import Figure as Figure
from .spec import Heat as Heat
from .spec import Line as Line
from .spec import Mark as Mark
from .spec import Panel as Panel
from .spec import Paths as Paths
from .spec import Points as Points
from .spec import Role as Role
from .spec import Rule as Rule

if TYPE_CHECKING:
    from .circuits import circuit_figure as circuit_figure
    from .circuits import circuit_panels as circuit_panels
    from .heads import head_figure as head_figure
    from .html_page import save_html as save_html
    from .matplotlib_renderer import render as render
    from .matplotlib_renderer import save_figure as save_figure
    from .plotly_renderer import to_html_div as to_html_div
    from .plotly_renderer import to_plotly as to_plotly
    from .replot import figure_from_numbers as figure_from_numbers

# Matplotlib and Plotly load when they are first used.
_LAZY = {
    "circuit_figure": "circuits",
    "circuit_panels": "circuits",
    "figure_from_numbers": "replot",
    "head_figure": "heads",
    "render": "matplotlib_renderer",
    "save_figure": "matplotlib_renderer",
    "save_html": "html_page",
    "to_html_div": "plotly_renderer",
    "to_plotly": "plotly_renderer",
}

__getattr__ = lazy_names(__name__, _LAZY)
