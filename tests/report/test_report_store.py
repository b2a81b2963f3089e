"""Results are computed once, found again while they are valid, and survive a killed run."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import attnlab
from attnlab.claims import load_verdicts
from attnlab.errors import InvalidArgument
from attnlab.report import Store, build_report
from attnlab.report.store import source_digest


def build(doe, out, **options):
    path = build_report(out, papers=[doe.EVERYTHING], **{"processes": 1, **options})
    return path.read_text()


def test_a_repeated_report_computes_nothing_but_what_failed(doe, tmp_path):
    build(doe, tmp_path)
    assert sorted(doe.runs()) == ["bad", "good 0", "raises", "run 0", "run 0"]
    text = build(doe, tmp_path)
    assert doe.runs()[5:] == ["raises"]
    assert "(5 of 7 results were still valid from an earlier run" in " ".join(text.split())


def test_another_seed_or_preset_is_another_question(doe, tmp_path):
    build(doe, tmp_path)
    before = len(doe.runs())
    build(doe, tmp_path, seed=1)
    assert sorted(doe.runs()[before:]) == ["bad", "good 1", "raises", "run 1", "run 1"]
    before = len(doe.runs())
    build(doe, tmp_path, preset="paper")
    assert len(doe.runs()) == before + 5
    build(doe, tmp_path)
    assert len(doe.runs()) == before + 6  # only the failing check again


def test_changed_code_is_computed_anew(doe, tmp_path):
    build(doe, tmp_path)
    before = len(doe.runs())
    source = tmp_path / "code" / "doe2027_report.py"
    source.write_text(source.read_text() + "\n# changed\n")
    build(doe, tmp_path)
    assert len(doe.runs()) == before + 5


def test_source_that_cannot_change_results_is_left_out(tmp_path, monkeypatch):
    whole = source_digest("attnlab", "doe2027")
    root = tmp_path / "attnlab"
    shutil.copytree(Path(attnlab.__file__).parent, root, ignore=shutil.ignore_patterns("*.pyc"))

    class Spec:
        origin = str(root / "__init__.py")

    monkeypatch.setattr("importlib.util.find_spec", lambda name: Spec)
    assert source_digest("attnlab", "doe2027") == whole
    for harmless in (
        "plotting/spec.py",
        "report/page.py",
        "papers/roe2026.py",
        "papers/marion2025/__init__.py",
    ):
        (root / harmless).parent.mkdir(exist_ok=True)
        (root / harmless).write_text("# changed\n")
        assert source_digest("attnlab", "doe2027") == whole
    assert source_digest("attnlab", "marion2025") != source_digest("attnlab", "roe2026")
    for behind in ("claims/check.py", "papers/_framework.py", "papers/doe2027.py"):
        old = source_digest("attnlab", "doe2027")
        (root / behind).write_text("# changed\n")
        assert source_digest("attnlab", "doe2027") != old


def test_damaged_results_are_computed_anew(doe, tmp_path):
    build(doe, tmp_path)
    entries = Store(tmp_path / "report-records").entries()
    assert sorted(entry.id for entry in entries if entry.kind == "verdict") == [
        "doe2027/bad",
        "doe2027/good",
        "doe2027/open",
    ]
    assert sum(entry.kind == "experiment" for entry in entries) == 2
    for entry in entries:
        data = entry.path.read_bytes()
        assert len(data) == entry.size
        entry.path.write_bytes(data[: len(data) // 2])
    before = len(doe.runs())
    build(doe, tmp_path)
    assert len(doe.runs()) == before + 5


def test_the_record_of_an_interrupted_run_is_no_result(doe, tmp_path):
    build(doe, tmp_path)
    (record,) = (tmp_path / "report-records" / "doe2027" / "descent").glob("*/*.nc")
    record.rename(record.with_name(record.stem + ".partial.nc"))
    before = doe.runs().count("run 0")
    build(doe, tmp_path)
    assert doe.runs().count("run 0") == before + 1


def test_store_can_be_cleared(doe, tmp_path):
    build(doe, tmp_path)
    store = Store(tmp_path / "report-records")
    store.clear()
    assert store.entries() == []
    build(doe, tmp_path)
    assert doe.runs().count("good 0") == 2


def test_workers_give_the_same_page(doe, tmp_path):
    build(doe, tmp_path / "one.html")
    build(doe, tmp_path / "two.html", processes=2)
    files = [path / "verdicts.json" for path in sorted(tmp_path.glob("*-records"))]
    one, two = ([(v.id, v.verdict, v.checks) for v in load_verdicts(path)] for path in files)
    assert one == two


def test_a_killed_run_goes_on(doe, tmp_path):
    """SIGKILL while one experiment is running: the next run computes that one only."""
    script = tmp_path / "code" / "kill_me.py"
    script.write_text(
        "import sys, doe2027_report as doe\n"
        "from attnlab.report import build_report\n"
        "PAPER = doe.paper((doe.experiment('descent'), doe.experiment('slow', 'slow')),"
        " (doe.claim('good'), doe.claim('bad')))\n"
        "if __name__ == '__main__':\n"
        "    print(build_report(sys.argv[1], papers=[PAPER], processes=2))\n"
    )
    out = tmp_path / "report.html"
    command = [sys.executable, script, out]
    process = subprocess.Popen(command, start_new_session=True)
    stored = Store(tmp_path / "report-records")
    deadline = time.monotonic() + 60
    while (len(stored.entries()) < 3 or "slow" not in doe.runs()) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not out.exists()
    assert sorted(doe.runs()) == ["bad", "good 0", "run 0", "slow"]
    (tmp_path / "code" / "fast").touch()
    subprocess.run(command, check=True, timeout=100, stdout=subprocess.DEVNULL)
    assert sorted(doe.runs()) == ["bad", "good 0", "run 0", "run 0", "slow", "slow"]
    assert "Experiment slow" in out.read_text()


def test_claims_that_cannot_be_read_do_not_sink_the_report(doe, tmp_path):
    paper = doe.paper((doe.experiment("descent"),), "doe2027_report:NO_SUCH")
    text = build_report(tmp_path / "r.html", papers=[paper], processes=1).read_text()
    assert "a name that doe2027_report defines" in text
    assert doe.runs() == ["run 0"]


def test_bad_arguments_are_refused_before_anything_runs(doe, tmp_path):
    (tmp_path / "file").write_text("")
    for options, words in (
        ({"out": tmp_path / "file" / "r.html"}, "directory that can be written"),
        ({"out": tmp_path, "preset": "fast"}, "preset"),
        ({"out": tmp_path, "seed": -1}, "seed"),
        ({"out": tmp_path, "processes": 0}, "processes"),
        ({"out": tmp_path, "papers": ["nobody1900"]}, "paper = 'nobody1900'"),
        ({"out": tmp_path, "papers": []}, "at least one paper"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            build_report(**{"papers": [doe.EVERYTHING], **options})
    assert doe.runs() == []
