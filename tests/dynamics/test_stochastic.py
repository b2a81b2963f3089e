import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import attnlab as al
from attnlab.dynamics.dataset import overlaps_of
from attnlab.errors import InvalidArgument


def brute_force_steps(task, student, start, *, size, batch, steps, runs, seed):
    """Projected SGD with whole prompts in `R^d`, in plain vectors."""
    k, v = (np.repeat(part[None], runs, 0) for part in start.to_vectors(task.dim))

    def loss(k, v, X, y):
        return jnp.mean((student(X, k, v) - y) ** 2)

    with jax.enable_x64(True):
        slopes = jax.jit(jax.vmap(jax.grad(loss, argnums=(0, 1))))
        for step in range(steps):
            keys = jax.random.split(jax.random.key(seed + step), runs)
            prompts = jax.vmap(lambda key: task.sample(key, batch, dtype=jnp.float64))(keys)
            moved = []
            for x, g in zip((k, v), slopes(k, v, prompts.X, prompts.y), strict=True):
                x = x - size * (g - np.sum(g * x, -1, keepdims=True) * x)
                moved.append(x / np.linalg.norm(x, axis=-1, keepdims=True))
            k, v = (np.asarray(part) for part in moved)
    axes = np.eye(task.dim)
    return al.Overlaps.from_vectors(k, v, axes[0], axes[1]).stack()


@pytest.mark.parametrize("dim", [9])
def test_overlaps_have_the_law_of_training_in_vectors(dim):
    task = al.SingleLocation(dim, 3, noise_std=0.3, link="tanh")
    student = al.PointwiseAttention("tanh", 0.9)
    start = al.Overlaps.on_sphere(jax.random.key(dim), dim)
    runs, steps = 3000, 3
    many = al.Overlaps.unstack(np.repeat(start.stack()[None], runs, 0))
    chain = al.dynamics.stochastic_gradient_descent(
        task, student, many, step_size=0.2, steps=steps, batch_size=2, key=jax.random.key(5)
    )
    ours = overlaps_of(chain, step=-1).stack()
    brute = brute_force_steps(
        task, student, start, size=0.2, batch=2, steps=steps, runs=runs, seed=100
    )
    # marginals, and linear and quadratic combinations that feel the joint law
    rng = np.random.default_rng(0)
    mixes = rng.standard_normal((6, 5))
    features = [*np.eye(5), *mixes]
    p = [stats.ks_2samp(ours @ f, brute @ f).pvalue for f in features]
    p += [stats.ks_2samp((ours @ f) ** 2, (brute @ f) ** 2).pvalue for f in mixes]
    assert min(p) > 1e-4
    al.Overlaps(*np.moveaxis(ours, -1, 0))  # still realisable


def test_small_steps_follow_the_population_gradient():
    task, student = al.SingleLocation(20, 4), al.PointwiseAttention("erf", 0.5)
    risk = al.population_risk(task, student)
    start = al.Overlaps.on_sphere(jax.random.key(1), 20)
    many = al.Overlaps.unstack(np.repeat(start.stack()[None], 4000, 0))
    size = 1e-4
    chain = al.dynamics.stochastic_gradient_descent(
        task, student, many, step_size=size, steps=1, batch_size=4, key=jax.random.key(0)
    )
    mean_move = (overlaps_of(chain, step=-1).stack() - start.stack()) / size
    exact = al.dynamics.projected_gradient_descent(risk, start, step_size=size, steps=1)
    expected = (overlaps_of(exact, step=-1).stack()[0] - start.stack()) / size
    z = (mean_move.mean(0) - expected) / (mean_move.std(0) / np.sqrt(4000))
    assert np.abs(z).max() < 4


def test_seeds_runs_and_records():
    task, student = al.SingleLocation(20, 4, noise_std=0.1), al.PointwiseAttention("erf", 0.5)
    starts = al.Overlaps.on_sphere(jax.random.key(1), 20, runs=5)

    def run(starts, seed, **more):
        return al.dynamics.stochastic_gradient_descent(
            task,
            student,
            starts,
            step_size=0.01,
            steps=40,
            batch_size=3,
            key=jax.random.key(seed),
            **more,
        )

    five = run(starts, 0)
    two = run(al.Overlaps.unstack(starts.stack()[:2]), 0)
    np.testing.assert_allclose(five.kappa[:2], two.kappa, rtol=1e-12)
    assert not np.allclose(five.kappa[:, -1], run(starts, 1).kappa[:, -1])
    rare = run(starts, 0, save_every=40, scale_schedule=lambda step: 0.5 / (1 + step))
    risk = al.population_risk(task, student)
    np.testing.assert_allclose(
        rare.risk, risk(overlaps_of(rare), scale=rare.scale.values), rtol=1e-13
    )


def test_bad_arguments():
    student = al.PointwiseAttention("erf", 0.5)
    good = {"step_size": 0.1, "steps": 1, "batch_size": 1, "key": jax.random.key(0)}
    sgd = al.dynamics.stochastic_gradient_descent
    with pytest.raises(InvalidArgument, match="log_length"):
        sgd(al.SingleLocation(5, log_length=60.0), student, al.Overlaps(0, 0), **good)
    with pytest.raises(InvalidArgument, match="batch_size"):
        sgd(al.SingleLocation(5, 4), student, al.Overlaps(0, 0), **(good | {"batch_size": 0}))
    with pytest.raises(InvalidArgument, match="batch_size"):
        sgd(al.SingleLocation(5, 4), student, al.Overlaps(0, 0), **(good | {"batch_size": 10**8}))
    with pytest.raises(InvalidArgument, match="dim"):
        sgd(al.SingleLocation(2, 4), student, al.Overlaps(0, 0), **good)
