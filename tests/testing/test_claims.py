"""The invariants of claims: a sound claim passes, each kind of unsound one is found."""

import itertools

import numpy as np
import pytest

from attnlab.claims import Check, Claim, Outcome
from attnlab.errors import InvalidArgument
from attnlab.testing import InvariantError, check_claim


def sample_mean(preset, seed):
    draws = np.random.default_rng(seed).normal(size=400)
    check = Check.agreement("mean", draws.mean(), 0.0, standard_error=draws.std() / 20, scale=1.0)
    return Outcome((check,))


def claim(check=sample_mean, **changes):
    fields = {
        "id": "mean",
        "paper": "toy2027",
        "title": "Mean",
        "statement": "The mean is 0.",
        "source": "Section 1",
        "explanation": "Draws are standard normal. Their mean is therefore 0.",
        "check": check,
        "expected": "confirmed",
    }
    return Claim(**{**fields, **changes})


def test_a_sound_claim_passes():
    held = check_claim(claim())
    assert {"deterministic", "verdict", "verdict on record", "survives JSON"} <= set(held)


def test_a_check_named_by_text_is_found():
    assert "check is found" in check_claim(claim(f"{__name__}:sample_mean"))


counter = itertools.count()


def unsteady(preset, seed):
    return Outcome((Check.agreement("count", next(counter), 0.0, tolerance=1e9),))


def only_seed_zero(preset, seed):
    if seed:
        raise RuntimeError("no such seed")
    return sample_mean(preset, seed)


def refuted(preset, seed):
    return Outcome((Check.agreement("one", 1.0, 2.0, tolerance=0.1),))


def undecided(preset, seed):
    return Outcome((Check.agreement("x", 0.0, 1.0, standard_error=2.0),))


@pytest.mark.parametrize(
    ("check", "changes", "violated"),
    [
        (sample_mean, {"explanation": "One sentence."}, "explanation"),
        ("no_such_module:f", {}, "check is found"),
        (lambda: None, {}, "check is found"),
        (lambda preset, seed: "confirmed", {}, "check runs"),
        (lambda preset, seed: 1 / 0, {}, "check runs"),
        (unsteady, {}, "deterministic"),
        (only_seed_zero, {}, "check runs with another seed"),
        (refuted, {"expected": None}, "says what follows"),
        (refuted, {}, "verdict on record"),
        (undecided, {"expected": None}, "says what follows"),
        (sample_mean, {"statement": "Is the mean 0?"}, "says what follows"),
    ],
)
def test_each_violation_is_found(check, changes, violated):
    with pytest.raises(InvariantError) as caught:
        check_claim(claim(check, **changes))
    assert violated in caught.value.violations


def test_what_is_no_claim_is_refused():
    with pytest.raises(InvalidArgument, match="claim"):
        check_claim("marion2025/risk-formula")
    with pytest.raises(InvalidArgument, match="seed"):
        check_claim(claim(), seed=-1)
