"""The layer with merged weights, against NumPy loops over tokens that know the formula only."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab._core.precision import float64
from attnlab.errors import InvalidArgument
from attnlab.students import Activation, AttentionStack, MergedAttention, elementwise

RNG = np.random.default_rng(3)
X, Y, XQ = RNG.normal(size=(2, 5, 3)), RNG.normal(size=(2, 5)), RNG.normal(size=(2, 3))
P, Q = 0.3 * RNG.normal(size=(2, 4, 4))
KEY = jax.random.key(2)
FUNCTIONS = {
    "linear": lambda s: s,
    "relu-sum": lambda s: np.maximum(s, 0),
    "tanh": np.tanh,
    "exp-sum": np.exp,
    "gelu": lambda s: s * (1 + np.vectorize(math.erf)(s / math.sqrt(2))) / 2,
}


def updated(tokens, P, Q, function, shared):
    """`Z + P Z M g(Zᵀ Q Z)` for the columns of `Z`, `M` hiding the last of them as a key."""
    Z = tokens.T
    mask = np.diag([1.0] * (len(tokens) - 1) + [0.0])
    weights = function(Z.T @ Q @ Z)
    weights = weights / (len(tokens) - 1) if shared else weights
    return (Z + P @ Z @ mask @ weights).T


@pytest.mark.parametrize("name", FUNCTIONS)
def test_predictions_follow_the_matrix_formula(name):
    layer = MergedAttention(P, Q, normalization=name)
    with float64():
        found = layer(X, Y, XQ)
        stacked = AttentionStack([layer, layer], "context", sign=-1)(X, Y, XQ)
    for b in range(2):
        tokens = np.vstack([np.c_[X[b], Y[b]], np.append(XQ[b], 0.0)])
        one = updated(tokens, P, Q, FUNCTIONS[name], "sum" not in name)
        assert found[b] == pytest.approx(one[-1, -1], rel=1e-12)
        two = updated(one, P, Q, FUNCTIONS[name], "sum" not in name)
        assert stacked[b] == pytest.approx(-two[-1, -1], rel=1e-11)


def test_softmax_and_circuits_agree_with_a_layer_of_heads():
    layer = MergedAttention(P, Q, normalization="softmax")
    circuits = al.circuits.extract(layer)
    np.testing.assert_array_equal(circuits.kq[0], Q)
    np.testing.assert_array_equal(circuits.ov[0], P)
    with float64():
        np.testing.assert_allclose(circuits(X, Y, XQ), layer(X, Y, XQ), rtol=1e-12)
    np.testing.assert_allclose(circuits.as_layer()(X, Y, XQ), layer(X, Y, XQ), rtol=1e-4)


def test_the_sparse_pattern():
    A, B = RNG.normal(size=(2, 3, 3))
    layer = MergedAttention.sparse(A, B=B, value=0.5, normalization="linear-sum")
    np.testing.assert_array_equal(layer.A, A)
    with float64():
        found = np.asarray(layer(X, Y, XQ))
    wanted = 0.5 * np.einsum("bi,ij,blj,bl->b", XQ, A, X, Y)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert layer.P[:3, :3].tolist() == B.tolist()
    assert layer.P[3].tolist() == [0, 0, 0, 0.5]
    grad = jax.grad(lambda a: MergedAttention.sparse(a)(X, Y, XQ).sum())(jnp.asarray(A))
    assert np.abs(grad - np.einsum("bi,blj,bl->ij", XQ, X, Y) / 5).max() < 1e-5


def test_steps_of_gradient_descent_are_layers():
    eta = 0.3
    layer = MergedAttention.sparse(eta * np.eye(3), value=-1.0)
    with float64():
        found = AttentionStack([layer] * 3, "context", sign=-1)(X, Y, XQ)
    wanted = al.estimators.gradient_descent_steps(X, Y, XQ, step=eta, steps=3)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_an_activation_of_ones_own_and_a_mask():
    square = elementwise(Activation("square", lambda s: s**2), over_length=False)
    scores = jnp.asarray([1.0, 2.0, 3.0])
    assert square.weights(scores).tolist() == [1.0, 4.0, 9.0]
    assert square.weights(scores, where=scores < 3).tolist() == [1.0, 4.0, 0.0]
    mean = elementwise("relu")
    assert mean.weights(scores, where=scores < 3).tolist() == [0.5, 1.0, 0.0]
    assert mean is elementwise("relu")  # one compiled program for all


def test_training_records_the_circuits():
    import optax

    task = al.InContextRegression(2, 6, noise_std=0.0, prior=np.eye(2))
    layers = eqx.Partial(MergedAttention.random, 2, normalization="relu")
    run = al.train(
        lambda key: layers(key=key),
        task,
        optimizer=optax.adam(1e-2),
        steps=20,
        batch_size=16,
        key=KEY,
        runs=2,
        save_every=20,
        test_prompts=50,
    )
    last = run.layer_of(1)
    assert last.P.shape == (3, 3)
    recorded = run.history["mu"].isel(run=1, step=-1, head=0).item()
    assert recorded == pytest.approx(float(last.P[2, 2]), abs=1e-6)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: MergedAttention(np.ones((2, 3)), np.eye(3)), "P"),
        (lambda: MergedAttention(np.eye(3), np.eye(2)), "Q"),
        (lambda: MergedAttention(np.eye(3), math.nan * np.eye(3)), "Q"),
        (lambda: MergedAttention("P", np.eye(3)), "P"),
        (lambda: MergedAttention(np.eye(3) * 1j, np.eye(3)), "P"),
        (lambda: MergedAttention(np.eye(2), np.eye(2), n_outputs=2), "P"),
        (lambda: MergedAttention(np.eye(2), np.eye(2), normalization="cubic"), "normalization"),
        (lambda: MergedAttention.sparse(np.eye(2), B=np.eye(3)), "B"),
        (lambda: MergedAttention.sparse(np.eye(2), value=math.inf), "value"),
        (lambda: MergedAttention.random(0, key=KEY), "dim"),
        (lambda: MergedAttention.random(2, scale=0.0, key=KEY), "scale"),
        (lambda: MergedAttention.random(2, key=3), "key"),
        (lambda: AttentionStack([MergedAttention(P, Q)], sign=0), "sign"),
        (lambda: elementwise("linear", over_length=1), "over_length"),
        (lambda: elementwise("cube"), "activation"),
    ],
)
def test_bad_arguments_are_named(make, named):
    with pytest.raises(InvalidArgument, match=named):
        make()
