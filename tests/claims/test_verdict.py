"""The verdict follows from the checks; exit status and summaries follow from the verdicts."""

import io

import pytest

from attnlab import claims
from attnlab.claims import Check, Claim, Outcome, Verdict
from attnlab.errors import InvalidArgument

PASS = Check.condition("holds", True)
FAIL = Check.condition("holds", False)
OPEN = Check.condition("holds", None)


def make_claim(expected=None, **changes):
    texts = {name: name for name in ("id", "title", "statement", "source", "explanation")}
    texts["paper"] = "doe2027"
    return Claim(**{**texts, **changes}, check=print, expected=expected)


def verdict(*checks, expected=None, **fields):
    return Verdict(make_claim(expected), checks, **fields)


@pytest.mark.parametrize(
    ("checks", "word"),
    [
        ((PASS, PASS), "confirmed"),
        ((PASS, FAIL, OPEN), "refuted as stated"),
        ((PASS, OPEN), "inconclusive"),
    ],
)
def test_verdict_from_checks(checks, word):
    assert verdict(*checks).verdict == word
    assert verdict(*checks).key_check == min(checks, key=[FAIL, OPEN, PASS].index)


def test_tests_of_one_claim_share_its_level():
    """A deviation with p = 5e-5 refutes when it is the only test, not among ten."""
    low = Check.agreement("a", 4.056, 0.0, standard_error=1.0, scale=100.0)
    fine = Check.agreement("b", 0.0, 0.0, standard_error=1.0, scale=100.0)
    assert low.p_value == pytest.approx(5e-5, rel=0.01)
    assert verdict(low).verdict == "refuted as stated"
    assert verdict(low, *[fine] * 9).verdict == "confirmed"


def test_failed_verdict_is_never_as_expected():
    failed = verdict(failed="ValueError: no")
    assert failed.verdict == "failed to run"
    assert not failed.as_expected
    assert claims.exit_status([failed]) == 1


def test_exit_status():
    good, refuted = verdict(PASS, expected="confirmed"), verdict(FAIL, expected="refuted as stated")
    assert claims.exit_status([good, refuted]) == 0
    assert claims.exit_status([good, refuted], strict=True) == 1
    assert claims.exit_status([verdict(FAIL, expected="confirmed")]) == 1
    assert claims.exit_status([verdict(PASS, expected="refuted as stated")]) == 1
    assert claims.exit_status([verdict(OPEN)]) == 0


def test_only():
    all_of_them = [verdict(PASS), verdict(FAIL), verdict(OPEN, expected="confirmed")]
    assert claims.only(all_of_them, "refuted") == [all_of_them[1]]
    assert claims.only(all_of_them, "unexpected") == [all_of_them[2]]
    with pytest.raises(InvalidArgument, match="only"):
        claims.only(all_of_them, "true")


def test_the_corrected_form_is_checked_too():
    assert verdict(FAIL, corrected="x").correction_holds is None
    assert verdict(FAIL, corrected="x", evidence=(PASS,)).correction_holds is True
    assert verdict(FAIL, corrected="x", evidence=(PASS, FAIL)).correction_holds is False


def test_checks_of_the_corrected_form_share_a_level_of_their_own():
    low = Check.agreement("a", 4.056, 0.0, standard_error=1.0, scale=100.0)  # p = 5e-5
    fine = Check.agreement("b", 0.0, 0.0, standard_error=1.0, scale=100.0)
    assert verdict(FAIL, evidence=(low,)).correction_holds is False
    assert verdict(FAIL, evidence=(low, *[fine] * 9)).correction_holds is True
    assert verdict(low, *[fine] * 9, evidence=(PASS,)).status(low) == "pass"


def test_an_outcome_without_checks_is_refused():
    with pytest.raises(InvalidArgument, match="at least one check"):
        Outcome(())
    with pytest.raises(InvalidArgument, match="Check objects"):
        Outcome(("yes",))


@pytest.mark.parametrize(
    "changes",
    [{"id": ""}, {"paper": "a b"}, {"id": "a/b"}, {"explanation": " "}, {"expected": "true"}],
)
def test_incomplete_claims_are_refused(changes):
    with pytest.raises(InvalidArgument, match="Claim."):
        make_claim(**changes)


def printed(*args, **kwargs):
    from rich.console import Console

    stream = io.StringIO()
    claims.print_verdicts(*args, Console(file=stream, width=160), **kwargs)
    return stream.getvalue()


def test_table_shows_numbers_and_escapes_markup():
    noisy = Check.agreement("E[x]", 0.1234, 0.1, standard_error=0.0021, units="nats")
    text = printed([verdict(noisy, corrected="0.123 [exact]"), verdict(PASS)])
    assert "0.1234 ± 0.0021 nats" in text
    assert "E[x]" in text
    assert "corrected: 0.123 [exact]" in text
    assert "2 claims: 1 confirmed, 1 refuted as stated, 0 inconclusive" in text
    only_refuted = printed([verdict(noisy), verdict(PASS)], kind="refuted")
    assert "✗" in only_refuted
    assert "✓" not in only_refuted


def test_an_open_question_is_answered_and_counts_as_confirmed():
    answered = verdict(PASS, answer="At most 0.3.")
    assert (answered.word, answered.verdict) == ("answered", "confirmed")
    assert verdict(FAIL, answer="At most 0.3.").word == "refuted as stated"
    text = printed([answered])
    assert "✓ answered" in text
    assert "1 claim: 1 confirmed, 0 refuted as stated, 0 inconclusive (1 of the confirmed" in text
    assert "✓ doe2027/id  answered" in claims.verdict_line(answered).plain


def test_stream_line():
    line = claims.verdict_line(verdict(PASS, expected="inconclusive", seconds=1.25)).plain
    assert line.startswith("✓ doe2027/id  confirmed (on record: inconclusive)")
    assert line.endswith("1.2 s")
    line = claims.verdict_line(verdict(failed="ValueError: no"))
    assert "ValueError: no" in line.plain
