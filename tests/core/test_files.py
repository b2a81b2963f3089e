"""Files that appear whole or not at all."""

import os
import subprocess
import sys
import time

import pytest

from attnlab._core.files import clear_left_over, replacing


def test_content_appears_when_the_block_ends(tmp_path):
    path = tmp_path / "deep" / "a.txt"
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_keeps_the_old_content(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error), replacing(path) as temporary:
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "a.txt") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def killed_writer(path):
    """Leaves what a writer leaves that is killed while it writes."""
    program = (
        "import os, signal, sys\n"
        "from attnlab._core.files import replacing\n"
        "with replacing(sys.argv[1]):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, path], check=False)


def test_what_a_killed_writer_left_is_cleared_and_what_others_write_is_not(tmp_path):
    killed_writer(tmp_path / "a.txt")
    killed_writer(tmp_path / "b.txt")
    killed_writer(tmp_path / "below" / "a.txt")
    foreign = tmp_path / ".a.txt.notours.tmp"
    foreign.write_text("")
    with replacing(tmp_path / "a.txt") as own:
        assert clear_left_over(tmp_path, "a.txt") == 1
        assert own.exists()
    assert sorted(p.name[:7] for p in tmp_path.glob(".*")) == [".a.txt.", ".b.txt."]
    assert clear_left_over(tmp_path, below=True) == 2
    assert [p.name for p in tmp_path.rglob(".*")] == [foreign.name]


def test_files_of_unknown_writers_go_when_they_are_old(tmp_path):
    young, old = (tmp_path / f".a.nc.{digits * 8}.tmp" for digits in "12")
    for path in (young, old):
        path.write_text("")
    hours_ago = time.time() - 7200
    os.utime(old, (hours_ago, hours_ago))
    assert clear_left_over(tmp_path) == 1
    assert [p.name for p in tmp_path.iterdir()] == [young.name]
