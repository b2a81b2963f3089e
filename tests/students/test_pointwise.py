import jax
import numpy as np
import pytest
from scipy.special import erf

import attnlab as al
from attnlab.errors import InvalidArgument
from attnlab.students import activation_names, get_activation


def test_prediction_is_the_stated_sum():
    rng = np.random.default_rng(0)
    X, k, v = rng.standard_normal((3, 4, 6)), rng.standard_normal(6), rng.standard_normal(6)
    student = al.PointwiseAttention("erf", 0.7, "tanh")
    expected = np.sum(erf(0.7 * X @ k) * np.tanh(X @ v), axis=-1)
    with jax.enable_x64(True):
        np.testing.assert_allclose(np.asarray(student(X, k, v)), expected, rtol=1e-12)
        other = student.predict_from_projections(X @ k, X @ v, scale=0.2)
    expected = np.sum(erf(0.2 * X @ k) * np.tanh(X @ v), axis=-1)
    np.testing.assert_allclose(np.asarray(other), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"activation": "erff"}, "did you mean 'erf'"),
        ({"scale": 0.0}, "scale"),
        ({"scale": 1e3}, "scale"),
        ({"scale": float("nan")}, "scale"),
        ({"link": "cubic-root"}, "link"),
    ],
)
def test_bad_arguments(arguments, named):
    with pytest.raises(InvalidArgument, match=named):
        al.PointwiseAttention(**arguments)


@pytest.mark.parametrize("name", activation_names())
def test_registered_activations_are_continuous_between_their_kinks(name):
    activation = get_activation(name)
    x = np.linspace(-6, 6, 4001)
    with jax.enable_x64(True):
        y = np.asarray(activation(x))
    assert np.isfinite(y).all()
    bends = np.abs(np.diff(y, 2))
    # a kink is a bend of first order in the spacing, a smooth function bends in second order
    where = x[1:-1][bends > 0.05 * 0.003]
    declared = np.array([*activation.kinks, np.inf])
    assert all(np.abs(point - declared).min() < 0.01 for point in where)
