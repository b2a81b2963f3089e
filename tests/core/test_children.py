"""Processes that are started run what is installed, not what lies in the current directory."""

import os
import subprocess
import sys
import textwrap

import pytest

TRAPPED = ("multiprocessing", "attnlab", "marimo", "pickle", "json", "numpy", "distributed", "dask")

WORKERS = """
    from attnlab._core.workers import Job, run_jobs

    found = run_jobs([Job(str(i), "os:getenv", ("PYTHONSAFEPATH",)) for i in range(2)], processes=2)
    assert [each.error for each in found] == [None, None], found
    assert [each.value for each in found] == [None, None]  # the user's own environment
"""
TIMED = """
    from attnlab.sweeps.evaluator import Evaluator

    child = Evaluator()
    child._start()
    child.close()
"""
CLUSTER = """
    import os
    from attnlab.sweeps.cluster import client_of

    with client_of(None, 1) as client:
        assert client.submit(os.getcwd).result() == os.getcwd()
"""


@pytest.fixture
def trapped(tmp_path):
    """A directory whose modules leave a mark when they are imported."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name in TRAPPED:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / name)!r} + '.ran', 'w').close()")
    return folder


@pytest.mark.parametrize("program", [WORKERS, TIMED, CLUSTER])
def test_children_take_nothing_from_the_current_directory(trapped, tmp_path, program):
    script = tmp_path / "scripts" / "script.py"
    script.parent.mkdir()
    script.write_text(textwrap.dedent(program))
    done = subprocess.run(
        [sys.executable, script], cwd=trapped, capture_output=True, text=True, check=False
    )
    assert (done.returncode, list(tmp_path.glob("*.ran"))) == (0, []), done.stderr


def test_the_module_as_a_command_takes_nothing_from_there_either(trapped, tmp_path):
    (trapped / "attnlab.py").unlink()  # whose own name Python looks up before any of our code runs
    done = subprocess.run(
        [sys.executable, "-m", "attnlab", "list"],
        cwd=trapped,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, list(tmp_path.glob("*.ran"))) == (0, []), done.stderr
