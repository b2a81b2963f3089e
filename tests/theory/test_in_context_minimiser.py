"""Searches for minima of head risks: against closed forms, the exact risk and its known slope."""

import numpy as np
import pytest

import attnlab as al
from attnlab import estimators as est
from attnlab.theory import (
    approximate_risk,
    best_outputs,
    effective_step,
    minimise,
    optimal_mu,
    profile,
    single_head_minimiser,
)

TASK = al.InContextRegression(5, 40)


def test_a_single_head_reaches_its_closed_form_from_several_starts():
    starts = al.KernelHeads([[0.2], [0.9], [-0.3]], [[0.1], [2.0], [-0.5]])
    found = minimise(approximate_risk(TASK, starts))
    assert found.converged.all()
    expected = single_head_minimiser(TASK)
    np.testing.assert_allclose(np.abs(found.heads.omega[:, 0]), expected.omega[0], rtol=1e-9)
    np.testing.assert_allclose(np.abs(found.heads.mu[:, 0]), expected.mu[0], rtol=1e-9)
    assert np.all(found.heads.omega[2] < 0)  # the mirror image, for a start on its side
    assert np.all(found.hessian_eigenvalues > 0.1)
    assert np.all(found.gradient_norm <= 1e-9)


def test_best_outputs_of_the_approximate_loss():
    omega = np.array([[0.1, 0.2, -0.1], [0.3, -0.2, 0.01], [1e-3, -1e-3, 0.5]])
    found = best_outputs(approximate_risk(TASK, al.KernelHeads(omega[0], omega[0])), omega)
    np.testing.assert_allclose(found.mu, optimal_mu(TASK, omega), rtol=1e-7)


def test_a_loss_without_minimum_is_not_said_to_have_one():
    start = al.KernelHeads([0.4, -0.3], [1.0, -1.0])
    risk = approximate_risk(TASK, start)
    found = minimise(risk, max_steps=60)
    assert not found.converged
    assert found.value > 1.1 - float(effective_step(TASK, 0.0))
    assert found.hessian_eigenvalues[0] < 1e-4
    along = profile(risk, [1e-3, 0.01, 0.1, 0.3])
    np.testing.assert_allclose(along.value, 1.1 - effective_step(TASK, along.gamma), rtol=1e-13)


@pytest.mark.slow
def test_two_heads_of_finite_size_are_best_for_the_exact_risk():
    """`γ -> 0` is debiased gradient descent with its best step; the exact minimum lies below."""
    task = al.InContextRegression(5, 10)
    start = al.KernelHeads([0.25, -0.3], [1.0, -1.1])
    risk = al.population_risk(task, start)
    found = minimise(risk)
    step = est.optimal_step(task, debiased=True)
    debiased = est.gradient_descent_risk(task, step=step, debiased=True).value
    assert found.converged
    assert np.all(found.hessian_eigenvalues > 0.01)
    np.testing.assert_allclose(found.heads.omega, [0.363241, -0.363241], atol=2e-6)
    np.testing.assert_allclose(found.heads.mu, [0.989228, -0.989228], atol=2e-6)
    assert debiased - found.value == pytest.approx(4.52361e-3, abs=1e-8)
    # at its own ω nothing is left to gain, and along the valley it is the lowest
    along = profile(risk, [0.1, float(found.heads.omega[0]), 0.45])
    np.testing.assert_allclose(along.heads.mu[1], found.heads.mu, rtol=1e-6)
    assert along.value[1] == pytest.approx(float(found.value), abs=1e-12)
    assert along.value[1] < min(along.value[0], along.value[2]) - 5e-4


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda r: minimise("risk", r.heads), "risk"),
        (lambda r: minimise(r, "heads"), "heads"),
        (lambda r: minimise(r, tolerance=0), "tolerance"),
        (lambda r: minimise(r, max_steps=0), "max_steps"),
        (lambda r: profile(r, [0.0, 0.1]), "gammas"),
        (lambda r: profile(r, [0.1], pattern=(1.0, 1.0)), "omega"),
        (lambda r: best_outputs(r, [np.inf]), "omega"),
    ],
)
def test_bad_input_is_told(call, name):
    risk = approximate_risk(TASK, al.KernelHeads([0.1], [1.0]))
    with pytest.raises(al.InvalidArgument) as caught:
        call(risk)
    assert caught.value.name == name
