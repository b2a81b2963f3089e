"""The approximate losses: against each other, the exact risk, mpmath, and their own gradients."""

import jax
import mpmath as mp
import numpy as np
import pytest

import attnlab as al
from attnlab import estimators as est
from attnlab.theory import (
    approximate_risk,
    large_length_risk,
    small_heads_risk_slope,
    solution_manifold,
)

FORMS = ["he2025", "radial", "expansion"]


def reference(task, omega, mu, form):
    """The three forms with 40 digits, from the text of the docstring."""
    with mp.workdps(40):
        d, L, noise = task.dim, task.length, mp.mpf(task.noise_std) ** 2
        w, m = [mp.mpf(x) for x in omega], [mp.mpf(x) for x in mu]
        aligned = sum(a * b for a, b in zip(w, m))

        def F(u):
            return mp.exp(d * u) if form == "he2025" else (1 - 2 * u) ** (-mp.mpf(d) / 2)

        def G(u):
            return (1 - 2 * u) ** (-mp.mpf(d) / 2 - 1)

        pairs = [(a * b, x * y) for a, x in zip(w, m) for b, y in zip(w, m)]
        value = (1 - aligned) ** 2 + noise + (1 + noise) / L * sum(p * F(u) for u, p in pairs)
        if form == "expansion":
            value += sum(p * u * G(u) for u, p in pairs) / L
            value += 2 * (1 - aligned) * sum(x * a * G(a * a) for a, x in zip(w, m)) / L
        return float(value)


@pytest.mark.parametrize("form", FORMS)
def test_values_to_the_last_digits(form):
    task = al.InContextRegression(5, 40)
    cases = [
        ([0.13, -0.13], [3.45, -3.45]),
        ([1e-6, -1e-6], [4e5, -4e5]),  # opposite heads: the naive sum has no digit left
        ([0.3, 0.0], [1.0, -0.2]),
        ([0.6, -0.2], [0.5, 2.0]),
    ]
    omega, mu = (np.array(x) for x in zip(*cases))
    risk = approximate_risk(task, al.KernelHeads(omega, mu), form=form)
    expected = [reference(task, *case, form) for case in cases]
    np.testing.assert_allclose(risk.value, expected, rtol=2e-13)
    assert risk.value.dtype == np.float64
    assert risk.method == "approximation"


def test_gradients_against_differences():
    task = al.InContextRegression(4, 25)
    omega, mu = np.array([0.2, -0.35, 0.05]), np.array([1.0, -0.7, 0.3])
    risk = large_length_risk(task, al.KernelHeads(omega, mu))
    gradient = risk.gradient(risk.heads)
    h = 1e-5
    moves = h * np.eye(3)
    shifted = {
        "omega": [risk(al.KernelHeads(omega + s * moves, mu + 0 * moves)) for s in (1, -1)],
        "mu": [risk(al.KernelHeads(omega + 0 * moves, mu + s * moves)) for s in (1, -1)],
    }
    for name, (up, down) in shifted.items():
        np.testing.assert_allclose(getattr(gradient, name), (up - down) / (2 * h), atol=1e-8)
    with jax.enable_x64(True):
        traced = jax.jit(lambda w: risk(al.KernelHeads(w, mu)))(omega)
    assert float(traced) == pytest.approx(float(risk.value), rel=1e-14)


def test_the_expansion_is_right_to_the_order_it_claims():
    """Its error falls as `1/L²`; those of the other forms as `1/L`, to the terms they drop."""
    heads = al.KernelHeads([0.25, -0.15], [1.5, -1.0])
    lengths = np.array([200, 800, 3200])
    errors = {form: [] for form in FORMS}
    for length in lengths:
        task = al.InContextRegression(3, int(length))
        exact = float(al.population_risk(task, heads).value)
        for form in FORMS:
            risk = approximate_risk(task, heads, form=form)
            errors[form].append(abs(float(risk.value) - exact))
    assert errors["he2025"][-1] <= float(approximate_risk(task, heads).error)
    decay = {form: np.log(e[0] / e[-1]) / np.log(16) for form, e in errors.items()}
    assert decay["expansion"] == pytest.approx(2, abs=0.1)
    assert decay["he2025"] == pytest.approx(1, abs=0.1)
    assert decay["radial"] == pytest.approx(1, abs=0.1)


def test_the_exact_risk_leaves_zero_heads_with_the_known_slope():
    """Debiased gradient descent at `γ = 0`, then `γ²` times the derivative (in theory.small_heads)."""
    task = al.InContextRegression(3, 10)
    step = est.optimal_step(task, debiased=True)
    debiased = est.gradient_descent_risk(task, step=step, debiased=True).value
    slopes = []
    for gamma in (0.01, 0.02):
        mu = step / (2 * gamma)
        exact = al.population_risk(task, al.KernelHeads([gamma, -gamma], [mu, -mu])).value
        slopes.append((float(exact) - debiased) / gamma**2)
    at_zero = slopes[0] + (slopes[0] - slopes[1]) / 3  # without the next order
    assert at_zero == pytest.approx(small_heads_risk_slope(task), rel=1e-5)
    assert at_zero < 0


def test_two_opposite_heads_depend_on_the_hyperbolic_sine():
    task = al.InContextRegression(5, 40)
    gamma, m = 0.4, 1.3
    expected = (1 - 2 * gamma * m) ** 2 + 0.1 + 4 * 1.1 / 40 * m**2 * np.sinh(5 * gamma**2)
    risk = approximate_risk(task, al.KernelHeads([gamma, -gamma], [m, -m]))
    assert float(risk.value) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda t: approximate_risk(t, al.KernelHeads([12.0], [1.0])), "omega"),
        (lambda t: large_length_risk(t, al.KernelHeads([0.71], [1.0])), "omega"),
        (lambda t: approximate_risk(t, al.KernelHeads([0.1], [1.0]), form="exact"), "form"),
        (lambda t: approximate_risk(t, al.KernelHeads(np.ones((2, 5)), [1.0, 2.0])), "omega"),
        (lambda t: approximate_risk(t, "heads"), "heads"),
        (
            lambda t: approximate_risk(t, al.KernelHeads([0.1], [1.0], normalization="relu")),
            "normalization",
        ),
        (lambda t: approximate_risk("task", al.KernelHeads([0.1], [1.0])), "task"),
        (
            lambda t: approximate_risk(
                al.InContextRegression(2, 9, covariance=np.diag([1.0, 2.0])),
                al.KernelHeads([0.1], [1.0]),
            ),
            "covariance",
        ),
        (lambda t: solution_manifold(t, 0.0), "gamma"),
        (lambda t: solution_manifold(t, 20.0), "gamma"),
    ],
)
def test_bad_input_is_told(make, name):
    with pytest.raises(al.InvalidArgument) as caught:
        make(al.InContextRegression(5, 40))
    assert caught.value.name == name


def test_other_heads_than_it_was_made_with_are_checked_too():
    risk = large_length_risk(al.InContextRegression(5, 40), al.KernelHeads([0.1], [1.0]))
    with pytest.raises(al.InvalidArgument, match="omega"):
        risk(al.KernelHeads([0.9], [1.0]))
