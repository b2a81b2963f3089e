"""The command as a process: start-up, signals, streams."""

import os
import signal
import subprocess
import sys

import pytest

import attnlab
from attnlab import records

# Not pydantic: Typer itself reads its options with it.
HEAVY = (
    "jax", "jaxlib", "equinox", "diffrax", "optax", "optimistix", "numpy", "scipy", "xarray",
    "pandas", "h5py", "h5netcdf", "matplotlib", "plotly",
)  # fmt: skip


def start(*arguments, site=None, directory=None, **options):
    environment = {**os.environ, "PYTHONPATH": str(site or ""), "COLUMNS": "120"}
    return subprocess.Popen(
        [sys.executable, "-m", "attnlab", *map(str, arguments)],
        env=environment,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


# `list` reads the claims, whose checks are NumPy numbers.
@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        ("--help", ()),
        ("run --help", ()),
        ("--version", ()),
        ("cite SingleLocation", ()),
        ("list", ("numpy",)),
    ],
)
def test_light_commands_import_nothing_heavy(arguments, allowed):
    program = (
        "import sys\n"
        "sys.argv = ['attnlab', *sys.argv[1:]]\n"
        "from attnlab.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        f"    print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments.split()],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.strip() == str(sorted(allowed))


def test_version_and_unknown_commands():
    assert finish(start("--version")) == (0, f"attnlab {attnlab.__version__}\n", "")
    code, out, err = finish(start("lsit"))
    assert code == 2
    assert out == ""
    assert "lsit" in err


def test_output_survives_a_locale_without_greek(toy, tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(toy)}
    done = subprocess.run(
        [sys.executable, "-m", "attnlab", "list"], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert b"Rapha?l" in done.stdout


def test_a_closed_output_costs_nothing(toy, tmp_path):
    code = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    command = ["-m", "attnlab", "run", "toy2027/count", "--no-figure", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        env={**os.environ, "PYTHONPATH": str(toy)},
        stderr=subprocess.PIPE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert list(tmp_path.glob("*.nc"))


def test_interrupted_run_keeps_its_part_and_goes_on_from_there(toy, tmp_path):
    command = ("run", "toy2027/count", "--no-figure", "--set", "steps=6", "--set", "pause=0.2")
    process = start(*command, "--out", "o", site=toy, directory=tmp_path)
    for line in process.stdout:
        if line.strip() == "step 3":
            process.send_signal(signal.SIGINT)
            break
    code, _, err = finish(process)
    assert code == 130
    (partial,) = (tmp_path / "o").glob("toy2027-count-quick-*.partial.nc")
    assert partial.name in err
    assert "Traceback" not in err
    kept = records.load(partial)
    assert kept.sizes["step"] == 3
    assert records.provenance_of(kept)["partial"] is True

    code, out, _ = finish(start(*command, "--out", "o", site=toy, directory=tmp_path))
    assert code == 0
    assert "step 3" not in out
    assert "step 4" in out
    (record,) = (tmp_path / "o").iterdir()  # neither the partial record nor checkpoints are left
    whole = records.load(record)
    assert whole["x"].values.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert whole.attrs["resumed"] == 3


def test_a_reader_that_goes_away_is_no_error(toy):
    process = start("cite", "marion2025", site=toy)
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
