"""Minimisers of the approximate loss: mpmath, closed forms, bounds, and the loss itself."""

import math

import mpmath as mp
import numpy as np
import pytest

import attnlab as al
from attnlab.theory import (
    approximate_risk,
    effective_step,
    optimal_effective_step,
    optimal_mu,
    optimal_outputs,
    single_head_minimiser,
    solution_manifold,
)

TASK = al.InContextRegression(5, 40)


@pytest.mark.parametrize(
    "omega",
    [
        [0.5],
        [0.13, -0.13],
        [1e-7, -1e-7],
        [1e-5, 2e-5, -3e-5],
        [1e-4, 2e-4, -1e-4, -2e-4],
        [0.3, 0.31, 0.32],
        [2.0, -3.0, 0.01, 4.0],
    ],
)
def test_optimal_outputs_against_a_solve_with_sixty_digits(omega):
    with mp.workdps(60):
        w = [mp.mpf(x) for x in omega]
        noise = mp.mpf(TASK.noise_std) ** 2
        cost = (1 + noise) / TASK.length
        B = mp.matrix([[a * b + cost * mp.exp(TASK.dim * a * b) for a in w] for b in w])
        solved = mp.lu_solve(B, mp.matrix(w))
        mu = np.array([float(x) for x in solved])
        value = float(1 + noise - sum(a * b for a, b in zip(w, solved)))
    found = optimal_outputs(TASK, omega)
    np.testing.assert_allclose(found.mu, mu, rtol=1e-9, atol=1e-12 * np.abs(mu).max())
    assert float(found.value) == pytest.approx(value, rel=1e-14)


def test_the_manifold_is_where_two_opposite_heads_are_best():
    gamma = np.array([1e-9, 1e-4, 0.05, 0.13, 0.8])
    heads = solution_manifold(TASK, gamma)
    np.testing.assert_allclose(heads.mu, optimal_mu(TASK, heads.omega), rtol=1e-12)
    losses = approximate_risk(TASK, heads).value
    np.testing.assert_allclose(losses, 1.1 - effective_step(TASK, gamma), rtol=1e-14)
    assert effective_step(TASK, 0.0) == pytest.approx(optimal_effective_step(TASK), rel=1e-15)
    assert np.all(np.diff(effective_step(TASK, np.linspace(0, 2, 50))) < 0)
    near = 1e-3**0.5 / 5**0.5  # where the series of sinh(x)/x takes over
    assert effective_step(TASK, near * (1 - 1e-9)) == pytest.approx(
        float(effective_step(TASK, near * (1 + 1e-9))), rel=1e-12
    )


def test_no_heads_beat_the_limit_and_dummies_do_nothing():
    rng = np.random.default_rng(0)
    bound = 1.1 - optimal_effective_step(TASK)
    for scale in (0.01, 0.1, 1.0):
        omega = scale * rng.normal(size=(50, 4))
        assert np.all(optimal_outputs(TASK, omega).value >= bound - 1e-15)
    assert np.all(optimal_outputs(TASK, omega).value > bound + 1e-6)  # by a margin for large ones
    with_dummy = optimal_outputs(TASK, [0.2, -0.2, 0.0])
    assert with_dummy.mu[2] == pytest.approx(0.0, abs=1e-14)
    assert with_dummy.value == pytest.approx(float(optimal_outputs(TASK, [0.2, -0.2]).value))


def test_heads_of_two_sizes_beat_one_size():
    one = optimal_outputs(TASK, [0.3, -0.3])
    two = optimal_outputs(TASK, [0.3, -0.3, 0.15, -0.15])
    assert two.value < one.value
    assert two.mu[0] * two.mu[2] < 0  # alternating: the cubic terms cancel


def test_single_head():
    heads = single_head_minimiser(TASK)
    assert heads.omega[0] == pytest.approx(5**-0.5)
    assert heads.mu[0] == pytest.approx(math.sqrt(5) / (1 + math.e * 1.1 * 5 / 40))
    gradient = approximate_risk(TASK, heads).gradient(heads)
    assert np.abs([gradient.omega, gradient.mu]).max() < 1e-14
    around = heads.omega[0] * np.array([[0.9], [1.1]])
    assert np.all(optimal_outputs(TASK, around).value > approximate_risk(TASK, heads).value)


@pytest.mark.parametrize("omega", [[0.1, 0.1], [0.1, -0.1, 0.1 + 1e-15], [12.0], [], [np.nan]])
def test_heads_that_coincide_or_overflow_are_refused(omega):
    with pytest.raises(al.InvalidArgument, match="omega"):
        optimal_mu(TASK, omega)
