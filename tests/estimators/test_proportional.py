"""The proportional limit: finite sizes tend to it, and its formulas agree with quadrature."""

import math

import numpy as np
import pytest

import attnlab as al
from attnlab import estimators as est

STD = 0.7


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0, 2.0, 7.0])
def test_marchenko_pastur(ratio):
    x, weights, mass = est.marchenko_pastur(ratio)
    assert weights.sum() + mass == pytest.approx(1, rel=1e-12)
    for power, moment in ((1, 1.0), (2, 1 + ratio), (3, 1 + 3 * ratio + ratio**2)):
        assert np.sum(weights * x**power) == pytest.approx(moment, rel=1e-12)
    found = est.proportional_ridge_risk(ratio, noise_std=STD, penalty=ratio * STD**2)
    exact = est.proportional_bayes_risk(ratio, noise_std=STD)
    assert found == pytest.approx(exact, rel=1e-11)
    for penalty in (0.9, 1.1):
        other = est.proportional_ridge_risk(ratio, noise_std=STD, penalty=penalty * ratio * STD**2)
        assert other > exact


@pytest.mark.parametrize("ratio", [0.25, 1.0, 2.0])
def test_finite_sizes_tend_to_the_limit_as_one_over_the_length(ratio):
    limits = [
        est.proportional_bayes_risk(ratio, noise_std=STD),
        est.proportional_gradient_descent_risk(ratio, noise_std=STD),
        est.proportional_gradient_descent_risk(ratio, noise_std=STD),
        est.proportional_gradient_descent_risk(ratio, noise_std=STD, step=0.2, steps=3),
    ]
    gaps = []
    for length in (40, 160):
        task = al.InContextRegression(round(ratio * length), length, noise_std=STD)
        finite = [
            est.bayes_risk(task),
            est.gradient_descent_risk(task, step=est.optimal_step(task)),
            est.gradient_descent_risk(
                task, step=est.optimal_step(task, debiased=True), debiased=True
            ),
            est.gradient_descent_risk(task, step=0.2, steps=3),
        ]
        gaps.append(length * (np.array([risk.value for risk in finite]) - limits))
    np.testing.assert_allclose(gaps[0], gaps[1], rtol=0.1)
    # the debiased minimum is the limit plus η*/L, exactly
    assert gaps[0][2] == pytest.approx(est.proportional_optimal_step(ratio, noise_std=STD))


def test_least_squares_and_edges():
    assert est.proportional_least_squares_risk(0.5, noise_std=1.0) == 2.0
    assert est.proportional_least_squares_risk(2.0, noise_std=1.0) == 2.5
    assert est.proportional_least_squares_risk(1.0, noise_std=1.0) == math.inf
    for ratio in (0.5, 2.0):
        tiny = est.proportional_ridge_risk(ratio, noise_std=1.0, penalty=1e-9)
        assert tiny == pytest.approx(est.proportional_least_squares_risk(ratio, noise_std=1.0))
    tiny = est.proportional_bayes_risk(1e-14, noise_std=STD) - STD**2
    assert tiny == pytest.approx(STD**2 * 1e-14, rel=0.02)
    assert est.proportional_bayes_risk(1e12, noise_std=STD) == pytest.approx(1 + STD**2)


def test_the_ratio_to_bayes_and_its_bound():
    """The bound holds wherever the theorem states it, and is far from tight."""
    for variance, largest in ((0.1, 2.5319), (1.0, 1.07884), (3.0, 1.01271)):
        std = math.sqrt(variance)
        ratios = np.geomspace(1e-3, 1e3, 601)
        values = np.array([est.proportional_ratio_to_bayes(x, noise_std=std) for x in ratios])
        bounds = np.array([est.proportional_ratio_bound(x, noise_std=std) for x in ratios])
        assert np.all(values >= 1)
        assert np.all(values < bounds)
        assert np.all(bounds < 1 + 1 / variance)
        assert np.all(bounds < 1 + (1 + 1 / variance) * ratios)
        assert values.max() == pytest.approx(largest, abs=1e-4)
    assert est.proportional_ratio_to_bayes(0.5, noise_std=0.0) == math.inf


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: est.proportional_bayes_risk(0.0, noise_std=1.0), "ratio"),
        (lambda: est.proportional_bayes_risk(1.0, noise_std=-1.0), "noise_std"),
        (lambda: est.proportional_ratio_bound(1.0, noise_std=0.0), "noise_std"),
        (lambda: est.proportional_ridge_risk(1.0, noise_std=1.0, penalty=0.0), "penalty"),
        (lambda: est.proportional_gradient_descent_risk(1.0, noise_std=1.0, steps=2), "step"),
        (lambda: est.marchenko_pastur(1.0, nodes=0), "nodes"),
    ],
)
def test_bad_input_is_told(call, name):
    with pytest.raises(al.InvalidArgument) as caught:
        call()
    assert caught.value.name == name
