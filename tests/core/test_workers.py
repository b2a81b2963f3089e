"""Worker processes: independent of each other, one thread each, and of the calling script."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from attnlab._core import interrupt, workers
from attnlab._core.workers import Job, resolve, run_jobs
from attnlab.errors import InvalidArgument


def test_results_in_order_and_errors_kept():
    jobs = [
        Job("a", "math:factorial", (5,)),
        Job("b", "math:sqrt", (-1,)),
        Job("c", "math:nosuch"),
        Job("d", "os:getpid"),
    ]
    for processes in (1, 2):
        seen = []
        results = run_jobs(jobs, processes=processes, on_result=seen.append)
        assert [r.key for r in results] == ["a", "b", "c", "d"]
        assert results[0].value == 120
        assert results[1].error.startswith("ValueError: ")
        assert "Traceback" in results[1].details
        assert "a name that math defines" in results[2].error
        assert (results[3].value == os.getpid()) == (processes == 1)
        assert len(seen) == 4


def test_jobs_of_a_group_share_a_worker():
    """While there is other work: what one of them keeps in its process serves the next."""
    groups = ["a/x", "b/x", "a/y", "b/x", "a/x", "b/y"]
    jobs = [Job(f"{i}", "os:getpid", (), group) for i, group in enumerate(groups)]
    waiting = workers.deque(range(len(jobs)))
    first, second = workers._Worker(None, None), workers._Worker(None, None)
    taken = []
    for worker in (first, second, first, second, first, second):
        worker.job = workers._next(jobs, waiting, worker, [first, second])
        worker.group = groups[worker.job]
        taken.append(worker.job)
    assert taken == [0, 1, 4, 3, 2, 5]


def test_a_group_is_shared_when_nothing_else_is_left():
    jobs = [Job(f"{i}", "os:getpid", (), "a/x") for i in range(4)]
    assert len(run_jobs(jobs, processes=2)) == 4
    waiting = workers.deque([1])
    busy = workers._Worker(None, None, job=0, group="a/x")
    assert workers._next(jobs, waiting, workers._Worker(None, None), [busy]) == 1


def test_workers_keep_to_one_thread():
    jobs = [Job(name, "os:getenv", (name,)) for name in ("NPROC", "OMP_NUM_THREADS")]
    assert [r.value for r in run_jobs(jobs, processes=2)] == ["1", "1"]


def test_values_that_cannot_be_sent_are_an_error():
    first, second = run_jobs(
        [Job("lock", "threading:Lock"), Job("pi", "math:fsum", ([1, 2],))], processes=2
    )
    assert first.error.startswith("result cannot be sent: ")
    assert second.value == 3


def test_interrupt_ends_the_workers():
    def stop(result):
        raise KeyboardInterrupt

    jobs = [Job("quick", "os:getpid"), Job("long", "time:sleep", (60,))]
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, processes=2, on_result=stop)


@pytest.mark.parametrize("bad", ["math", "math:", ":sqrt", "math:sqrt.x.y"])
def test_references(bad):
    with pytest.raises(InvalidArgument, match="reference"):
        resolve(bad)


def test_a_script_without_main_guard_runs_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        from attnlab._core.workers import Job, run_jobs
        print("once")
        jobs = [Job(str(n), "math:factorial", (n,)) for n in range(4)]
        print([r.value for r in run_jobs(jobs, processes=2)])
        """)
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("once\n[1, 1, 2, 6]\n", "")


def test_work_goes_on_here_when_no_worker_can_start(monkeypatch):
    monkeypatch.setattr(workers, "_serve", os._exit)  # a worker that ends at once
    jobs = [Job(str(n), "os:getpid") for n in range(3)]
    with pytest.warns(RuntimeWarning, match="could not start"):
        results = run_jobs(jobs, processes=2)
    assert [r.value for r in results] == [os.getpid()] * 3


def test_functions_of_a_session_run_in_that_session():
    """What is typed into an interpreter exists nowhere else, so no worker can run it."""
    code = """if True:
        import os
        from attnlab._core.workers import Job, run_jobs
        def typed(): return os.getpid()
        jobs = [Job(name, "operator:call", (f,)) for name, f in (("a", typed), ("b", os.getpid))]
        here, away = run_jobs(jobs, processes=2)
        print(here.error, here.value == os.getpid())
    """
    done = subprocess.run(
        [sys.executable, "-"], input=code, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("None True\n", "")


def test_ctrl_c_reaches_the_caller_alone(tmp_path):
    """A terminal sends it to workers too; they stay silent and end."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import sys
        from attnlab._core.workers import Job, run_jobs
        if __name__ == "__main__":
            jobs = [Job("quick", "os:getpid"), Job("one", "time:sleep", (60,)), Job("two", "time:sleep", (60,))]
            try:
                run_jobs(jobs, processes=2, on_result=lambda result: print("begun", flush=True))
            except KeyboardInterrupt:
                print("stopped")
        """)
    )
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "begun\n"
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=30) == ("stopped\n", "")


def test_ctrl_c_is_blocked_from_the_birth_of_every_worker():
    """Also of the first one, with which multiprocessing starts a helper and unblocks the signal."""
    code = """if True:
        import signal
        from attnlab._core.workers import Job, run_jobs
        jobs = [Job(str(i), "signal:pthread_sigmask", (signal.SIG_BLOCK, ())) for i in range(2)]
        print([signal.SIGINT in result.value for result in run_jobs(jobs, processes=2)])
    """
    done = subprocess.run(
        [sys.executable, "-"], input=code, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[True, True]\n", "")


def test_an_interruption_that_became_an_error_ends_the_work_and_no_later_one(monkeypatch):
    """A module that is being imported turns `KeyboardInterrupt` into an `ImportError`."""

    def import_():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("initialization failed") from None

    monkeypatch.setattr(workers, "interrupted_import", import_, raising=False)
    failing = Job("a", "attnlab._core.workers:interrupted_import")
    with pytest.raises(KeyboardInterrupt), interrupt.interruptible():
        run_jobs([failing])
    (later,) = run_jobs([Job("b", "math:sqrt", (-1.0,))])
    assert later.error.startswith("ValueError")
