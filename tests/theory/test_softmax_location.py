"""The exact risk of softmax attention against sampling, against quadrature that shares nothing with
it, and in limits with closed forms. Five tasks carry most tests, so that few programs compile."""

from __future__ import annotations

import functools
import math
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import attnlab as al

sys.path.insert(0, str(Path(__file__).parent))
import softmax_location_oracle as oracle
import softmax_location_tokens as tokens

RUNS = 22
NAMES = ("kappa", "nu", "theta", "eta", "rho")
# dim, length, signal, token_std, noise_std, β, student's link, task's link, sampled prompts
TASKS = {
    "linear": (40, 200, 0.7, 0.7, 0.2, 0.35, "linear", "linear", 1000),
    "quadratic": (6, 3, 0.5, 0.9, 0.0, 0.9, "quadratic", "linear", 15000),
    "tanh": (12, 1000, 1.1, 0.4, 0.3, 0.5, "tanh", "tanh", 250),
    "relu": (9, 25, 0.9, 0.6, 0.1, 0.8, "relu", "relu", 5000),
    "erf": (5, 2, 0.3, 1.5, 0.0, 0.4, "erf", "quadratic", 15000),
}
HUGE = oracle.Case(1000, 300.0, 0.7, 0.7, 0.1, 0.6, "linear", "linear", 0.9, 0.4, 0.2, -0.2, 0.1)


def states(name: str) -> np.ndarray:
    """Random overlaps, some of them at corners."""
    rng = np.random.default_rng([3, list(TASKS).index(name)])
    return np.array([tokens.random_overlaps(rng) for _ in range(RUNS)])


def cases(name: str) -> list[oracle.Case]:
    dim, length, *rest, _ = TASKS[name]
    return [oracle.Case(dim, math.log(length), *rest, *state) for state in states(name)]


def exact(case: oracle.Case) -> Any:
    task = al.SingleLocation(
        case.dim,
        log_length=case.log_length,
        signal=case.signal,
        token_std=case.token_std,
        noise_std=case.noise_std,
        link=case.task,
    )
    return al.population_risk(task, al.SoftmaxAttention(case.beta, case.student))


@functools.cache
def risk_of(name: str) -> Any:
    return exact(cases(name)[0])


@functools.cache
def values(name: str) -> np.ndarray:
    return np.asarray(risk_of(name)(al.Overlaps(*states(name).T)))


def inside(case: oracle.Case) -> bool:
    gram = np.eye(4)
    gram[:2, 2:] = [[case.kappa, case.theta], [case.eta, case.nu]]
    gram[2, 3] = case.rho
    return np.linalg.eigvalsh(gram, UPLO="U")[0] > 1e-3


def interior(name: str) -> list[int]:
    return [i for i, case in enumerate(cases(name)) if inside(case)]


def test_oracles_agree_without_any_laplace_transform():
    two = cases("erf")[5]._replace(student="quadratic", task="linear")
    assert oracle.risk(two) == pytest.approx(float(tokens.two_tokens(two)), rel=1e-12)
    three = cases("quadratic")[5]
    assert oracle.risk(three) == pytest.approx(tokens.three_tokens(three), rel=1e-12)


def test_sampling():
    """110 settings, each with its own prompts: the deviations are standard normal."""
    scores = []
    for index, name in enumerate(TASKS):
        for run, case in enumerate(cases(name)):
            rng = np.random.default_rng([11, index, run])
            found = tokens.estimate(tokens.sample(case, TASKS[name][-1], rng).loss)
            scores.append((values(name)[run] - found.mean) / found.error)
    assert np.max(np.abs(scores)) < 4.0
    assert abs(np.mean(scores)) < 3.0 / math.sqrt(len(scores))
    assert abs(np.std(scores) - 1) < 3.0 / math.sqrt(2 * len(scores))


@pytest.mark.parametrize("name", TASKS)
def test_quadrature(name):
    """Quadrature by other formulas: a sum of averages of products, no difference of large terms."""
    read = int(np.argmax(np.abs(states(name)[:, 1])))  # v = ±v* where that is among them
    runs = [0, read, *interior(name)[:1]]
    expected = [oracle.risk(cases(name)[run]) for run in runs]
    np.testing.assert_allclose(values(name)[runs], expected, rtol=2e-10)


def test_three_tokens():
    three = cases("quadratic")[:4]
    expected = [tokens.three_tokens(case) for case in three]
    np.testing.assert_allclose(values("quadratic")[:4], expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["linear", "tanh"])
def test_gradient_is_joint(name):
    """All five derivatives against a complex step through the oracle."""
    gradient = risk_of(name).gradient(al.Overlaps(*states(name).T)).stack()
    for run in interior(name)[:2]:
        expected = oracle.gradient(cases(name)[run])
        np.testing.assert_allclose(gradient[run], expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["tanh"])
def test_error_estimate_covers_the_deviation(name):
    error = risk_of(name).error(al.Overlaps(*states(name).T))
    assert np.all(error < 1e-8 * values(name))
    for run in range(4):
        deviation = abs(values(name)[run] - oracle.risk(cases(name)[run]))
        assert deviation <= error[run] + 2e-14 * values(name)[run]


