"""Prompts with several informative tokens: their law, their labels, and bad arguments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab.tasks import SeveralLocations


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("aggregate", ["mean", "sum"])
def test_tokens_and_labels_follow_the_definition(own, aggregate):
    n, s = 20_000, 3
    task = SeveralLocations(
        6, 5, s, own_directions=own, aggregate=aggregate, signal=1.5, token_std=0.5, noise_std=0.2,
        link="tanh",
    )  # fmt: skip
    X, y, places = task.sample(jax.random.key(0), n)
    X, y, places = np.asarray(X, float), np.asarray(y, float), np.asarray(places)
    assert (np.sort(places, -1)[:, 1:] > np.sort(places, -1)[:, :-1]).all()
    np.testing.assert_allclose(np.bincount(places[:, 0], minlength=5) / n, 0.2, atol=0.015)
    keys, v_star = (np.asarray(a) for a in task.default_directions())
    assert keys.shape == (s, 6)
    np.testing.assert_allclose(keys @ keys.T, np.eye(s) if own else np.ones((s, s)))
    assert not (keys @ v_star).any()
    told = X[np.arange(n)[:, None], places]  # (n, s, d)
    for j in range(s):
        centred = told[:, j] - 1.5 * np.sqrt(6) * keys[j]
        np.testing.assert_allclose(centred.mean(0), 0, atol=0.02)
        np.testing.assert_allclose(np.cov(centred.T), 0.25 * np.eye(6), atol=0.02)
    rest = np.ones((n, 5), bool)
    np.put_along_axis(rest, places, False, axis=1)
    np.testing.assert_allclose(np.cov(X[rest].T), np.eye(6), atol=0.04)
    total = np.tanh(told @ v_star).sum(-1)
    noise = y - (total / s if aggregate == "mean" else total)
    assert abs(noise.mean()) < 0.01
    assert abs(noise.std() - 0.2) < 0.01


def test_one_informative_token_is_the_single_location_task():
    several = SeveralLocations(5, 4, 1, noise_std=0.1)
    single = al.SingleLocation(5, 4, noise_std=0.1)
    assert (several.signal, several.token_std) == (single.signal, single.token_std)
    rows = [np.asarray(t.sample(jax.random.key(1), 50_000).y) for t in (several, single)]
    assert abs(rows[0].var() / rows[1].var() - 1) < 0.03


def test_precision_never_changes_the_sample():
    task = SeveralLocations(4, 3, 2)
    light = task.sample(jax.random.key(0), 10)
    with jax.enable_x64(True):
        full = task.sample(jax.random.key(0), 10, dtype=jnp.float64)
    assert full.X.dtype == np.float64
    np.testing.assert_array_equal(light.locations, full.locations)
    np.testing.assert_allclose(light.X, full.X, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "options", "name"),
    [
        ((6, 3, 4), {}, "n_informative"),
        ((6, 3, 0), {}, "n_informative"),
        ((3, 5, 3), {"own_directions": True}, "dim"),
        ((6, 0, 1), {}, "length"),
        ((6, 3, 2), {"aggregate": "median"}, "aggregate"),
        ((6, 3, 2), {"own_directions": "yes"}, "own_directions"),
        ((6, 3, 2), {"token_std": -1.0}, "token_std"),
        ((6, 3, 2), {"link": "no such"}, "link"),
    ],
)
def test_bad_arguments_are_named(arguments, options, name):
    with pytest.raises(al.InvalidArgument, match=f"^{name} = "):
        SeveralLocations(*arguments, **options)


def test_a_batch_that_does_not_fit_is_refused():
    with pytest.raises(al.InvalidArgument, match="batch"):
        SeveralLocations(10_000, 1000, 2).sample(jax.random.key(0), 1000)


@pytest.mark.parametrize("make", [al.SingleLocation, lambda d, n: SeveralLocations(d, n, 2)])
def test_sampling_with_given_directions_under_the_callers_transformations(make):
    task = make(6, 4)
    k_star, v_star = np.eye(6)[3], np.eye(6)[4]
    keys = jax.random.split(jax.random.key(0), 3)
    mapped = jax.lax.map(lambda key: task.sample(key, 5, k_star, v_star).X, keys)
    plain = task.sample(keys[1], 5, k_star, v_star).X
    np.testing.assert_allclose(mapped[1], plain, rtol=1e-5, atol=1e-6)
