"""A figure read back from its plotted numbers draws the same picture."""

import json

import pytest

from attnlab.errors import InvalidArgument
from attnlab.plotting import figure_from_numbers, to_html_div
from attnlab.plotting.prepare import plotted_numbers


@pytest.fixture
def numbers(everything):
    return json.loads(json.dumps(plotted_numbers(everything), allow_nan=False))


def test_every_mark_is_drawn_as_before(everything, numbers):
    again = figure_from_numbers(numbers)
    assert {type(mark) for panel in everything.panels for mark in panel.marks} == {
        type(mark) for panel in again.panels for mark in panel.marks
    }
    assert to_html_div(again, "a") == to_html_div(everything, "a")
    assert plotted_numbers(again) == plotted_numbers(everything)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "Panel"}, "figure = .*of kind Figure"),
        ({"columns": "2"}, "figure.columns = '2'"),
        ({"title": 3}, "figure.title = 3"),
        ({"panels": [{"kind": "Axis"}]}, r"figure.panels\[0\]"),
        ({"alt": None}, "figure.alt = None"),
    ],
)
def test_other_kinds_of_entries_are_refused(numbers, change, words):
    with pytest.raises(InvalidArgument, match=words):
        figure_from_numbers({**numbers, **change})


@pytest.mark.parametrize(
    "mark",
    [
        {"kind": "Line", "x": ["a"]},
        {"kind": "Line", "role": [0]},
        {"kind": "Line", "dash": 1},
        {"kind": "Line", "width": None},
        {"kind": "os.system"},
        [],
    ],
)
def test_other_kinds_of_marks_are_refused(numbers, mark):
    panel = numbers["panels"][0]
    line = panel["marks"][0]
    assert line["kind"] == "Line"
    panel["marks"] = [{**line, **mark} if isinstance(mark, dict) else mark]
    with pytest.raises(InvalidArgument, match=r"panels\[0\].marks\[0\]"):
        figure_from_numbers(numbers)
    del line["y"]
    panel["marks"] = [line]
    with pytest.raises(InvalidArgument, match="y is missing"):
        figure_from_numbers(numbers)
