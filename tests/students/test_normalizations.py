"""Normalisations: values, first-order coefficients, masks, and what cannot be one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlab.errors import InvalidArgument
from attnlab.students import (
    Normalization,
    affine,
    get_normalization,
    normalization_names,
    normalized_activation,
    one_plus_tanh,
    squared_affine,
)

SCORES = np.asarray(jax.random.normal(jax.random.key(1), (3, 6)), np.float32)
ACTIVATIONS = {
    "affine": (affine(0.5), lambda s: 1 + 0.5 * s, 0.5),
    "squared": (squared_affine(0.8), lambda s: (1 + 0.8 * s) ** 2, 1.6),
    "tanh": (one_plus_tanh(), lambda s: 1 + np.tanh(s), 1.0),
    "softmax": (get_normalization("softmax"), np.exp, 1.0),
}
EVERY = [*(entry[0] for entry in ACTIVATIONS.values()), *map(get_normalization, ("linear", "relu"))]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_weights_are_shares_with_the_stated_first_order(name):
    normalization, function, slope = ACTIVATIONS[name]
    raw = function(SCORES.astype(float))
    np.testing.assert_allclose(
        normalization.weights(SCORES), raw / raw.sum(-1, keepdims=True), rtol=2e-5, atol=1e-7
    )
    first = normalization.weights(SCORES.T, axis=0)
    np.testing.assert_allclose(first, normalization.weights(SCORES).T, rtol=1e-6)
    assert normalization.slope == pytest.approx(slope, rel=1e-6)
    assert normalization.sums_to_one
    # weights = (1 + C_f (s - mean s)) / L + O(s²): halving the scores quarters what is left out
    left = []
    for size in (0.02, 0.01):
        s = size * SCORES.astype(np.float64)
        with jax.enable_x64(True):
            exact = np.asarray(normalization.weights(s))
        left.append(np.abs(exact - (1 + slope * (s - s.mean(-1, keepdims=True))) / 6).max())
    assert left[0] < 1e-3
    assert left[1] < 0.3 * left[0]


def test_linear_and_relu_are_means():
    np.testing.assert_allclose(get_normalization("linear").weights(SCORES), SCORES / 6, rtol=1e-6)
    relu = get_normalization("relu")
    np.testing.assert_allclose(relu.weights(SCORES), np.maximum(SCORES, 0) / 6, rtol=1e-6)
    assert relu.slope is None
    assert not relu.sums_to_one
    # the mean is over what can be seen
    where = np.array([True, True, False, True, False, False])
    seen = get_normalization("linear").weights(SCORES, where=where)
    np.testing.assert_allclose(seen, np.where(where, SCORES / 3, 0), rtol=1e-6)


@pytest.mark.parametrize("normalization", EVERY, ids=lambda n: n.name)
def test_masked_entries_do_not_exist(normalization):
    where = np.array([[True, False, True, True, False, True], [True] * 6, [False] * 6])
    weights = np.asarray(normalization.weights(SCORES, where=where))
    short = normalization.weights(SCORES[0][where[0]])
    np.testing.assert_allclose(weights[0][where[0]], short, rtol=2e-5, atol=1e-7)
    assert np.all(weights[0][~where[0]] == 0)
    np.testing.assert_allclose(weights[1], normalization.weights(SCORES[1]), rtol=2e-5, atol=1e-7)
    assert np.all(weights[2] == 0)

    # gradients: none through what is masked, finite where nothing can be seen
    def total(scores):
        return jnp.sum(normalization.weights(scores, where=where) * jnp.arange(6.0))

    gradient = np.asarray(jax.grad(total)(jnp.asarray(SCORES)))
    assert np.isfinite(gradient).all()
    assert np.all(gradient[~where] == 0)
    assert np.any(gradient[0] != 0)
    # an infinite score under the mask is no score
    hidden = np.where(where, SCORES, np.inf).astype(np.float32)
    np.testing.assert_array_equal(normalization.weights(hidden, where=where), weights)


def test_large_scores_do_not_overflow():
    s = np.array([0.0, 200.0, 100.0], np.float32)
    np.testing.assert_allclose(get_normalization("softmax").weights(s), [0, 1, 0], atol=1e-6)
    np.testing.assert_allclose(one_plus_tanh().weights(s), [0.2, 0.4, 0.4], rtol=1e-5)
    low = one_plus_tanh().weights(np.array([-40.0, -41.0], np.float32))
    np.testing.assert_allclose(low, [1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))], rtol=1e-3)


def test_names_lead_to_one_object():
    assert {"softmax", "linear", "relu"} <= set(normalization_names())
    for name in normalization_names():
        assert get_normalization(name) is get_normalization(name)
    assert affine(0.5) is affine(0.5)
    own = normalized_activation(lambda x: jnp.exp(2 * x), name="sharp")
    assert get_normalization(own) is own
    assert own.slope == pytest.approx(2.0)
    assert isinstance(own, Normalization)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (None, "function"),
        (jnp.tanh, r"f\(-[\d.]+\) = -1"),
        (jax.nn.relu, r"f\(0\) = 0"),
        (lambda x: x - 1, "positive"),
        (lambda x: jnp.log(x), "finite"),
        (lambda x: jnp.stack([x, x]), "a number for each score"),
        (lambda x: x[0], "a function of one score"),
        (np.exp, "traceable by JAX"),
    ],
)
def test_what_cannot_be_normalised_is_refused(function, told):
    with pytest.raises(InvalidArgument, match=told):
        normalized_activation(function)


def test_bad_arguments_are_refused():
    with pytest.raises(InvalidArgument, match="did you mean 'softmax'"):
        get_normalization("softmaxx")
    for bad in (0.0, -1.0, float("nan"), [0.5], "large"):
        with pytest.raises(InvalidArgument, match="C ="):
            affine(bad)
        with pytest.raises(InvalidArgument, match="C ="):
            squared_affine(bad)
    with pytest.raises(InvalidArgument, match="positive at 0"):
        normalized_activation(lambda x: x, sum_can_vanish=True)


def test_a_named_one_can_be_made_inside_of_a_trace():
    one_plus_tanh.cache_clear()
    scores = jnp.arange(3.0)
    made = jax.jit(lambda x: get_normalization("one-plus-tanh").weights(x))(scores)
    raw = 1 + np.tanh(np.arange(3.0))
    np.testing.assert_allclose(made, raw / raw.sum(), rtol=1e-6)


def test_a_stretch_of_zeros_lets_the_sum_vanish():
    with pytest.raises(InvalidArgument, match="cannot vanish"):
        normalized_activation(lambda x: jnp.maximum(1 + x, 0))


@pytest.mark.parametrize("low", [-20.0, -25.0, -60.0, -1e4])
@pytest.mark.parametrize("masked", [False, True])
def test_one_plus_tanh_far_below_zero(low, masked):
    """In float32 `1 + tanh s` is 0 there; its shares are those of `exp(2s)`."""
    scores = jnp.array([low, low - 1.0, 3.0])
    where = jnp.array([True, True, not masked])
    normalization = get_normalization("one-plus-tanh")

    def weights(s):
        return normalization.weights(s, where=where) if masked else normalization.weights(s[:2])

    share = 1 / (1 + np.exp(-2.0))
    np.testing.assert_allclose(weights(scores)[:2], [share, 1 - share], atol=1e-5)
    # d w_0 / d s_0 = 2 w_0 (1 - w_0) for weights proportional to exp(2s)
    slope = jax.grad(lambda s: weights(s)[0])(scores)
    expected = 2 * share * (1 - share)
    np.testing.assert_allclose(slope, [expected, -expected, 0.0], atol=1e-5)
