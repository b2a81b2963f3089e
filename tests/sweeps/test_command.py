"""`attnlab sweep` as a user sees it."""

import signal
import textwrap

import pytest
from typer.testing import CliRunner

from attnlab import records
from attnlab.cli import app
from attnlab.sweeps import directory as directories

TOML = """
    title = "Sevenths"
    expected = "i / 7"
    figure = "pointy:picture"
    target = "pointy:plain"
    [grid]
    i = { range = [0, 5] }
    [quick.grid]
    i = [3]
"""


@pytest.fixture
def attnlab(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATTNLAB_OUTPUT", raising=False)

    def call(*arguments):
        return CliRunner().invoke(app, ["sweep", *(str(argument) for argument in arguments)])

    return call


def test_a_file_is_swept_shown_and_drawn(attnlab, toml, tmp_path):
    file = toml("sevenths", TOML)
    result = attnlab(file, "--workers", 0)
    assert result.exit_code == 0, result.output
    for text in ("Sevenths", "5 (i 5), 0 failed", "i / 7", "figure.pdf", "took"):
        assert text in result.output
    place = tmp_path / "attnlab-output" / "sweep-sevenths"
    assert (place / "figure.png").stat().st_size > 1000
    assert records.load(place / "sweep.nc").x.values.tolist() == [i / 7 for i in range(5)]
    shown = attnlab(file, "--status").output
    assert "5 of 5 done (100.0%), 0 failed" in shown
    assert "nobody works on it" in shown
    every = attnlab("--status").output
    assert every == shown
    assert "5 of 5 done" in attnlab("--status", "--out", place).output
    quick = attnlab(file, "--quick", "--no-figure", "--workers", 0)
    assert "1 (i 1), 0 failed" in quick.output
    assert "figure" not in quick.output


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_ctrl_c_says_what_is_kept(attnlab, toml, monkeypatch, name):
    write = directories.Directory.write

    def interrupted(self, number, data):
        write(self, number, data)
        signal.raise_signal(getattr(signal, name))

    monkeypatch.setattr(directories.Directory, "write", interrupted)
    result = attnlab(toml("sevenths", TOML), "--workers", 0)
    assert result.exit_code == 130
    assert "interrupted with 1 of 5 points; what was computed is kept in" in result.stderr
    monkeypatch.undo()


def test_failures_are_shown_and_do_not_stop_it(attnlab, toml):
    file = toml("crashing", 'target = "pointy:nasty"\n[grid]\ni = [1, 2, 3]')
    result = attnlab(file, "--workers", 0)
    assert result.exit_code == 0
    assert "failed    i=2: ValueError: not two" in result.output


def test_bad_input_ends_with_status_2_and_one_line(attnlab, toml):
    for arguments, message in (
        ([], "a TOML file or a ready sweep"),
        (["--status"], "has no sweeps"),
        (["missing.toml"], "a TOML file (No such file"),
        ([toml("sevenths", TOML), "--status"], "the directory of a sweep"),
        ([toml("sevenths", TOML), "--timeout", -1], "timeout"),
        ([toml("sevenths", TOML), "--timeout", 1e12], "timeout"),
        ([toml("drawn", TOML.replace("pointy:picture", "zz:q"))], "figure = 'zz:q'"),
        ([toml("undrawn", TOML.replace("pointy:picture", "pointy:no"))], "a name that pointy"),
        ([""], "a TOML file or one of"),
        (["nothing"], "a TOML file or one of"),
        ([toml("sevenths", TOML), "--scheduler", "nonsense"], "missing port number"),
        ([toml("typed", TOML + "\n[select]\nstep = 'a'")], "select.step"),
        ([toml("fixed", "static = 5\n" + textwrap.dedent(TOML))], "static"),
    ):
        result = attnlab(*arguments)
        assert result.exit_code == 2
        assert message in result.stderr
        assert "Traceback" not in result.output


def test_a_figure_that_cannot_be_drawn_costs_no_result(attnlab, toml, tmp_path):
    file = toml("undrawn", TOML.replace("pointy:picture", "pointy:unlike"))
    result = attnlab(file, "--workers", 0)
    assert result.exit_code == 1
    assert "pointy:unlike: TypeError: it returned int" in result.output
    assert (tmp_path / "attnlab-output" / "sweep-undrawn" / "sweep.nc").exists()


def test_the_figure_of_a_risk_may_lie_beside_its_file(attnlab, toml, tmp_path, monkeypatch):
    text = """
        target = "risk"
        figure = "drawing:risk"
        task = { kind = "SingleLocation", dim = 20, length = 4 }
        student = { kind = "PointwiseAttention", activation = "erf" }
        [grid]
        "student.scale" = [0.1, 0.2]
    """
    file = toml("risky", text)
    (file.parent / "drawing.py").write_text(
        "from attnlab.plotting import Axis, Figure, Line, Panel\n\n\ndef risk(dataset):\n"
        "    line = Line(dataset['scale'].values, dataset['risk'].values, label='risk')\n"
        "    return Figure('Risk', [Panel('', Axis('scale'), Axis('risk'), [line])])\n"
    )
    result = attnlab(file, "--workers", 0)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "attnlab-output" / "sweep-risky" / "figure.png").exists()


def test_ready_sweeps_are_listed(attnlab):
    assert "dohmatob2025/phase-diagram" in attnlab("--list").output
