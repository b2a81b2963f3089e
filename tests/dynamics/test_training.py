"""Training on fresh prompts: against a plain loop, with several runs, and bad arguments."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import attnlab as al
from attnlab.dynamics.training import sampled_risk, train
from attnlab.students import AttentionHeads, SoftmaxAttention

TASK = al.SingleLocation(6, 3, noise_std=0.1)
KEY = jax.random.key(4)


def make(key):
    return AttentionHeads(SoftmaxAttention(0.5), 6, 1, key=key)


def squared_error(layer, X, y):
    return jnp.mean((layer(X) - y) ** 2)


def aligned(layer):
    return {"key": layer.score_directions()[0, 0], "both": layer.value_directions()[0, :2]}


def test_training_is_the_plain_loop():
    run = train(
        make, TASK, optimizer=optax.adam(optax.cosine_decay_schedule(0.05, 5)), steps=5,
        batch_size=8, key=KEY, runs=2, save_every=2, measure=aligned, test_prompts=50,
    )  # fmt: skip
    assert run.history.step.values.tolist() == [0, 2, 4, 5]
    assert run.history.both.shape == (2, 4, 2)
    optimizer = optax.adam(optax.cosine_decay_schedule(0.05, 5))

    @eqx.filter_jit
    def moved(layer, memory, key):
        X, y, _ = TASK.sample(key, 8)
        gradient = eqx.filter_grad(squared_error)(layer, X, y)
        updates, memory = optimizer.update(gradient, memory)
        return eqx.apply_updates(layer, updates), memory

    for i in range(2):
        init_key, data_key, test_key = jax.random.split(jax.random.fold_in(KEY, i), 3)
        layer = make(init_key)
        memory = optimizer.init(eqx.filter(layer, eqx.is_inexact_array))
        test = TASK.sample(test_key, 50)
        for step in range(5):
            layer, memory = moved(layer, memory, jax.random.fold_in(data_key, step))
            if step == 1:
                losses = (layer(test.X) - test.y) ** 2
                np.testing.assert_allclose(run.history.risk[i, 1], losses.mean(), rtol=1e-4)
                error = np.std(losses, ddof=1) / np.sqrt(50)
                np.testing.assert_allclose(run.history.risk_error[i, 1], error, rtol=1e-4)
                np.testing.assert_allclose(
                    run.history.key[i, 1], layer.score_directions()[0, 0], atol=1e-5
                )
        np.testing.assert_allclose(run.layer_of(i).k, layer.k, atol=1e-5)
        np.testing.assert_allclose(run.layer_of(i)(test.X), layer(test.X), atol=1e-5)


def test_one_layer_is_trained_and_risk_falls():
    layer = make(jax.random.key(2))
    run = train(layer, TASK, optimizer=optax.adam(0.02), steps=400, batch_size=64, key=KEY)
    assert run.history.risk.dims == ("step",)
    assert float(run.history.risk[-1]) < 0.5 * float(run.history.risk[0])
    assert run.layer.k.dtype == np.float32
    mean, error = sampled_risk(run.layer, TASK, key=jax.random.key(8), samples=20_001, batch=3000)
    assert abs(mean - float(run.history.risk[-1])) < 5 * np.hypot(
        error, float(run.history.risk_error[-1])
    )


def test_sampled_risk_of_one_head_is_its_exact_risk():
    student = al.PointwiseAttention("erf", 0.5)
    layer = AttentionHeads(student, 6, 1, key=KEY)
    overlaps = al.Overlaps.from_vectors(layer.k[0], layer.v[0], np.eye(6)[0], np.eye(6)[1])
    exact = al.population_risk(TASK, student)(overlaps)
    mean, error = sampled_risk(layer, TASK, key=KEY, samples=100_000)
    assert 0 < error < 0.05 * exact
    assert abs(mean - exact) < 4.5 * error


def test_a_diverging_run_is_marked_and_alone():
    def bad_or_good(key):
        layer = make(key)
        # the first run's key data decides: one of the two starts at infinity
        first = jax.random.key_data(key)[0] == jax.random.key_data(init_keys[0])[0]
        return eqx.tree_at(lambda m: m.v, layer, jnp.where(first, jnp.inf, layer.v))

    init_keys = [jax.random.split(jax.random.fold_in(KEY, i), 3)[0] for i in range(2)]
    run = train(bad_or_good, TASK, optimizer=optax.sgd(0.1), steps=3, batch_size=4, key=KEY, runs=2)
    assert run.history.status.values.tolist() == ["diverged", "ok"]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"steps": -1}, "steps"),
        ({"batch_size": 0}, "batch_size"),
        ({"runs": 0}, "runs"),
        ({"runs": None}, "layer"),
        ({"optimizer": 0.1}, "optimizer"),
        ({"task": "prompts"}, "task"),
        ({"test_prompts": 10**9}, "test_prompts = 1000000000 .*2 GiB"),
    ],
)
def test_bad_settings_are_named(change, name):
    how = {"task": TASK, "optimizer": optax.sgd(0.1), "steps": 1, "batch_size": 4, "runs": 2}
    how.update(change)
    with pytest.raises(al.InvalidArgument, match=name):
        train(make, how.pop("task"), key=KEY, **how)
