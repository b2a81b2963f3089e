"""The claims of he2025 on theory: each check gives the verdict on record, and breaks when it should."""

import numpy as np
import pytest

from attnlab import claims, theory
from attnlab.claims import Verdict
from attnlab.claims.mutation import run_broken
from attnlab.papers.he2025 import (
    checks_concentration,
    checks_flow,
    checks_heads,
    checks_minimiser,
    checks_risks,
    exact_heads,
    least_heads,
    least_risk,
    two_head_flow,
)
from attnlab.papers.he2025.mutations import MUTATIONS
from attnlab.students import KernelHeads
from attnlab.tasks import InContextRegression

IDS = (
    "stein-attention",
    "lemma-e2",
    "nadaraya-watson",
    "norm-concentration",
    "concentration-lemmas",
    "kms-tridiagonal",
    "approximate-loss",
    "optimal-mu",
    "single-head",
    "open-true-minimiser",
    "flow-phases",
    "flow-decay",
    "symmetry-preserved",
    "theorem-4.2-i",
    "theorem-4.2-ii",
    "theorem-4.2-iii",
    "gd-risk",
    "bayes-risk",
)


def claim(name):
    (found,) = claims.find(f"he2025/{name}")
    return found


@pytest.mark.parametrize("name", IDS)
def test_quick_check_gives_the_verdict_on_record(name):
    (found,) = claims.verify(f"he2025/{name}", seed=1)
    assert found.failed is None, found.details
    assert found.verdict == claim(name).expected, [c for c in found.checks if c.status != "pass"]
    assert found.notes
    assert found.correction_holds is not False, [c for c in found.evidence if c.status != "pass"]
    if name.startswith("open-"):
        assert found.answer
    if found.verdict == "refuted as stated":
        assert found.corrected


def scaled(function, factor):
    """The same formula, off by a factor."""
    return lambda *arguments, **options: factor * function(*arguments, **options)


# of each claim the first; the audit's mutation test breaks all
BROKEN = {m.claim.partition("/")[2]: m for m in reversed(MUTATIONS)}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in IDS
        if name not in ("concentration-lemmas", "open-true-minimiser", "flow-decay")
    ],
)
def test_a_wrong_formula_is_noticed(name):
    found = run_broken(claim(name), BROKEN[name], "quick", 0)
    assert found.caught, found


def test_samples_alone_refute_a_wrong_risk_of_descent(monkeypatch):
    from attnlab import estimators

    right = checks_risks.descent_risk
    monkeypatch.setattr(checks_risks, "descent_risk", scaled(right, 1.1))
    library = scaled(
        lambda *a, **o: float(estimators.in_context_risks.gradient_descent_risk(*a, **o)), 1.1
    )
    monkeypatch.setattr(estimators, "gradient_descent_risk", library)
    found = Verdict.from_outcome(claim("gd-risk"), checks_risks.gd_risk("quick", 0))
    failed = {check.name for check in found.checks if found.status(check) == "fail"}
    assert any(name.startswith("sampled risks") for name in failed)
    assert not any(name.startswith("the library's") for name in failed)


def test_wrong_concentration_lemmas_are_refuted_each(monkeypatch):
    module = checks_concentration
    monkeypatch.setattr(module, "chi_square_bound", lambda t: -1.5 * t)
    monkeypatch.setattr(module, "binomial_bound", lambda n, p, t: -n * p * t**2)
    monkeypatch.setattr(module, "score_bound", scaled(module.score_bound, 0.2))
    found = Verdict.from_outcome(
        claim("concentration-lemmas"), module.concentration_lemmas("quick", 0)
    )
    failed = {check.name.split(",")[0] for check in found.checks if found.status(check) == "fail"}
    assert {"G.1", "G.2", "G.3 (i)"} <= failed


def test_another_law_of_decay_does_not_correct_the_printed_one(monkeypatch):
    monkeypatch.setattr(two_head_flow, "slow_decay", scaled(two_head_flow.slow_decay, 1.01))
    monkeypatch.setattr(checks_flow, "exact_valley", two_head_flow.approximate_valley)
    found = Verdict.from_outcome(claim("flow-decay"), checks_flow.flow_decay("quick", 0))
    failed = [check.name for check in found.evidence if found.status(check) == "fail"]
    assert any("at the end" in name for name in failed)
    assert any(name.startswith("exact loss") for name in failed)  # L̃'s flow does not stop there


def test_a_wrong_slope_and_resting_place_are_refuted(monkeypatch):
    module = checks_minimiser
    valley = module.noisy_valley(InContextRegression(5, 40), 25_000, 0)

    def elsewhere(task, rate, batch, *rest):
        return 1.3 * valley.resting_gamma(rate, batch) * np.array([0.999, 1.0, 1.001])

    monkeypatch.setattr(module, "slope_at_zero", scaled(module.slope_at_zero, 1.01))
    monkeypatch.setattr(module, "trained_gamma", elsewhere)
    monkeypatch.setattr(module, "heads_checks", lambda *_: ((), {}))  # which these do not enter
    found = Verdict.from_outcome(
        claim("open-true-minimiser"), module.open_true_minimiser("quick", 0)
    )
    failed = {check.name for check in found.checks if found.status(check) == "fail"}
    assert any(name.startswith("slope") for name in failed)
    assert any("Adam stops" in name for name in failed)


