"""Unnormalised attention: its exact risk against sampled tokens, and its minimiser."""

import jax
import numpy as np
import pytest
from scipy import stats

import attnlab as al
from attnlab.errors import InvalidArgument
from attnlab.students import MergedAttention
from attnlab.theory import optimal_attention

RNG = np.random.default_rng(5)


def covariance(rng, d):
    root = rng.normal(size=(d, d))
    return root @ root.T / d + 0.2 * np.eye(d)


def sampled(rng, task, layer, relu, samples):
    """Mean and standard error of the squared error, by NumPy and the formula of the layer alone."""
    d, n = task.dim, task.length
    x = rng.normal(size=(samples, n + 1, d)) @ np.linalg.cholesky(task.covariance_matrix).T
    beta = rng.normal(size=(samples, d)) @ np.linalg.cholesky(task.prior_matrix).T
    y = np.einsum("sld,sd->sl", x, beta) + task.noise_std * rng.normal(size=(samples, n + 1))
    tokens = np.concatenate([x[:, :n], y[:, :n, None]], -1)
    scores = np.einsum("sli,ij,sj->sl", tokens, layer.Q[:, :d], x[:, n])
    scores = np.maximum(scores, 0) if relu else scores
    weights = scores / n if layer.normalization.over_length else scores
    loss = (np.einsum("i,sl,sli->s", layer.P[d], weights, tokens) - y[:, n]) ** 2
    return loss.mean(), loss.std(ddof=1) / np.sqrt(samples)


def test_closed_forms_against_sampled_tokens():
    """200 settings: dimensions, lengths, covariances, priors, noise, all entries of P and Q."""
    rng = np.random.default_rng(7)
    zs = []
    for d in (1, 2, 4, 5):  # a compiled program for each
        for i in range(50):
            n = int(rng.integers(1, 9))
            name = ("linear", "relu", "linear-sum", "relu-sum")[i % 4]
            noise = float(rng.choice([0.0, 0.6]))
            sigma, prior = covariance(rng, d), covariance(rng, d)
            task = al.InContextRegression(d, n, noise_std=noise, covariance=sigma, prior=prior)
            P, Q = rng.normal(size=(2, d + 1, d + 1)) * (0.4 if "sum" in name else 0.8)
            if i % 5 == 0:  # the pattern of the theorem
                P[d, :d], Q[d] = 0.0, 0.0
            layer = MergedAttention(P, Q, normalization=name)
            mean, error = sampled(rng, task, layer, "relu" in name, 8000)
            zs.append((mean - al.population_risk(task, layer).value) / error)
    zs = np.array(zs)
    # losses have heavy tails: a sampled mean is skewed, the median of z below 0
    assert np.abs(zs).max() < 5.0
    assert abs(zs.mean()) < 0.3
    assert 0.8 < zs.std() < 1.25
    assert stats.kstest(zs, "norm").pvalue > 1e-3


@pytest.mark.parametrize("name", ["linear", "relu-sum"])
def test_the_minimiser_is_stationary_and_smallest(name):
    d, n = 3, 7
    sigma, prior = covariance(RNG, d), covariance(RNG, d)
    task = al.InContextRegression(d, n, noise_std=0.3, covariance=sigma, prior=prior)
    best = optimal_attention(task, normalization=name)
    risk = al.population_risk(task, best)
    slope = risk.gradient(best)
    assert np.abs(slope.Q[:d, :d]).max() < 1e-12
    # the scale of P is its best too, and nothing is gained beside the pattern to first order
    assert np.abs(slope.P).max() < 1e-12
    assert np.abs(slope.Q).max() < 1e-12
    for _ in range(5):
        other = MergedAttention.sparse(
            best.A + 0.05 * RNG.normal(size=(d, d)) * np.abs(best.A).max(), normalization=name
        )
        assert risk(other) > risk.value


