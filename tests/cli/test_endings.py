"""How commands begin and end: the environment, signals, and what a terminal shows meanwhile."""

import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest

from attnlab import claims, records
from attnlab._core import interrupt

COUNT = ("run", "toy2027/count", "--no-figure", "--set", "steps=60", "--set", "pause=0.2")


def start(site, directory, *arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "attnlab", *arguments],
        env={**os.environ, "PYTHONPATH": path(site), "COLUMNS": "120", **environment},
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def path(site):
    return os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])


@pytest.mark.parametrize(
    ("name", "value", "command"),
    [
        ("JAX_PLATFORMS", "abacus", COUNT),
        ("JAX_PLATFORMS", "cuda", COUNT),
        ("JAX_PLATFORMS", "abacus", ("verify", "toy2027")),
        ("JAX_PLATFORMS", "abacus", ("report", "toy2027")),
        ("JAX_ENABLE_X64", "maybe", ("verify", "toy2027")),
        ("JAX_NUM_CPU_DEVICES", "some", ("mutate", "toy2027")),
        ("MPLBACKEND", "abacus", (*COUNT[:2], *COUNT[3:])),
        ("MPLBACKEND", "abacus", ("report", "toy2027", "--archive", "a.zip")),
    ],
)
def test_a_bad_environment_is_one_line_before_anything_is_computed(
    toy, tmp_path, name, value, command
):
    out, err = start(toy, tmp_path, *command, **{name: value}).communicate(timeout=100)
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith(f"error: {name} = '{value}' is not allowed")


def test_too_little_address_space_is_one_line(toy, tmp_path):
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (10**9, 10**9)); "
    limited += "from attnlab.cli import main; sys.argv = ['attnlab', *sys.argv[1:]]; main()"
    done = subprocess.run(
        [sys.executable, "-c", limited, *COUNT],
        env={**os.environ, "PYTHONPATH": path(toy)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: address space .*'953 MiB.* at least .*\n", done.stderr)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_keeps_what_ctrl_c_keeps(toy, tmp_path, number):
    process = start(toy, tmp_path, *COUNT, "--out", "o")
    for line in process.stdout:
        if line.strip() == "step 3":
            process.send_signal(number)
            process.send_signal(signal.SIGTERM)  # others that follow do not disturb the saving
            break
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    (partial,) = (tmp_path / "o").glob("*.partial.nc")
    assert records.load(partial).sizes["step"] >= 3
    assert list((tmp_path / "o" / ".checkpoints").glob("*/count.npz"))


def test_a_terminal_that_is_closed_ends_nothing_under_nohup(toy, tmp_path):
    ignoring = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
    ignoring += "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    few = [*COUNT[:3], "--set", "steps=4", "--set", "pause=0.2"]
    process = subprocess.Popen(
        [sys.executable, "-c", ignoring, "-m", "attnlab", *few],
        env={**os.environ, "PYTHONPATH": path(toy)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline().strip() == "step 1"
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "step 4" in out


SLOW = """
    import time
    from attnlab.claims import Check, Claim, Outcome
    from attnlab.papers import Paper

    def fast(preset, seed):
        return Outcome((Check.condition("fine", True),))

    def slow(preset, seed):
        print("slow", flush=True)
        time.sleep(100)

    def claim(id, check):
        return Claim(id, "slow2027", id, "It holds.", "Section 1", "It is so.", f"slow_paper:{check}")

    PAPER = Paper("slow2027", "Slow", ("C. Author",), 2027, "@misc{slow2027,\\n}",
                  claims=(claim("a", "fast"), claim("b", "fast"), claim("c", "slow")))
"""


@pytest.fixture
def slow(tmp_path):
    """The folder of a paper whose last claim takes for ever."""
    import textwrap

    site = tmp_path / "site"
    info = site / "slow_paper-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "slow_paper.py").write_text(textwrap.dedent(SLOW))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-paper\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[attnlab.papers]\nslow2027 = slow_paper:PAPER\n")
    return site


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_verify_and_report_keep_their_verdicts(slow, tmp_path, number, processes):
    common = ("slow2027", "--processes", processes)
    process = start(slow, tmp_path, "verify", *common, "--out", "v.json")
    for line in process.stdout:
        if line.strip() == "slow":
            break
    time.sleep(0.5)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert {v.id for v in claims.load_verdicts(tmp_path / "v.json")} >= {"slow2027/a"}
    assert "failed" not in {v.verdict for v in claims.load_verdicts(tmp_path / "v.json")}

    process = start(slow, tmp_path, "report", *common)
    for line in process.stdout:
        if line.strip() == "slow":
            break
    time.sleep(0.5)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "kept beside the page" in err
    assert list((tmp_path / "report-records").glob("slow2027/claims/a-*.json"))


def test_report_tells_each_finished_job_where_there_is_no_terminal(toy, tmp_path):
    process = start(toy, tmp_path, "report", "toy2027", "--processes", "1")
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0
    first, second = err.splitlines()
    assert re.fullmatch(r"report 1 of 2  \d+\.\d s  toy2027/count", first)
    assert re.fullmatch(r"report 2 of 2  \d+\.\d s  claim toy2027/sum", second)


def test_ctrl_c_in_the_first_seconds_always_ends_the_command(toy, tmp_path):
    for delay in (0.3, 0.6, 1.0, 1.5):
        process = start(toy, tmp_path, *COUNT)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)  # 60 steps take longer
        assert process.returncode in (130, -signal.SIGINT)  # the latter before any code of ours


def test_an_interruption_that_python_cannot_pass_on_comes_again():
    class Finaliser:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), interrupt.interruptible():
        Finaliser()
        time.sleep(10)
    assert interrupt.was_interrupted()


def in_a_terminal(site, directory, *arguments):
    """What a terminal shows of a command, as the bytes that it gets."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "attnlab", *arguments],
        env={**os.environ, "PYTHONPATH": path(site), "COLUMNS": "120", "TERM": "xterm"},
        cwd=directory,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    process.wait(timeout=60)
    os.close(ours)
    return seen.decode()


SLOWER = SLOW.replace("time.sleep(100)", "time.sleep(3); return fast(preset, seed)").replace(
    "        return Outcome", "        time.sleep(1.2); return Outcome"
)


def test_in_a_terminal_each_verdict_has_one_line_above_the_bar(slow, tmp_path):
    import textwrap

    (slow / "slow_paper.py").write_text(textwrap.dedent(SLOWER))
    seen = in_a_terminal(slow, tmp_path, "verify", "slow2027", "--processes", "1")
    assert "\x1b[?25l" in seen  # there was a bar, and the cursor was hidden
    screen = on_screen(seen)
    for name in "abc":
        (line,) = [line for line in screen if f"slow2027/{name}" in line]
        assert re.fullmatch(rf"✓ slow2027/{name}  confirmed .* s", line.strip()), screen
    assert not any("claims ━" in line for line in screen)
    assert sum(line.startswith("3 claims: 3 confirmed") for line in screen) == 1


def on_screen(seen):
    """The lines that are left on a terminal of endless height: enough of its language for this."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", seen):
        if part == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif part == "\r":
            column = 0
        elif part.startswith("\x1b["):
            number = int(re.sub(r"\D", "", part) or 1)
            if part.endswith("A"):
                row -= number
            elif part.endswith("K"):
                lines[row] = ""
        else:
            line = lines[row].ljust(column)
            lines[row] = line[:column] + part + line[column + len(part) :]
            column += len(part)
    return [line for line in lines if line.strip()]
