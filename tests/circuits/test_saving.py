"""Layers of in-context regression, written and read again."""

import json

import equinox as eqx
import jax
import numpy as np
import pytest

import attnlab as al
from attnlab.students import AttentionStack, MergedAttention
from attnlab.students.normalizations import Normalization

KINDS = ("npz", "safetensors")


@pytest.fixture(scope="module")
def layer():
    return al.MultiHeadAttention(
        3, 2, n_outputs=2, head_dim=4, normalization="relu", logit_scale=0.5, key=jax.random.key(0)
    )


def same(one, other):
    np.testing.assert_array_equal(one.kq, other.kq)
    np.testing.assert_array_equal(one.ov, other.ov)
    assert (one.dim, one.n_outputs) == (other.dim, other.n_outputs)
    assert one.normalization is other.normalization


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_comes_back(tmp_path, layer, kind):
    path = al.circuits.save(layer, tmp_path / f"layer.{kind}")
    weights = al.checkpoints.read_weights(path)
    assert weights.shape("layers.0.W_Q") == (2, 4, 5)
    found = al.circuits.load(path)
    same(found, al.circuits.extract(layer))
    same(al.circuits.load(path, layer=0), found)
    X, y, xq = (np.ones(shape) for shape in ((6, 3), (6, 2), (3,)))
    np.testing.assert_allclose(found(X, y, xq), layer(X, y, xq), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_circuits_and_merged_weights_come_back(tmp_path, kind):
    rng = np.random.default_rng(0)
    merged = MergedAttention(*rng.normal(size=(2, 4, 4)), normalization="tanh")
    heads = al.circuits.Circuits(*rng.normal(size=(2, 3, 5, 5)), dim=4)
    for thing in (merged, heads, al.KernelHeads(rng.normal(size=(2, 3)), np.ones(2))):
        same(
            al.circuits.load(al.circuits.save(thing, tmp_path / f"w.{kind}")),
            al.circuits.extract(thing),
        )


def test_a_stack_comes_back_layer_by_layer(tmp_path, layer):
    other = eqx.tree_at(lambda x: x.W_V, layer, 2 * layer.W_V)
    path = al.circuits.save(AttentionStack([layer, other]), tmp_path / "stack.npz")
    with pytest.raises(al.InvalidArgument, match="layer = None.*0, 1"):
        al.circuits.load(path)
    with pytest.raises(al.InvalidArgument, match="layer = 2"):
        al.circuits.load(path, layer=2)
    same(al.circuits.load(path, layer=1), al.circuits.extract(other))


def test_what_cannot_be_saved_is_refused(tmp_path, layer):
    unnamed = Normalization("cubes", lambda scores, axis: scores**3)
    odd = al.MultiHeadAttention(3, 2, normalization=unnamed, key=jax.random.key(0))
    for thing, path, name in (
        (layer, "w.pt", "path"),
        (odd, "w.npz", "layer"),
        (3, "w.npz", "layer"),
        (al.KernelHeads([1.0], [1.0]), "w.npz", "dim"),
    ):
        with pytest.raises(al.InvalidArgument, match=name):
            al.circuits.save(thing, tmp_path / path)
    assert not list(tmp_path.iterdir())


def test_files_that_are_not_as_we_write_them(tmp_path, layer):
    path = al.circuits.save(layer, tmp_path / "w.npz")
    for name, value in (("heads", 2), ("dim", 3), ("convention", "row"), ("mapping", {})):
        with pytest.raises(al.InvalidArgument, match=f"{name} = .*says it itself"):
            al.circuits.load(path, **{name: value})
    arrays = {k: np.asarray(v) for k, v in al.checkpoints.read_weights(path).items()}
    told = {"dim": 3, "n_outputs": 2, "normalization": "relu"}
    marks = [
        ("{", "circuits.save"),
        (json.dumps({"format": 9, "layers": [told]}), "format 9"),
        (json.dumps({"format": 1, "layers": []}), "circuits.save"),
        (json.dumps({"format": 1, "layers": [{"dim": 3}]}), "circuits.save"),
        (json.dumps({"format": 1, "layers": [told | {"dim": 2}]}), "kq"),
        (json.dumps({"format": 1, "layers": [told | {"normalization": "no"}]}), "normalization"),
    ]
    for mark, message in marks:
        np.savez(path, attnlab=np.array(mark), **arrays)
        with pytest.raises(al.InvalidArgument, match=message):
            al.circuits.load(path)
    del arrays["layers.0.W_K"]
    np.savez(path, attnlab=np.array(json.dumps({"format": 1, "layers": [told]})), **arrays)
    with pytest.raises(al.InvalidArgument, match="holds layers.0.W_K"):
        al.circuits.load(path)


def test_a_layer_from_elsewhere(tmp_path, layer):
    arrays = {name: np.asarray(getattr(layer, name)) for name in ("W_Q", "W_K", "W_V", "W_O")}
    np.savez(tmp_path / "w.npz", **arrays)
    found = al.circuits.load(tmp_path / "w.npz", dim=3, n_outputs=2, normalization="relu")
    reference = al.circuits.extract(layer)
    np.testing.assert_allclose(found.kq, reference.kq)  # 1/√head_dim is 1/2 here
    np.testing.assert_allclose(found.ov, reference.ov)
    mapping = {"query": "W_Q", "key": "W_K", "value": "W_V", "output": "W_O", "scale": 1.0}
    mapping |= {"dim": 3, "n_outputs": 2, "normalization": "relu"}
    same(
        al.circuits.load(tmp_path / "w.npz", mapping=mapping),
        al.circuits.Circuits(2 * found.kq, found.ov, dim=3, n_outputs=2, normalization="relu"),
    )
