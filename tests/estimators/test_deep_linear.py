"""Several layers of linear attention: against the tokens themselves, closed forms, and optimality."""

import math

import jax
import numpy as np
import pytest

import attnlab as al
from attnlab import estimators as est
from attnlab.estimators.deep_linear import residual, tail_rule
from attnlab.estimators.deep_linear_sampled import preconditioner_of
from attnlab.tasks import kac_murdock_szego
from attnlab.theory.wishart import mean_spectrum

A, B = [0.7, 0.5, 0.9], [0.4, -0.3, 0.8]


def through_layers(X, y, xq, A, B):
    """The layers' definition, with matrices `A_l`, `B_l`, on the tokens of prompts."""
    count, length, dim = X.shape
    tokens = np.zeros((count, length + 1, dim + 1))  # a row for each token
    tokens[:, :-1, :-1], tokens[:, :-1, -1], tokens[:, -1, :-1] = X, y, xq
    mask = np.diag(np.append(np.ones(length), 0.0))
    for a, b in zip(A, B, strict=True):
        P, Q = np.zeros((2, dim + 1, dim + 1))
        P[:-1, :-1], P[-1, -1], Q[:-1, :-1] = b, 1.0, -a
        Z = np.swapaxes(tokens, 1, 2)
        Z = Z + P @ Z @ mask @ (tokens @ Q @ Z) / length
        tokens = np.swapaxes(Z, 1, 2)
    return -tokens[:, -1, -1]


def prompts(count, dim, length, noise, prior, seed=0):
    rng = np.random.default_rng(seed)
    X, xq = rng.normal(size=(count, length, dim)), rng.normal(size=(count, dim))
    w = math.sqrt(prior) * rng.normal(size=(count, dim))
    y = np.einsum("bnd,bd->bn", X, w) + noise * rng.normal(size=(count, length))
    return X, y, xq, np.sum(xq * w, 1) + noise * rng.normal(size=count)


def test_the_polynomials_predict_what_the_tokens_do():
    X, y, xq, _ = prompts(3, 4, 7, 0.5, 1.0)
    eye = np.eye(4)
    found = through_layers(X, y, xq, [a * eye for a in A], [b * eye for b in B])
    s, U = np.linalg.eigh(np.swapaxes(X, 1, 2) @ X / 7)
    r, g = residual(np.array(A), np.array(B), s)
    np.testing.assert_allclose(r, 1 - s * g, atol=1e-12)
    w = np.einsum("bij,bj,bkj,bnk,bn->bi", U, g, U, X, y) / 7
    np.testing.assert_allclose(found, np.sum(xq * w, 1), rtol=1e-12, atol=1e-12)


def test_the_risk_is_what_prompts_show():
    dim, length, noise, prior = 3, 20, 0.4, 0.6
    X, y, xq, target = prompts(40_000, dim, length, noise, prior, seed=1)
    eye = np.eye(dim)
    errors = through_layers(X, y, xq, [a * eye for a in A], [b * eye for b in B]) - target
    risk = est.deep_linear_risk(dim, length, A, B, noise_std=noise, prior_variance=prior)
    spread = np.std(errors**2) / math.sqrt(len(errors))
    assert abs(np.mean(errors**2) - risk.value) < 3.5 * spread < 0.05 * risk.value
    assert risk.method == "quadrature"
    assert risk.error < 1e-11


@pytest.mark.parametrize("length", [3, 12])
def test_without_b_it_is_gradient_descent(length):
    task = al.InContextRegression(4, length, noise_std=0.3)
    ours = est.deep_linear_risk(4, length, [0.4] * 5, noise_std=0.3, prior_variance=0.25)
    assert ours.value == pytest.approx(
        est.gradient_descent_risk(task, step=0.4, steps=5).value, abs=1e-13
    )


