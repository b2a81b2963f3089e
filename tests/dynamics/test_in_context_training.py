"""Training in context: against a plain loop, the circuits it records, interruption, several runs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import attnlab as al
from attnlab._core.checkpoint import use_checkpoints
from attnlab._core.interrupt import RunInterrupted
from attnlab._core.progress import use_progress
from attnlab.dynamics import CircuitMeasure, loop, sampled_risk, tail_average, train

KEY = jax.random.key(4)
TASK = al.InContextRegression(
    3,
    7,
    covariance=[[1, 0.5, 0], [0.5, 1, 0.2], [0, 0.2, 0.8]],
    supports=[(0, 1), (1, 2)],
    coefficients="independent",
)
SINGLE = al.InContextRegression(3, 7)


def make(key, n_outputs=1, **how):
    return al.MultiHeadAttention(3, 2, n_outputs=n_outputs, key=key, **how)


def predicted(weights, X, y, xq, scale):
    """The layer's formula, prompt by prompt and head by head."""
    W_Q, W_K, W_V, W_O = weights
    outputs = y.shape[-1]

    def one(X, y, xq):
        tokens = jnp.concatenate([X, y], -1)
        query = jnp.concatenate([xq, jnp.zeros(outputs)])
        total = jnp.zeros(outputs)
        for h in range(2):
            scores = scale * (tokens @ W_K[h].T) @ (W_Q[h] @ query)
            attended = jax.nn.softmax(scores) @ tokens
            total += (W_O[h] @ (W_V[h] @ attended))[-outputs:]
        return total

    return jax.vmap(one)(X, y, xq)


