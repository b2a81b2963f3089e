"""Small heads against debiased gradient descent, prompt by prompt."""

import jax
import numpy as np
import pytest
from scipy import stats

import attnlab as al
from attnlab import estimators as est
from attnlab.theory import small_heads_distance, small_heads_risk_slope


@pytest.mark.parametrize(("d", "L"), [(5, 40)])
def test_distance_and_risk_slope_by_sampling(d, L):
    task, eta, gamma = al.InContextRegression(d, L), 0.8, 0.02
    with jax.enable_x64(True):
        prompts = task.sample(jax.random.key(d), 40_000, dtype=np.float64)
    X, y, xq = (np.asarray(a) for a in prompts.inputs)
    descent = est.debiased_gradient_descent(X, y, xq, step=eta)
    mu = eta / (2 * gamma)
    target = np.asarray(prompts.target)
    heads = est.kernel_regression(X, y, xq, omega=[gamma, -gamma], mu=[mu, -mu])
    square = (heads - descent) ** 2
    exact = small_heads_distance(task, gamma, step=eta)
    # the next order is γ² d away; heavy tails ask for a wide margin at small sizes
    assert abs(square.mean() - exact) < 4 * stats.sem(square) + 0.02 * exact
    change = ((heads - target) ** 2 - (descent - target) ** 2) / gamma**2
    slope = small_heads_risk_slope(task, step=eta)
    assert abs(change.mean() - slope) < 4 * stats.sem(change) + 0.01 * abs(slope)


@pytest.mark.parametrize("L", [2, 3, 4])
@pytest.mark.parametrize("d", [1, 6])
def test_moments_by_quadrature_over_all_tokens(d, L):
    """Every average is that of a polynomial of degree at most 8 in `L` Gaussians: exact by a
    product rule, with nothing of the closed forms in it."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)
    z = np.stack(np.meshgrid(*[nodes] * L, indexing="ij"), -1).reshape(-1, L)
    mass = np.prod(np.stack(np.meshgrid(*[weights] * L, indexing="ij"), -1), -1).ravel()
    mass = mass / mass.sum()
    c = z - z.mean(1, keepdims=True)
    v, m3 = np.mean(c**2, 1, keepdims=True), np.mean(c**3, 1, keepdims=True)
    h = c**3 - 3 * v * c - m3
    noise, eta, gamma = 0.1, 0.8, 0.02
    task = al.InContextRegression(d, L)

    def product(a, b):
        """`E[(Xᵀa)·(Xᵀb)/d + σ² a·b]` without the powers of `r`, over `L²`."""
        along, apart = np.sum(z * a, 1) * np.sum(z * b, 1), np.sum(a * b, 1)
        return mass @ (along / d + ((d - 1) / d + noise) * apart) / L**2

    square = eta**2 * gamma**4 / 36 * d * (d + 2) * (d + 4) * product(h, h)
    assert small_heads_distance(task, gamma, step=eta) == pytest.approx(square, rel=1e-11)
    target = (d + 2) * (mass @ np.sum(z * h, 1)) / L
    slope = eta / 3 * (eta * d * (d + 2) * product(c, h) - target)
    assert small_heads_risk_slope(task, step=eta) == pytest.approx(slope, rel=1e-11)


def test_scaling():
    task = al.InContextRegression(5, 1000)
    np.testing.assert_allclose(
        small_heads_distance(task, [0.01, 0.02]) / small_heads_distance(task, 0.01), [1, 16]
    )
    large = al.InContextRegression(4000, 10**9)
    leading = 1.1 * 4000**3 / 10**9 / 6 * 0.01**4
    assert small_heads_distance(large, 0.01, step=1.0) == pytest.approx(leading, rel=0.005)


def test_the_risk_falls_at_the_best_step_whatever_the_sizes():
    for d in (1, 3, 50):
        for L in (2, 10, 1000):
            task = al.InContextRegression(d, L)
            eta = 1 / (1 + 1.1 * d / L)
            expected = -4 * eta * (d + 2) * (L - 1) / (L**2 * (L + 1.1 * d))
            assert small_heads_risk_slope(task) == pytest.approx(expected, rel=1e-10)
            assert small_heads_risk_slope(task, step=0.5 * eta) > 0


def test_bad_input_is_told():
    task = al.InContextRegression(5, 10)
    for call in (
        lambda: small_heads_distance(task, np.nan),
        lambda: small_heads_distance(task, "a"),
        lambda: small_heads_distance(task, 0.1, step=np.inf),
        lambda: small_heads_risk_slope("task"),
    ):
        with pytest.raises(al.InvalidArgument):
            call()