def test_an_average_beyond_the_spectrums_last_node():
    # E tr of a Wishart matrix of one covariate's power: Γ(n/2 + k) 2^k / Γ(n/2), here mostly tail
    power, freedom = 90, 3
    spectrum = mean_spectrum(1, freedom)
    beyond, weights = tail_rule(spectrum, 1, freedom, power // 2)
    tail = np.sum(weights * beyond**power)
    total = spectrum.average(lambda x: x**power)[0] + tail
    log_exact = math.lgamma(freedom / 2 + power) - math.lgamma(freedom / 2)
    exact = math.exp(log_exact + power * math.log(2))
    assert tail > 0.5 * exact
    assert total == pytest.approx(exact, rel=0.05)
    assert total > exact


def test_one_layer_has_the_best_step():
    task = al.InContextRegression(4, 12, noise_std=0.3)
    found = est.optimal_deep_linear(4, 12, 1, noise_std=0.3, prior_variance=0.25)
    assert found.a[0] == pytest.approx(est.optimal_step(task), abs=1e-14)
    assert found.converged
    assert found.b[0] == 0


def test_best_layers_are_stationary_and_nested():
    options = {"noise_std": 0.2, "prior_variance": 0.2, "starts": 1}
    values = {}
    for with_b in (False, True):
        for layers in (1, 2, 3):
            found = est.optimal_deep_linear(5, 20, layers, with_b=with_b, **options)
            assert found.converged
            values[with_b, layers] = found.risk.value
    plain, moved = ([values[k, n] for n in (1, 2, 3)] for k in (False, True))
    task = al.InContextRegression(5, 20, noise_std=0.2)
    step = est.optimal_step(task, steps=3)
    equal = est.gradient_descent_risk(task, step=step, steps=3).value
    bayes = est.bayes_risk(task).value
    assert bayes < moved[2] < moved[1] < plain[2] < equal
    assert moved[2] < bayes * 1.01
    assert plain[2] < plain[1] < plain[0] == moved[0]
    # stationary by the risk itself: any change of a number makes it larger
    for i in range(5):
        for change in (1e-3, -1e-3):
            a, b = found.a.copy(), found.b.copy()
            part, k = (a, i) if i < 3 else (b, i - 3)
            part[k] *= 1 + change
            other = est.deep_linear_risk(5, 20, a, b, noise_std=0.2, prior_variance=0.2)
            assert other.value > found.risk.value


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"a": []}, "a"),
        ({"a": [[0.1]]}, "a"),
        ({"a": [math.nan]}, "a"),
        ({"a": ["x"]}, "a"),
        ({"a": [1e200]}, "a"),
        ({"a": [0.1] * 151}, "a"),
        ({"a": [0.1], "b": [0.1, 0.2]}, "b"),
        ({"a": [0.1] * 6, "b": [0.1] * 6}, "b"),
        ({"a": [0.1], "dim": 0}, "dim"),
        ({"a": [0.1], "length": 0}, "length"),
        ({"a": [0.1], "noise_std": -1.0}, "noise_std"),
        ({"a": [0.1], "prior_variance": 0.0}, "prior_variance"),
    ],
)
def test_bad_input(arguments, name):
    with pytest.raises(al.InvalidArgument) as caught:
        est.deep_linear_risk(**({"dim": 3, "length": 9} | arguments))
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("name", "value"), [("layers", 6), ("with_b", 1), ("starts", -1), ("seed", "")]
)
def test_bad_options_of_the_optimum(name, value):
    with pytest.raises(al.InvalidArgument) as caught:
        est.optimal_deep_linear(3, 9, **({"layers": 2} | {name: value}))
    assert caught.value.name == name


def test_any_matrices_predict_what_the_tokens_do():
    X, y, xq, _ = prompts(3, 4, 7, 0.5, 1.0)
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 3, 4, 4)) / 3
    G = preconditioner_of(np.swapaxes(X, 1, 2) @ X / 7, a, b)
    ours = np.einsum("bi,bij,bnj,bn->b", xq, G, X, y) / 7
    np.testing.assert_allclose(through_layers(X, y, xq, a, b), ours, rtol=1e-12, atol=1e-12)


def test_the_sampled_risk_of_a_whitened_task_is_the_exact_one():
    sigma = kac_murdock_szego(3)
    inverse = np.linalg.inv(sigma)
    a = np.multiply.outer(A, inverse)
    b = np.multiply.outer(B, np.eye(3))
    sampled = est.deep_linear_sampled_risk(
        sigma, 20, a, b, prior=0.6 * inverse, noise_std=0.4, key=jax.random.key(0)
    )
    exact = est.deep_linear_risk(3, 20, A, B, noise_std=0.4, prior_variance=0.6)
    assert abs(sampled.value - exact.value) < 3.5 * sampled.error < 0.1 * exact.value


@pytest.mark.parametrize(
    ("name", "value"), [("a", np.ones((1, 2, 3))), ("b", np.ones((1, 2, 2))), ("prior", -np.eye(3))]
)
def test_bad_matrices(name, value):
    arguments = {"a": np.ones((2, 3, 3)), "prior": np.eye(3), "key": jax.random.key(0)}
    with pytest.raises(al.InvalidArgument) as caught:
        est.deep_linear_sampled_risk(np.eye(3), 9, **(arguments | {name: value}))
    assert caught.value.name == name