def test_training_is_the_plain_loop():
    optimizer = optax.adam(optax.cosine_decay_schedule(0.05, 4))
    layer = make(jax.random.key(2), n_outputs=2, logit_scale=0.7)
    run = train(
        layer, TASK, optimizer=optimizer, steps=4, batch_size=16, key=KEY, save_every=2,
        measure=CircuitMeasure(matrices=True), test_prompts=60,
    )  # fmt: skip
    _, data_key, test_key = jax.random.split(jax.random.fold_in(KEY, 0), 3)
    test = TASK.sample(test_key, 60)
    weights = layer.W_Q, layer.W_K, layer.W_V, layer.W_O

    def errors(weights, prompts):
        return ((predicted(weights, *prompts.inputs, 0.7) - prompts.yq) ** 2).sum(-1)

    gradient = jax.jit(jax.grad(lambda w, prompts: errors(w, prompts).mean()))
    memory = optimizer.init(weights)
    for step in range(4):
        prompts = TASK.sample(jax.random.fold_in(data_key, step), 16)
        updates, memory = optimizer.update(gradient(weights, prompts), memory, weights)
        weights = optax.apply_updates(weights, updates)
    trained = run.layer.W_Q, run.layer.W_K, run.layer.W_V, run.layer.W_O
    for ours, plain in zip(trained, weights):
        np.testing.assert_allclose(ours, plain, atol=2e-5)
    losses = errors(weights, test)
    last = run.history.isel(step=-1)
    np.testing.assert_allclose(last.risk, losses.mean(), rtol=1e-4)
    np.testing.assert_allclose(last.risk_error, np.std(losses, ddof=1) / np.sqrt(60), rtol=1e-4)
    assert "Threefry" in run.history.attrs["generator"]
    # every named circuit, entry by entry, from the matrices of the same step
    for at in range(3):
        kq, ov = (np.asarray(run.history[name][at], np.float64) for name in ("kq", "ov"))
        shot = run.history.isel(step=at)
        assert shot.omega.dims == ("head",)
        assert shot.mu.dims == ("head", "output")
        for h in range(2):
            diagonal = [kq[h, i, i] for i in range(3)]
            rest = [kq[h, i, j] for i in range(5) for j in range(3) if i != j]
            mu = [ov[h, i, i] for i in (3, 4)]
            ov_rest = [ov[h, i, j] for i in (3, 4) for j in range(5) if i != j]
            for name, value in {
                "omega": np.mean(diagonal),
                "omega_spread": np.std(diagonal),
                "off_diagonal": np.sqrt(np.mean(np.square(rest))),
                "mu": mu,
                "ov_rest": np.sqrt(np.mean(np.square(ov_rest))),
            }.items():
                np.testing.assert_allclose(shot[name][h], value, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(kq, run.layer.kq, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("batch_size", [8, 1024])  # in one program, and one to a core
def test_interrupted_runs_resume_to_the_same_bits(batch_size, monkeypatch, tmp_path, stop_after):
    monkeypatch.setattr(loop, "_CHUNK_SECONDS", 1e-9)
    optimizer = optax.adam(0.01)

    def training(runs):
        return train(
            make, SINGLE, optimizer=optimizer, steps=100, batch_size=batch_size, key=KEY,
            save_every=20, runs=runs, test_prompts=20,
        )  # fmt: skip

    whole = training(3)
    with (
        use_progress(stop_after(14)),
        pytest.raises(RunInterrupted) as caught,
        use_checkpoints(tmp_path, "k"),
    ):
        training(3)
    assert 1 < caught.value.partial.sizes["step"] < 6
    assert caught.value.partial.omega.dims == ("run", "step", "head")
    with use_checkpoints(tmp_path, "k"):
        resumed = training(3)
    assert whole.history.identical(resumed.history)
    for a, b in zip(jax.tree.leaves(whole.layer), jax.tree.leaves(resumed.layer)):
        np.testing.assert_array_equal(a, b)
    # more runs never change earlier ones, and runs differ
    fewer = training(2)
    np.testing.assert_allclose(fewer.layer.W_Q, whole.layer.W_Q[:2], atol=1e-6)
    assert abs(whole.layer.W_Q[0] - whole.layer.W_Q[1]).max() > 0.1


def linear_descent(step):
    """Linear attention with `KQ = I`, `OV = step` is a step of gradient descent from zero."""
    heads = al.KernelHeads([1.0], [step], normalization="linear")
    return al.MultiHeadAttention.from_heads(heads, 5)


@pytest.mark.parametrize("length", [40, 333])
def test_sampled_risk_at_any_length_is_exact_where_that_is_known(length):
    task, step, d = al.InContextRegression(5, 40).with_length(length), 0.8, 5
    risk = 0.1 + 1 - 2 * step + step**2 * (1 + (d + 1 + 0.1 * d) / length)
    mean, error = sampled_risk(linear_descent(step), task, key=KEY, samples=200_001, batch=7000)
    assert 0 < error < 0.02 * risk
    assert abs(mean - risk) < 4.5 * error


def test_a_head_learns_to_descend():
    """One linear head ends at the best step, and its history at the least risk."""
    task, optimizer = (
        al.InContextRegression(5, 40),
        optax.adam(optax.cosine_decay_schedule(0.01, 3000)),
    )
    run = train(
        al.KernelHeads([0.5], [0.2], normalization="linear"), task, optimizer=optimizer,
        steps=3000, batch_size=256, key=KEY, save_every=30, test_prompts=20_000,
    )  # fmt: skip
    best = 40 / (40 + 5 + 1 + 0.5)
    last = run.history.isel(step=-1)
    assert float((last.omega * last.mu)[0]) == pytest.approx(best, rel=0.02)
    assert abs(float(last.risk) - (1.1 - best)) < 4 * float(last.risk_error)
    tail = tail_average(run.history)
    assert tail.attrs["saved_steps"] == 11
    np.testing.assert_allclose(tail.omega, run.history.omega[-11:].mean("step"), rtol=1e-6)
    assert tail_average(run.history, 1.0).attrs["saved_steps"] == 101
    with pytest.raises(al.InvalidArgument, match="fraction"):
        tail_average(run.history, 0.0)
    with pytest.raises(al.InvalidArgument, match="history"):
        tail_average(tail)


def test_float64_training_sees_the_same_prompts():
    how = {"optimizer": optax.sgd(0.1), "steps": 3, "batch_size": 8, "key": KEY, "test_prompts": 9}
    narrow = train(make(KEY), SINGLE, **how)
    wide = train(make(KEY), SINGLE, dtype=jnp.float64, **how)
    assert wide.layer.W_Q.dtype == np.float64
    np.testing.assert_allclose(wide.history.risk, narrow.history.risk, rtol=1e-5)
    np.testing.assert_allclose(wide.layer.W_O, narrow.layer.W_O, atol=1e-5)


def broken():
    return eqx.tree_at(lambda m: m.W_K, make(KEY), make(KEY).W_K.at[0, 0, 0].set(jnp.nan))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": broken()}, "layer = .MultiHeadAttention with NaN or infinity in .W_K"),
        ({"layer": make(KEY, n_outputs=2)}, "layer = .MultiHeadAttention, which raises"),
        ({"layer": al.MultiHeadAttention(4, 2, key=KEY)}, "called on the task's prompts"),
        ({"layer": lambda key: make(key)}, "layer .* Equinox module"),
        ({"task": TASK}, "layer = .MultiHeadAttention"),
        ({"steps": 1.5}, "steps"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 10**8}, "batch_size = 100000000 .*2 GiB"),
        ({"save_every": 0}, "save_every"),
        ({"key": 3}, "key"),
        ({"dtype": jnp.int32}, "dtype"),
        ({"dtype": "foo"}, "dtype"),
        ({"measure": 3}, "measure"),
        ({"measure": lambda layer: layer.kq}, "measure .* dictionary"),
        ({"measure": lambda layer: {"heads": "two"}}, "measure .* dictionary"),
    ],
)
def test_bad_settings_are_named_before_anything_is_computed(change, message):
    how = {"layer": make(KEY), "task": SINGLE, "optimizer": optax.sgd(0.1), "steps": 1}
    how |= {"batch_size": 4, "key": KEY} | change
    with pytest.raises(al.InvalidArgument, match=message):
        train(how.pop("layer"), how.pop("task"), **how)


def test_bad_arguments_of_the_sampled_risk():
    how = {"key": KEY, "samples": 10}
    with pytest.raises(al.InvalidArgument, match="layer"):
        sampled_risk(make(KEY, n_outputs=2), SINGLE, **how)
    with pytest.raises(al.InvalidArgument, match="samples"):
        sampled_risk(make(KEY), SINGLE, key=KEY, samples=1)
    with pytest.raises(al.InvalidArgument, match="batch"):
        sampled_risk(make(KEY), SINGLE, batch=0, **how)
    with pytest.raises(al.InvalidArgument, match="key"):
        sampled_risk(make(KEY), SINGLE, key=0, samples=10)
    with pytest.raises(al.InvalidArgument, match="task"):
        sampled_risk(make(KEY), "task", **how)
