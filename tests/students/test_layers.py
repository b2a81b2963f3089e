"""Softmax attention, several heads, the fuller layer and the perceptron, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab.students import (
    AttentionHeads,
    FlattenedMLP,
    SoftmaxAttention,
    TransformerLayer,
    parameter_count,
)

KEY = jax.random.key(0)
X = np.asarray(jax.random.normal(KEY, (4, 5, 6)))


def test_softmax_attention_is_a_weighted_average():
    k, v = np.eye(6)[0], np.eye(6)[1]
    student = SoftmaxAttention(0.7, "tanh")
    scores = 0.7 * np.sqrt(6) * X @ k
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(student(X, k, v), (weights * np.tanh(X @ v)).sum(-1), rtol=1e-5)
    average = SoftmaxAttention(1e-9)(X, k, v)
    np.testing.assert_allclose(average, (X @ v).mean(-1), rtol=1e-5, atol=1e-6)
    # a hard maximum at large inverse temperature, without overflow
    hard = SoftmaxAttention(1e4)(X, k, v)
    best = np.take_along_axis(X @ v, np.argmax(X @ k, -1)[:, None], -1)[:, 0]
    np.testing.assert_allclose(hard, best, rtol=1e-5)


def test_softmax_temperature_can_be_overridden_and_is_checked():
    k, v = np.eye(6)[0], np.eye(6)[1]
    other = SoftmaxAttention(0.2).predict_from_projections(X @ k, X @ v, 0.9, dim=6)
    np.testing.assert_allclose(other, SoftmaxAttention(0.9)(X, k, v), rtol=1e-6)
    for wrong in (-1.0, 0.0):
        with pytest.raises(al.InvalidArgument, match="inverse_temperature"):
            SoftmaxAttention(wrong)


@pytest.mark.parametrize("student", [al.PointwiseAttention("erf", 0.4), SoftmaxAttention(0.4)])
def test_heads_add_up_and_use_unit_vectors(student):
    layer = AttentionHeads(student, 6, 3, key=KEY)
    longer = [2.0 * layer.k, 3.0 * layer.v]
    stretched = jax.tree.unflatten(jax.tree.structure(layer), [*_rest(layer), *longer])
    np.testing.assert_allclose(np.linalg.norm(layer.k, axis=-1), 1, rtol=1e-6)
    total = sum(student(X, k, v) for k, v in zip(layer.k, layer.v))
    np.testing.assert_allclose(layer(X), total, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(stretched(X), total, rtol=1e-5, atol=1e-6)
    free = AttentionHeads(student, 6, 3, free_values=True, key=KEY)
    np.testing.assert_allclose(free(X), total, rtol=1e-5, atol=1e-6)
    free = jax.tree.unflatten(jax.tree.structure(free), [*_rest(free), *longer])
    np.testing.assert_allclose(free(X), 3 * total, rtol=1e-5, atol=1e-6)
    assert parameter_count(layer) == 2 * 3 * 6


def _rest(layer):
    """The leaves of a layer before its vectors: those of its student."""
    return jax.tree.leaves(layer)[:-2]


@pytest.mark.parametrize("normalization", ["rms", "layer", "none"])
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("readout", ["cls", "mean"])
def test_transformer_layer_is_its_formula(normalization, skip, readout):
    layer = TransformerLayer(
        6, 2, 3, skip=skip, normalization=normalization, readout=readout, key=KEY
    )
    w = {n: np.asarray(getattr(layer, n), float) for n in ("query", "keys", "value", "output")}
    expected = []
    for prompt in X.astype(float):
        Z = np.vstack([layer.cls, prompt]) if readout == "cls" else prompt
        N = Z - (Z.mean(-1, keepdims=True) if normalization == "layer" else 0)
        if normalization != "none":
            N = N / np.sqrt((N**2).mean(-1, keepdims=True) + 1e-6)
        out = []
        for i in range(1 if readout == "cls" else len(Z)):
            told = Z[i] if skip else np.zeros(6)
            for h in range(2):
                logits = (N @ w["keys"][h].T) @ (w["query"][h] @ N[i]) / np.sqrt(3)
                p = np.exp(logits) / np.exp(logits).sum()
                told = told + w["output"][h] @ (w["value"][h] @ (p @ N))
            out.append(told @ np.asarray(layer.read))
        expected.append(np.mean(out))
    np.testing.assert_allclose(layer(X), expected, rtol=2e-4, atol=2e-5)


def test_effective_directions_of_the_layer():
    layer = TransformerLayer(6, 2, 3, key=KEY)
    cls = np.asarray(layer.normalize(layer.cls), float)
    q, k, v, o = (
        np.asarray(getattr(layer, n), float) for n in ("query", "keys", "value", "output")
    )
    for h in range(2):
        np.testing.assert_allclose(
            layer.score_directions()[h], k[h].T @ q[h] @ cls, rtol=1e-4, atol=1e-5
        )
        told = v[h].T @ o[h].T @ np.asarray(layer.read)
        np.testing.assert_allclose(layer.value_directions()[h], told, rtol=1e-4, atol=1e-5)
    mean = TransformerLayer(6, 1, 3, readout="mean", key=KEY)
    direction = np.asarray(mean.score_directions()[0])
    circuit = np.asarray(mean.keys[0].T @ mean.query[0])
    assert np.linalg.norm(direction @ circuit) == pytest.approx(
        np.linalg.norm(circuit, 2), rel=1e-4
    )


def test_directions_explain_the_logits_of_centred_tokens():
    layer = TransformerLayer(6, 1, 3, normalization="layer", skip=False, key=KEY)
    look, read = layer.score_directions()[0], layer.value_directions()[0]
    np.testing.assert_allclose([look.sum(), read.sum()], 0, atol=1e-5)
    Z = np.concatenate([np.broadcast_to(layer.cls, (4, 1, 6)), X], axis=1)
    N = np.asarray(layer.normalize(jnp.asarray(Z)), float)
    logits = N @ np.asarray(look, float) / np.sqrt(3)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    told = (p * (N @ np.asarray(read, float))).sum(-1)
    np.testing.assert_allclose(layer(X), told, rtol=1e-3, atol=1e-4)


def test_perceptron_counts_grow_with_the_length_and_fix_it():
    counts = [parameter_count(FlattenedMLP(6, L, 10, key=KEY)) for L in (3, 5)]
    assert counts[1] - counts[0] == 2 * 6 * 10
    mlp = FlattenedMLP(6, 5, 10, depth=2, key=KEY)
    first, second, last = mlp.network.layers
    hidden = np.maximum(X.reshape(4, -1) @ np.asarray(first.weight).T + first.bias, 0)
    hidden = np.maximum(hidden @ np.asarray(second.weight).T + second.bias, 0)
    np.testing.assert_allclose(
        mlp(jnp.asarray(X)),
        (hidden @ np.asarray(last.weight).T + last.bias)[:, 0],
        rtol=1e-4,
        atol=1e-5,
    )
    with pytest.raises(al.InvalidArgument, match="X = "):
        mlp(jnp.zeros((2, 4, 6)))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: AttentionHeads(lambda X: X, 6, key=KEY), "student"),
        (lambda: AttentionHeads(SoftmaxAttention(), 6, 0, key=KEY), "n_heads"),
        (lambda: TransformerLayer(1, key=KEY), "dim"),
        (lambda: TransformerLayer(6, normalization="batch", key=KEY), "normalization"),
        (lambda: TransformerLayer(6, readout="last", key=KEY), "readout"),
        (lambda: FlattenedMLP(6, 3, 0, key=KEY), "width"),
    ],
)
def test_bad_arguments_are_named(make, name):
    with pytest.raises(al.InvalidArgument, match=f"^{name} = "):
        make()