def test_published_forms():
    for d, n in ((5, 20), (2, 1), (9, 3)):
        task = al.InContextRegression(d, n, noise_std=0.0, prior=np.eye(d))
        relu = optimal_attention(task, normalization="relu-sum").A
        linear = optimal_attention(task, normalization="linear-sum").A
        np.testing.assert_allclose(relu, 2 / (n + 2 * d + 3) * np.eye(d), rtol=1e-12)
        np.testing.assert_allclose(linear, np.eye(d) / (n + d + 1), rtol=1e-12)
    # one linear layer is a step of preconditioned descent, whose optimum is known elsewhere
    sigma = np.diag([1.0, 0.5, 0.1])
    task = al.InContextRegression(3, 6, noise_std=0.2, covariance=sigma)
    linear = optimal_attention(task)
    gamma = al.estimators.optimal_preconditioner(task)
    np.testing.assert_allclose(linear.A, np.linalg.inv(gamma), rtol=1e-12)
    known = al.estimators.gradient_descent_risk(task, step=1.0, preconditioner=gamma)
    assert al.population_risk(task, linear).value == pytest.approx(known.value, rel=1e-13)
    # the note's loss of ReLU attention, with the constants that it leaves out
    d, n, A = 3, 4, RNG.normal(size=(3, 3))
    task = al.InContextRegression(d, n, noise_std=0.0, prior=np.eye(d))
    found = al.population_risk(task, MergedAttention.sparse(A, normalization="relu-sum")).value
    quadratic = (n * (n - 1) / 4 + n * (d + 2) / 2) * np.sum(A**2) - n * np.trace(A) + d
    assert found == pytest.approx(quadratic, rel=1e-13)


def test_derivatives_inside_and_outside_of_transformations():
    d = 2
    task = al.InContextRegression(d, 3, covariance=covariance(RNG, d), prior=covariance(RNG, d))
    P, Q = RNG.normal(size=(2, d + 1, d + 1)) * 0.5
    layer = MergedAttention(P, Q, normalization="relu")
    risk = al.population_risk(task, layer)
    slope = risk.gradient(layer)
    inside = jax.grad(lambda q: risk(MergedAttention(P, q, normalization="relu")))(Q)
    np.testing.assert_allclose(inside, slope.Q, rtol=1e-5, atol=1e-6)
    for name, matrix in (("P", P), ("Q", Q)):
        for place in np.ndindex(d + 1, d + 1):
            step = np.zeros((d + 1, d + 1))
            step[place] = 1e-5
            sides = [
                risk(MergedAttention(**{"P": P, "Q": Q, name: matrix + s}, normalization="relu"))
                for s in (step, -step)
            ]
            found = getattr(slope, name)[place]
            assert found == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-6, abs=1e-8)
    assert risk.method == "closed form"
    assert 0 < risk.error < 1e-10


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (
            lambda t, x: al.population_risk(t, MergedAttention(x.P, x.Q, normalization="softmax")),
            "softmax",
        ),
        (lambda t, x: al.population_risk(al.InContextRegression(3, 4), x), "layer"),
        (lambda t, x: al.population_risk(t, x)(al.KernelHeads([1.0], [1.0])), "layer"),
        (lambda t, x: al.population_risk(t, x)(MergedAttention(x.P, x.Q)), "normalization"),
        (
            lambda t, x: al.population_risk(al.InContextRegression(2, 4, supports=[[0]]), x),
            "supports",
        ),
        (lambda t, x: optimal_attention(t, normalization="softmax"), "softmax"),
        (lambda t, x: optimal_attention(al.InContextRegression(2, 4, supports=[[0]])), "supports"),
    ],
)
def test_bad_arguments_are_named(call, named):
    task, layer = (
        al.InContextRegression(2, 4),
        MergedAttention(np.eye(3), np.eye(3), normalization="relu"),
    )
    with pytest.raises(InvalidArgument, match=named):
        call(task, layer)
