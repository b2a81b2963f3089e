"""Checks compute their status from the numbers, at the error rates they promise."""

import numpy as np
import pytest
from scipy import stats

from attnlab.claims import Check
from attnlab.claims.levels import CLAIM_LEVEL, FAMILY_LEVEL, FAMILY_SIZE, family_level
from attnlab.errors import InvalidArgument


def test_exact_agreement_within_tolerance():
    assert Check.agreement("a", 1.0005, 1.0, tolerance=1e-3).status == "pass"
    assert Check.agreement("a", 1.0015, 1.0, tolerance=1e-3).status == "fail"
    assert Check.agreement("a", 1.0005, 1.0, relative_tolerance=1e-3).status == "pass"
    assert Check.agreement("a", -1.0, 1.0, relative_tolerance=0.5).status == "fail"


def test_arrays_report_the_worst_element():
    check = Check.agreement("a", [1.0, 2.1, 3.0], [1.0, 2.0, 3.0], tolerance=0.05)
    assert (check.status, check.measured, check.stated, check.size) == ("fail", 2.1, 2.0, 3)
    check = Check.agreement("a", [[1.0], [2.0]], [1.0, 2.0], standard_error=[[0.1], [0.2]])
    assert check.size == 4
    assert check.measured == 1.0  # ten standard errors from 2, the other pair only five
    assert check.status == "fail"


def test_noisy_agreement_has_the_exact_p_value():
    for z in (0.5, 2.0, 5.0):
        check = Check.agreement("a", 1 + 0.01 * z, 1.0, standard_error=0.01)
        assert check.p_value == pytest.approx(2 * stats.norm.sf(z))
    assert Check.agreement("a", 1.03, 1.0, standard_error=0.01).status == "pass"
    assert Check.agreement("a", 1.05, 1.0, standard_error=0.01).status == "fail"


def test_a_blunt_measurement_does_not_confirm():
    assert Check.agreement("a", 1.0, 1.0, standard_error=0.2).status == "undecided"
    assert Check.agreement("a", 1.0, 1.0, standard_error=0.2, scale=10.0).status == "pass"
    with pytest.raises(InvalidArgument, match="scale of check 'a'"):
        Check.agreement("a", 0.1, 0.0, standard_error=0.2)


def test_agreement_up_to_a_tolerance_has_three_outcomes():
    def status(measured):
        return Check.agreement("a", measured, 1.0, standard_error=0.01, tolerance=0.1).status

    assert [status(m) for m in (1.05, 1.09, 1.12, 1.2)] == [
        "pass",
        "undecided",
        "undecided",
        "fail",
    ]
    zero = Check.agreement("a", 1.03, 1.0, standard_error=0.01, tolerance=0.0)
    assert zero.p_value == pytest.approx(2 * stats.norm.sf(3))  # both tails count


def test_bounds_on_either_side():
    assert Check.bound("b", [0.1, 0.3], upper=0.3).status == "pass"
    assert Check.bound("b", [0.1, 0.31], upper=0.3).status == "fail"
    assert Check.bound("b", 0.5, lower=0.4).status == "pass"
    assert Check.bound("b", 0.3, lower=0.4).status == "fail"
    for measured, expected in (
        (0.47, "pass"),
        (0.49, "undecided"),
        (0.51, "undecided"),
        (0.6, "fail"),
    ):
        assert Check.bound("b", measured, upper=0.5, standard_error=0.01).status == expected
    with pytest.raises(InvalidArgument, match="one of lower and upper"):
        Check.bound("b", 0.3)


def test_proportion_uses_exact_binomial_tails():
    check = Check.proportion("p", 40, 100, lower=0.5)
    assert check.p_value == pytest.approx(stats.binom.cdf(40, 100, 0.5))
    assert check.status == "undecided"
    assert Check.proportion("p", 20, 100, lower=0.5).status == "fail"
    assert Check.proportion("p", 400, 400, lower=0.99).status == "pass"
    assert Check.proportion("p", 100, 100, lower=0.99).status == "undecided"  # too few runs
    mirrored = Check.proportion("p", 60, 100, upper=0.5)
    assert mirrored.p_value == pytest.approx(check.p_value)
    assert Check.proportion("p", 0, 400, upper=0.01).status == "pass"


def test_normal_zscores_pass_and_others_fail():
    rng = np.random.default_rng(0)
    z = rng.standard_normal(300)
    assert Check.distribution("z", z).status == "pass"
    for other in (z + 0.4, 1.4 * z, 0.7 * z, rng.uniform(-1.73, 1.73, 3000), [*z, 7.0]):
        assert Check.distribution("z", other).status == "fail"
    assert Check.distribution("z", z[:10]).status == "undecided"


def test_false_refutations_stay_below_the_level():
    """20 000 true statements tested at level 1 %: about 1 % fail, and no more than chance allows."""
    rng = np.random.default_rng(1)
    m = rng.standard_normal((20_000, 5))
    fails = sum(
        Check.agreement("a", row, 0.0, standard_error=1.0, scale=10.0).status_at(0.01) == "fail"
        for row in m
    )
    assert 120 < fails < 260  # Bonferroni is slightly conservative: 199 expected
    z = rng.standard_normal((600, 100))
    fails = sum(Check.distribution("z", row).status_at(0.05) == "fail" for row in z)
    assert fails <= stats.binom.ppf(0.9999, 600, 0.05)
    assert fails >= 5


def test_family_level_covers_all_claims():
    assert pytest.approx(CLAIM_LEVEL * FAMILY_SIZE) == FAMILY_LEVEL
    assert family_level(75) < 0.01
    assert family_level(10**6) == 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, []])
def test_numbers_that_are_none_are_refused(bad):
    with pytest.raises(InvalidArgument, match="check 'a'"):
        Check.agreement("a", bad, 1.0, tolerance=1.0)
    with pytest.raises(InvalidArgument, match="check 'a'"):
        Check.distribution("a", bad)


def test_what_a_check_needs_is_asked_for():
    with pytest.raises(InvalidArgument, match="unless a tolerance"):
        Check.agreement("a", 1.0, 1.0)
    with pytest.raises(InvalidArgument, match="standard_error"):
        Check.bound("a", 1.0, upper=2.0, standard_error=-1.0)
    with pytest.raises(InvalidArgument, match="True, False or None"):
        Check.condition("a", 0.3)


def test_conditions():
    assert Check.condition("c", True).status == "pass"
    assert Check.condition("c", np.bool_(False)).status == "fail"
    assert Check.condition("c", None).status == "undecided"


def test_round_trip():
    check = Check.distribution("z", np.linspace(-2, 2, 50))
    assert Check.from_dict(check.to_dict()) == check
