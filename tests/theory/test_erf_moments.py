import jax
import mpmath as mp
import numpy as np
import pytest
from scipy.special import owens_t as scipy_owens_t

from attnlab.theory import erf_moments as em


def reference_zeta(t, g):
    with mp.workdps(30):
        t, g = mp.mpf(t), mp.mpf(g)

        def weighted(z):
            return mp.erf(t + g * z) ** 2 * mp.npdf(z)

        step = -t / g
        cuts = sorted({-12, 12, *(max(-12, min(12, step + d / g)) for d in (-3, 0, 3))})
        return mp.quad(weighted, cuts)


@pytest.mark.parametrize(
    ("t", "g"), [(0, 0.3), (1.2, 0.5), (-2.0, 3.0), (5.0, 20.0), (0.01, 1e-3), (3.5, 0.2)]
)
def test_zeta_against_its_definition(t, g):
    expected = reference_zeta(t, g)
    with jax.enable_x64(True):
        value, rest = float(em.erf_squared_mean(t, g)), float(em.erf_squared_complement(t, g))
    assert value == pytest.approx(float(expected), rel=1e-13)
    assert rest == pytest.approx(float(1 - expected), rel=1e-12, abs=1e-17)


def test_owens_t_against_scipy():
    rng = np.random.default_rng(0)
    h, a = rng.uniform(0, 8, 500), rng.uniform(0, 1, 500)
    with jax.enable_x64(True):
        ours = np.asarray(em.owens_t(h, a))
    np.testing.assert_allclose(ours, scipy_owens_t(h, a), rtol=2e-13)


def test_small_values_keep_their_digits():
    with jax.enable_x64(True):
        value = float(em.erf_squared_mean(1e-6, 1e-6))
    assert value == pytest.approx(4 / np.pi * 2e-12, rel=1e-10)


@pytest.mark.parametrize("function", [em.erf_squared_mean, em.erf_squared_complement])
def test_all_derivatives_taken_jointly(function):
    with jax.enable_x64(True):
        for t, g in [(0.7, 0.4), (-1.3, 2.0), (0.0, 0.8), (0.2, 1e-3)]:
            value, slopes = jax.value_and_grad(lambda p: function(p[0], p[1]))(np.array([t, g]))
            assert float(value) == float(function(t, g))
            curvature = jax.hessian(lambda p: function(p[0], p[1]))(np.array([t, g]))
            h = 1e-5
            steps = np.eye(2) * h
            point = np.array([t, g])
            expected = [(function(*(point + s)) - function(*(point - s))) / (2 * h) for s in steps]
            np.testing.assert_allclose(slopes, expected, rtol=1e-7, atol=1e-10)
            grad = jax.grad(lambda p: function(p[0], p[1]))
            expected = [(grad(point + s) - grad(point - s)) / (2 * h) for s in steps]
            np.testing.assert_allclose(curvature, expected, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(curvature, np.asarray(curvature).T, rtol=1e-9, atol=1e-12)
