"""The written-out gradient of the closed form against automatic differentiation of its value."""

import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

import attnlab as al
from attnlab._core.precision import float64, to_float64

sys.path.insert(0, str(Path(__file__).parent))
from settings import random_setting


@eqx.filter_jit
def automatic_gradient(risk, state):
    return jax.grad(lambda s: risk.value_of(s, risk.scale).sum())(state)


@eqx.filter_jit
def written_gradient(risk, state):
    return risk.gradient_of(state, risk.scale)


@eqx.filter_jit
def written_one_by_one(risk, state):
    return jax.vmap(lambda s: risk.gradient_of(s, risk.scale))(state)


def test_gradient_is_that_of_the_value():
    for index in range(40):
        task, student, overlaps = random_setting(index)
        with float64():
            risk, state = to_float64((al.population_risk(task, student), overlaps.stack()))
            automatic, written, one_by_one = (
                np.asarray(of(risk, state))
                for of in (automatic_gradient, written_gradient, written_one_by_one)
            )
        size = np.abs(automatic).max(axis=-1, keepdims=True)
        assert np.all(np.abs(automatic - written) <= 1e-11 * size)
        assert np.all(np.abs(one_by_one - written) <= 1e-14 * size)


def test_it_differentiates_further():
    """Hessians and stability go through the gradient, the scale included."""
    task, student = al.SingleLocation(40, 5), al.PointwiseAttention("erf", 0.4)
    with float64():
        risk = to_float64(al.population_risk(task, student))
        state = to_float64(al.Overlaps(0.4, 0.3, 0.2, -0.1, 0.25).stack())
        hessian = jax.jit(jax.jacfwd(lambda s: risk.gradient_of(s, risk.scale)))(state)
        other = jax.jit(jax.hessian(lambda s: risk.value_of(s, risk.scale)))(state)
        in_scale = jax.jit(jax.jacfwd(lambda x: risk.gradient_of(state, x)))(risk.scale)
        step = 1e-6
        up, down = (
            np.asarray(risk.gradient_of(state, risk.scale + sign * step)) for sign in (1, -1)
        )
        hessian, other, in_scale = (np.asarray(x) for x in (hessian, other, in_scale))
    np.testing.assert_allclose(hessian, other, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(in_scale, (up - down) / (2 * step), rtol=1e-6, atol=1e-6)
