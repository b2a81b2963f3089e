"""The mutation test of the audit: formulas are broken on purpose, and their checks have to notice.

A `Mutation` breaks one formula behind a claim, under the name by which the claim's check looks it up.
A check that still gives the verdict on record would have let a wrong formula pass. For each claim the
check is run as it is first (the control), then once for each of its mutations.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from .._core.errors import InvalidArgument, check_choice, check_integer, check_several
from .._core.progress import current_progress
from .._core.workers import JobResult, resolve, run_jobs
from .claim import FAILED, Claim, Outcome, Preset, Verdict
from .perturbations import Perturbation
from .registry import find, papers
from .runner import job_of, run_check

Expectation = Literal["refuted as stated", "confirmed", "correction fails"]
EXPECTATIONS = ("refuted as stated", "confirmed", "correction fails")
_ABSENT = object()


@dataclass(frozen=True)
class Mutation:
    """One formula broken on purpose.

    **Fields:** `claim` (`paper/id`); `target`, `"module:name"` or `"module:Class.name"`, the name
    that the check looks up when it runs; `change`, one of `claims.perturbations`; `text`, what was
    broken, in words; `expects`, what a check that notices gives: `"refuted as stated"`, where
    `confirmed` is on record; `"correction fails"` (a check of the corrected form fails), where the
    claim is refuted as stated; or `"confirmed"`, where a printed slip is put right. None is the
    first or second of these, as the record says.
    """

    claim: str
    target: str
    change: Perturbation
    text: str
    expects: Expectation | None = None

    def __post_init__(self) -> None:
        for name, value in (("claim", self.claim), ("target", self.target), ("text", self.text)):
            if not isinstance(value, str) or not value.strip():
                raise InvalidArgument(f"Mutation.{name}", value, "a non-empty text")
        if ":" not in self.target:
            raise InvalidArgument("Mutation.target", self.target, "of the form 'module:name'")
        if not hasattr(self.change, "apply"):
            raise InvalidArgument("Mutation.change", self.change, "one of claims.perturbations")
        if self.expects is not None:
            check_choice("Mutation.expects", self.expects, EXPECTATIONS)


@dataclass(frozen=True)
class MutationResult:
    """What became of a mutation.

    **Fields:** `claim`; `mutation` (None: the claim has none, and is not covered); `verdict` of the
    broken check (None without one); `caught`; `failed`, the names of the checks that told; `seconds`;
    `error`, why it did not run.
    """

    claim: str
    mutation: Mutation | None
    verdict: str | None = None
    caught: bool = False
    failed: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str | None = None


def mutate(
    ids: str | Claim | Iterable[str | Claim] | None = None,
    *,
    mutations: Iterable[Mutation] | None = None,
    preset: Preset = "quick",
    seed: int = 0,
    processes: int = 2,
    on_result: Callable[[MutationResult], None] | None = None,
) -> list[MutationResult]:
    """Breaks formulas behind claims, and says for each whether the claim's check noticed.

    **Arguments:** `ids`, `preset`, `seed`, `processes` as in `claims.verify`; `mutations`, default
    those of the papers; `on_result` is called with each result as it comes.

    A mutation is caught when its check gives what it `expects`; not when the check raises, nor when
    the unbroken check does not give the verdict on record. A claim without a mutation is a result
    that is not caught. Raises `InvalidArgument` for an unknown id, preset or claim, before anything
    runs.
    """
    preset = cast(Preset, check_choice("preset", preset, ("quick", "paper")))
    seed = check_integer("seed", seed, minimum=0)
    claims = {claim.key: claim for claim in find(ids)}
    chosen: dict[str, list[Mutation]] = {key: [] for key in claims}
    broken_by = (
        all_mutations()
        if mutations is None
        else check_several("mutations", mutations, "a list of Mutation objects")
    )
    for mutation in broken_by:
        if not isinstance(mutation, Mutation):
            raise InvalidArgument("mutations", mutation, "a list of Mutation objects")
        if mutation.claim in chosen:
            chosen[mutation.claim].append(mutation)
        else:
            find(mutation.claim)
    jobs = [
        replace(
            job_of(claims[key], preset, seed),
            function=f"{__name__}:run_mutations",
            arguments=(claims[key], tuple(own), preset, seed),
        )
        for key, own in chosen.items()
        if own
    ]
    results: dict[str, list[MutationResult]] = {
        key: [MutationResult(key, None, error="no mutation breaks a formula of this claim")]
        for key, own in chosen.items()
        if not own
    }
    for uncovered in [result for own in results.values() for result in own]:
        if on_result is not None:
            on_result(uncovered)
    progress = current_progress()
    progress.start("mutations", len(jobs))

    def keep(job: JobResult) -> None:
        found = job.value
        if found is None:
            found = [MutationResult(job.key, own, error=job.error) for own in chosen[job.key]]
        results[job.key] = found
        progress.advance(1, job.key)
        if on_result is not None:
            for result in found:
                on_result(result)

    try:
        run_jobs(jobs, processes=processes, on_result=keep)
    finally:
        progress.stop()
    return [result for key in chosen for result in results[key]]


def share_caught(results: Sequence[MutationResult]) -> float:
    """The share of mutations caught, in which a claim without one counts as one not caught."""
    return sum(result.caught for result in results) / len(results) if results else 1.0


def all_mutations() -> tuple[Mutation, ...]:
    """The mutations of all papers. Raises `InvalidArgument` where a paper names something else."""
    return tuple(mutation for paper in papers() for mutation in mutations_of(paper))


def mutations_of(paper: object) -> tuple[Mutation, ...]:
    """Those of a `Paper`: its `mutations` are a tuple, or a reference `"module:NAME"` to one."""
    mutations = getattr(paper, "mutations", None) or ()
    if isinstance(mutations, str):
        mutations = resolve(mutations)
    for mutation in mutations:
        if not isinstance(mutation, Mutation):
            name = f"mutations of paper {getattr(paper, 'key', '?')}"
            raise InvalidArgument(name, mutation, "a Mutation")
    return tuple(mutations)


def run_mutations(
    claim: Claim, mutations: Sequence[Mutation], preset: Preset, seed: int
) -> list[MutationResult]:
    """The control, then each mutation of one claim, in this process."""
    control, error, _ = _verdict(claim, preset, seed)
    if error is None and not _sound(claim, control):
        error = f"its verdict is {control.verdict!r}, on record is {claim.expected!r}"
    if error is not None:
        return [MutationResult(claim.key, m, error=f"unbroken check: {error}") for m in mutations]
    return [run_broken(claim, mutation, preset, seed) for mutation in mutations]


def _sound(claim: Claim, control: Verdict) -> bool:
    return control.as_expected and control.correction_holds is not False


def run_broken(claim: Claim, mutation: Mutation, preset: Preset, seed: int) -> MutationResult:
    """One mutation of a claim, in this process, without the control."""
    start = time.perf_counter()
    try:
        with broken(mutation):
            found, error, seconds = _verdict(claim, preset, seed)
    except Exception as problem:  # the target is not there
        spent = time.perf_counter() - start
        return MutationResult(claim.key, mutation, FAILED, seconds=spent, error=_line(problem))
    if error is not None:
        return MutationResult(claim.key, mutation, FAILED, seconds=seconds, error=error)
    caught, failed = judged(found, mutation.expects)
    return MutationResult(claim.key, mutation, found.verdict, caught, failed, seconds)


def judged(found: Verdict, expects: Expectation | None) -> tuple[bool, tuple[str, ...]]:
    """Whether a broken check gives what is expected, and the names of the checks that say so."""
    if expects is None:
        refuted = found.claim.expected == "refuted as stated"
        expects = "correction fails" if refuted else "refuted as stated"
    if expects == "confirmed":
        return found.verdict == "confirmed", tuple(check.name for check in found.checks)
    group = found.evidence if expects == "correction fails" else found.checks
    failed = tuple(check.name for check in group if found.status(check) == "fail")
    return bool(failed), failed


@contextmanager
def broken(mutation: Mutation) -> Iterator[None]:
    """The target is wrong inside the block, and as it was afterwards."""
    module, _, path = mutation.target.partition(":")
    *owners, name = path.split(".")
    owner: Any = resolve(f"{module}:{'.'.join(owners)}") if owners else _module(module)
    right = vars(owner).get(name, _ABSENT)
    known = getattr(owner, name, _ABSENT) if right is _ABSENT else right
    if known is _ABSENT:
        raise InvalidArgument("Mutation.target", mutation.target, f"a name that {module} defines")
    setattr(owner, name, mutation.change.apply(known))
    try:
        yield
    finally:
        if right is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, right)


def _module(name: str) -> Any:
    import importlib

    return importlib.import_module(name)


def _verdict(claim: Claim, preset: Preset, seed: int) -> tuple[Verdict, str | None, float]:
    start = time.perf_counter()
    try:
        outcome: Outcome = run_check(claim.check, preset, seed)
    except Exception as error:
        spent = time.perf_counter() - start
        return Verdict(claim, failed=_line(error)), _line(error), spent
    return Verdict.from_outcome(claim, outcome), None, time.perf_counter() - start


def _line(error: Exception) -> str:
    return " ".join("".join(traceback.format_exception_only(error)).split())
