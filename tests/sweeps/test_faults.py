"""What is killed, full, hanging or wrong: nothing finished is lost, and the result is the same."""

import contextlib
import errno
import http.client
import importlib.util
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
from attnlab.sweeps.cluster import client_of

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
        wait_for(lambda: address.exists() and address.read_text().endswith("}"))
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


@pytest.mark.parametrize(
    ("name", "status"), [("forks_and_hangs", 2), ("forks_and_crashes", 3), ("forks_and_returns", 0)]
)
def test_what_a_point_has_forked_holds_nothing_up(functions, tmp_path, name, status):
    started = tmp_path / "pids"
    dataset = al.sweep(
        f"pointy:{name}",
        settings={"log": str(started)},
        grid={"i": [0, 1, 2]},
        paths=[str(functions)],
        timeout=3.0,
        workers=0,
    )
    assert dataset.status.values.tolist() == [0, status, 0]
    assert dataset.value.values[[0, 2]].tolist() == [0, 2]
    if not status:  # the copy that came back to the child has said nothing
        assert dataset.value.values.tolist() == [0, 1, 2]
    wait_for(lambda: not any(psutil.pid_exists(int(pid)) for pid in started.read_text().split()))


def test_a_child_ends_with_its_parent_even_when_it_is_stuck_in_compiled_code(functions, tmp_path):
    if not sys.platform.startswith("linux"):
        pytest.skip("elsewhere the system has no such thing")
    log = tmp_path / "pid"
    code = (
        "import sys; import attnlab as al; al.sweep('pointy:stuck', settings={'log': sys.argv[1]},"
        " grid={'i': [0]}, paths=sys.argv[2:], workers=0, timeout=1000)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(log), str(functions)])
    wait_for(lambda: log.exists() and log.read_text().endswith("."))
    child = int(log.read_text()[:-1])
    kill(parent.pid)
    parent.wait()
    wait_for(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie")


def test_printing_cannot_fail_a_point(functions, tmp_path):
    out = tmp_path / "out"
    code = (
        "import os, sys; os.close(0); os.close(1); read, write = os.pipe(); os.dup2(write, 2);"
        "os.close(read); import attnlab as al; al.sweep('pointy:talks', grid={'i': [0, 1, 2]},"
        " out=sys.argv[1], paths=sys.argv[2:], workers=0, timeout=60)"
    )
    command = [sys.executable, "-c", code, str(out), str(functions)]
    assert subprocess.run(command).returncode == 0
    assert (records.load(out / "sweep.nc").status == 0).all()


def test_a_fork_does_not_keep_the_directory(functions, tmp_path):
    log = tmp_path / "pid"
    code = (
        "import sys; import attnlab as al; al.sweep('pointy:forks_and_leaves', workers=0,"
        " settings={'log': sys.argv[1]}, grid={'i': [0, 1]}, out=sys.argv[2], paths=sys.argv[3:])"
    )
    command = [sys.executable, "-c", code, str(log), str(tmp_path / "out"), str(functions)]
    try:
        for _ in range(2):  # once more, while the copy is alive
            assert subprocess.run(command).returncode == 0
        assert psutil.pid_exists(int(log.read_text()))
    finally:
        for pid in log.read_text().split():
            kill(int(pid))


def test_a_directory_that_moves_while_it_is_filled_is_noticed(file, tmp_path, undisturbed):
    place, elsewhere = tmp_path / "out", tmp_path / "elsewhere"

    def move():
        wait_for(lambda: finished(place) >= 3)
        place.rename(elsewhere)

    thread = threading.Thread(target=move)
    thread.start()
    with pytest.raises(OSError, match="moved or removed"):
        al.sweep(file, out=place, workers=0)
    thread.join()
    assert not place.exists()
    same(al.sweep(file, out=elsewhere, workers=0), undisturbed)


def test_files_of_others_are_left_alone(functions, tmp_path):
    place = tmp_path / "out"
    theirs = [place / name for name in (".draft.tmp", "deep/.sweep.nc.tmp", "batches/.note.tmp")]
    ours = [place / ".sweep.nc.0123abcd.tmp", place / "batches" / ".0000000.npz.0123abcd.tmp"]
    for path in (*theirs, *ours):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("precious")
    al.sweep("pointy:plain", grid={"i": [1]}, paths=[str(functions)], out=place, workers=0)
    assert all(path.read_text() == "precious" for path in theirs)
    assert not any(path.exists() for path in ours)


def test_batches_that_were_exchanged_or_come_from_elsewhere_are_computed_again(tmp_path):
    def seventh(x):
        return x / 7

    options = {"grid": {"x": range(4)}, "batch": 2, "workers": 0}
    expected = al.sweep(seventh, out=tmp_path / "out", **options)
    al.sweep(lambda x: 5.0, out=tmp_path / "other", **options)
    first, second = ((tmp_path / "out" / "batches" / f"000000{k}.npz") for k in (0, 1))
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b), second.write_bytes(a)
    assert sweeps.status(tmp_path / "out").done == 0
    same(al.sweep(seventh, out=tmp_path / "out", **options), expected)
    first.write_bytes((tmp_path / "other" / "batches" / first.name).read_bytes())
    same(al.sweep(seventh, out=tmp_path / "out", **options), expected)


def test_every_damaged_byte_is_noticed_or_harmless(tmp_path):
    al.sweep(lambda x: x / 7, grid={"x": range(4)}, out=tmp_path, workers=0)
    from attnlab.sweeps.parts import decode

    data = (tmp_path / "batches" / "0000000.npz").read_bytes()
    import zipfile

    mark = zipfile.ZipFile(tmp_path / "batches" / "0000000.npz").comment
    whole = decode(data, mark)
    for place in range(0, len(data), 3):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        try:
            found = decode(bytes(damaged), mark)
        except ValueError:
            continue
        assert found.seconds == whole.seconds
        np.testing.assert_array_equal(
            found.parts[0].columns["value"].values, whole.parts[0].columns["value"].values
        )


def test_workers_of_another_version_are_refused(functions, monkeypatch):
    from attnlab.sweeps import targets

    monkeypatch.setattr(targets, "versions", lambda: {"attnlab": "0.0.1"})
    with pytest.raises(al.InvalidArgument, match="attnlab was"):
        al.sweep("pointy:plain", grid={"i": [1]}, paths=[str(functions)], workers=0, timeout=60)


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


def test_a_local_cluster_is_for_this_machine_and_its_owner_alone(tmp_path):
    with client_of(None, 1) as client:
        me = psutil.Process()
        listening = [
            (process.pid, at.laddr)
            for process in (me, *me.children(recursive=True))
            for at in process.net_connections("inet")
            if at.status == psutil.CONN_LISTEN
        ]
        assert {at.ip for _, at in listening} == {"127.0.0.1"}
        keyed = importlib.util.find_spec("cryptography") is not None
        assert client.scheduler.address.startswith("tls://" if keyed else "tcp://")
        for pid, at in listening:  # what answers a browser, has nothing to show
            connection = http.client.HTTPConnection(at.ip, at.port, timeout=5)
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection.request("GET", "/info/main/workers.html")
                assert connection.getresponse().status == 404, pid
            connection.close()
