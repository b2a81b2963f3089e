"""Files of weights: every kind gives the same arrays, and what is unsound is refused at once."""

import io
import json
import pickle
import sys
import zipfile

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import attnlab as al
from attnlab.checkpoints import read_weights

RNG = np.random.default_rng(0)
ARRAYS = {
    "a.weight": RNG.normal(size=(3, 4)).astype(np.float32),
    "a.bias": RNG.normal(size=3),
    "places": np.arange(5),
}


def refusal(path, *parts):
    with pytest.raises(al.InvalidArgument) as caught:
        weights = read_weights(path)
        for name in weights:
            weights[name]
    message = str(caught.value)
    assert message.startswith("path = ")
    assert "\n" not in message
    for part in (str(path.name), *parts):
        assert part in message
    return message


def test_archives_and_safetensors_give_the_same_arrays(tmp_path):
    save_file(ARRAYS, tmp_path / "w.safetensors", {"note": "hello"})
    np.savez(tmp_path / "w.npz", **ARRAYS, note=np.array("hello"))
    np.savez_compressed(tmp_path / "c.npz", **ARRAYS, note=np.array("hello"))
    for name in ("w.safetensors", "w.npz", "c.npz"):
        weights = read_weights(str(tmp_path / name))
        assert dict(weights.metadata) == {"note": "hello"}
        assert set(weights) == set(ARRAYS)
        assert len(weights) == 3
        assert weights.config == {}
        for key, array in ARRAYS.items():
            assert weights.shape(key) == array.shape
            assert weights[key].dtype == array.dtype
            np.testing.assert_array_equal(weights[key], array)


def test_one_array_is_called_arr_0(tmp_path):
    np.save(tmp_path / "one.npy", ARRAYS["a.weight"])
    weights = read_weights(tmp_path / "one.npy")
    assert list(weights) == ["arr_0"]
    np.testing.assert_array_equal(weights["arr_0"], ARRAYS["a.weight"])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_becomes_float32(tmp_path, dtype):
    small = np.array([1.0, -2.5, 2**-9]).astype(dtype)
    save_file({"x": small}, tmp_path / "h.safetensors")
    read = read_weights(tmp_path / "h.safetensors")["x"]
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, [1.0, -2.5, 2**-9])


def test_names_that_are_not_there(tmp_path):
    np.savez(tmp_path / "w.npz", **ARRAYS)
    weights = read_weights(tmp_path / "w.npz")
    assert "a.wight" not in weights
    assert weights.get("a.wight") is None
    assert weights.get("places").sum() == 10
    for call in (weights.__getitem__, weights.shape):
        with pytest.raises(al.InvalidArgument, match=r"holds a.wight; .*near: a.weight"):
            call("a.wight")


@pytest.fixture
def directory(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "n": 2}))
    save_file(ARRAYS, folder / "model.safetensors")
    return folder


def test_a_directory_brings_its_configuration(directory):
    for path in (directory, directory / "model.safetensors"):
        weights = read_weights(path)
        assert weights.config == {"model_type": "bert", "n": 2}
        np.testing.assert_array_equal(weights["a.bias"], ARRAYS["a.bias"])


def test_shards(directory):
    (directory / "model.safetensors").unlink()
    index = directory / "model.safetensors.index.json"
    places = {"a.weight": "one.safetensors", "a.bias": "two.safetensors"}
    save_file({"a.weight": ARRAYS["a.weight"]}, directory / "one.safetensors")
    save_file({"a.bias": ARRAYS["a.bias"]}, directory / "two.safetensors")
    index.write_text(json.dumps({"weight_map": places}))
    weights = read_weights(directory)
    assert sorted(weights) == ["a.bias", "a.weight"]
    np.testing.assert_array_equal(weights["a.bias"], ARRAYS["a.bias"])

    index.write_text(json.dumps({"weight_map": {"x": "one.safetensors"}}))
    refusal(directory, "one.safetensors does not hold x")
    index.write_text(json.dumps({"weight_map": {"x": "three.safetensors"}}))
    refusal(directory, "three.safetensors is missing")
    index.write_text(json.dumps({"weight_map": {"x": "../one.safetensors"}}))
    with pytest.raises(al.InvalidArgument, match="in this directory"):
        read_weights(directory)
    index.write_text(json.dumps({"weight_map": []}))
    with pytest.raises(al.InvalidArgument, match="weight_map"):
        read_weights(directory)


