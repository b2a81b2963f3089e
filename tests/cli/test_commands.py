"""The commands, run in this process on a small paper."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attnlab import claims, papers, records
from attnlab.cli import app


@pytest.fixture
def attnlab(toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATTNLAB_OUTPUT", raising=False)

    def call(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return call


def test_list_shows_papers_experiments_and_claims(attnlab):
    everything = attnlab("list")
    assert everything.exit_code == 0
    for text in ("marion2025", "toy2027/count", "toy2027/sum", "One and one"):
        assert text in everything.output
    assert "marion2025" not in attnlab("list", "toy2027").output


def test_list_of_an_experiment_shows_its_settings(attnlab):
    shown = attnlab("list", "toy2027/count").output
    for text in ("Section 1", "x = step + seed", "steps", "integer >= 1", "how far to count", "50"):
        assert text in shown


def test_list_of_a_claim_shows_what_it_states(attnlab):
    shown = attnlab("list", "toy2027/sum").output
    for text in (
        "One and one",
        "1 + 1 = 2",
        "Section 2",
        "confirmed",
        "attnlab verify toy2027/sum",
    ):
        assert text in shown
    assert "settings" not in shown
    assert "claims near it: toy2027/sum" in attnlab("list", "toy2027/sums").stderr


def test_run_writes_record_and_figure_and_prints_their_paths(attnlab, tmp_path):
    result = attnlab("run", "toy2027/count", "--out", "results")
    assert result.exit_code == 0
    names = sorted(p.name for p in (tmp_path / "results").iterdir())
    stem = "toy2027-count-quick"
    assert names == [f"{stem}.json", f"{stem}.nc", f"{stem}.pdf", f"{stem}.png"]
    for name in names:
        assert (
            str(tmp_path / "results" / name) in result.output or f"results/{name}" in result.output
        )
    assert "x = step + seed" in result.output
    assert "0, 1, 2, 3, 4" in result.output  # what was measured stands beside what is expected
    record = records.load(tmp_path / "results" / f"{stem}.nc")
    assert record["x"].values.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    provenance = records.provenance_of(record)
    assert provenance["experiment"] == "toy2027/count"
    assert provenance["preset"] == "quick"
    assert provenance["config"] == {"seed": 0, "steps": 5, "pause": 0.0, "noisy": False}
    assert provenance["seconds"] >= 0


def test_other_settings_get_files_of_their_own(attnlab, tmp_path):
    for settings in ((), ("--set", "steps=3"), ("--set", "steps=3", "--set", "seed=1")):
        assert attnlab("run", "toy2027/count", "--no-figure", *settings).exit_code == 0
    found = {p.name: records.load(p) for p in (tmp_path / "attnlab-output").glob("*.nc")}
    assert len(found) == 3
    assert sorted(r["x"].values[-1] for r in found.values()) == [2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (("toy2027/cuont",), ("toy2027/cuont", "toy2027/count")),
        (("toy2027/count", "--preset", "huge"), ("preset = 'huge'", "quick")),
        (("toy2027/count", "--set", "stepz=1"), ("stepz", "did you mean steps?", "integer >= 1")),
        (("toy2027/count", "--set", "steps=ten"), ("steps = 'ten'", "integer >= 1")),
        (("toy2027/count", "--set", "steps=0"), ("steps = 0", "integer >= 1")),
        (("toy2027/count", "--set", "steps"), ("KEY=VALUE",)),
        (("toy2027/count", "--set", "steps=1", "--set", "steps=2"), ("steps was set",)),
        (("toy2027/count", "--out", "/proc/attnlab"), ("out = '/proc/attnlab'", "written to")),
    ],
)
def test_bad_input_is_one_clear_error_and_nothing_runs(attnlab, tmp_path, arguments, messages):
    result = attnlab("run", *arguments)
    assert result.exit_code == 2
    for message in messages:
        assert message in result.stderr
    assert "Traceback" not in result.output
    assert "step 1" not in result.output
    assert not list(tmp_path.rglob("*.nc"))


def test_too_little_memory_is_one_line(attnlab, monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError("Unable to allocate 7 EiB")

    monkeypatch.setattr(papers, "run_experiment", exhausted)
    result = attnlab("run", "toy2027/count")
    assert result.exit_code == 2
    assert "memory" in result.stderr
    assert "7 EiB" in result.stderr
    assert "Traceback" not in result.output


def test_interruption_without_results_says_so(attnlab):
    result = attnlab("run", "zeno2027/broken")
    assert result.exit_code == 130
    assert "nothing was kept" in result.stderr


def test_rerun_agrees_with_a_faithful_record(attnlab):
    attnlab("run", "toy2027/count", "--set", "seed=4", "--no-figure", "--out", "o")
    (path,) = Path("o").glob("*.nc")
    result = attnlab("rerun", path, "--out", "again.nc")
    assert result.exit_code == 0
    assert "same" in result.output
    assert records.compare(records.load("again.nc"), records.load(path), rtol=0, atol=0).same
    assert attnlab("rerun", path, "--out", path).exit_code == 2


def test_rerun_reports_what_differs(attnlab):
    attnlab("run", "toy2027/count", "--set", "noisy=true", "--no-figure", "--out", "o")
    (path,) = Path("o").glob("*.nc")
    result = attnlab("rerun", path, "--atol", "1e-3", "--rtol", "0")
    assert result.exit_code == 1
    assert "different: x" in result.output
    assert "step=" in result.output


def test_rerun_names_versions_that_changed_and_refuses_what_is_no_finished_record(attnlab):
    attnlab("run", "toy2027/count", "--no-figure", "--out", "o")
    path = "o/toy2027-count-quick.nc"
    record = records.load(path)
    provenance = records.provenance_of(record)
    older = {**provenance, "packages": {**provenance["packages"], "jax": "0.0.1"}}
    records.save(records.attach(record, older), "older.nc")
    assert "packages.jax was 0.0.1" in attnlab("rerun", "older.nc").output
    for change in ({"partial": True}, {"experiment": None}, {"experiment": "toy2027/x"}):
        records.save(records.attach(record, {**provenance, **change}), "bad.nc")
        assert attnlab("rerun", "bad.nc").exit_code == 2
    gone = {**provenance, "config": {**provenance["config"], "removed": 1}}
    records.save(records.attach(record, gone), "bad.nc")
    assert "removed" in attnlab("rerun", "bad.nc").stderr
    assert attnlab("rerun", "absent.nc").exit_code == 2
    assert attnlab("rerun", path, "--rtol", "-1").exit_code == 2


def test_cite_prints_bibtex_alone(attnlab):
    result = attnlab("cite", "toy2027/count", "SingleLocation")
    assert result.exit_code == 0
    assert result.stdout.startswith("@misc{toy2027,")
    assert "@inproceedings{marion2025," in result.stdout
    assert attnlab("cite", "toy2027/sum").stdout == attnlab("cite", "toy2027").stdout
    assert "toy2027/sum" in attnlab("cite", "toy2027/sumo").stderr or (
        "toy2027" in attnlab("cite", "toy2027/sumo").stderr
    )
    assert attnlab("cite", "nobody1900").exit_code == 2


def test_verify_prints_verdicts_and_judges_them(attnlab):
    result = attnlab("verify", "toy2027", "--out", "verdicts.json")
    assert result.exit_code == 0
    assert "confirmed" in result.output
    assert [v.verdict for v in claims.load_verdicts("verdicts.json")] == ["confirmed"]
    document = json.loads(Path("verdicts.json").read_text())
    assert document["provenance"]["config"]["preset"] == "quick"
    wrong = attnlab("verify", "toy2027/sum", "--seed", "1")
    assert wrong.exit_code == 1
    assert "refuted" in wrong.output


@pytest.mark.parametrize(
    "arguments",
    [("toy2027/none",), ("toy2027", "--preset", "x"), ("toy2027", "--only", "x"), ("--seed", "x")],
)
def test_verify_refuses_bad_input(attnlab, arguments):
    assert attnlab("verify", *arguments).exit_code == 2


def test_interrupted_verify_shows_what_was_reached(attnlab):
    result = attnlab("verify", "toy2027", "zeno2027", "--out", "verdicts.json", "--processes", "1")
    assert result.exit_code == 130
    (verdict,) = claims.load_verdicts("verdicts.json")
    assert verdict.id in result.output
    assert verdict.id == "toy2027/sum"


def test_report_writes_one_page(attnlab):
    result = attnlab("report", "toy2027", "--out", "page.html", "--processes", "1")
    assert result.exit_code == 0, result.output
    assert "page.html" in result.output
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Counting" in page
    assert "One and one" in page


def test_report_is_archived_and_made_again(attnlab):
    arguments = ("report", "toy2027", "--out", "page.html", "--processes", "1")
    result = attnlab(*arguments, "--archive", "a.zip")
    assert result.exit_code == 0, result.output
    assert "archive  a.zip" in result.output
    assert attnlab("report", "--from", "a.zip", "--out", "again.html").exit_code == 0
    assert "Rebuilt from the archive" in Path("again.html").read_text(encoding="utf-8")
    for more in (("toy2027",), ("--seed", "0"), ("--archive", "b.zip"), ("--processes", "1")):
        refused = attnlab("report", "--from", "a.zip", "--out", "no.html", *more)
        assert refused.exit_code == 2
        assert "left out with --from" in refused.stderr
    for path in ("absent.zip", "page.html"):
        assert attnlab("report", "--from", path, "--out", "no.html").exit_code == 2
    assert attnlab(*arguments, "--archive", "a.tar").exit_code == 2
    assert not Path("no.html").exists()


def test_stored_results_are_listed_and_cleared(attnlab):
    assert attnlab("report", "toy2027", "--processes", "1").exit_code == 0
    listed = attnlab("store", "list")
    assert listed.exit_code == 0
    lines = [line.split() for line in listed.output.splitlines()]
    assert [(line[0], line[1], line[-1]) for line in lines[:-1]] == [
        ("valid", "experiment", "toy2027/count"),
        ("valid", "verdict", "toy2027/sum"),
    ]
    assert "stored: 2 files" in listed.output
    assert "toy2027/sum" not in attnlab("store", "list", "toy2027/count").output
    assert "removed: 0 files, 0 bytes" in attnlab("store", "clear", "--stale").output
    cleared = attnlab("store", "clear", "toy2027/sum")
    assert "removed: 1 file, " in cleared.output
    assert "(1 valid)" in cleared.output
    for command in ("list", "clear"):
        refused = attnlab("store", command, "toy2027/sum")
        assert refused.exit_code == 2
        assert "one of which something is stored (toy2027)" in refused.stderr
    assert attnlab("store", "clear").exit_code == 0
    assert not Path("report-records").exists()
    assert "stored: 0 files" in attnlab("store", "list", "--out", "other.html").output


def test_interrupted_report_says_that_it_goes_on(attnlab):
    result = attnlab("report", "zeno2027", "--processes", "1")
    assert result.exit_code == 130
    assert "goes on from there" in result.stderr


@pytest.mark.parametrize(
    "arguments", [("nobody1900",), ("--preset", "x"), ("--out", "/proc/attnlab/page.html")]
)
def test_report_refuses_bad_input(attnlab, arguments):
    assert attnlab("report", *arguments).exit_code == 2


def test_a_run_that_cannot_be_saved_goes_on_from_its_checkpoints(attnlab, tmp_path, monkeypatch):
    right = records.save

    def full(dataset, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records, "save", full)
    failed = attnlab("run", "toy2027/count", "--no-figure", "--out", "o")
    assert failed.exit_code == 1
    assert "No space left" in failed.stderr
    monkeypatch.setattr(records, "save", right)
    again = attnlab("run", "toy2027/count", "--no-figure", "--out", "o")
    assert again.exit_code == 0
    (record,) = (tmp_path / "o").iterdir()  # and then the checkpoints are gone
    assert records.load(record).attrs["resumed"] == 5


@pytest.mark.parametrize(
    "damage", [{"packages": "none"}, {"jax": [1]}, {"seconds": "long"}, {"preset": {}}, {"git": 3}]
)
def test_rerun_says_that_provenance_is_damaged_before_it_computes(attnlab, damage):
    attnlab("run", "toy2027/count", "--no-figure", "--out", "o")
    dataset = records.load("o/toy2027-count-quick.nc")
    broken = records.provenance_of(dataset) | damage
    records.save(records.attach(dataset, broken), "damaged.nc")
    result = attnlab("rerun", "damaged.nc")
    assert result.exit_code == 2
    assert "provenance is damaged" in result.stderr
    assert "step" not in result.stdout  # nothing was counted


@pytest.mark.parametrize(
    "command",
    [
        ("verify", "toy2027", "--out", "folder"),
        ("verify", "toy2027", "--out", "file/verdicts.json"),
        ("mutate", "toy2027", "--out", "folder"),
        ("report", "toy2027", "--out", "folder.html"),
        ("report", "toy2027", "--out", "taken.html"),
        ("report", "toy2027", "--out", "page.html", "--archive", "folder.zip"),
        ("report", "toy2027", "--out", "file/page.html"),
        ("run", "toy2027/count", "--out", "file"),
        ("run", "toy2027/count", "--out", "full"),
        ("rerun", "record.nc", "--out", "folder"),
        ("diagnose", "weights.npz", "--out", "file"),
        ("sweep", "sweep.toml", "--workers", "0", "--out", "file"),
        ("sweep", "sweep.toml", "--workers", "0", "--out", "full"),
    ],
)
def test_places_of_outputs_are_checked_before_anything_is_computed(attnlab, tmp_path, command):
    for name in ("folder", "folder.html", "folder.zip", "full/toy2027-count-quick.nc"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "full" / "sweep.nc").mkdir()
    for name in ("file", "taken-records", "weights.npz"):
        (tmp_path / name).write_text("not of attnlab")
    (tmp_path / "sweep.toml").write_text("target = 'toy2027/count'\n[grid]\nsteps = [1, 2]\n")
    if command[0] == "rerun":
        attnlab("run", "toy2027/count", "--no-figure", "--out", "o")
        Path("o/toy2027-count-quick.nc").rename("record.nc")
    result = attnlab(*command)
    assert result.exit_code == 2, result.output
    assert "step" not in result.stdout
    assert len(result.stderr.splitlines()) == 1
    assert re.match("error: (out|archive) = ", result.stderr)


def test_the_same_command_clears_what_a_killed_run_left(attnlab, tmp_path):
    program = (
        "import os, signal, sys\n"
        "from attnlab._core.files import replacing\n"
        "with replacing(sys.argv[1]):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    left = (
        "o/toy2027-count-quick.partial.nc",
        "o/toy2027-count-quick.png",
        "o/.checkpoints/toy2027-count-quick/count.npz",
        "report.html",
        "report-records/toy2027/claims/sum.json",
        "report-records/toy2027/count/0123/.checkpoints/x/count.npz",
        "verdicts.json",
    )
    for path in left:
        subprocess.run([sys.executable, "-c", program, tmp_path / path], check=False)
    assert len(list(tmp_path.rglob(".*.tmp"))) == len(left)
    attnlab("run", "toy2027/count", "--out", "o")
    attnlab("report", "toy2027", "--processes", "1")
    attnlab("verify", "toy2027", "--processes", "1", "--out", "verdicts.json")
    assert list(tmp_path.rglob(".*.tmp")) == []
    assert not (tmp_path / "o" / ".checkpoints").exists()


@pytest.mark.parametrize(
    "command",
    [("rerun", "o/toy2027-count-quick.nc"), ("verify", "toy2027"), ("mutate", "toy2027")],
)
def test_results_are_saved_before_they_are_printed(attnlab, monkeypatch, command):
    attnlab("run", "toy2027/count", "--no-figure", "--out", "o")

    def gone(*_, **__):
        raise BrokenPipeError("nobody reads")

    for module, name in (("run", "_print"), ("check", "say"), ("mutation", "say")):
        monkeypatch.setattr(f"attnlab.cli.{module}.{name}", gone)
    monkeypatch.setattr(claims, "print_verdicts", gone)
    monkeypatch.setattr(claims, "print_mutations", gone)
    attnlab(*command, "--out", "kept")
    assert Path("kept").stat().st_size > 100
