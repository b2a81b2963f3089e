"""The estimators as functions: their formulas, limits, batches, dtypes, and bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab import estimators as est

RNG = np.random.default_rng(0)
X, y, xq = RNG.normal(size=(3, 7, 4)), RNG.normal(size=(3, 7, 2)), RNG.normal(size=(3, 4))
G = RNG.normal(size=(4, 4)) + 3 * np.eye(4)

CALLS = {
    "gradient_descent": {"step": 0.7},
    "debiased_gradient_descent": {"step": 0.7},
    "preconditioned_gradient_descent": {"step": 0.7, "preconditioner": G},
    "gradient_descent_steps": {"step": 0.2, "steps": 3, "debiased": True, "preconditioner": G},
    "ridge": {"penalty": 0.4},
    "ordinary_least_squares": {},
    "kernel_regression": {"omega": [0.3, -0.2], "mu": [1.5, 0.5]},
}


def one_prompt(name, X, y, xq):
    """Each prediction for one prompt and one task, by its formula and NumPy."""
    length, centred = len(X), X - X.mean(0)
    if name == "gradient_descent":
        return 0.7 / length * sum(y[i] * (X[i] @ xq) for i in range(length))
    if name == "debiased_gradient_descent":
        return 0.7 / length * sum(y[i] * (centred[i] @ xq) for i in range(length))
    if name == "preconditioned_gradient_descent":
        return 0.7 / length * sum(y[i] * (X[i] @ np.linalg.inv(G) @ xq) for i in range(length))
    if name == "gradient_descent_steps":
        beta = np.zeros(4)
        for _ in range(3):
            beta = beta + 0.2 / length * np.linalg.inv(G).T @ centred.T @ (y - centred @ beta)
        return beta @ xq
    if name == "ridge":
        return xq @ np.linalg.solve(X.T @ X + 0.4 * np.eye(4), X.T @ y)
    if name == "ordinary_least_squares":
        return xq @ np.linalg.pinv(X) @ y
    weights = [np.exp(w * X @ xq) / np.sum(np.exp(w * X @ xq)) for w in (0.3, -0.2)]
    return 1.5 * weights[0] @ y + 0.5 * weights[1] @ y


@pytest.mark.parametrize("name", CALLS)
def test_formula_batches_tasks_and_dtypes(name):
    function = getattr(est, name)
    found = function(X, y, xq, **CALLS[name])
    expected = [[one_prompt(name, X[b], y[b, :, n], xq[b]) for n in range(2)] for b in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    assert found.dtype == np.float64
    single = function(X[0], y[0, :, 1], xq[0], **CALLS[name])
    assert single.shape == ()
    assert float(single) == pytest.approx(expected[0][1], rel=1e-11)
    low = function(*(a.astype(np.float32) for a in (X, y, xq)), **CALLS[name])
    assert low.dtype == np.float32
    np.testing.assert_allclose(low, expected, rtol=2e-3, atol=1e-4)
    traced = jax.jit(lambda *a: function(*a, **CALLS[name]))(
        *(jnp.asarray(a, jnp.float32) for a in (X, y, xq))
    )
    np.testing.assert_allclose(traced, low, rtol=1e-3, atol=1e-5)


def test_least_squares_with_few_examples_interpolates_with_least_norm():
    few, labels = X[0, :3], y[0, :3, 0]
    for i in range(3):  # at its own examples it predicts their responses
        assert float(est.ordinary_least_squares(few, labels, few[i])) == pytest.approx(labels[i])
    beta = np.array([float(est.ordinary_least_squares(few, labels, e)) for e in np.eye(4)])
    outside = np.linalg.svd(few)[2][3]
    assert abs(beta @ outside) < 1e-12
    limit = est.ridge(few, labels, xq[0], penalty=1e-12)
    assert float(limit) == pytest.approx(float(est.ridge(few, labels, xq[0], penalty=0)), rel=1e-8)


def test_ridge_keeps_digits_that_the_normal_equations_lose():
    nearly = X[0].copy()
    nearly[:, 3] = nearly[:, 2] + 1e-5 * nearly[:, 3]
    exact = np.linalg.lstsq(nearly, y[0, :, 0], rcond=None)[0] @ nearly[0]
    assert float(est.ridge(nearly, y[0, :, 0], nearly[0], penalty=1e-24)) == pytest.approx(
        exact, rel=1e-9
    )


def test_many_steps_reach_least_squares_and_none_predict_zero():
    options = {"step": 0.3, "steps": 4000}
    found = est.gradient_descent_steps(X, y, xq, **options)
    np.testing.assert_allclose(found, est.ordinary_least_squares(X, y, xq), rtol=1e-8)
    assert not est.gradient_descent_steps(X, y, xq, step=0.3, steps=0).any()


def test_derivatives_in_the_numbers_of_an_estimator():
    def ridge(penalty):
        return jnp.sum(est.ridge(jnp.asarray(X), jnp.asarray(y), jnp.asarray(xq), penalty=penalty))

    def descent(step):
        return jnp.sum(
            est.gradient_descent(jnp.asarray(X), jnp.asarray(y), jnp.asarray(xq), step=step)
        )

    with jax.enable_x64(True):
        for function in (ridge, descent):
            slope = (function(0.4 + 1e-6) - function(0.4 - 1e-6)) / 2e-6
            assert float(jax.grad(function)(0.4)) == pytest.approx(float(slope), rel=1e-7)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: est.gradient_descent(X, y, xq[:, :3], step=1.0), "xq"),
        (lambda: est.gradient_descent(X, y[:, :5], xq, step=1.0), "y"),
        (lambda: est.gradient_descent(X[0], y, xq[0], step=1.0), "y"),
        (lambda: est.gradient_descent(X[:, :0], y[:, :0], xq, step=1.0), "X"),
        (lambda: est.gradient_descent(X[0, 0], y[0], xq[0], step=1.0), "X"),
        (lambda: est.gradient_descent(X * np.nan, y, xq, step=1.0), "X"),
        (lambda: est.gradient_descent("X", y, xq, step=1.0), "X"),
        (lambda: est.gradient_descent(X * 1j, y, xq, step=1.0), "X"),
        (lambda: est.gradient_descent(X, y, xq, step=np.inf), "step"),
        (lambda: est.gradient_descent_steps(X, y, xq, step=1.0, steps=-1), "steps"),
        (lambda: est.ridge(X, y, xq, penalty=-1e-3), "penalty"),
        (lambda: est.ridge(X, y, xq, penalty=np.nan), "penalty"),
        (
            lambda: est.preconditioned_gradient_descent(X, y, xq, preconditioner=np.eye(3)),
            "preconditioner",
        ),
        (
            lambda: est.preconditioned_gradient_descent(X, y, xq, preconditioner=np.ones((4, 4))),
            "preconditioner",
        ),
        (lambda: est.kernel_regression(X, y, xq, omega=[0.1, 0.2], mu=[1.0]), "mu"),
        (lambda: est.kernel_regression(X, y, xq, omega=np.nan, mu=1.0), "omega"),
    ],
)
def test_bad_input_is_told(call, name):
    with pytest.raises(al.InvalidArgument) as caught:
        call()
    assert caught.value.name == name
