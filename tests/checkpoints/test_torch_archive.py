"""State dicts in today's format, read without PyTorch. `state.pt` was written by PyTorch 2.13:

state = {"weight": (torch.arange(12) / 8).reshape(3, 4), "bias": [1.5, -2, 0.25],
         "turned": weight.T, "half": bfloat16 [1.5, -2]}
torch.save({"epoch": 3, "model": state}, "state.pt")
"""

import pickle
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import attnlab as al
from attnlab.checkpoints import read_weights

STATE = Path(__file__).parent / "state.pt"
TABLE = "state/data.pkl"
WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4) / 8


@pytest.fixture(autouse=True)
def no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)


def rewritten(path, change, kind=zipfile.ZIP_STORED):
    """The file with some members changed, or taken out where the change gives None."""
    with zipfile.ZipFile(STATE) as source, zipfile.ZipFile(path, "w", kind) as target:
        for name in source.namelist():
            data = change(name, source.read(name))
            if data is not None:
                target.writestr(name, data)
    return path


def refusal(path, *parts):
    with pytest.raises(al.InvalidArgument) as caught:
        weights = read_weights(path)
        for name in weights:
            weights[name]
    message = str(caught.value)
    assert "\n" not in message
    for part in (path.name, *parts):
        assert part in message


def test_a_file_that_pytorch_wrote():
    weights = read_weights(STATE)
    assert set(weights) == {"weight", "bias", "turned", "half"}
    assert weights.shape("turned") == (4, 3)
    np.testing.assert_array_equal(weights["weight"], WEIGHT)
    np.testing.assert_array_equal(weights["turned"], WEIGHT.T)
    assert weights["bias"].tolist() == [1.5, -2.0, 0.25]
    assert weights["half"].tolist() == [1.5, -2.0]
    assert all(array.dtype == np.float32 for array in weights.values())


def test_the_other_order_of_bytes(tmp_path):
    def swapped(name, data):
        if name.endswith("byteorder"):
            return b"big"
        if "/data/" not in name:
            return data
        size = 2 if len(data) == 4 else 4
        return np.frombuffer(data, f"<u{size}").byteswap().tobytes()

    weights = read_weights(rewritten(tmp_path / "w.pt", swapped))
    np.testing.assert_array_equal(weights["weight"], WEIGHT)
    assert weights["half"].tolist() == [1.5, -2.0]
    refusal(
        rewritten(tmp_path / "v.pt", lambda n, d: b"odd" if "byteorder" in n else d), "complete"
    )


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_code_is_never_run(tmp_path, protocol):
    bomb = pickle.dumps({"x": Bomb(tmp_path / "trace")}, protocol=protocol)
    path = rewritten(tmp_path / "w.pt", lambda n, d: bomb if n == TABLE else d)
    refusal(path, "never run", "open" if protocol in (1, 2) else "operation")
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    ("name", "asks"),
    [
        (b"cos\nsystem\n", "os.system"),
        (b"cbuiltins\neval\n", "builtins.eval"),
        (b"ctorch\nload\n", "torch.load"),
        (b"ctorch.storage\nFloatStorage\n", "torch.storage.FloatStorage"),
        (b"ctorch\nFloat\n", "torch.Float"),
        (b"ccollections\nOrderedDict.fromkeys\n", "collections.OrderedDict.fromkeys"),
        (b"cattnlab.checkpoints.torch_archive\nzipfile\n", "torch_archive.zipfile"),
    ],
)
def test_names_that_no_state_dict_needs(tmp_path, name, asks):
    table = b"\x80\x02" + name + b"."
    refusal(rewritten(tmp_path / "w.pt", lambda n, d: table if n == TABLE else d), asks)


def changed(old, new):
    def change(name, data):
        if name != TABLE:
            return data
        assert data.count(old)
        return data.replace(old, new)

    return change


SHAPE, STRIDE = b"K\x03K\x04\x86", b"K\x04K\x01\x86"


@pytest.mark.parametrize(
    "change",
    [
        changed(SHAPE, b"K\x04K\x04\x86"),  # more rows than there are
        changed(SHAPE, b"K\x7fK\x7f\x86"),
        changed(STRIDE, b"K\x05K\x01\x86"),
        changed(STRIDE, b"J\xff\xff\xff\xffK\x01\x86"),  # negative
        changed(STRIDE, b"K\x04\x85"),
        changed(STRIDE, b"]"),
        changed(SHAPE, b"G\x00\x00\x00\x00\x00\x00\x00\x00K\x04\x86"),
        changed(b"X\x07\x00\x00\x00storage", b"X\x07\x00\x00\x00storagx"),
        changed(b"X\x01\x00\x00\x000", b"X\x01\x00\x00\x009"),  # no such member
        changed(b"ctorch\nFloatStorage\n", b"ctorch\nDoubleStorage\n"),
        changed(b"ctorch\nFloatStorage\n", b"N"),
        changed(b"q\x01", b"r\xff\xff\xff\x7f"),  # a place in the memo that would fill memory
    ],
)
def test_tables_that_do_not_fit_their_numbers(tmp_path, change):
    refusal(rewritten(tmp_path / "w.pt", change), "PyTorch file")


def test_tensors_that_repeat_their_numbers_do_not_fill_the_memory(tmp_path):
    change = changed(SHAPE + b"q", b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86q")
    path = rewritten(tmp_path / "w.pt", change)
    refusal(path, "beyond its storage")
    flat = rewritten(
        tmp_path / "v.pt", lambda n, d: changed(STRIDE, b"K\x00K\x00\x86")(n, change(n, d))
    )
    refusal(flat, "beyond its storage")


def test_archives_that_are_not_whole(tmp_path):
    refusal(rewritten(tmp_path / "c.pt", lambda n, d: d, zipfile.ZIP_DEFLATED), "is compressed")
    refusal(rewritten(tmp_path / "m.pt", lambda n, d: None if n == TABLE else d), "complete")
    refusal(rewritten(tmp_path / "d.pt", lambda n, d: None if n.endswith("/0") else d), "complete")
    refusal(rewritten(tmp_path / "t.pt", lambda n, d: d[:-5] if n == TABLE else d), "complete")
    refusal(rewritten(tmp_path / "e.pt", lambda n, d: b"\x80\x02}." if n == TABLE else d), "names")
    refusal(rewritten(tmp_path / "l.pt", lambda n, d: b"\x80\x02]." if n == TABLE else d), "names")
    for keep in (0, 3, 4, 50, -30):
        (tmp_path / "k.pth").write_bytes(STATE.read_bytes()[:keep])
        refusal(tmp_path / "k.pth", "a complete PyTorch file")
    data = bytearray(STATE.read_bytes())
    place = data.index(WEIGHT.tobytes())
    data[place] ^= 1
    (tmp_path / "b.bin").write_bytes(data)
    refusal(tmp_path / "b.bin", "data/0 is broken")


def test_older_files_need_pytorch(tmp_path):
    (tmp_path / "old.pt").write_bytes(pickle.dumps({"x": 1.0}, protocol=2))
    refusal(tmp_path / "old.pt", 'pip install "attnlab[bert]"')


def test_nan_weights(tmp_path):
    bad = WEIGHT.copy()
    bad[0] = np.nan

    def change(name, data):
        return bad.tobytes() if data == WEIGHT.tobytes() else data

    refusal(rewritten(tmp_path / "w.pt", change), "has 4 NaN or infinite")
