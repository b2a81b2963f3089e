"""Invariants of claims: complete, deterministic, and judged by their checks alone."""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Any, Literal

from .._core.errors import InvalidArgument, check_integer
from .._core.workers import resolve
from ..claims import Claim, Verdict
from ..claims.claim import FAILED, VERDICTS
from ..claims.files import verdict_from_dict, verdict_to_dict
from ..claims.runner import run_check
from .invariants import Invariants, shown


def check_claim(
    claim: Claim, *, preset: Literal["quick", "paper"] = "quick", seed: int = 0
) -> tuple[str, ...]:
    """Checks that a claim is complete and that its check can be trusted with a verdict.

    All texts are there, the explanation has more than one sentence; the check is found, takes
    `(preset, seed)` and returns an `Outcome`; it gives the same outcome twice, and runs with
    another seed; the verdict is one of the three words, equals the one on record (if there is
    one) and survives JSON; a claim that is refuted says what holds instead, an undecided one what
    would settle it, and a question gets an answer.

    The check is run three times. Returns the names of the invariants. Raises `InvariantError` for
    those that fail, `InvalidArgument` for what is no claim.
    """
    if not isinstance(claim, Claim):
        raise InvalidArgument("claim", claim, "a Claim")
    seed = check_integer("seed", seed, minimum=0)
    found = Invariants(f"claim {claim.key!r}")
    found.require("explanation", lambda: _explained(claim))
    if not found.require("check is found", lambda: _callable(claim)):
        return found.result()
    outcomes: list[Any] = []

    def run(with_seed: int) -> str | None:
        outcomes.append(run_check(claim.check, preset, with_seed))
        return None

    if not found.require("check runs", lambda: run(seed)):
        return found.result()
    verdict = Verdict.from_outcome(claim, outcomes[0], preset=preset, seed=seed)
    if found.require("check runs again", lambda: run(seed)):
        found.require("deterministic", lambda: _equal(outcomes[0], outcomes[1]))
    found.require("check runs with another seed", lambda: run(seed + 1))
    found.require("verdict", lambda: _judged(verdict))
    found.require("verdict on record", lambda: _as_expected(verdict))
    found.require("says what follows", lambda: _complete(verdict))
    found.require("survives JSON", lambda: _survives_json(verdict))
    return found.result()


def _explained(claim: Claim) -> str | None:
    sentences = [part for part in claim.explanation.replace("\n", " ").split(". ") if part.strip()]
    return None if len(sentences) >= 2 else f"one sentence only: {shown(claim.explanation)}"


def _callable(claim: Claim) -> str | None:
    check = resolve(claim.check) if isinstance(claim.check, str) else claim.check
    if not callable(check):
        return f"{shown(claim.check)} cannot be called"
    inspect.signature(check).bind("quick", 0)
    return None


def _equal(first: Any, second: Any) -> str | None:
    for field in dataclasses.fields(first):
        a, b = getattr(first, field.name), getattr(second, field.name)
        if repr(a) != repr(b):  # NaN statistics are equal to themselves here
            return f"{field.name} differ between two runs with one seed"
    return None


def _judged(verdict: Verdict) -> str | None:
    if verdict.verdict in VERDICTS and verdict.verdict != FAILED:
        return None
    return f"the verdict is {verdict.verdict!r}"


def _as_expected(verdict: Verdict) -> str | None:
    if verdict.as_expected:
        return None
    return f"{verdict.verdict!r}, on record is {verdict.claim.expected!r}"


def _complete(verdict: Verdict) -> str | None:
    if verdict.verdict == "refuted as stated" and not verdict.corrected:
        return "refuted, but the outcome has no corrected form"
    if verdict.verdict == "inconclusive" and not verdict.settle:
        return "inconclusive, but the outcome does not say what would settle it"
    if verdict.claim.statement.rstrip().endswith("?") and not verdict.answer:
        return "a question without an answer"
    return None


def _survives_json(verdict: Verdict) -> str | None:
    text = json.dumps(verdict_to_dict(verdict), allow_nan=False)
    back = verdict_from_dict(json.loads(text))
    same = back.verdict == verdict.verdict and back.checks == verdict.checks
    return None if same else "the verdict read back differs"
