"""The full layer and stacks of it, against NumPy loops over tokens that know the formula only."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab._core.precision import to_float64
from attnlab.errors import InvalidArgument
from attnlab.students import AttentionStack, affine, get_normalization, one_plus_tanh

KEY = jax.random.key(0)
RNG = np.random.default_rng(1)
X, Y, XQ = RNG.normal(size=(2, 5, 3)), RNG.normal(size=(2, 5)), RNG.normal(size=(2, 3))
Y2 = RNG.normal(size=(2, 5, 2))
FUNCTIONS = {
    "softmax": ("softmax", np.exp, True),
    "linear": ("linear", lambda s: s, False),
    "relu": ("relu", lambda s: np.maximum(s, 0), False),
    "affine": (affine(0.2), lambda s: 1 + 0.2 * s, True),
    "tanh": (one_plus_tanh(), lambda s: 1 + np.tanh(s), True),
}


def layer_by_loops(tokens, weights, scale, function, shares, mask):
    """All tokens (rows) of one prompt after the layer, residual link included."""
    W_Q, W_K, W_V, W_O = weights
    out = tokens.copy()
    count = len(tokens)
    for j, query in enumerate(tokens):
        seen = range(j) if mask == "causal" else range(count - 1)
        for h in range(len(W_Q)):
            scores = [scale * (W_K[h] @ tokens[i]) @ (W_Q[h] @ query) for i in seen]
            raw = [function(s) for s in scores]
            total = sum(raw) if shares else len(raw)
            for i, value in zip(seen, raw):
                out[j] += (value / total) * (W_O[h] @ (W_V[h] @ tokens[i]))
    return out


def numbers(layer):
    return [np.asarray(w, float) for w in (layer.W_Q, layer.W_K, layer.W_V, layer.W_O)]


def tokens_of(X, y, xq):
    labels = y[..., None] if y.ndim == 2 else y
    context = np.concatenate([X, labels], -1)
    query = np.concatenate([xq, np.zeros((len(xq), labels.shape[-1]))], -1)
    return np.concatenate([context, query[:, None]], 1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_layer_update_and_stack_of_one_are_the_formula(name):
    normalization, function, shares = FUNCTIONS[name]
    layer = al.MultiHeadAttention(
        3, 2, normalization=normalization, head_dim=5, logit_scale=0.5, key=KEY
    )
    tokens = tokens_of(X, Y, XQ)
    for mask in ("causal", "context"):
        expected = np.stack(
            [layer_by_loops(t, numbers(layer), 0.5, function, shares, mask) for t in tokens]
        )
        updated = layer.update(jnp.asarray(tokens), mask)
        np.testing.assert_allclose(updated, expected, rtol=2e-4, atol=2e-5)
        # the query attends to the context only: its own row is what the layer predicts directly
        np.testing.assert_allclose(layer(X, Y, XQ), expected[:, -1, 3], rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(
            AttentionStack([layer], mask)(X, Y, XQ), layer(X, Y, XQ), rtol=2e-4, atol=2e-5
        )
    np.testing.assert_array_equal(layer.update(jnp.asarray(tokens))[:, 0], tokens[:, 0].astype("f"))


@pytest.mark.parametrize("mask", ["causal", "context"])
def test_two_layers_two_tasks_are_the_formula(mask):
    layers = [
        al.MultiHeadAttention(3, 2, n_outputs=2, key=KEY),
        al.MultiHeadAttention(3, 3, n_outputs=2, normalization="linear", logit_scale=2.0, key=KEY),
    ]
    expected = []
    for tokens in tokens_of(X, Y2, XQ):
        tokens = layer_by_loops(tokens, numbers(layers[0]), 1.0, np.exp, True, mask)
        tokens = layer_by_loops(tokens, numbers(layers[1]), 2.0, lambda s: s, False, mask)
        expected.append(tokens[-1, 3:])
    stack = AttentionStack(layers, mask)
    np.testing.assert_allclose(stack(X, Y2, XQ), expected, rtol=5e-4, atol=5e-5)
    # a leading axis more, or less, changes nothing
    np.testing.assert_allclose(stack(X[0], Y2[0], XQ[0]), expected[0], rtol=5e-4, atol=5e-5)
    deeper = stack(X[None], Y2[None], XQ[None])
    np.testing.assert_allclose(deeper[0], expected, rtol=5e-4, atol=5e-5)


def test_circuits_are_the_bilinear_forms():
    layer = al.MultiHeadAttention(3, 2, n_outputs=2, head_dim=7, logit_scale=0.3, key=KEY)
    W_Q, W_K, W_V, W_O = numbers(layer)
    assert layer.kq.shape == layer.ov.shape == (2, 5, 5)
    for h in range(2):
        np.testing.assert_allclose(layer.kq[h], 0.3 * W_K[h].T @ W_Q[h], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(layer.ov[h], W_O[h] @ W_V[h], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("omega", "mu"),
    [
        ([0.4, -0.3], [2.0, -1.5]),
        (RNG.normal(size=(2, 3)), [2.0, -1.5]),
        (RNG.normal(size=(2, 3, 3)), RNG.normal(size=(2, 2))),
    ],
    ids=["scalar", "diagonal", "full, two tasks"],
)
def test_a_layer_made_of_heads_predicts_what_they_do(omega, mu):
    y = Y2 if np.ndim(mu) == 2 else Y
    heads = al.KernelHeads(omega, mu, normalization=one_plus_tanh())
    layer = al.MultiHeadAttention.from_heads(heads, 3, logit_scale=0.5)
    np.testing.assert_allclose(layer(X, y, XQ), heads(X, y, XQ), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.kq[:, :3, :3], heads.kq(3), rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(layer.kq[:, 3:], 0)
    np.testing.assert_array_equal(layer.kq[:, :, 3:], 0)
    np.testing.assert_array_equal(layer.ov[:, :3], 0)
    np.testing.assert_array_equal(layer.ov[:, :, :3], 0)


def test_initial_weights_as_in_pytorch():
    layer = al.MultiHeadAttention(24, 40, head_dim=16, key=KEY)
    for weight, fan_in in zip(numbers(layer), (25, 25, 25, 16)):
        bound = 1 / math.sqrt(fan_in)
        assert np.abs(weight).max() <= bound
        assert np.abs(weight).max() > 0.999 * bound
        z = (np.mean(weight**2) / (bound**2 / 3) - 1) / math.sqrt(0.8 / weight.size)
        assert abs(z) < 4.5
    again = al.MultiHeadAttention(24, 40, head_dim=16, key=jax.random.key(1))
    assert not np.any(np.asarray(again.W_Q) == np.asarray(layer.W_Q))
    assert not np.any(np.asarray(layer.W_K) == np.asarray(layer.W_Q))
    assert layer.W_Q.dtype == jnp.float32


@pytest.mark.parametrize(
    ("init", "signs"), [("small-identity", (1, 1, 1)), ("opposite-sign", (1, -1, 1))]
)
def test_small_initial_circuits(init, signs):
    layer = al.MultiHeadAttention(
        3, 3, n_outputs=2, init=init, init_scale=0.02, logit_scale=0.4, key=KEY
    )
    for h, sign in enumerate(signs):
        expected = np.zeros((5, 5))
        expected[:3, :3] = sign * 0.02 * np.eye(3)
        np.testing.assert_allclose(layer.kq[h], expected, atol=1e-8)
        expected = np.zeros((5, 5))
        expected[3:, 3:] = sign * 0.02 * np.eye(2)
        np.testing.assert_allclose(layer.ov[h], expected, atol=1e-8)


@pytest.mark.parametrize("mask", ["causal", "context"])
def test_gradients_are_finite_also_where_a_token_sees_nothing(mask):
    for normalization in ("softmax", "relu", one_plus_tanh()):
        layers = [
            al.MultiHeadAttention(3, 2, normalization=normalization, key=jax.random.key(i))
            for i in range(2)
        ]
        stack = AttentionStack(layers, mask)
        loss = eqx.filter_jit(eqx.filter_grad(lambda s: jnp.mean(s(X, Y, XQ) ** 2)))
        gradient = loss(stack)
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(gradient)]
        assert len(leaves) == 8
        assert all(np.isfinite(leaf).all() for leaf in leaves)
        # the first layer's queries matter to the second: every weight has a gradient
        assert all(np.abs(leaf).max() > 0 for leaf in leaves)
    alone = jnp.asarray(tokens_of(X[:, :0], Y[:, :0], XQ))  # the query without any context
    np.testing.assert_array_equal(layers[0].update(alone, mask), alone)


def test_layers_in_float64():
    layer = al.MultiHeadAttention(3, 2, key=KEY)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), layer)
        out = wide(*to_float64((X, Y, XQ)))  # fresh arrays, see there
        assert out.dtype == jnp.float64
        weights = numbers(layer)
        expected = [
            layer_by_loops(t, weights, 1.0, np.exp, True, "causal") for t in tokens_of(X, Y, XQ)
        ]
        np.testing.assert_allclose(out, np.stack(expected)[:, -1, 3], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"dim": 0}, "dim"),
        ({"n_heads": 0}, "n_heads"),
        ({"n_heads": 1.5}, "n_heads"),
        ({"n_outputs": 0}, "n_outputs"),
        ({"head_dim": 0}, "head_dim"),
        ({"head_dim": 2, "init": "opposite-sign"}, "head_dim"),
        ({"logit_scale": 0.0}, "logit_scale"),
        ({"logit_scale": math.nan}, "logit_scale"),
        ({"init": "xavier"}, "init"),
        ({"init_scale": 0.0}, "init_scale"),
        ({"normalization": "sigmoid"}, "normalization"),
        ({"key": 0}, "key"),
        ({"dim": 20_000, "n_heads": 10}, "n_heads .* 8 GiB"),
    ],
)
def test_bad_arguments_are_named(change, named):
    with pytest.raises(InvalidArgument, match=f"^{named}"):
        al.MultiHeadAttention(**{"dim": 3, "n_heads": 2, "key": KEY, **change})


def test_what_does_not_fit_is_refused():
    layer = al.MultiHeadAttention(3, 2, key=KEY)
    stack = AttentionStack([layer, layer])
    for student in (layer, stack):
        with pytest.raises(InvalidArgument, match="X ="):
            student(X[..., :2], Y, XQ[..., :2])
        with pytest.raises(InvalidArgument, match="1 task"):
            student(X, Y2, XQ)  # einsum alone would stretch the read-out over both
        with pytest.raises(InvalidArgument, match="y ="):
            student(X, Y[:, :4], XQ)
        with pytest.raises(InvalidArgument, match="xq ="):
            student(X, Y, XQ[:1])
    with pytest.raises(InvalidArgument, match="mask"):
        layer.update(jnp.asarray(tokens_of(X, Y, XQ)), "none")
    for tokens in (np.zeros((2, 5, 3)), np.zeros(4), np.zeros((0, 4)), "tokens"):
        with pytest.raises(InvalidArgument, match="tokens ="):
            layer.update(tokens)
    with pytest.raises(InvalidArgument, match="X ="):
        layer([["a", "b", "c"]], [1.0], [0.0, 0.0, 0.0])
    nested = layer(X.tolist(), Y.tolist(), XQ.tolist())
    np.testing.assert_array_equal(nested, layer(X, Y, XQ))
    for layers in (layer, [], [layer, None], [layer, al.MultiHeadAttention(4, 2, key=KEY)], 3):
        with pytest.raises(InvalidArgument, match="layers"):
            AttentionStack(layers)
    with pytest.raises(InvalidArgument, match="mask"):
        AttentionStack([layer], "full")
    with pytest.raises(InvalidArgument, match="heads"):
        al.MultiHeadAttention.from_heads(layer, 3)
    with pytest.raises(InvalidArgument, match="omega"):
        al.MultiHeadAttention.from_heads(al.KernelHeads(np.ones((2, 4)), [1.0, 1.0]), 3)
    assert get_normalization("softmax") is layer.normalization
