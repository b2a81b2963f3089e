"""Averages over a quadratic form of a Gaussian vector, against closed forms and sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlab._core.precision import float64, to_numpy
from attnlab.theory.quadratic_forms import form_averages

RATES = np.array([0.3, 5.0, -0.1])
DIM = 4  # one size, one program


def _functions(q):
    return q, q**2, *(jnp.exp(-rate * q) for rate in RATES), jnp.tanh(q)


@jax.jit
def _averages_and_slope(B, direction):
    return jax.jvp(lambda b: form_averages(_functions, b, 0.1), (B,), (direction,))


def _exact(B):
    eye, trace = np.eye(len(B)), np.trace(B)
    square = trace**2 + 2 * np.trace(B @ B)
    out = [(trace, trace * eye + 2 * B)]
    out.append((square, square * eye + 4 * trace * B + 8 * B @ B))
    for rate in RATES:
        turned = np.linalg.inv(eye + 2 * rate * B)
        mean = np.sqrt(np.linalg.det(turned))
        out.append((mean, mean * turned))
    return out


def _form(eigenvalues):
    U = np.linalg.qr(np.random.default_rng(3).standard_normal((DIM, DIM)))[0]
    return (U * np.asarray(eigenvalues)) @ U.T


def _run(B, direction=None):
    with float64():
        direction = np.zeros_like(B) if direction is None else direction
        return to_numpy(_averages_and_slope(jnp.asarray(B), jnp.asarray(direction)))


@pytest.mark.parametrize(
    "eigenvalues",
    [
        (1.0, 0.7, 0.3, 0.1),
        (1.0, 1.0, 1.0, 1.0),
        (2.0, 0.0, 0.0, 0.0),
        (1.0, 1e-3, 1e-5, 1e-8),
        (1e-12, 1e-12, 0.0, 0.0),
        (0.0, 0.0, 0.0, 0.0),
    ],
)
def test_powers_and_exponentials_have_their_closed_forms(eigenvalues):
    B = _form(eigenvalues)
    found, _ = _run(B)
    for i, (mean, outer) in enumerate(_exact(B)):
        assert abs(found.mean[i] - mean) <= found.mean_error[i]
        off = np.linalg.norm(found.outer[i] - outer, 2)
        assert off <= found.outer_error[i] + 1e-15 * np.linalg.norm(outer, 2)
        # the errors are relative to the average and to φ(0)
        scale = mean + float(i > 1)
        assert abs(found.mean[i] - mean) <= 1e-13 * scale
        assert off <= 1e-13 * (np.linalg.norm(outer, 2) + float(i > 1))
        assert found.mean_error[i] <= 1e-10 * scale


@pytest.mark.parametrize(
    "eigenvalues", [(1.0, 0.7, 0.3, 0.1), (1.0,) * 4, (1.0, 0, 0, 0), (0,) * 4]
)
def test_derivatives_are_those_of_the_closed_forms_at_repeated_eigenvalues_too(eigenvalues):
    B = _form(eigenvalues)
    direction = np.random.default_rng(1).standard_normal((DIM, DIM))
    direction = (direction + direction.T) / 2
    _, slope = _run(B, direction)
    h = 1e-5
    above, below = _exact(B + h * direction), _exact(B - h * direction)
    for i in range(len(above)):
        mean, outer = ((a - b) / (2 * h) for a, b in zip(above[i], below[i], strict=True))
        np.testing.assert_allclose(slope.mean[i], mean, atol=1e-5)
        np.testing.assert_allclose(slope.outer[i], outer, atol=1e-5)


def test_a_bounded_function_agrees_with_sampling():
    B = _form((1.0, 0.7, 0.3, 0.1))
    found, _ = _run(B)
    z = np.random.default_rng(0).standard_normal((200_000, DIM))
    values = np.tanh(np.einsum("ni,ij,nj->n", z, B, z))
    samples = np.column_stack([values, values * z[:, 0] ** 2, values * z[:, 0] * z[:, 1]])
    exact = np.array([found.mean[-1], found.outer[-1][0, 0], found.outer[-1][0, 1]])
    error = samples.std(0) / np.sqrt(len(z))
    assert np.all(np.abs(samples.mean(0) - exact) < 4 * error)


def test_a_second_derivative_is_refused():
    with float64(), pytest.raises(NotImplementedError, match="first derivatives only"):
        jax.hessian(lambda b: form_averages(jnp.tanh, b).mean)(jnp.eye(2))
