"""What is killed, full, hanging or wrong: nothing finished is lost, and the result is the same."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import attnlab as al
from attnlab import records, sweeps
from attnlab.sweeps import directory as directories

POINTS = 30
SWEEP = f"""
    target = "pointy:plain"
    batch = 2
    [settings]
    wait = 0.03
    [grid]
    i = {{ range = [0, {POINTS}] }}
"""


@pytest.fixture(scope="module")
def undisturbed(functions):
    return al.sweep(
        "pointy:plain",
        settings={"wait": 0.0},
        grid={"i": range(POINTS)},
        paths=[str(functions)],
        workers=0,
    )


@pytest.fixture
def file(toml):
    return toml("faults", SWEEP)


def finished(place):
    return len(list((place / "batches").glob("*.npz")))


def wait_for(condition, limit=120.0):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def same(left, right):
    comparison = records.compare(left, right, rtol=0.0, atol=0.0)
    assert comparison.same, comparison.rows


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def workers_of(pid):
    return [p for p in psutil.Process(pid).children() if "spawn_main" in " ".join(p.cmdline())]


def start(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def test_a_killed_local_worker_is_replaced(file, tmp_path, undisturbed):
    place, killed = tmp_path / "out", []

    def kill_one():
        wait_for(lambda: finished(place) >= 2)
        killed.extend(workers_of(os.getpid())[:1])
        kill(killed[0].pid)

    thread = threading.Thread(target=kill_one)
    thread.start()
    dataset = al.sweep(file, out=place, workers=2)
    thread.join()
    assert killed
    assert (dataset.status == 0).all()
    same(dataset, undisturbed)
    same(records.load(place / "sweep.nc"), undisturbed)


def test_client_worker_and_scheduler_killed_one_after_the_other(file, tmp_path, undisturbed):
    place, address = tmp_path / "out", tmp_path / "scheduler.json"
    quick = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s"}  # to notice deaths
    scheduler = start(
        "distributed.cli.dask_scheduler",
        *("--scheduler-file", str(address), "--port", "0", "--no-dashboard", "--no-show"),
        env=quick,
    )
    workers = [
        start(
            "distributed.cli.dask_worker",
            *("--scheduler-file", str(address), "--no-nanny", "--nthreads", "1", "--no-dashboard"),
            *("--local-directory", str(tmp_path)),
            env=quick,
        )
        for _ in range(2)
    ]
    try:
        wait_for(address.exists)
        at = json.loads(address.read_text())["address"]
        client = start("attnlab", "sweep", str(file), "--out", str(place), "--scheduler", at)
        wait_for(lambda: finished(place) >= 1)
        with pytest.raises(al.InvalidArgument, match="one sweep at a time"):
            al.sweep(file, out=place, workers=0)
        kill(client.pid)
        client.communicate()
        kept = finished(place)
        assert 1 <= kept < POINTS // 2

        def kill_worker_then_scheduler():
            wait_for(lambda: finished(place) >= kept + 2)
            kill(workers[0].pid)
            wait_for(lambda: finished(place) >= kept + 5)
            kill(scheduler.pid)

        thread = threading.Thread(target=kill_worker_then_scheduler)
        thread.start()
        try:
            with pytest.raises(ConnectionError, match="scheduler is gone.*points are kept"):
                al.sweep(file, out=place, scheduler=at)
        finally:
            thread.join()
    finally:
        for process in (scheduler, *workers):
            process.kill()
            process.communicate()
    kept = {path: path.stat().st_mtime_ns for path in (place / "batches").glob("*.npz")}
    assert len(kept) >= 5
    dataset = al.sweep(file, out=place, workers=0)
    assert all(path.stat().st_mtime_ns == then for path, then in kept.items())
    same(dataset, undisturbed)


def test_a_full_disk_stops_it_and_it_goes_on(file, tmp_path, undisturbed, monkeypatch):
    place, room = tmp_path / "out", [4]
    write = Path.write_bytes

    def full(self, data):
        room[0] -= 1
        if room[0] < 0:
            write(self, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="the disk is full: 8 of 30 points are kept in") as caught:
        al.sweep(file, out=place, workers=0)
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert sorted(path.name for path in (place / "batches").iterdir()) == [
        f"000000{number}.npz" for number in range(4)
    ]
    assert sweeps.status(place).done == 8
    same(al.sweep(file, out=place, workers=0), undisturbed)


def test_ctrl_c_keeps_what_is_finished(file, tmp_path, undisturbed, monkeypatch):
    place = tmp_path / "out"
    write = directories.Directory.write

    def interrupted(self, number, data):
        write(self, number, data)
        if number == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(directories.Directory, "write", interrupted)
    with pytest.raises(KeyboardInterrupt, match="interrupted with 6 of 30 points") as caught:
        al.sweep(file, out=place, workers=0)
    assert caught.value.saved == place
    monkeypatch.undo()
    same(al.sweep(file, out=place, workers=0), undisturbed)


@pytest.mark.parametrize("name", ["nasty", "nasty_arrays"])
def test_points_that_raise_hang_or_crash_are_found_and_the_rest_completes(
    functions, tmp_path, name
):
    options = {
        "grid": {"i": range(9)},
        "paths": [str(functions)],
        "batching": "each" if name == "nasty" else "arrays",
        "batch": 9,
        "out": tmp_path / "out",
        "workers": 0,
    }
    dataset = al.sweep(f"pointy:{name}", timeout=1.0, **options)
    values = dataset["value" if name == "nasty" else "x"]
    assert dataset.status.values.tolist() == [0, 0, 1, 0, 0, 2, 0, 3, 0]
    np.testing.assert_array_equal(values.isnull(), dataset.status != 0)
    good = values.dropna("i")
    np.testing.assert_array_equal(good, good.i / 7)
    rows = sweeps.failures(dataset)
    assert [row.settings for row in rows] == [{"i": 2}, {"i": 5}, {"i": 7}]
    assert [row.status for row in rows] == ["failed", "timeout", "died"]
    assert "ValueError: not two (pointy.py:" in rows[0].error
    assert "within 1 s" in rows[1].error
    assert "exit code 3" in rows[2].error
    # finished means finished: nothing is computed again unless it is asked for
    (batch,) = (tmp_path / "out" / "batches").iterdir()
    before = batch.stat().st_mtime_ns
    same(al.sweep(f"pointy:{name}", timeout=1.0, **options), dataset)
    assert batch.stat().st_mtime_ns == before
    assert sweeps.status(tmp_path / "out").failed == 3


def test_a_worker_computes_on_one_thread(functions):
    options = {"paths": [str(functions)], "workers": 0, "timeout": 60}  # in a process of its own
    dataset = al.sweep("pointy:threads", grid={"i": [0]}, **options)
    assert dataset.libraries.item() == dataset.compiler.item() == "1"


def test_failed_points_are_computed_again_when_asked_for(functions, tmp_path):
    marker = tmp_path / "there"
    (functions / "moody.py").write_text(
        "from pathlib import Path\n\n\ndef point(i, marker):\n"
        "    if i == 1 and not Path(marker).exists():\n        raise OSError('not yet')\n"
        "    return i\n"
    )
    arguments = {
        "settings": {"marker": str(marker)},
        "grid": {"i": range(3)},
        "paths": [str(functions)],
        "out": tmp_path / "out",
        "workers": 0,
    }
    assert al.sweep("moody:point", **arguments).status.values.tolist() == [0, 1, 0]
    marker.touch()
    assert al.sweep("moody:point", **arguments).status.values.tolist() == [0, 1, 0]
    dataset = al.sweep("moody:point", retry=True, **arguments)
    assert dataset.value.values.tolist() == [0, 1, 2]
    assert dataset.value.dtype.kind == "i"
    assert sweeps.failures(dataset) == []


@pytest.mark.parametrize("answers", [False, True])
def test_what_is_no_scheduler_is_told_and_the_command_ends(file, tmp_path, answers):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        address = "nonsense"
        if answers:
            threading.Thread(target=answer, daemon=True).start()
            address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        command = ["attnlab", "sweep", str(file), "--out", str(tmp_path / "out")]
        process = start(*command, "--scheduler", address)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "the address of a running Dask scheduler" in output
    assert "Traceback" not in output
