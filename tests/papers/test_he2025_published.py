"""Claims on published numbers: verdicts, what they notice, and the statistics behind them."""

import json
import math
from importlib import resources

import numpy as np
import pytest

from attnlab import claims
from attnlab.claims.mutation import run_broken
from attnlab.papers.he2025 import checks_published as averages
from attnlab.papers.he2025 import checks_published_digits as digits
from attnlab.papers.he2025 import checks_published_layers as layers
from attnlab.papers.he2025 import checks_published_tasks as tasks
from attnlab.papers.he2025 import published as numbers
from attnlab.papers.he2025.exact_heads import score_moments
from attnlab.papers.he2025.mutations import MUTATIONS
from attnlab.students import KernelHeads
from attnlab.tasks import InContextRegression
from attnlab.theory import population_risk

IDS = ("estimators", "heads", "landscape", "digits", "multi-task")
TASK = InContextRegression(5, 40)


def claim(name):
    (found,) = claims.find(f"he2025/published-{name}")
    return found


@pytest.mark.parametrize("name", IDS)
def test_quick_check_gives_the_verdict_on_record(name):
    (found,) = claims.verify(f"he2025/published-{name}", seed=1)
    assert found.failed is None, found.details
    assert found.verdict == claim(name).expected, [c for c in found.checks if c.status != "pass"]
    assert found.notes
    assert bool(found.corrected) == (found.verdict == "refuted as stated")
    assert found.correction_holds is not False, [c for c in found.evidence if c.status != "pass"]


@pytest.mark.parametrize(
    "mutation",
    [m for m in MUTATIONS if m.claim in {f"he2025/published-{n}" for n in ("digits", "landscape", "multi-task")}],
    ids=lambda m: m.text,
)  # fmt: skip
def test_a_wrong_formula_is_noticed(mutation):
    found = run_broken(claim(mutation.claim.partition("published-")[2]), mutation, "quick", 0)
    assert found.caught, found


def test_the_file_is_part_of_the_package_and_complete():
    text = resources.files("attnlab.papers.he2025").joinpath("published.json").read_text("utf-8")
    table = json.loads(text)
    assert table == numbers.published()
    for rows in table["estimators"]["versions"].values():
        assert np.shape(rows) == (19, 5)
    for losses in table["trained"]["versions"].values():
        assert {name: len(row) for name, row in losses.items()} == dict.fromkeys("1248", 19)
    assert np.shape(table["landscape"]["loss"]) == (20, 20)


def test_the_covariance_of_squared_errors_is_that_of_drawn_prompts():
    """Against prompts with labels and noise, drawn and squared."""
    rng = np.random.default_rng(3)
    task = TASK.with_length(12)
    predictors = [numbers.kernel_heads([0.3], [1.2]), numbers.descent(0.8), numbers.ridge(0.5)]
    predictors.append(numbers.descent(0.8, debiased=True))
    mean, covariance = numbers.squared_errors(task, predictors, rng, 60_000)
    count = 200_000
    X = rng.standard_normal((count, 12, 5))
    query, beta = rng.standard_normal((2, count, 5))
    beta /= math.sqrt(5)
    noise = math.sqrt(0.1)
    y = np.einsum("nld,nd->nl", X, beta) + noise * rng.standard_normal((count, 12))
    target = np.sum(query * beta, 1) + noise * rng.standard_normal(count)
    squares = np.stack([(np.sum(p(X, query) * y, 1) - target) ** 2 for p in predictors])
    np.testing.assert_allclose(mean, squares.mean(1), rtol=0.02)
    np.testing.assert_allclose(covariance, np.cov(squares), rtol=0.1)


def test_the_mean_of_the_sampled_errors_is_the_exact_risk():
    mean, covariance = numbers.squared_errors(
        TASK, averages.predictors(), np.random.default_rng(4), 40_000
    )
    error = np.sqrt(np.diag(covariance) / 40_000)  # more than that: labels are averaged over
    assert np.all(np.abs(mean - np.array(averages.exact_risks(TASK))) < 3 * error)
    assert np.all(error < 0.01 * mean)


def test_a_planted_offset_and_a_planted_factor_are_found():
    rng = np.random.default_rng(5)
    exact = np.linspace(0.2, 0.9, 40)
    error = np.full(40, 0.003)
    noise = error * rng.standard_normal(40)
    shifted = numbers.constant_offset(exact + 0.1 + noise, exact, error)
    assert abs(shifted.value - 0.1) < 4 * shifted.error
    assert shifted.error == pytest.approx(0.003 / math.sqrt(40))
    assert shifted.before > 10_000
    assert shifted.after < 39 + 4 * math.sqrt(2 * 39)
    halved = numbers.constant_factor(exact / 2 + noise, exact, error)
    assert abs(halved.value - 0.5) < 4 * halved.error
    assert halved.after < 39 + 4 * math.sqrt(2 * 39)
    assert numbers.constant_factor(exact + 0.1 + noise, exact, error).after > 1000
    assert numbers.constant_offset(exact / 2 + noise, exact, error).after > 1000


def test_deviations_have_unit_covariance():
    rng = np.random.default_rng(6)
    root = rng.standard_normal((3, 3))
    drawn = rng.standard_normal((50_000, 3)) @ root.T
    found = numbers.deviations(drawn, root @ root.T)
    np.testing.assert_allclose(np.cov(found.T), np.eye(3), atol=0.03)


