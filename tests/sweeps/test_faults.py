"""What is killed, full, hanging or wrong: nothing finished is lost, and the result is the same."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

import attnlab as al
from attnlab import records

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


def wait_for(condition, limit=60.0):
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
        with pytest.raises(ConnectionError, match="scheduler is gone.*points are kept"):
            al.sweep(file, out=place, scheduler=at)
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
