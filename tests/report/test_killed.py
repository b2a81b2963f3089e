"""SIGKILL at any moment: what was finished is used again, what was half written is never read.

A child watches what it does to files and kills itself at a given event, so that the moments are the
same in every run: while a file is empty, when it is whole but has no name yet, and in between.
"""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from attnlab import claims, records
from attnlab.report import Store

# One process loads the libraries once and forks a child for each run. JAX itself is never started in
# it: its threads would not survive the fork, so what records say about it is written down here.
_RUNS = """
    import json, os, signal, sys
    from dataclasses import replace
    import attnlab.report.build, h5netcdf, scipy.special, xarray
    from attnlab.report.page import _environment
    import doe2027_report as doe

    _environment().get_template("report.html")
    sys.modules["attnlab.records.provenance"]._jax_state = lambda: {
        "backend": "cpu", "device": "cpu", "devices": 1, "prng": "threefry2x32", "x64": False}
    os.fsync = lambda file: None  # it outlasts a loss of power, which is not tried here
    PAPER = doe.paper(
        tuple(replace(doe.experiment(name), figure=None) for name in ("descent", "second")),
        (doe.claim("good"), doe.claim("bad")),
    )

    def run(folder, last):
        \"\"\"A report whose process dies at its event number `last` (from 0); returns the events.\"\"\"
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            doe.HERE = doe.pathlib.Path(folder)
            os.makedirs(folder, exist_ok=True)
            seen = []
            def watch(event, arguments):
                if event in ("open", "os.rename", "os.remove") and folder in str(arguments[0]):
                    if len(seen) == last:
                        os.kill(os.getpid(), signal.SIGKILL)
                    seen.append(os.path.basename(str(arguments[0])))
            sys.addaudithook(watch)
            attnlab.report.build.build_report(folder + "/r.html", papers=[PAPER], processes=1)
            os.write(write, json.dumps(seen).encode())
            os._exit(0)
        os.close(write)
        _, status = os.waitpid(child, 0)
        with open(read) as file:
            return status, file.read()

    def files(folder):
        return sorted(os.path.relpath(os.path.join(where, name), folder)
                      for where, _, names in os.walk(folder) for name in names)

    top = sys.argv[1]
    status, events = run(top + "/whole", None)
    assert status == 0
    events = json.loads(events)
    moments = []
    # of each file: the event whose number stands with it, of those that write it
    for name, number in (("descent", 1), ("second", -1), ("good", 1), ("bad", -1),
                         ("verdicts", 1), ("r.html", 1), ("r.html", -1)):
        last = [i for i, file in enumerate(events) if name in file and file.endswith(".tmp")][number]
        folder = f"{top}/killed-{last}"
        status, _ = run(folder, last)
        assert status == signal.SIGKILL, (last, status)
        left = files(folder)
        runs = doe.pathlib.Path(folder, "runs.txt")
        before = runs.read_text().splitlines() if runs.exists() else []
        status, _ = run(folder, None)
        assert status == 0, (last, status)
        moments.append([folder, left, before, runs.read_text().splitlines()])
    print(json.dumps(moments))
"""


def visible(folder):
    """Files that a reader would take for results."""
    store = Store(folder / "r-records")
    return {entry.id: entry.path for entry in store.entries()}


def test_a_run_killed_at_any_moment_goes_on(doe, tmp_path):
    (tmp_path / "code" / "runs.py").write_text(textwrap.dedent(_RUNS))
    command = [sys.executable, tmp_path / "code" / "runs.py", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    expected = visible(tmp_path / "whole")
    assert len(expected) == 4
    results_left = set()
    for folder, left, before, after in json.loads(done.stdout):
        finished = [name for name in left if "/doe2027/" in name and not name.endswith(".tmp")]
        results_left.add(len(finished))
        assert any(name.endswith(".tmp") for name in left)
        # each result that had its name was used again, each other one was computed once more
        experiments = sum(name.endswith(".nc") for name in finished)
        assert after[len(before) :].count("run 0") == 2 - experiments
        for name in ("good", "bad"):
            stored = any(file.rpartition("/")[2].startswith(f"{name}-") for file in finished)
            assert sum(word.startswith(name) for word in after[len(before) :]) == 1 - stored
        # and all is as if nothing had happened
        found = visible(Path(folder))
        assert found.keys() == expected.keys()
        for key, path in found.items():
            assert content(path) == content(expected[key])
        assert timeless(Path(folder)) == timeless(tmp_path / "whole")
    assert results_left == {0, 1, 2, 3, 4}


def timeless(folder):
    """The page without its times."""
    page = (folder / "r.html").read_text(encoding="utf-8")
    return re.sub(r'<p class="(lead|id)">.*?</p>|<dd>.*?</dd>', "", page, flags=re.S)


def content(path):
    if path.suffix == ".nc":
        record = records.load(path)
        return {name: record[name].values.tolist() for name in record.variables}
    (verdict,) = claims.load_verdicts(path)
    return verdict.verdict, verdict.checks, verdict.evidence, verdict.corrected, verdict.answer


@pytest.mark.parametrize("cut", [0, 1, 100, -100])
def test_damaged_files_are_no_results(doe, tmp_path, cut):
    store = Store(tmp_path)
    claim = doe.claim("good")
    store.save_verdict(claims.verify([claim])[0])
    folder = store.experiment_folder("doe2027/descent", {"seed": 0}, "doe2027_report")
    records.save(doe.run(doe.Descent()), folder / "a.nc")
    assert store.load_record(folder) is not None
    assert store.load_verdict(claim, "quick", 0) is not None
    for entry in store.entries():
        entry.path.write_bytes(entry.path.read_bytes()[:cut])
    assert store.load_record(folder) is None
    assert store.load_verdict(claim, "quick", 0) is None
    assert store.entries() == []  # and they are out of the way of the next try
