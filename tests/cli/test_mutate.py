"""`attnlab mutate` on the small paper: exit status, the file it writes, bad input."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attnlab.claims import Check, Mutation, Outcome, mutation
from attnlab.claims.perturbations import swap
from attnlab.cli import app


def refuting(checks):
    return Outcome((Check.agreement("two", 3, 2, tolerance=0.0),))


@pytest.fixture
def attnlab(toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        return CliRunner().invoke(app, ["mutate", *arguments])

    return call


@pytest.fixture
def a_mutation(monkeypatch):
    wrong = Mutation("toy2027/sum", "toy_paper:Outcome", swap(f"{__name__}:refuting"), "1 + 1 = 3")
    monkeypatch.setattr(mutation, "all_mutations", lambda: (wrong,))


def test_all_caught(attnlab, a_mutation):
    result = attnlab("toy2027", "--out", "m.json")
    assert result.exit_code == 0, result.output
    assert "1 + 1 = 3  caught: two" in result.output
    document = json.loads(Path("m.json").read_text())
    assert document["share_caught"] == 1
    assert document["provenance"]["config"]["preset"] == "quick"


def test_one_not_caught(attnlab, a_mutation):
    uncovered = attnlab("toy2027", "zeno2027", "--processes", "1")
    assert uncovered.exit_code == 1
    assert "1 of 2 mutations caught" in uncovered.output
    stale = attnlab("toy2027/sum", "--seed", "1")  # its check is refuted without being broken
    assert stale.exit_code == 1
    assert "unbroken check" in stale.output


def test_interrupted(attnlab, monkeypatch):
    wrong = Mutation("zeno2027/stop", "toy_paper:Outcome", swap(f"{__name__}:refuting"), "stops")
    monkeypatch.setattr(mutation, "all_mutations", lambda: (wrong,))
    assert attnlab("zeno2027").exit_code == 130


@pytest.mark.parametrize(
    "arguments",
    [("toy2027/none",), ("--preset", "x"), ("--processes", "0"), ("--out", "/proc/attnlab/m.json")],
)
def test_bad_input(attnlab, arguments):
    assert attnlab(*arguments).exit_code == 2
