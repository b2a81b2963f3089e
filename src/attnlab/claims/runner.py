"""Running the checks of claims, one after another or in parallel processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from .._core.errors import InvalidArgument, check_choice, check_integer
from .._core.progress import current_progress
from .._core.workers import Job, JobResult, resolve, run_jobs
from .claim import Claim, Outcome, Preset, Verdict
from .registry import find


def verify(
    ids: str | Claim | Iterable[str | Claim] | None = None,
    *,
    preset: Preset = "quick",
    seed: int = 0,
    processes: int = 1,
    on_verdict: Callable[[Verdict], None] | None = None,
) -> list[Verdict]:
    """Checks claims and returns their verdicts, in the order of the registry.

    **Arguments:**

    - `ids`: `"marion2025"`, `"marion2025/risk-formula"`, a `Claim`, or several; None is every claim.
    - `preset`: `"quick"` (minutes in all) or `"paper"` (the sizes of the paper).
    - `seed`: from which every check derives its random keys.
    - `processes`: 1 works here; more spawns workers of one thread each. Checks that are functions
      of the calling script or notebook itself run here in any case.
    - `on_verdict`: called with each verdict as it comes (not in order if `processes > 1`).

    A check that raises gives a verdict whose `.failed` holds the error; the others go on. Raises
    `InvalidArgument` for an unknown id or preset, before anything runs.
    """
    preset = cast(Preset, check_choice("preset", preset, ("quick", "paper")))
    seed = check_integer("seed", seed, minimum=0)
    claims = find(ids)
    by_key = {claim.key: claim for claim in claims}
    jobs = [job_of(claim, preset, seed) for claim in claims]
    verdicts: dict[str, Verdict] = {}
    progress = current_progress()
    progress.start("claims", len(jobs))

    def keep(result: JobResult) -> None:
        verdict = verdict_of(by_key[result.key], result, preset, seed)
        verdicts[result.key] = verdict
        progress.advance(1, verdict.claim.id)
        if on_verdict is not None:
            on_verdict(verdict)

    try:
        run_jobs(jobs, processes=processes, on_result=keep)
    finally:
        progress.stop()
    return [verdicts[claim.key] for claim in claims]


def job_of(claim: Claim, preset: str, seed: int) -> Job:
    """The job that runs the check of a claim."""
    module = claim.check.partition(":")[0] if isinstance(claim.check, str) else ""
    group = f"{claim.paper}/{module}"
    return Job(claim.key, "attnlab.claims.runner:run_check", (claim.check, preset, seed), group)


def verdict_of(claim: Claim, result: JobResult, preset: str, seed: int) -> Verdict:
    """The verdict from the result of `job_of(claim, preset, seed)`."""
    if result.error is not None:
        return Verdict(
            claim,
            failed=result.error,
            details=result.details,
            seconds=result.seconds,
            preset=preset,
            seed=seed,
        )
    return Verdict.from_outcome(
        claim, result.value, seconds=result.seconds, preset=preset, seed=seed
    )


def run_check(check: str | Callable[[Preset, int], Outcome], preset: Preset, seed: int) -> Outcome:
    """Calls a claim's check, and makes sure that it returned an `Outcome`."""
    function = resolve(check) if isinstance(check, str) else check
    outcome = function(preset, seed)
    if not isinstance(outcome, Outcome):
        raise InvalidArgument("value returned by the check", outcome, "an Outcome")
    return outcome
