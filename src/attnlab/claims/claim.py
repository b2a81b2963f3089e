"""A claim of a paper, what its check returns, and the verdict that follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from .._core.errors import InvalidArgument, check_choice
from .check import Check, Status
from .levels import level_per_test

Preset = Literal["quick", "paper"]
VERDICTS = ("confirmed", "refuted as stated", "inconclusive")
FAILED = "failed to run"


@dataclass(frozen=True)
class Outcome:
    """What the check of a claim returns.

    **Fields:** `checks`, which decide the verdict; `corrected`, the form that does hold if the
    stated one does not, and `evidence`, checks of that form (shown beside it, without a say in the
    verdict); `answer`, for an open question, one sentence with numbers and error bars; `settle`,
    what would settle an undecided claim; `notes` for the reader; `missing`, what this machine lacks
    (an optional package, say) so that the check could not decide: no regression, and computed anew
    the next time.
    """

    checks: tuple[Check, ...]
    corrected: str | None = None
    evidence: tuple[Check, ...] = ()
    answer: str | None = None
    settle: str | None = None
    notes: str = ""
    missing: str | None = None

    def __post_init__(self) -> None:
        for name in ("checks", "evidence"):
            value = tuple(getattr(self, name))
            if not all(isinstance(check, Check) for check in value):
                raise InvalidArgument(f"Outcome.{name}", value, "Check objects")
            object.__setattr__(self, name, value)
        if not self.checks:
            raise InvalidArgument("Outcome.checks", (), "at least one check")

    @classmethod
    def lacking(cls, what: str, how: str) -> Outcome:
        """Undecided, since `what` is not on this machine; `how` tells what would settle it."""
        check = Check.condition(f"{what} is at hand", None, how)
        return cls((check,), settle=how, missing=what)


@dataclass(frozen=True)
class Claim:
    """A statement from a paper with its source and the check that decides it.

    **Fields:** `id` and `paper` (the citation key) name it as `paper/id`; `title`; `statement`,
    precise and with its conditions (an open question is phrased as one); `source`, the place in the
    paper; `explanation`, two sentences for a reader who has not read it; `check`, a function
    `(preset, seed) -> Outcome`, or `"module:function"` for one that loads when it is run;
    `expected`, the verdict on record (a different one is a regression), None while there is none.
    """

    id: str
    paper: str
    title: str
    statement: str
    source: str
    explanation: str
    check: str | Callable[[Preset, int], Outcome]
    expected: str | None = None

    def __post_init__(self) -> None:
        for name in ("id", "paper", "title", "statement", "source", "explanation"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise InvalidArgument(f"Claim.{name}", value, "a non-empty text")
        for name in ("id", "paper"):
            if "/" in getattr(self, name) or " " in getattr(self, name):
                raise InvalidArgument(f"Claim.{name}", getattr(self, name), "free of / and spaces")
        if not isinstance(self.check, str) and not callable(self.check):
            raise InvalidArgument("Claim.check", self.check, "a function or 'module:function'")
        if self.expected is not None:
            check_choice("Claim.expected", self.expected, VERDICTS)

    @property
    def key(self) -> str:
        """`paper/id`."""
        return f"{self.paper}/{self.id}"


@dataclass(frozen=True)
class Verdict:
    """A claim with the outcome of its check. The verdict itself is computed from the checks.

    **Fields:** those of `Outcome`, `failed` (the error when the check did not run, with the
    traceback in `details`), `seconds` it took, `preset` and `seed`.
    """

    claim: Claim
    checks: tuple[Check, ...] = ()
    corrected: str | None = None
    evidence: tuple[Check, ...] = ()
    answer: str | None = None
    settle: str | None = None
    notes: str = ""
    missing: str | None = None
    failed: str | None = None
    details: str = ""
    seconds: float = 0.0
    preset: str = "quick"
    seed: int = 0

    @classmethod
    def from_outcome(cls, claim: Claim, outcome: Outcome, **how: Any) -> Verdict:
        """The verdict on `claim` from what its check returned."""
        return cls(
            claim,
            outcome.checks,
            outcome.corrected,
            outcome.evidence,
            outcome.answer,
            outcome.settle,
            outcome.notes,
            outcome.missing,
            **how,
        )

    @property
    def id(self) -> str:
        """`paper/id` of the claim."""
        return self.claim.key

    @property
    def level(self) -> float:
        """Level of each test of this claim (`claims.levels`)."""
        return _level(self.checks)

    def status(self, check: Check) -> Status:
        """Status of one of this verdict's checks, or of its evidence, at the level of that group."""
        evidence = any(check is other for other in self.evidence)
        return check.status_at(_level(self.evidence) if evidence else self.level)

    @property
    def verdict(self) -> str:
        """'confirmed' (every check passes), 'refuted as stated' (one fails), 'inconclusive' (one is
        undecided), or 'failed to run'."""
        if self.failed is not None:
            return FAILED
        statuses = {self.status(check) for check in self.checks}
        if "fail" in statuses:
            return "refuted as stated"
        return "confirmed" if statuses == {"pass"} else "inconclusive"

    @property
    def word(self) -> str:
        """The verdict for readers: an open question whose answer is confirmed is 'answered'."""
        return "answered" if self.answer and self.verdict == "confirmed" else self.verdict

    @property
    def correction_holds(self) -> bool | None:
        """Whether all checks of the corrected form pass; None when there are none."""
        if not self.evidence:
            return None
        return all(self.status(check) == "pass" for check in self.evidence)

    @property
    def as_expected(self) -> bool:
        """False when the check failed to run or the verdict differs from the one on record, unless
        this machine lacks what the check needs."""
        if self.failed is not None:
            return False
        if self.missing is not None:
            return True
        return self.claim.expected is None or self.verdict == self.claim.expected

    @property
    def key_check(self) -> Check | None:
        """The check that says most: the first that fails, else the first undecided, else the first."""
        order = {"fail": 0, "undecided": 1, "pass": 2}
        return min(self.checks, key=lambda check: order[self.status(check)], default=None)

    def with_claim(self, claim: Claim) -> Verdict:
        """The same outcome for another version of the claim's text."""
        return replace(self, claim=claim)


def _level(checks: tuple[Check, ...]) -> float:
    return level_per_test(sum(check.p_value is not None for check in checks))
