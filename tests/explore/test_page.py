"""The page itself, where marimo is installed; what is said where it is not."""

import importlib.util
import socket

import pytest
from typer.testing import CliRunner

import attnlab as al
from attnlab import explore
from attnlab.cli import app
from attnlab.explore import server

needs_marimo = pytest.mark.skipif(
    importlib.util.find_spec("marimo") is None, reason="the extra explore is not installed"
)


@pytest.mark.parametrize(
    "wrong", [{"port": 0}, {"port": 70000}, {"host": ""}, {"host": 5}, {"browser": 1}]
)
def test_what_the_server_refuses(wrong):
    with pytest.raises(al.InvalidArgument, match=next(iter(wrong))):
        explore.serve(**wrong)


def test_without_marimo_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(server.importlib.util, "find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["explore"])
    assert result.exit_code == 2
    assert 'pip install "attnlab[explore]"' in result.stderr


def test_a_port_in_use_is_refused():
    other = socket.create_server(("127.0.0.1", 0))
    with other, pytest.raises(al.InvalidArgument, match="free at"):
        explore.serve(port=other.getsockname()[1], browser=False)


def test_the_page_is_served_here_alone_unless_asked_for():
    line = server.command(port=2718, host="127.0.0.1", browser=False)
    assert line[1:4] == ["-m", "marimo", "run"]
    assert line[5:] == ["--host", "127.0.0.1", "--port", "2718", "--headless"]


@needs_marimo
def test_every_cell_of_the_page_runs():
    from attnlab.explore.app import app as page

    _, found = page.run()
    assert found["part"].value == "Single-location regression"
    assert found["single"].value["activation"] == "erf"


@needs_marimo
def test_the_parts_of_the_page():
    from attnlab.explore import page

    told, form = page.experiment_form("marion2025/oracle-risk")
    assert "oracle attention" in told.text
    settings = {"lengths": "2,10", "points": "3"}
    result = page.run_experiment("marion2025/oracle-risk", settings).text
    for text in ("excess_risk", "length 2, dim 3", "Record"):
        assert text in result
    assert form.element.value["points"]
    stated = page.claim("marion2025/risk-formula", False).text
    checked = page.claim("marion2025/risk-formula", True).text
    assert "confirmed" not in stated
    assert "confirmed" in checked or "refuted as stated" in checked
    wrong = page.shown(page.run_experiment, "marion2025/oracle-risk", {"points": "-1"})
    assert "points" in wrong.text
    heads = page.in_context(page.in_context_controls().value).text
    assert "Bayes risk" in heads


@needs_marimo
def test_labels_are_no_markdown():
    from attnlab.explore import page

    assert page._escaped("a_b <x> *c*") == r"a\_b \<x\> \*c\*"