def test_components_add_up():
    parts = risk_of("linear").components(al.Overlaps(*states("linear").T))
    total = sum(parts[name] for name in parts if name != "total")
    np.testing.assert_allclose(total, values("linear"), rtol=1e-13)
    np.testing.assert_allclose(parts.label_noise, 0.2**2)


def test_another_scale_is_another_student():
    overlaps = al.Overlaps(*states("linear")[4])
    expected = oracle.risk(cases("linear")[4]._replace(beta=1.9))
    assert float(risk_of("linear")(overlaps, scale=1.9)) == pytest.approx(expected, rel=1e-10)


def test_huge_length():
    risk = exact(HUGE)
    overlaps = al.Overlaps(*HUGE[-5:])
    assert float(risk(overlaps)) == pytest.approx(oracle.risk(HUGE), rel=1e-10)


def test_one_token_is_read_whatever_the_scores():
    case = HUGE._replace(log_length=0.0)
    expected = (case.shift * 0.2) ** 2 + 2 * 0.7**2 * (1 - 0.4) + 0.1**2
    assert float(exact(case)(al.Overlaps(*case[-5:]))) == pytest.approx(expected, rel=1e-13)


def test_small_inverse_temperature_averages_over_the_tokens():
    case, length = cases("linear")[3]._replace(beta=1e-9), 200
    theta, nu = case.theta, case.nu
    told = ((case.shift * theta) ** 2 + 0.7**2 + length - 1) / length**2
    expected = told - 2 * 0.7**2 * nu / length + 0.7**2 + 0.2**2
    assert float(exact(case)(al.Overlaps(*case[-5:]))) == pytest.approx(expected, rel=1e-7)


SATURATED = HUGE._replace(dim=400, log_length=20.0, signal=0.9, token_std=0.3, beta=0.5)


@pytest.mark.parametrize("case", [cases("linear")[4], SATURATED], ids=["linear", "saturated"])
def test_attention(case):
    """Masses, exponentially small ones with all their digits, and the bulk's own softmax."""
    found = exact(case).attention(al.Overlaps(*case[-5:]))
    tables = oracle.Tables(case)
    masses, bulk = tables.masses(), tables.bulk()
    for name, key in (("mass", "p"), ("mass_missing", "q"), ("mass_square", "pp")):
        assert float(found[name]) == pytest.approx(math.exp(masses[key]), rel=1e-11)
    assert float(found.participation) == pytest.approx(bulk["participation"], rel=1e-11)
    assert float(found.bulk_mean) == pytest.approx(bulk["mean"], rel=1e-10)
    spread = bulk["square"] - bulk["mean"] ** 2
    assert float(found.bulk_variance) == pytest.approx(spread, rel=1e-8)
    assert float(found.log_partition) == pytest.approx(bulk["log_partition"], rel=1e-10)
    # the law of the logit, by a transform that decides it
    logit, density = np.ravel(found.logit), np.ravel(found.density)
    for x in np.quantile(logit, [0.35, 0.45, 0.5]):
        kernel = np.exp(-np.exp(np.minimum(x - logit, 300.0)))
        average = np.sum(kernel * density * np.gradient(logit))
        assert average == pytest.approx(tables.laplace(x), abs=1e-9)


def test_bad_input():
    task = al.SingleLocation(10, 20)
    for beta in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(al.InvalidArgument, match="inverse_temperature"):
            al.SoftmaxAttention(beta)
    with pytest.raises(al.InvalidArgument, match="length"):
        al.SingleLocation(10, 20, log_length=3.0)
    with pytest.raises(al.InvalidArgument, match="log_length"):
        al.SingleLocation(10, log_length=-0.1)
    with pytest.raises(al.InvalidArgument, match="log_length"):
        al.SingleLocation(10, log_length=100.0).sample(jax.random.key(0), 3)
    wild = al.Link("wild", lambda x: np.e ** (x * x))
    with pytest.raises(al.InvalidArgument, match="link"):
        al.population_risk(task, al.SoftmaxAttention(1.0, wild))
    with pytest.raises(al.InvalidArgument, match="log_length"):
        al.population_risk(al.SingleLocation(10, log_length=700.0), al.SoftmaxAttention(1.0))
    with pytest.raises(al.InvalidArgument, match="scale"):
        risk_of("linear").at_scale(0.0)


@pytest.mark.parametrize("log_length", [9.0, 100.0])
def test_tokens_that_are_all_alike_share_the_attention(log_length):
    """Without a signal no token is special, so that `E p = 1/L`: few of very many tokens hold the
    weight here, and none of it may be lost."""
    task = al.SingleLocation(100, log_length=log_length, signal=0.0, token_std=1.0)
    shares = al.population_risk(task, al.SoftmaxAttention(10.0)).attention(al.Overlaps(0.3, 1.0))
    assert abs(float(shares.mass) * np.exp(log_length) - 1) < 1e-10
    assert abs(float(shares.mass + shares.mass_missing) - 1) < 1e-12