@pytest.fixture(scope="module")
def exact_pair():
    """The library's exact risk, which checks its own resolution."""
    heads = KernelHeads(np.array([0.3, -0.2]), np.array([0.8, -1.2]))
    return theory.population_risk(InContextRegression(5, 40), heads)


def test_the_fast_program_gives_the_exact_risk(exact_pair):
    task, heads = InContextRegression(5, 40), exact_pair.heads
    table = exact_heads.heads_quadratic(task, heads.omega)
    assert table.risk(heads.mu, 0.1) == pytest.approx(exact_pair.value, abs=1e-10)
    gamma = np.array([0.01, 0.2])
    pairs = exact_heads.opposite_heads(task, gamma)
    for g, c, q in zip(gamma, *pairs, strict=True):
        eta, sign = 0.9, np.array([1.0, -1.0])
        opposite = exact_pair(KernelHeads(g * sign, eta / (2 * g) * sign))
        assert 1.1 - 2 * eta * c + eta**2 * q == pytest.approx(opposite, abs=1e-10)
    single = exact_heads.heads_quadratic(task, [0.25]).risk(np.array([1.4]), 0.1)
    padded = exact_pair(KernelHeads(np.array([0.25, 0.0]), np.array([1.4, 0.0])))
    assert single == pytest.approx(padded, abs=1e-10)


def test_the_best_opposite_heads_are_best(exact_pair):
    task = InContextRegression(5, 40)
    best = least_risk.best_opposite(task)
    sign = np.array([1.0, -1.0])

    def risk(gamma, eta):
        return float(exact_pair(KernelHeads(gamma * sign, eta / (2 * gamma) * sign)))

    assert best.risk == pytest.approx(risk(best.gamma, best.eta), abs=1e-11)
    for change in (0.98, 1.02):
        assert risk(change * best.gamma, best.eta) > best.risk
        assert risk(best.gamma, change * best.eta) > best.risk


@pytest.fixture(scope="module")
def three():
    return least_heads.least_heads(InContextRegression(5, 40), 3, 1)


def test_three_heads_are_least_where_two_coalesce(three):
    assert three.minimal
    assert three.risk == pytest.approx(0.2420604, abs=1e-7)
    assert abs(three.omega[0]) == pytest.approx(1.623, abs=2e-3)
    assert three.pair == pytest.approx(-np.sign(three.omega[0]) * 0.0129, abs=2e-4)
    # any direction costs: heads that open, another place of the pair, another third head
    task, gap = InContextRegression(5, 40), 0.01
    for omega in (
        [three.omega[0], three.pair + gap, three.pair - gap],
        [1.05 * three.omega[0], three.pair + gap, three.pair - gap],
        [three.omega[0], 3 * three.pair + gap, 3 * three.pair - gap],
    ):
        assert exact_heads.heads_quadratic(task, omega).least(0.1)[0] > three.risk


def test_a_grid_that_ends_before_the_least_heads_leaves_the_claim_open(monkeypatch):
    # |ω| = 0.55 at d = 5, where the least of three and of four heads lies at 1.6 to 1.8
    task, short = InContextRegression(5, 40), least_heads.GRID <= 1.25
    monkeypatch.setattr(least_heads, "GRID", least_heads.GRID[short])
    least_heads._table.cache_clear()
    try:
        _, profile = least_heads._scan(task, 3, 1)
        assert np.nanargmin(profile) == short.sum() - 1
        monkeypatch.setattr(least_heads, "_ends", lambda task, start: [cut])
        cut = least_heads.LeastHeads(
            0.2427, np.array([0.5]), 0.0, np.ones(3), 0.0, 1.0, 1.0, None, profile
        )
        found = least_heads.least_heads(task, 3, 1)
    finally:
        least_heads._table.cache_clear()
    assert not found.reach.inside
    assert np.isnan(found.reach.at)
    assert not found.minimal
    monkeypatch.setattr(
        checks_heads, "infimum", lambda task, heads, starts: checks_heads.Infimum(found, 0.2427)
    )
    checks, ends = checks_heads.heads_checks(task, (3,), 1, 1000, 0)
    assert checks[0].status != "pass"
    assert "at an edge" in checks_heads.in_words(task, ends)
    assert "infimum" not in checks_heads.in_words(task, ends)


def test_no_best_heads_are_told_where_the_risk_falls_to_the_end(monkeypatch):
    task = InContextRegression(5, 40)
    monkeypatch.setattr(least_risk, "_LARGEST", 0.5)  # of |ω|√d; the best single head has 1.16
    assert np.isnan(least_risk.best_single(task)).all()
    falling = np.polynomial.Chebyshev.fit([0, 1, 2], [3.0, 2.0, 1.5], 2, [0, 2])
    assert np.isnan(least_risk._least_inside(falling))
    valley = np.polynomial.Chebyshev([0, 0, 1], [0, 2])
    assert least_risk._least_inside(valley) == pytest.approx(1.0)
