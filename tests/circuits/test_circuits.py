"""Reading circuits off layers of every kind, and what is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab.circuits import Circuits, compare, extract, reduce
from attnlab.errors import InvalidArgument
from attnlab.students import AttentionStack

KEY = jax.random.key(0)
RNG = np.random.default_rng(5)
LAYER = al.MultiHeadAttention(3, 2, n_outputs=2, head_dim=4, logit_scale=0.5, key=KEY)


def test_circuits_of_a_layer_are_its_bilinear_forms():
    circuits = extract(LAYER)
    assert circuits.kq.dtype == circuits.ov.dtype == np.float64
    W = {n: np.asarray(getattr(LAYER, n), float) for n in ("W_Q", "W_K", "W_V", "W_O")}
    z = RNG.normal(size=(2, 5))
    for h in range(2):
        logit = 0.5 * (W["W_K"][h] @ z[0]) @ (W["W_Q"][h] @ z[1])
        assert z[0] @ circuits.kq[h] @ z[1] == pytest.approx(logit, rel=1e-12)
        np.testing.assert_allclose(circuits.ov[h] @ z[0], W["W_O"][h] @ (W["W_V"][h] @ z[0]))
        assert circuits.omega[h] == pytest.approx(np.mean(np.diag(circuits.kq[h])[:3]))
        np.testing.assert_array_equal(circuits.omega_diagonal[h], np.diag(circuits.kq[h])[:3])
        np.testing.assert_array_equal(circuits.mu[h], np.diag(circuits.ov[h])[3:])
    shapes = {
        "effective_kq": (2, 5, 3),
        "effective_ov": (2, 2, 5),
        "kq_covariates": (2, 3, 3),
        "kq_labels": (2, 2, 3),
        "ov_covariates": (2, 2, 3),
        "ov_labels": (2, 2, 2),
    }
    assert {name: getattr(circuits, name).shape for name in shapes} == shapes


def test_only_effective_entries_reach_the_prediction():
    circuits = extract(LAYER)
    X, y, xq = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 2)), RNG.normal(size=3)
    kq, ov = circuits.kq.copy(), circuits.ov.copy()
    kq[:, :, 3:] += 1.0
    ov[:, :3, :] += 1.0
    other = Circuits(kq, ov, dim=3, n_outputs=2)
    expected = LAYER(X, y, xq)
    np.testing.assert_allclose(circuits.as_layer()(X, y, xq), expected, rtol=1e-5)
    np.testing.assert_allclose(other.as_layer()(X, y, xq), expected, rtol=1e-5)
    # each of the effective blocks does
    for block in ("kq_covariates", "kq_labels", "ov_covariates", "ov_labels"):
        kq, ov = circuits.kq.copy(), circuits.ov.copy()
        changed = Circuits(kq, ov, dim=3, n_outputs=2)
        getattr(changed, block)[...] += 0.5
        assert np.abs(changed.as_layer()(X, y, xq) - expected).max() > 1e-3, block


@pytest.mark.parametrize("normalization", ["softmax", "linear", "one-plus-tanh"])
@pytest.mark.parametrize("shape", ["scalar", "diagonal", "matrix"])
def test_heads_and_their_circuits_lead_to_each_other(shape, normalization):
    size = {"scalar": (2,), "diagonal": (2, 3), "matrix": (2, 3, 3)}[shape]
    for mu in (RNG.normal(size=2), RNG.normal(size=(2, 2))):
        heads = al.KernelHeads(RNG.normal(size=size), mu, normalization=normalization)
        circuits = extract(heads, dim=3)
        again = reduce(circuits, shape)
        np.testing.assert_allclose(again.omega, heads.omega, rtol=1e-15)
        np.testing.assert_allclose(again.mu, heads.mu, rtol=1e-15)
        assert again.normalization is circuits.normalization is heads.normalization
    layer = al.MultiHeadAttention.from_heads(heads, 3)
    np.testing.assert_allclose(extract(layer).effective_kq, circuits.effective_kq, rtol=1e-6)
    np.testing.assert_allclose(extract(layer).effective_ov, circuits.effective_ov, rtol=1e-6)
    assert reduce(circuits).omega.ndim == 2  # the default for several tasks


def test_layers_of_stacks_and_of_runs():
    layers = [al.MultiHeadAttention(3, h, key=KEY) for h in (1, 2)]
    stack = AttentionStack(layers)
    np.testing.assert_array_equal(extract(stack, index=1).kq, extract(layers[1]).kq)
    assert extract(AttentionStack(layers[:1])).n_heads == 1
    circuits = extract(layers[0])
    assert extract(circuits) is circuits
    for index in (None, 2, -1, 0.5):
        with pytest.raises(InvalidArgument, match="index"):
            extract(stack, index=index)
    with pytest.raises(InvalidArgument, match="index"):
        extract(layers[0], index=0)

    keys = jax.random.split(KEY, 3)
    stacked = eqx.filter_vmap(lambda key: al.MultiHeadAttention(3, 2, key=key))(keys)
    with pytest.raises(InvalidArgument, match="layer_of"):
        extract(stacked)
    run = al.dynamics.training.Run(stacked, None)
    assert extract(run.layer_of(2)).n_heads == 2


def test_bad_layers_and_arrays_are_refused():
    broken = eqx.tree_at(lambda x: x.W_O, LAYER, LAYER.W_O.at[0, 0, 0].set(jnp.nan))
    scalar = al.KernelHeads([0.1], [1.0])
    for call, named in (
        (lambda: extract(broken), "W_O"),
        (lambda: extract("layer"), "layer"),
        (lambda: extract(al.SoftmaxAttention(1.0)), "layer"),
        (lambda: extract(scalar), "dim"),
        (lambda: extract(scalar, dim=0), "dim"),
        (lambda: extract(al.KernelHeads(np.ones((1, 3)), [1.0]), dim=4), "dim"),
        (lambda: extract(LAYER, dim=4), "dim"),
        (lambda: jax.jit(lambda x: extract(x).kq)(LAYER), "outside of jit"),
        (lambda: Circuits(np.zeros((0, 4, 4)), np.zeros((0, 4, 4)), dim=3), "at least one head"),
        (lambda: Circuits(np.zeros((2, 4, 4)), np.zeros((1, 4, 4)), dim=3), "as many heads"),
        (lambda: Circuits(np.zeros((2, 4, 4)), np.zeros((2, 4, 4)), dim=4), "kq"),
        (lambda: Circuits(np.zeros((4, 4)), np.zeros((4, 4)), dim=3), "kq"),
        (lambda: Circuits([[["a"]]], [[[0.0]]], dim=3), "kq"),
        (lambda: Circuits(np.full((1, 4, 4), np.inf), np.zeros((1, 4, 4)), dim=3), "kq"),
        (lambda: Circuits(np.zeros((1, 4, 4)), np.full((1, 4, 4), np.nan), dim=3), "ov"),
        (lambda: Circuits(np.zeros((1, 4, 4)), np.zeros((1, 4, 4)), dim=3, n_outputs=0), "n_out"),
        (lambda: reduce(extract(LAYER), "full"), "form"),
        (lambda: reduce(None), "circuits"),
        (lambda: compare(None, al.InContextRegression(3, 4), key=KEY), "circuits"),
    ):
        with pytest.raises(InvalidArgument, match=named):
            call()