@pytest.fixture(scope="module")
def exact_pair():
    return population_risk(TASK, KernelHeads(np.array([0.13, -0.13]), np.array([3.45, -3.45])))


def test_risks_of_columns_and_landscape_are_the_library_s(exact_pair):
    assert averages.exact_risks(TASK)[0] == pytest.approx(exact_pair.value, abs=1e-10)
    lone = exact_pair(KernelHeads(np.array([0.52, 0.0]), np.array([1.42, 0.0])))
    assert layers.column([40], "1").risk(0.52, 1.42)[0] == pytest.approx(float(lone), abs=1e-6)
    pair = layers.column([40], "2").risk(0.13, 3.45)[0]
    assert pair == pytest.approx(exact_pair.value, abs=1e-8)
    omega, mu = averages.landscape_axes()
    heads = KernelHeads(omega[10] * np.array([1, -1]), mu[12] * np.array([1, -1]))
    exact, near = averages.landscape()
    assert exact[10, 12] == pytest.approx(float(exact_pair(heads)), abs=1e-9)
    x = 5 * omega[10] ** 2
    square = 2 * 1.1 / 40 * (math.exp(x) - math.exp(-x))
    written = 1.1 - 4 * omega[10] * mu[12] + (2 * omega[10] * mu[12]) ** 2 + square * mu[12] ** 2
    assert near[10, 12] == pytest.approx(written, abs=1e-13)


def test_weights_that_round_to_the_quoted_ones_leave_nothing():
    table = layers.column([40, 100], "2")
    inside = table.risk(0.1345, 3.46)
    np.testing.assert_array_equal(layers.outside(inside, table, "2"), 0.0)
    np.testing.assert_allclose(layers.outside(inside + 0.1, table, "2"), 0.1, atol=0.02)


def test_the_exponent_is_that_of_the_lemma():
    assert digits.moment_exponent(0.1) == pytest.approx(
        0.1 * math.sqrt(5 / 2) + 3 / (1 + math.sqrt(1 + 1 / 0.05))
    )
    assert 2 * (1 - digits.moment_exponent(0.1)) > 3 / 5  # what the proof needs of it


def test_a_unit_is_that_of_the_last_printed_digit():
    assert numbers.printed_unit("0.57") == pytest.approx(0.01)
    assert numbers.printed_unit("3.5") == pytest.approx(0.1)
    assert numbers.printed_unit("40") == 1.0


def slopes_at(setting, head, rng, count=30_000):
    """z-scores of the derivatives of the sampled risk in `ω` (own, shared) and `μ`."""
    X = rng.standard_normal((count, setting.length, 6))
    query = rng.standard_normal((count, 6))
    own = np.array([1, 1, 0, 0, 1, 1])
    variance = setting.variance * np.where(own, 0.5, 1.0)

    def risk(a, b, mu):
        scores = (X @ (np.where(own, a, b) * query)[..., None])[..., 0]
        p = np.exp(scores - scores.max(1, keepdims=True))
        p *= mu / p.sum(1, keepdims=True)
        rest = query - (p[:, None] @ X)[:, 0]
        return rest**2 @ variance + setting.noise * np.sum(p**2, 1)

    steps = 0.01 * np.eye(3)
    each = [risk(*(head + step)) - risk(*(head - step)) for step in steps]
    return np.array([d.mean() / d.std() * math.sqrt(count) for d in each])


@pytest.mark.parametrize("setting", [tasks.TEXT, tasks.RELEASED])
def test_the_sampled_risk_is_flat_at_the_best_head_of_two_tasks(setting):
    best = np.array(tasks.best_head(setting))
    rng = np.random.default_rng(7)
    assert np.all(np.abs(slopes_at(setting, best, rng)) < 4)
    for k in range(3):
        other = best * np.where(np.arange(3) == k, 1.1, 1.0)
        assert abs(slopes_at(setting, other, rng)[k]) > 5


def test_moments_of_softmax_scores_are_those_of_drawn_ones():
    t = np.random.default_rng(9).standard_normal((40_000, 40))
    for scale, o, m in zip((0.3, 1.5), *score_moments(40, [0.3, 1.5]), strict=True):
        p = np.exp(scale * t)
        p /= p.sum(1, keepdims=True)
        mean = np.sum(p * t, 1)
        assert np.mean(np.sum(p**2, 1)) == pytest.approx(o, rel=0.02)
        assert np.mean(mean**2) == pytest.approx(m, rel=0.02)
        assert np.mean(mean) == pytest.approx(scale * (1 - o), rel=0.01)


def test_the_best_gain_is_that_of_least_squares_on_drawn_prompts():
    setting, rng, count = tasks.TEXT, np.random.default_rng(8), 40_000
    X = rng.standard_normal((count, 40, 6))
    cross, square = np.zeros(6), np.zeros(6)
    for support in ((0, 1, 2, 3), (2, 3, 4, 5)):
        inside = np.isin(np.arange(6), support)
        beta = math.sqrt(setting.variance) * rng.standard_normal((count, 6)) * inside
        y = np.einsum("nld,nd->nl", X, beta) + math.sqrt(0.1) * rng.standard_normal((count, 40))
        slope = np.einsum("nl,nld->nd", y, X) / 40
        cross += np.mean(beta * slope, 0)
        square += np.mean(slope**2, 0)
    steps = cross / square
    ratio = steps[2:4].mean() / steps[[0, 1, 4, 5]].mean()
    assert ratio == pytest.approx(tasks.best_gain(setting), abs=0.01)
    assert tasks.best_gain(setting) > 1.05
