"""The softmax student in all kinds of training: in overlaps against vectors, chains against prompts."""

from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import attnlab as al
from attnlab.dynamics import (
    empirical_gradient_descent,
    projected_gradient_descent,
    projected_gradient_descent_vectors,
    stochastic_gradient_descent,
    stochastic_gradient_descent_vectors,
)
from attnlab.dynamics.dataset import overlaps_of
from attnlab.dynamics.vectors import batch_loss

TASK = al.SingleLocation(6, 5, noise_std=0.2)
STUDENT = al.SoftmaxAttention(0.8)
Batch = namedtuple("Batch", "X y")
NAMES = ("kappa", "nu", "theta", "eta", "rho", "risk", "scale")


@pytest.fixture(scope="module")
def risk():
    return al.population_risk(TASK, STUDENT)


def test_overlaps_and_vectors_agree_to_rounding(risk):
    rng = np.random.default_rng(0)
    k_star, v_star = np.linalg.qr(rng.normal(size=(6, 2)))[0].T
    k, v = rng.normal(size=(2, 3, 6))
    k, v = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (k, v))
    plan = {"step_size": 0.05, "steps": 60, "save_every": 20}
    start = al.Overlaps.from_vectors(k, v, k_star, v_star)
    ours = projected_gradient_descent(risk, start, **plan)
    theirs = projected_gradient_descent_vectors(risk, k, v, k_star, v_star, **plan)
    for name in NAMES:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-11, err_msg=name)
    assert float(ours.risk[:, -1].max()) < float(ours.risk[:, 0].max())


def test_a_schedule_is_shown_to_the_risk_beforehand(risk):
    class Shown(Exception):
        pass

    class Careful(type(risk)):
        def resolving(self, scales):
            raise Shown(float(scales[0]), float(scales[-1]))

    careful = object.__new__(Careful)
    careful.__dict__.update(risk.__dict__)
    with pytest.raises(Shown) as shown:
        projected_gradient_descent(
            careful, al.Overlaps.teacher(), step_size=0.1, steps=50,
            scale_schedule=lambda step: 0.8 / (1 + step),
        )  # fmt: skip
    assert shown.value.args == (0.8, pytest.approx(0.8 / 51))


def test_the_chain_has_the_law_of_training_in_vectors(risk):
    start, runs = al.Overlaps.on_sphere(jax.random.key(3), 6), 1500
    many = al.Overlaps.unstack(np.repeat(start.stack()[None], runs, 0))
    plan = {"step_size": 0.1, "steps": 2, "batch_size": 2, "save_every": 2}
    chain = stochastic_gradient_descent(TASK, STUDENT, many, key=jax.random.key(0), **plan)
    slopes = jax.jit(jax.vmap(jax.grad(batch_loss, argnums=(2, 3)), in_axes=(None, 0, 0, 0, None)))
    rng, (k, v) = np.random.default_rng(0), many.to_vectors(6)
    for _ in range(2):
        X = rng.standard_normal((runs, 2, 5, 6))
        X[:, :, 2] *= TASK.token_std
        X[:, :, 2, 0] += TASK.signal * np.sqrt(6)
        y = X[:, :, 2, 1] + 0.2 * rng.standard_normal((runs, 2))
        moved = []
        for x, g in zip((k, v), slopes(STUDENT, Batch(X, y), k, v, None), strict=True):
            g = np.asarray(g, float)
            x = x - 0.1 * (g - np.sum(g * x, -1, keepdims=True) * x)
            moved.append(x / np.linalg.norm(x, axis=-1, keepdims=True))
        k, v = moved
    brute = al.Overlaps.from_vectors(k, v, *np.eye(2, 6)).stack()
    one = overlaps_of(chain, step=-1).stack()
    features = [*np.eye(5), *rng.standard_normal((5, 5))]
    p = [stats.ks_2samp(one @ f, brute @ f).pvalue for f in features]
    p += [stats.ks_2samp((one @ f) ** 2, (brute @ f) ** 2).pvalue for f in features[5:]]
    assert min(p) > 1e-4
    np.testing.assert_allclose(chain.risk[:, 0], float(risk(start)), rtol=1e-10)


def test_one_step_on_fixed_prompts_is_the_numerical_gradient():
    start, n, size, h = al.Overlaps.on_sphere(jax.random.key(4), 6, runs=1), 20, 0.3, 1e-5
    out = empirical_gradient_descent(
        TASK, STUDENT, start, n_prompts=n, step_size=size, steps=1, key=jax.random.key(2),
        dtype=jnp.float64,
    )  # fmt: skip
    data_key, _ = jax.random.split(jax.random.fold_in(jax.random.key(2), 0))
    X, y = (np.asarray(part, float) for part in TASK.sample(data_key, n)[:2])

    def loss(pair):
        weights = np.exp(0.8 * np.sqrt(6) * X @ pair[0])
        weights /= weights.sum(-1, keepdims=True)
        return np.mean((np.sum(weights * (X @ pair[1]), -1) - y) ** 2)

    pair = np.stack(start.to_vectors(6), axis=1)[0]
    slopes = np.zeros_like(pair)
    for at in np.ndindex(pair.shape):
        shift = np.zeros_like(pair)
        shift[at] = h
        slopes[at] = (loss(pair + shift) - loss(pair - shift)) / (2 * h)
    moved = pair - size * (slopes - np.sum(slopes * pair, -1, keepdims=True) * pair)
    k, v = moved / np.linalg.norm(moved, axis=-1, keepdims=True)
    expected = (k[0], v[1], v[0], k[1], k @ v, loss(np.stack([k, v])))
    found = [float(out[name][0, 1]) for name in (*NAMES[:5], "training_risk")]
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_sampling_at_exponential_length_is_refused_before_any_compute():
    task, start = al.SingleLocation(100, log_length=100.0), al.Overlaps.teacher()
    more = {"step_size": 0.1, "steps": 1, "key": jax.random.key(0)}
    calls = (
        lambda: al.monte_carlo_risk(task, STUDENT, start, key=more["key"], samples=9),
        lambda: stochastic_gradient_descent(task, STUDENT, start, batch_size=2, **more),
        lambda: stochastic_gradient_descent_vectors(task, STUDENT, start, batch_size=2, **more),
        lambda: empirical_gradient_descent(task, STUDENT, start, n_prompts=5, **more),
    )
    for call in calls:
        with pytest.raises(al.InvalidArgument, match="log_length"):
            call()
