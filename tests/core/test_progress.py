"""Progress reporters and the context through which loops find them."""

import io
import re
import threading

import pytest

from attnlab._core.errors import InvalidArgument
from attnlab._core.progress import (
    LineProgress,
    NullProgress,
    ProgressReporter,
    RichProgress,
    closed_progress,
    current_progress,
    use_progress,
)


class Recorder:
    def __init__(self):
        self.calls = []

    def start(self, label, total):
        self.calls.append(("start", label, total))

    def advance(self, n=1, note=""):
        self.calls.append(("advance", n, note))

    def stop(self):
        self.calls.append(("stop",))


def work(chunks=3):
    progress = current_progress()
    progress.start("work", chunks)
    for i in range(chunks):
        progress.advance(1, note=f"loss {i}")
    progress.stop()


def test_default_reporter_accepts_calls_and_shows_nothing(capsys):
    assert isinstance(current_progress(), NullProgress)
    work()
    assert capsys.readouterr() == ("", "")


def test_context_installs_and_restores_the_reporter():
    recorder = Recorder()
    with use_progress(recorder):
        work(2)
    assert recorder.calls == [
        ("start", "work", 2),
        ("advance", 1, "loss 0"),
        ("advance", 1, "loss 1"),
        ("stop",),
    ]
    assert isinstance(current_progress(), NullProgress)


def test_reporter_is_restored_after_an_exception_and_private_to_its_thread():
    seen = []
    with pytest.raises(RuntimeError), use_progress(Recorder()):
        thread = threading.Thread(target=lambda: seen.append(current_progress()))
        thread.start()
        thread.join()
        raise RuntimeError
    assert isinstance(seen[0], NullProgress)
    assert isinstance(current_progress(), NullProgress)


def test_all_reporters_satisfy_the_protocol():
    for reporter in (NullProgress(), RichProgress(), Recorder()):
        assert isinstance(reporter, ProgressReporter)


def test_forced_bar_shows_label_percent_and_note():
    stream = io.StringIO()
    with RichProgress(delay=0.0, force=True, stream=stream) as bar, use_progress(bar):
        bar.start("outer", 4)
        bar.advance(2, note="risk 0.125")
        work(2)
        bar.stop()
    shown = stream.getvalue()
    for part in ("outer", "50%", "risk 0.125", "work", "loss 1"):
        assert part in shown


def test_bar_stays_silent_off_a_terminal_and_in_short_runs():
    for options in ({"delay": 0.0}, {"force": True, "delay": 60.0}):
        stream = io.StringIO()
        with RichProgress(stream=stream, **options) as bar, use_progress(bar):
            work()
        assert stream.getvalue() == ""


def test_bar_tolerates_more_stops_than_starts_and_a_second_use():
    stream = io.StringIO()
    bar = RichProgress(delay=0.0, force=True, stream=stream)
    bar.stop()
    bar.advance()
    for label in ("first", "second"):
        with bar:
            bar.start(label, None)
            bar.advance(1)
    assert "first" in stream.getvalue()
    assert "second" in stream.getvalue()


def test_negative_delay_is_refused():
    with pytest.raises(InvalidArgument, match="delay = -1"):
        RichProgress(delay=-1)


def test_lines_tell_the_units_of_the_outermost_task():
    stream = io.StringIO()
    with LineProgress(stream=stream) as lines:
        lines.start("report", 2)
        lines.start("inner", None)
        lines.advance(5, "not shown")
        lines.stop()
        lines.advance(1, "first")
        lines.advance(0, "nothing")
        lines.advance(1, "second")
        lines.stop()
        lines.stop()
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(r"report 1 of 2  \d+\.\d s  first", first)
    assert re.fullmatch(r"report 2 of 2  \d+\.\d s  second", second)
    stream.close()
    with LineProgress(stream=stream) as lines:  # nobody reads it any more
        lines.start("report", None)
        lines.advance(1)


def test_what_a_job_leaves_open_is_closed_and_what_it_closes_twice_is_not_counted():
    stream = io.StringIO()
    with LineProgress(stream=stream) as lines, use_progress(lines):
        lines.start("jobs", 2)
        with closed_progress():
            current_progress().start("inner", 3)
            current_progress().advance(1, "inner")
        lines.advance(1, "one")
        with closed_progress():
            current_progress().stop()
            current_progress().advance(1, "of nothing")
        lines.advance(1, "two")
    assert [line.split()[-1] for line in stream.getvalue().splitlines()] == ["one", "two"]


def test_a_terminal_that_goes_away_ends_the_bar_and_not_the_work():
    class Gone(io.StringIO):
        def write(self, text):
            raise OSError(5, "Input/output error")

    with RichProgress(delay=0.0, force=True, stream=Gone()) as bar:
        bar.start("work", 2)
        bar.advance(1)
        bar.stop()
