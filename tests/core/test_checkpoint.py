"""Checkpoints: atomic, keyed, and forgiving to the reader."""

import os

import numpy as np
import pytest

from attnlab._core.checkpoint import Checkpoint, current_checkpoint, use_checkpoints
from attnlab._core.errors import InvalidArgument
from attnlab._core.interrupt import RunInterrupted


def test_round_trip_keeps_values_dtypes_and_awkward_names(tmp_path):
    checkpoint = Checkpoint(tmp_path / "deep" / "state.npz", "config A")
    arrays = {
        "state": np.linspace(0.0, 1.0, 6).reshape(2, 3),
        "step": np.int64(7),
        "status": np.array(["ok", "diverged"]),
        "file": np.float32(1.5),  # the names of savez's own arguments, and of the key itself
        "allow_pickle": np.array([True, False]),
        "key": np.uint32([1, 2]),
    }
    checkpoint.save(arrays)
    loaded = checkpoint.load()
    assert loaded.keys() == arrays.keys()
    for name, value in arrays.items():
        np.testing.assert_array_equal(loaded[name], value)
        assert loaded[name].dtype == np.asarray(value).dtype


def test_absent_foreign_and_damaged_files_read_as_none(tmp_path):
    path = tmp_path / "state.npz"
    assert Checkpoint(path, "A").load() is None
    Checkpoint(path, "A").save({"x": np.arange(1000)})
    assert Checkpoint(path, "B").load() is None
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"not a zip file", content[:-40]):
        path.write_bytes(damaged)
        assert Checkpoint(path, "A").load() is None
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(flipped))
    assert Checkpoint(path, "A").load() is None


def test_failed_save_keeps_the_old_file_and_leaves_nothing_behind(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "state.npz", "A")
    checkpoint.save({"x": np.arange(3)})

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        checkpoint.save({"x": np.arange(5)})
    monkeypatch.undo()
    np.testing.assert_array_equal(checkpoint.load()["x"], np.arange(3))
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]


def test_objects_and_empty_keys_are_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="config"):
        Checkpoint(tmp_path / "a.npz", "A").save({"config": {"dim": 3}})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidArgument, match="key"):
        Checkpoint(tmp_path / "a.npz", "")


def count_to(limit, stop_at=None):
    """A loop as the library writes them: resumes from its checkpoint, may be interrupted."""
    checkpoint = current_checkpoint("count")
    stored = checkpoint.load() if checkpoint else None
    start = int(stored["i"]) if stored else 0
    for i in range(start, limit):
        if i == stop_at:
            raise RunInterrupted
        if checkpoint:
            checkpoint.save({"i": np.asarray(i + 1)})
    return start


def test_interrupted_loop_resumes_under_the_same_key_only(tmp_path):
    folder = tmp_path / "checkpoints"
    with pytest.raises(KeyboardInterrupt), use_checkpoints(folder, "A"):
        count_to(10, stop_at=6)
    with use_checkpoints(folder, "A"):
        assert count_to(10) == 6
    assert not folder.exists()  # finished: nothing left to resume

    with pytest.raises(RunInterrupted), use_checkpoints(folder, "A"):
        count_to(10, stop_at=6)
    with use_checkpoints(folder, "B"):
        assert count_to(10) == 0


def test_no_checkpoint_outside_the_block(tmp_path):
    with use_checkpoints(tmp_path, "A"):
        assert current_checkpoint("x").path == tmp_path / "x.npz"
    assert current_checkpoint("x") is None
    assert count_to(3) == 0


def test_interruption_carries_what_was_computed():
    interruption = RunInterrupted({"risk": [1.0]})
    assert interruption.partial == {"risk": [1.0]}
    assert not isinstance(interruption, Exception)
