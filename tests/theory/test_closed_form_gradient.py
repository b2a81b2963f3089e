"""The written-out gradient of the closed form against automatic differentiation of its value."""

import sys
from pathlib import Path

import jax
import numpy as np

import attnlab as al
from attnlab._core.precision import float64, to_float64

sys.path.insert(0, str(Path(__file__).parent))
from settings import random_setting


def test_gradient_is_that_of_the_value():
    for index in range(40):
        task, student, overlaps = random_setting(index)
        with float64():
            risk, state = to_float64((al.population_risk(task, student), overlaps.stack()))
            automatic = jax.grad(lambda s, r=risk: r.value_of(s, r.scale).sum())(state)
            written = risk.gradient_of(state, risk.scale)
            one_by_one = jax.vmap(lambda s, r=risk: r.gradient_of(s, r.scale))(state)
            automatic, written, one_by_one = (
                np.asarray(x) for x in (automatic, written, one_by_one)
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
        hessian = jax.jacfwd(lambda s: risk.gradient_of(s, risk.scale))(state)
        other = jax.hessian(lambda s: risk.value_of(s, risk.scale))(state)
        in_scale = jax.jvp(lambda x: risk.gradient_of(state, x), (risk.scale,), (np.ones(()),))[1]
        step = 1e-6
        up, down = (
            np.asarray(risk.gradient_of(state, risk.scale + sign * step)) for sign in (1, -1)
        )
        hessian, other, in_scale = (np.asarray(x) for x in (hessian, other, in_scale))
    np.testing.assert_allclose(hessian, other, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(in_scale, (up - down) / (2 * step), rtol=1e-6, atol=1e-6)
