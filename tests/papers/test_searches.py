"""Searches of the papers do not state the end of what they cover as an optimum."""

import numpy as np
import pytest

from attnlab._core.errors import InvalidArgument
from attnlab.estimators import gradient_descent_risk, optimal_step
from attnlab.papers.ahn2023 import activations
from attnlab.papers.dohmatob2025 import (
    long_sequences,
    optimal_temperature,
    phase_diagram,
    softmax_vs_pointwise,
)
from attnlab.papers.dohmatob2025.exact import Sizes
from attnlab.papers.he2025 import adam_noise, bayes_ratio
from attnlab.papers.marion2025 import oracle, stability
from attnlab.tasks import InContextRegression


def test_long_prompts_have_no_best_scale_where_predicting_0_is_as_good():
    short, long = (long_sequences._erf(60, log, 0.5**0.5) for log in (np.log(10.0), 45.0))
    assert short[1] == pytest.approx(0.12, rel=0.5)
    # at L = e^45 the best λ gains 60/L of the risk, which no digit shows
    assert long[0] == pytest.approx(0.5, rel=1e-12)
    assert np.isnan(long[1])


def test_long_prompts_with_the_best_scale_at_an_end_have_none(monkeypatch):
    monkeypatch.setattr(long_sequences, "_SCALES", np.geomspace(1e-3, 1e-2, 30))
    assert np.isnan(long_sequences._erf(60, np.log(10.0), 0.5**0.5)[1])


def test_best_temperature_is_inside_or_unknown(monkeypatch):
    sizes = Sizes(np.array([100.0]), np.array([0.04]), 1.0, np.sqrt(0.5))
    assert np.isfinite(optimal_temperature.best_temperature(sizes)[0]).all()
    monkeypatch.setattr(optimal_temperature, "LARGEST_BETA", 0.5)  # the best is 0.94
    best, risk = optimal_temperature.best_temperature(sizes)
    assert np.isnan(best).all()
    assert np.isfinite(risk).all()


def test_maps_at_the_best_temperature_tell_where_it_is_an_end():
    config = phase_diagram.PhaseConfig(dims=(30,), points=6, temperatures=6)
    found = phase_diagram.run(config)
    # the mass of a prompt that is found grows up to the coldest β tried
    assert not found.mass_inside.values.all()
    assert found.risk_inside.values.any()


def test_students_whose_best_scale_is_not_covered_are_refused(monkeypatch):
    softmax, erf = softmax_vs_pointwise.best_students(40, 5)
    assert 0.02 < erf.scale < 5
    assert 1.5 < float(softmax.inverse_temperature) * np.sqrt(40) < 20
    # the best scale of a prompt of 5000 tokens lies far below that of five
    assert softmax_vs_pointwise.best_students(40, 5000)[1].scale < 0.02
    monkeypatch.setattr(softmax_vs_pointwise, "_SCALES", np.geomspace(1.0, 5.0, 10))
    with pytest.raises(InvalidArgument, match="best scales"):
        softmax_vs_pointwise.best_students(40, 5)


def test_the_oracles_scale_is_inside_or_unknown(monkeypatch):
    scale, risk = oracle.best_scale(400, 10, 0.5**0.5)
    beside = oracle.oracle_risk(400, 10, 0.5**0.5, scale * np.array([0.99, 1.01]))
    assert (beside > risk).all()
    monkeypatch.setattr(oracle, "SCALE_RANGE", (1e-4, 1e-3))
    cut, bound = oracle.best_scale(400, 10, 0.5**0.5)
    assert np.isnan(cut)
    assert bound > risk


def test_a_scale_that_is_critical_below_the_grid_is_not_told(monkeypatch):
    monkeypatch.setattr(stability, "exponents_at", lambda risk, one, nu, grid: np.ones((64, 1)))
    assert np.isnan(stability.measured_critical_scale(50, 2, 0.5**0.5))


def test_an_activation_that_is_best_at_the_end_has_no_best_scale():
    task = activations.task_of(activations.ActivationsConfig())
    scale, risk = activations.least(task, "gelu", free_value=True)
    assert np.isnan(scale)  # linear attention is the limit c -> 0
    assert 1 < risk / (5 * 6 / 26) < 1.002
    assert np.isnan(activations.least(task, "linear", free_value=True)[0])  # all c are the same
    assert activations.least(task, "relu", free_value=False)[0] == pytest.approx(40 / 33, rel=1e-3)


@pytest.mark.parametrize(("steps", "noise"), [(2, 0.3), (300, 3.0)])
def test_the_best_step_of_many_is_inside(steps, noise):
    task = InContextRegression(4, 12, noise_std=noise)
    best = optimal_step(task, steps=steps)
    risks = [
        float(gradient_descent_risk(task, step=f * best, steps=steps)) for f in (0.97, 1, 1.03)
    ]
    assert risks[1] < min(risks[0], risks[2])


def test_the_largest_ratio_is_inside_or_unknown(monkeypatch):
    value, where = bayes_ratio.largest_ratio(0.1)
    assert value == pytest.approx(2.53, rel=0.02)
    assert 0.3 < where < 0.45
    from attnlab.estimators import proportional

    monkeypatch.setattr(proportional, "proportional_ratio_to_bayes", lambda xi, noise_std: xi)
    assert np.isnan(bayes_ratio.largest_ratio(0.1)).all()


def test_adam_rests_inside_of_the_range_or_nowhere():
    cheb = np.polynomial.Chebyshev
    domain = [adam_noise._RANGE[0] ** 2, adam_noise._RANGE[1] ** 2]
    valley = adam_noise.NoisyValley(
        cheb.fit([0.01, 0.2, 0.4], [0.0, 0.03, 0.1], 2, domain), cheb([1e-3], domain)
    )
    middle = valley.resting_gamma(1.0, 1)
    assert 0.05 < middle < 0.6
    assert np.isnan(valley.resting_gamma(1e-9, 1))
    assert np.isnan(valley.resting_gamma(1e6, 1))
