"""Places for outputs are tried before anything is computed."""

import os

import pytest

from attnlab import records
from attnlab.errors import InvalidArgument


def test_a_writable_file_is_left_as_it_was(tmp_path):
    old = tmp_path / "old.json"
    old.write_text("old")
    assert records.writable_file(old) == old
    assert records.writable_file(tmp_path / "new" / "a.json") == tmp_path / "new" / "a.json"
    assert old.read_text() == "old"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["new", "old.json"]


@pytest.mark.parametrize(
    "wrong", ["folder", "", ".", "..", "folder/", "file/a.json", "x" * 250, "a\0", None, 5, "pipe"]
)
def test_what_is_no_file_that_can_be_written_is_refused(tmp_path, monkeypatch, wrong):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    os.mkfifo("pipe")
    with pytest.raises(InvalidArgument, match="place = "):
        records.writable_file(wrong, "place")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "folder", "pipe"]


def test_devices_are_not_replaced():
    with pytest.raises(InvalidArgument, match="out = "):
        records.writable_file("/dev/null")
