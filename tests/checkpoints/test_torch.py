"""State dicts of PyTorch; where PyTorch is not installed there is nothing to see here."""

import collections
import json
import pickle

import numpy as np
import pytest

import attnlab as al
from attnlab.checkpoints import read_weights

torch = pytest.importorskip("torch")


@pytest.fixture
def state():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 3).state_dict()


@pytest.mark.parametrize("wrap", [None, "state_dict", "model_state_dict", "model"])
@pytest.mark.parametrize("old", [False, True])
def test_state_dicts(tmp_path, state, wrap, old):
    whole = state if wrap is None else {"epoch": 3, wrap: state}
    torch.save(whole, tmp_path / "w.pt", _use_new_zipfile_serialization=not old)
    weights = read_weights(tmp_path / "w.pt")
    assert set(weights) == {"weight", "bias"}
    assert weights.shape("weight") == (3, 4)
    np.testing.assert_array_equal(weights["weight"], state["weight"].numpy())


def test_half_precision(tmp_path):
    torch.save({"x": torch.tensor([1.5], dtype=torch.bfloat16)}, tmp_path / "w.pth")
    read = read_weights(tmp_path / "w.pth")["x"]
    assert read.dtype == np.float32
    assert read.tolist() == [1.5]


def test_directories_with_pytorch_files(tmp_path, state):
    torch.save(state, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text("{}")
    assert set(read_weights(tmp_path)) == {"weight", "bias"}
    (tmp_path / "pytorch_model.bin").rename(tmp_path / "one.bin")
    index = {"weight_map": {"bias": "one.bin"}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    assert set(read_weights(tmp_path)) == {"bias"}


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("old", [False, True])
def test_code_is_never_run(tmp_path, old):
    bomb = {"x": Bomb(tmp_path / "trace")}
    torch.save(bomb, tmp_path / "w.pt", _use_new_zipfile_serialization=not old)
    (tmp_path / "p.bin").write_bytes(pickle.dumps(bomb))
    for name in ("w.pt", "p.bin"):
        with pytest.raises(al.InvalidArgument, match="never run") as caught:
            read_weights(tmp_path / name)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("keep", [0, 3, 100, -100])
@pytest.mark.parametrize("old", [False, True])
def test_truncated_files(tmp_path, state, keep, old):
    path = tmp_path / "w.pt"
    torch.save(state, path, _use_new_zipfile_serialization=not old)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(al.InvalidArgument, match="path = .*w.pt.*PyTorch file") as caught:
        read_weights(path)
    assert "\n" not in str(caught.value)


def test_what_is_no_state_dict(tmp_path):
    for number, value in enumerate(({"x": 3}, [1.0], collections.OrderedDict())):
        torch.save(value, tmp_path / f"{number}.pt")
        with pytest.raises(al.InvalidArgument, match="names with tensors"):
            read_weights(tmp_path / f"{number}.pt")


def test_tensors_that_are_no_plain_numbers(tmp_path):
    sparse = torch.eye(2).to_sparse()
    torch.save({"x": sparse}, tmp_path / "w.pt")
    with pytest.raises(al.InvalidArgument, match="x is not"):
        read_weights(tmp_path / "w.pt")["x"]
    torch.save({"x": torch.tensor([float("nan")])}, tmp_path / "n.pt")
    with pytest.raises(al.InvalidArgument, match="x has 1 NaN"):
        read_weights(tmp_path / "n.pt")["x"]
