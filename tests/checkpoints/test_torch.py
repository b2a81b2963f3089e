"""State dicts of PyTorch; where PyTorch is not installed there is nothing to see here."""

import collections
import json
import pickle
import zipfile

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


@pytest.mark.parametrize("level", ["model", "state_dict", "module"])
def test_tensors_beside_a_state_dict(tmp_path, state, level):
    beside = {"best_val_loss": torch.tensor(1.25), "rng": torch.zeros(8, dtype=torch.uint8)}
    torch.save({**beside, level: state, "optimizer": {"state": {}}}, tmp_path / "w.pt")
    assert set(read_weights(tmp_path / "w.pt")) == {"weight", "bias"}
    torch.save({level: state, "net": state}, tmp_path / "two.pt")
    with pytest.raises(al.InvalidArgument, match="under each of"):
        read_weights(tmp_path / "two.pt")


def test_eight_bits(tmp_path):
    true = torch.randn(3, 4)
    scale = true.abs().max() / 448
    codes = (true / scale).to(torch.float8_e4m3fn)
    torch.save({"w": codes, "w_scale_inv": scale}, tmp_path / "w.pt")
    read = read_weights(tmp_path / "w.pt")["w"]
    np.testing.assert_allclose(read, true, rtol=0.07, atol=1e-3)
    for beside in ({}, {"w_scale_inv": scale, "w_scale": scale}):
        torch.save({"w": codes} | beside, tmp_path / "n.pt")
        with pytest.raises(al.InvalidArgument, match="FP8 weights with one scale"):
            read_weights(tmp_path / "n.pt")["w"]


def test_complex_numbers_are_no_weights(tmp_path):
    torch.save({"x": torch.ones(2, dtype=torch.complex64)}, tmp_path / "w.pt")
    with pytest.raises(al.InvalidArgument, match="x is complex"):
        read_weights(tmp_path / "w.pt")["x"]


def rewritten(source, target, change):
    """The same archive with another pickle."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for item in old.infolist():
            data = old.read(item)
            new.writestr(item.filename, change(data) if "data.pkl" in item.filename else data)


def test_storages_that_are_too_short(tmp_path):
    torch.save({"a": torch.arange(4.0), "b": torch.arange(17.0)}, tmp_path / "w.pt")

    def longer(data):  # the numbers of the storage and of the tensor: those behind it would be read
        assert data.count(b"K\x04") == 2
        return data.replace(b"K\x04", b"K\x10")

    rewritten(tmp_path / "w.pt", tmp_path / "long.pt", longer)
    rewritten(tmp_path / "w.pt", tmp_path / "same.pt", lambda data: data)
    assert read_weights(tmp_path / "same.pt")["a"].tolist() == [0, 1, 2, 3]
    with pytest.raises(al.InvalidArgument, match="64 bytes of a tensor are no record"):
        read_weights(tmp_path / "long.pt")


@pytest.mark.parametrize("old", [False, True])
def test_strides_that_make_a_tensor_larger_than_its_file(tmp_path, old):
    wide = torch.ones(1).expand(10**6, 10**6)
    path = tmp_path / "w.pt"
    torch.save({"a": wide}, path, _use_new_zipfile_serialization=not old)
    with pytest.raises(al.InvalidArgument, match="a place for every number; a of shape"):
        read_weights(path)
    whole = torch.arange(12.0).reshape(3, 4)
    torch.save({"a": whole, "b": whole.T, "c": whole[1]}, path)  # views share a storage
    np.testing.assert_array_equal(read_weights(path)["b"], whole.numpy().T)


def test_a_history_of_trainings(tmp_path):
    """`hist_dict`: keys are tuples, values lists of parameters."""
    steps = [torch.randn(2, 1, 2, 3, 3) for _ in range(3)]
    torch.save({"hist_dict": {(0,): steps[:2], (1, "x"): steps[2:]}}, tmp_path / "w.pt")
    weights = read_weights(tmp_path / "w.pt")
    assert list(weights) == ["hist_dict[(0,)][0]", "hist_dict[(0,)][1]", "hist_dict[(1, 'x')][0]"]
    np.testing.assert_array_equal(weights["hist_dict[(0,)][1]"], steps[1].numpy())
