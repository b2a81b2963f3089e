"""The best layers over sampled examples: against exact optima, real prompts, and each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab import estimators as est
from attnlab._core.precision import float64
from attnlab.estimators.deep_linear_sampled import preconditioner_of
from attnlab.estimators.deep_linear_whitened import Whitened, risks_given
from attnlab.students import AttentionStack, MergedAttention

DIM, LENGTH = 3, 20
ROTATION = np.linalg.qr(np.random.default_rng(0).normal(size=(DIM, DIM)))[0]
SIGMA = ROTATION @ np.diag([1.0, 0.5, 0.1]) @ ROTATION.T
SIGMA = (SIGMA + SIGMA.T) / 2
INVERSE = np.linalg.inv(SIGMA)


def search(layers, prior=INVERSE / DIM, **options):
    options = {
        "noise_std": 0.1,
        "key": jax.random.key(0),
        "starts": 0,
        "samples": 1000,
        "test_samples": 10_000,
    } | options
    return est.optimal_deep_linear_sampled(SIGMA, LENGTH, layers, prior=prior, **options)


def test_the_traced_risk_is_that_of_the_recursion():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4, LENGTH, DIM))
    S = np.swapaxes(X, 1, 2) @ X / LENGTH
    layers, prior = rng.normal(size=(2, 3, DIM, DIM)) / 2, INVERSE
    with float64():
        found = np.asarray(jax.jit(risks_given)(*map(jnp.asarray, (layers, S, prior, 0.02))))
    for one, risk in zip(S, found, strict=True):
        G = preconditioner_of(one, *layers)
        off = G @ one - np.eye(DIM)
        expected = np.trace(off @ prior @ off.T) + 0.02 * np.trace(G @ one @ G.T)
        assert risk == pytest.approx(expected, rel=1e-12)


def test_whitened_layers_have_the_same_risk():
    task = al.InContextRegression(DIM, LENGTH, noise_std=0.3, covariance=SIGMA, prior=np.eye(DIM))
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 2, DIM, DIM)) / 2
    view = Whitened(task)
    layers = view.whiten(a, b)
    for ours, back in zip((a, b), view.original(layers), strict=True):
        np.testing.assert_allclose(back, ours, atol=1e-13)
    S = view.draw(jax.random.key(1), 20_000)
    with float64():
        numbers = map(jnp.asarray, (layers, S, view.prior, 0.09 / LENGTH))
        risks = np.asarray(jax.jit(risks_given)(*numbers))
    sampled = est.deep_linear_sampled_risk(
        SIGMA, LENGTH, a, b, prior=np.eye(DIM), noise_std=0.3, key=jax.random.key(2), samples=20_000
    )
    error = np.hypot(sampled.error, np.std(risks) / np.sqrt(len(risks)))
    assert abs(np.mean(risks) + 0.09 - sampled.value) < 3.5 * error < 0.2 * sampled.value


@pytest.mark.parametrize("with_b", [False, True])
def test_scalars_found_on_a_sample_are_nearly_the_exact_ones(with_b):
    found = search(2, structure="preconditioned", with_b=with_b, starts=1)[-1]
    exact = est.optimal_deep_linear(
        DIM, LENGTH, 2, with_b=with_b, noise_std=0.1, prior_variance=1 / DIM, starts=1
    )
    a, b = found.a[:, 0, 0] / INVERSE[0, 0], found.b[:, 0, 0]
    np.testing.assert_allclose(found.a, np.multiply.outer(a, INVERSE), atol=1e-10)
    np.testing.assert_allclose(found.b, np.multiply.outer(b, np.eye(DIM)), atol=1e-10)
    own = est.deep_linear_risk(DIM, LENGTH, a, b, noise_std=0.1, prior_variance=1 / DIM)
    assert exact.risk.value < own.value < 1.02 * exact.risk.value
    assert abs(found.risk.value - own.value) < 4 * found.risk.error < 0.2 * own.value
    assert found.converged


def test_one_layer_is_the_best_preconditioner():
    prior = np.eye(DIM) / DIM
    (found,) = search(1, prior, samples=4000)
    task = al.InContextRegression(DIM, LENGTH, noise_std=0.1, covariance=SIGMA)
    metric = np.linalg.inv(est.optimal_preconditioner(task))
    np.testing.assert_allclose(found.a[0], metric, atol=0.05 * np.abs(metric).max())
    exact = est.gradient_descent_risk(task, step=1.0, preconditioner=np.linalg.inv(found.a[0].T))
    best = est.gradient_descent_risk(task, step=1.0, preconditioner=np.linalg.inv(metric))
    assert 0 < exact.value - best.value < 0.003 * best.value
    assert found.off_eigenbasis[0] < 1e-3


def test_freedom_lowers_the_training_risk():
    found = {
        name: search(2, structure=name, with_b=False)
        for name in ("full", "eigenbasis", "preconditioned", "steps")
    }
    shared = search(2, structure="steps", shared=True, with_b=False)
    np.testing.assert_array_equal(shared[1].a[0], shared[1].a[1])
    moved = search(2)
    order = [moved, *found.values(), shared]
    for layers in (0, 1):
        values = [one[layers].training_risk.value for one in order]
        assert np.all(np.diff(values) >= -1e-9)
        assert all(one[layers].converged for one in order)
    for one in order:
        assert one[1].training_risk.value < one[0].training_risk.value
        assert np.nanmin(one[1].start_risks) == pytest.approx(one[1].training_risk.value, abs=1e-12)
    assert moved[1].training_risk.value < 0.5 * found["full"][1].training_risk.value
    assert 0 < found["full"][1].off_eigenbasis.max() < 0.05
    assert found["eigenbasis"][1].off_eigenbasis.max() < 1e-20
    # the layers' own gain on their sample is lost on a fresh one
    assert found["full"][1].risk.value > found["preconditioned"][1].risk.value


def test_prompts_show_the_risk_of_what_was_found():
    found = search(2)[1]
    task = al.InContextRegression(DIM, LENGTH, noise_std=0.1, covariance=SIGMA, prior=INVERSE / DIM)
    stack = AttentionStack(
        [MergedAttention.sparse(-a.T, B=b) for a, b in zip(found.a, found.b, strict=True)],
        "context", sign=-1,
    )  # fmt: skip
    prompts = task.sample(jax.random.key(5), 10_000)
    predicted = jax.jit(lambda inputs: stack(*inputs))(prompts.inputs)
    losses = (np.asarray(predicted, np.float64) - np.asarray(prompts.target)) ** 2
    error = np.hypot(np.std(losses) / np.sqrt(len(losses)), found.risk.error)
    assert abs(np.mean(losses) - found.risk.value) < 3.5 * error < 0.2 * found.risk.value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("covariance", np.ones(3)),
        ("covariance", -np.eye(DIM)),
        ("prior", np.eye(2)),
        ("length", 0),
        ("layers", 3),
        ("with_b", 1),
        ("shared", None),
        ("structure", "diagonal"),
        ("samples", 1),
        ("test_samples", 0),
        ("starts", -1),
        ("key", None),
    ],
)
def test_bad_input(name, value):
    arguments = {"covariance": SIGMA, "length": LENGTH, "layers": 2, "prior": INVERSE}
    with pytest.raises(al.InvalidArgument) as caught:
        est.optimal_deep_linear_sampled(**(arguments | {"key": jax.random.key(0), name: value}))
    assert caught.value.name == name
