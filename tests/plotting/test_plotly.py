"""Interactive figures: self-contained, small, described, equal in content."""

import base64
import html.parser
import json
import re

import numpy as np
import pytest

from attnlab.plotting import (
    Axis,
    Figure,
    Heat,
    Line,
    Panel,
    plotly_renderer,
    to_html_div,
    to_plotly,
)


class Elements(html.parser.HTMLParser):
    """All start tags with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_every_chart_is_a_valid_plotly_figure(everything):
    charts = to_plotly(everything)  # Plotly's own classes refuse unknown attributes
    assert len(charts) == 7
    kinds = [[trace.type for trace in chart.data] for chart in charts]
    assert kinds[3] == ["bar", "bar"]
    assert kinds[4] == ["heatmap"]
    assert charts[0].layout.yaxis.type == "log"
    assert [trace.line.dash for trace in charts[1].data[:2]] == ["solid", "dash"]
    assert [t.name for t in charts[0].data if t.showlegend] == ["mean", "10 %–90 %", "error"]


def charts_of(text):
    """The charts of an HTML fragment by element id, decoded."""
    scripts = re.findall(
        r'<script type="application/json" id="(.*?)-data">(.*?)</script>', text, re.S
    )
    return {name: json.loads(body) for name, body in scripts}


def decoded(array):
    return np.frombuffer(base64.b64decode(array["bdata"]), "<" + array["dtype"])


def test_fragment_has_unique_ids_and_alternative_texts(everything):
    text = to_html_div(everything, "fig")
    elements = Elements(text).found
    ids = [attrs["id"] for _, attrs in elements if "id" in attrs]
    assert len(ids) == len(set(ids)) == 1 + 2 * 7
    charts = [attrs for _, attrs in elements if attrs.get("role") == "img"]
    assert len(charts) == 7
    assert charts[0]["aria-label"].startswith("Seven made-up panels. Excess risk <R> & its band")
    assert set(charts_of(text)) == {c["id"] for c in charts}
    assert [c["style"] for c in charts[:3]] == ["--entries: 3", "--entries: 3", "--entries: 2"]


def test_texts_are_escaped():
    panel = Panel(
        "a </script><b>", Axis("<i>x</i>"), Axis("y"), [Line([0, 1], [0, 1], label="</script>")]
    )
    text = to_html_div(Figure("f", [panel], alt='"quoted"'), "f")
    assert text.count("</script>") == 1
    assert "<b>" not in text
    (body,) = re.findall(r"-data\">(.*?)</script>", text, re.S)
    assert "</" not in body
    chart = charts_of(text)["f-1"]
    assert chart["layout"]["xaxis"]["title"]["text"] == "&lt;i&gt;x&lt;/i&gt;"


def test_numbers_survive_the_encoding():
    x = np.arange(100.0)
    y = np.where(x == 50, np.nan, x**2 + 0.25)
    tiny = Line(x, 1e-200 * (x + 1))
    text = to_html_div(Figure("f", [Panel("", Axis("x"), Axis("y"), [Line(x, y), tiny])]), "f")
    first, second = charts_of(text)["f-1"]["data"]
    np.testing.assert_allclose(decoded(first["y"]), y, rtol=1e-6)
    np.testing.assert_allclose(decoded(second["y"]), 1e-200 * (x + 1))
    assert (first["y"]["dtype"], second["y"]["dtype"]) == ("f4", "f8")


def test_long_curves_stay_small():
    x = np.arange(1_000_000.0)
    figure = Figure("f", [Panel("", Axis("x"), Axis("y"), [Line(x, np.sin(x / 1e5))])])
    assert len(to_html_div(figure, "f")) < 40_000


def test_heat_keeps_its_shape(everything):
    trace = charts_of(to_html_div(everything, "e"))["e-6"]["data"][0]
    assert trace["z"]["shape"] == "9, 9"
    grid = np.linspace(-1, 1, 9)
    np.testing.assert_allclose(decoded(trace["z"]).reshape(9, 9), np.outer(grid, grid), atol=1e-7)
    assert trace["zmin"] == -trace["zmax"] == pytest.approx(-1)


def test_scripts_load_nothing_and_send_nothing(everything):
    text = to_html_div(everything, "e") + plotly_renderer.drawing_script()
    assert "http" not in text
    assert "showSendToCloud: false" in text
    script = plotly_renderer.plotly_script()
    assert script.count("</script>") == 1
    assert 1e6 < len(script) < 7e6
    assert "--columns" in plotly_renderer.chart_style()


def test_classes_have_colours_names_and_a_legend(everything):
    heat, *entries = charts_of(to_html_div(everything, "e"))["e-7"]["data"]
    assert heat["showscale"] is False
    assert {text for row in heat["text"] for text in row} == {"a", "c"}
    assert [entry["name"] for entry in entries] == ["a", "c"]
    ends = dict(map(tuple, heat["colorscale"][4:6])).values()
    assert set(ends) == {entries[1]["marker"]["color"]}


def test_a_legend_beside_a_bar_of_colours_stands_below():
    x = [0.0, 1.0]
    panel = Panel("", Axis("x"), Axis("y"), [Heat(x, x, np.eye(2), "z"), Line(x, x, "line")])
    chart = charts_of(to_html_div(Figure("", [panel]), "e"))["e-1"]
    assert chart["layout"]["legend"]["yref"] == "container"
    assert chart["layout"]["legend"]["y"] == 0
    assert chart["data"][0]["colorbar"]["y"] > 1


def test_the_title_of_a_chart_in_a_notebook_leaves_room_for_the_legend():
    lines = [Line([0, 1], [k, k], f"a rather long name {k}") for k in range(4)]
    (chart,) = to_plotly(Figure("", [Panel("Title <1>", Axis("x"), Axis("y"), lines)]))
    assert chart.layout.title.text == "Title &lt;1&gt;"
    assert chart.layout.margin.t >= 40 + 4 * 20 * 0.5
    (bare,) = to_plotly(Figure("", [Panel("", Axis("x"), Axis("y"), lines)]))
    assert bare.layout.title.text is None
    assert bare.layout.margin.t < 20