def test_unsound_directories(directory):
    (directory / "config.json").write_text("{")
    with pytest.raises(al.InvalidArgument, match="a JSON file"):
        read_weights(directory)
    (directory / "config.json").write_text("[1]")
    with pytest.raises(al.InvalidArgument, match="a JSON object"):
        read_weights(directory)
    (directory / "config.json").unlink()
    assert read_weights(directory).config == {}
    (directory / "model.safetensors").unlink()
    refusal(directory, "model.safetensors", "pytorch_model.bin")


def test_names_that_would_write_on_a_terminal(tmp_path):
    np.savez(tmp_path / "w.npz", **{"a\x1b[2J": np.ones(1)})
    refusal(tmp_path / "w.npz", "printable", "\\x1b")


def test_other_names_that_would_write_on_a_terminal(tmp_path):
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive:
        archive.writestr("read\x1b[2J\nme.txt", "hello")
    assert refusal(tmp_path / "w.npz", "read\\x1b[2J me.txt").isprintable()
    index = {"weight_map": {"a\x1b[2J": "one.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    save_file(ARRAYS, tmp_path / "one.safetensors")
    assert refusal(tmp_path, "does not hold a\\x1b[2J").isprintable()


def test_missing_files_and_other_kinds(tmp_path):
    refusal(tmp_path / "nothing.npz", "existing")
    (tmp_path / "notes.txt").write_text("hello")
    refusal(tmp_path / "notes.txt", ".safetensors", ".npz", ".pt")
    with pytest.raises(al.InvalidArgument, match="path"):
        read_weights(3)


@pytest.mark.parametrize("kind", ["safetensors", "npz", "npy"])
@pytest.mark.parametrize("keep", [0, 5, 60, -40])
def test_truncated_files(tmp_path, kind, keep):
    path = tmp_path / f"w.{kind}"
    if kind == "safetensors":
        save_file(ARRAYS, path)
    elif kind == "npz":
        np.savez(path, **ARRAYS)
    else:
        np.save(path, ARRAYS["a.weight"])
    path.write_bytes(path.read_bytes()[:keep])
    refusal(path, "complete")


def test_a_header_of_absurd_size(tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(b"\xff" * 8 + b"{}")
    refusal(path, "header too large")


@pytest.mark.parametrize(("save", "place"), [(np.savez, 4000), (np.savez_compressed, 300)])
def test_a_broken_array_in_an_archive(tmp_path, save, place):
    path = tmp_path / "w.npz"
    save(path, x=np.arange(1000.0))
    data = bytearray(path.read_bytes())
    data[place : place + 8] = b"\xff" * 8
    path.write_bytes(data)
    refusal(path, "complete")


def test_a_broken_header_of_an_array(tmp_path):
    np.save(tmp_path / "w.npy", np.ones(3))
    data = (tmp_path / "w.npy").read_bytes()
    for place, put in ((10, b"((("), (5, b"\xff"), (6, b"\x05"), (20, b"\x00")):
        (tmp_path / "w.npy").write_bytes(data[:place] + put + data[place + len(put) :])
        refusal(tmp_path / "w.npy", "complete NumPy array")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_weights_that_are_not_finite(tmp_path, value, dtype):
    array = np.array([0.0, value, value], dtype)
    np.savez(tmp_path / "w.npz", good=np.ones(2), bad=array)
    refusal(tmp_path / "w.npz", "bad has 2 NaN or infinite")
    assert read_weights(tmp_path / "w.npz")["good"].tolist() == [1.0, 1.0]


SCALES = {
    "one": ("_scale_inv", np.full((1, 1), 0.01), None),
    "single": ("_scale", np.float32(0.01), None),
    "rows": ("_scale", np.array([[0.01], [0.02], [0.03]]), None),
    "blocks": ("_scale_inv", np.array([[0.01, 0.02], [0.03, 0.04]]), [2, 3]),
}


def rounded(kind):
    """Weights, their 8-bit codes under each scale of `SCALES`, and the scale of each weight."""
    _, scale, block = SCALES[kind]
    full = np.broadcast_to(scale, (3, 4)) if block is None else np.empty((3, 4))
    if block is not None:
        for i in range(3):
            for j in range(4):
                full[i, j] = scale[i // block[0], j // block[1]]
    true = RNG.uniform(-1, 1, size=(3, 4))
    return true, (true / full).astype(np.float32), np.float32(scale), block


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, np.int8])
def test_weights_of_eight_bits_come_with_their_scale(tmp_path, kind, dtype):
    true, codes, scale, block = rounded(kind)
    config = {} if block is None else {"quantization_config": {"weight_block_size": block}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    header, data = {}, b""
    names = {np.int8: "I8", ml_dtypes.float8_e4m3fn: "F8_E4M3"}
    for name, array, told in (
        ("w", (np.rint(codes) if dtype is np.int8 else codes).astype(dtype), names[dtype]),
        ("w" + SCALES[kind][0], scale, "F32"),
    ):
        ends = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": told, "shape": list(array.shape), "data_offsets": ends}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    read = read_weights(tmp_path)["w"]
    step = 0.5 * np.max(scale) if dtype is np.int8 else 0.0
    np.testing.assert_allclose(read, true, rtol=0.07, atol=step + 1e-3)
    if kind == "rows":  # a block that is larger than any matrix costs nothing
        config = {"quantization_config": {"weight_block_size": [10**15, 10**15]}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        np.testing.assert_array_equal(read_weights(tmp_path)["w"], read)
    (tmp_path / "config.json").unlink()
    if block is not None:
        with pytest.raises(al.InvalidArgument, match="scales fit"):
            read_weights(path)["w"]


def test_weights_of_eight_bits_without_a_scale_are_refused(tmp_path):
    header = {"w": {"dtype": "F8_E5M2", "shape": [2, 2], "data_offsets": [0, 4]}}
    text = json.dumps(header).encode()
    (tmp_path / "w.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"\x3c" * 4)
    refusal(tmp_path / "w.safetensors", "FP8 weights with one scale; w has none beside it")


class Bomb:
    """Would write a file if anybody unpickled it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickles_are_never_read(tmp_path):
    trace = tmp_path / "trace"
    objects = np.array([Bomb(trace)], dtype=object)
    np.savez(tmp_path / "w.npz", x=objects)
    refusal(tmp_path / "w.npz", "x holds Python objects")
    np.save(tmp_path / "w.npy", objects)
    refusal(tmp_path / "w.npy", "without Python objects")
    (tmp_path / "p.npy").write_bytes(pickle.dumps(Bomb(trace)))
    refusal(tmp_path / "p.npy", "complete NumPy array without Python objects")
    (tmp_path / "p.safetensors").write_bytes(pickle.dumps(Bomb(trace)))
    refusal(tmp_path / "p.safetensors", "complete safetensors")
    assert not trace.exists()


def test_text_and_complex_numbers_are_no_weights(tmp_path):
    np.savez(tmp_path / "w.npz", x=np.array(["a", "b"]))
    refusal(tmp_path / "w.npz", "real numbers")
    np.savez(tmp_path / "z.npz", x=np.ones(2, complex))
    refusal(tmp_path / "z.npz", "real numbers")
    np.save(tmp_path / "z.npy", np.ones(2, complex))
    refusal(tmp_path / "z.npy", "real numbers")


def test_archives_that_hold_other_things(tmp_path):
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    refusal(tmp_path / "w.npz", "readme.txt")
    np.savez(tmp_path / "v.npz", **ARRAYS)
    (tmp_path / "v.npz").rename(tmp_path / "v.npy")
    refusal(tmp_path / "v.npy", "ends in .npz")


def test_archives_that_would_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("attnlab.checkpoints.numpy_file._HARMLESS_BYTES", 1000)
    np.savez_compressed(tmp_path / "w.npz", x=np.zeros(10**6, np.float32))
    refusal(tmp_path / "w.npz", "moderate compression")
    # an array that claims to be larger than what is there
    header = io.BytesIO()
    told = {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    np.lib.format.write_array_header_1_0(header, told)
    with zipfile.ZipFile(tmp_path / "v.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + b"\0" * 16)
    refusal(tmp_path / "v.npz", "less data than its shape")
    (tmp_path / "v.npy").write_bytes(header.getvalue() + b"\0" * 16)
    refusal(tmp_path / "v.npy", "complete")


def test_without_the_packages(tmp_path, monkeypatch):
    save_file(ARRAYS, tmp_path / "w.safetensors")
    (tmp_path / "w.pt").write_bytes(pickle.dumps({"x": 1.0}))
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    refusal(tmp_path / "w.safetensors", 'pip install "attnlab[probing]"')
    refusal(tmp_path / "w.pt", 'pip install "attnlab[bert]"')


def test_compressed_state_dicts_are_refused_before_torch_sees_them(tmp_path):
    with zipfile.ZipFile(tmp_path / "w.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("w/data.pkl", b"\0" * 10**5)
    refusal(tmp_path / "w.pt", "data.pkl in it is compressed")
    (tmp_path / "w.pth").write_bytes((tmp_path / "w.pt").read_bytes()[:50])
    refusal(tmp_path / "w.pth", "a complete PyTorch file")
