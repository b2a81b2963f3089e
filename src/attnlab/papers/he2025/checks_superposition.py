"""How many heads several tasks need: the rank condition, heads that meet it, trained layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...claims import Check, Outcome
from .checks_trained_tasks import TWO_TASKS, tasks_of
from .ends import Covariates, TrainedConfig
from .superposition import heads_of, least_of_rank, rank_of, step_risk


def open_superposition(preset: str, seed: int) -> Outcome:
    """The rank condition: constructed heads at falling sizes, least risks, trained layers."""
    checks: list[Check] = []
    told = []
    for name, supports in _FAMILIES.items():
        prompts = Covariates(_config(supports), seed, 1000).mirrored()
        task = prompts.task
        risk, rank = step_risk(task), rank_of(task)
        best = risk(risk.best)
        base = prompts.losses(prompts.descent(risk.best))
        gaps, errors = [], []
        for size in _SIZES:
            gap = prompts.losses(prompts.weights(heads_of(risk.best, size))) - base
            gap = gap.reshape(2, -1).mean(0)  # the two queries ±x_q of each prompt
            gaps.append(gap.mean() / (best - len(supports) * 0.1))
            errors.append(gap.std(ddof=1) / np.sqrt(len(gap)) / (best - len(supports) * 0.1))
        few = least_of_rank(task, rank - 1, seed)[0]
        enough = least_of_rank(task, rank, seed)[0]
        checks += [
            Check.agreement(
                f"{name}: loss of {rank + 1} heads of |ω| <= {_SIZES[-1]:g}, relative excess over "
                f"independent steps", gaps[-1], 0.0, standard_error=errors[-1], tolerance=0.005,
            ),
            Check.bound(f"{name}: the excess falls with the size of the heads",
                        np.diff(gaps).max(), upper=0.0),
            Check.agreement(f"{name}: least risk of rank {rank}, that of independent steps",
                            enough, best, relative_tolerance=1e-6),
            Check.bound(f"{name}: least risk of {rank} small heads, relative excess",
                        few / best - 1, lower=0.01),
        ]  # fmt: skip
        told.append(f"{name} {rank + 1} ({few / best - 1:.1%} above with {rank})")
    trained, words = _trained(preset, seed)
    return Outcome(
        (*checks, *trained),
        answer=(
            "In the limit of small heads N independent debiased steps on the true supports need, and "
            "get along with, rank(S) + 1 heads, S the N × d matrix of the supports: "
            f"{'; '.join(told)}. Any allocation with Σ_h μ^h = 0 and Σ_h μ_n^h ω_i^h = η_n S_ni does; "
            "2N heads are never needed, and fewer than N can be enough."
        ),
        notes=(
            "E = Σ_h μ^h ω^hᵀ has rank at most H - 1 because the μ^h sum to 0, and any such E is "
            "possible; the risk of a debiased step with steps E is exact and quadratic, and its "
            "minimiser is η_n S_ni, of the rank of S. Sums that do not cancel cost a multiple of "
            "(Σ μ)²/L, which is large for small heads, whose μ is of the order 1/|ω|. Least risks at lower rank by alternating least "
            "squares. The constructed heads are a simplex in the row space of E; their excess is of "
            f"second order in |ω| (sizes {', '.join(f'{s:g}' for s in _SIZES)}). d = 6, L = 40, σ² = "
            f"0.1, a β for each task. {words}"
        ),
    )  # fmt: skip


_SIZES = (0.3, 0.1, 0.03)
_UNION = ((0, 1, 2), (3, 4, 5), (0, 1, 2, 3, 4, 5))
_RING = ((0, 1, 2), (2, 3, 4), (0, 4, 5))
_FAMILIES = {
    "two overlapping tasks (N = 2)": TWO_TASKS,
    "two tasks and their union (N = 3)": _UNION,
    "a ring of three tasks (N = 3)": _RING,
    "a ring of six pairs (N = 6)": tuple((i, (i + 1) % 6) for i in range(6)),
    "all 15 pairs (N = 15)": tuple((i, j) for i in range(6) for j in range(i)),
}


def _config(supports: Any) -> TrainedConfig:
    own = {"dim": 6, "supports": supports, "coefficients": "independent"}
    return TrainedConfig.model_validate(own)


def _trained(preset: str, seed: int) -> tuple[list[Check], str]:
    """Trained layers with enough heads, and with one too few."""
    checks, words = [], []
    cases = [("two overlapping tasks", TWO_TASKS, 3, True), ("two tasks and their union", _UNION, 3, True),
             ("a ring of three", _RING, 3, False)]  # fmt: skip
    if preset == "paper":
        cases += [("a ring of three", _RING, 4, True)]
    for name, supports, heads, enough in cases:
        ends = tasks_of(preset, seed, heads, supports)
        prompts = Covariates(ends.config, seed, 1000)
        risk = step_risk(prompts.task)
        best, limit = risk(risk.best), least_of_rank(prompts.task, heads - 1, seed)[0]
        base = prompts.losses(prompts.descent(risk.best))
        excess = np.array([(prompts.losses(prompts.weights(ends.heads(r))) - base).mean()
                           for r in range(len(ends.circuits))]) / best  # fmt: skip
        good = int(np.sum(excess < 0.06))
        words.append(f"{name}, H = {heads}: relative excess {excess.min():.3f} to "
                     f"{excess.max():.3f}, {good} of {len(excess)} below 0.06")  # fmt: skip
        if enough:
            checks.append(Check.bound(
                f"{name}, {heads} trained heads: relative excess of the best start",
                float(excess.min()), upper=0.06,
            ))  # fmt: skip
        else:
            checks.append(Check.bound(
                f"{name}, {heads} trained heads: relative excess of the best start, against half of "
                "what small heads allow", float(excess.min()), lower=0.5 * (limit / best - 1),
            ))  # fmt: skip
    return checks, "Trained layers: " + "; ".join(words) + "."
