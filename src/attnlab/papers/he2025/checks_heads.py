"""Three heads and more under the exact loss: infima that no heads reach, and what shows them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...claims import Check
from ...tasks import InContextRegression
from .exact_heads import heads_quadratic
from .least_heads import GRID, LeastHeads, least_heads

_OPENED = np.array([0.04, 0.02])  # of εd^½, of pairs that have nearly coalesced
_SLOPE = 1e-7
_BATCH = 50_000


class Infimum(NamedTuple):
    """Of a number of heads: what a search found, and the exact risk of the limit there."""

    found: LeastHeads
    risk: float


def infimum(task: InContextRegression, heads: int, starts: int = 2) -> Infimum:
    """The search, and the risk of what it found by derivatives of the exact integrals."""
    from ...theory import coalescing_heads

    found = least_heads(task, heads, starts)
    if found.pair is None:
        return Infimum(found, found.risk)
    return Infimum(found, coalescing_heads(task, found.omega, found.pair).least()[0])


def heads_checks(
    task: InContextRegression, counts: tuple[int, ...], starts: int, samples: int, seed: int
) -> tuple[tuple[Check, ...], dict[int, Infimum]]:
    """Checks on the least risks of so many heads, and these."""
    ends = {count: infimum(task, count, starts) for count in counts}
    minimal = all(end.found.minimal for end in ends.values())
    told = Check.condition(
        f"least risks of {_listed(counts)} heads: inside of |ω|√d <= {GRID[-1]:g}, no slope there, up in all directions",
        True if minimal else None,
    )  # fmt: skip
    if not minimal:  # at an edge of the search nothing more is known: the claim is left open
        return (told,), ends
    paired = [end for end in ends.values() if end.found.pair is not None]
    rise = [np.nanmin(end.found.profile[-1]) - end.risk for end in ends.values()]
    gains = np.diff([ends[count].risk for count in sorted(ends)])
    checks = [
        told,
        Check.bound("least risk with a head at the end of that range, minus the least", np.array(rise), lower=0.0),
        Check.bound("least risk of one head more", gains, upper=-1e-6),
    ]  # fmt: skip
    if paired:
        slopes = np.array([end.found.slope for end in paired])
        orders, above = zip(*(_opened(task, end) for end in paired), strict=True)
        gain, error = zip(
            *(_sampled_gain(task, end.found, samples, seed) for end in paired), strict=True
        )
        stated = np.array([descent(task) - end.risk for end in paired])
        checks += [
            Check.bound("slope in the ω√d where two heads coalesce", slopes, upper=_SLOPE),
            Check.agreement("risk of heads near the limit, at the same coefficients: order in their distance", np.array(orders), 2.0, tolerance=0.05),
            Check.bound("least risk of heads near the limit, minus the infimum", np.array(above), lower=0.0),
            Check.agreement("the search's risk against that of the limit, by exact derivatives", np.array([end.found.risk - end.risk for end in paired]), 0.0, tolerance=1e-7),
            Check.agreement("gain of the limit over debiased descent, sampled prompts", np.array(gain), stated, standard_error=np.array(error)),
        ]  # fmt: skip
    return tuple(checks), ends


def descent(task: InContextRegression) -> float:
    """The risk of the best debiased gradient step."""
    share = (1 + task.noise_std**2) * task.dim / task.length
    return 1 + task.noise_std**2 - (task.length - 1) / task.length / (1 + share)


def in_words(task: InContextRegression, ends: dict[int, Infimum]) -> str:
    """Sentences on three heads and more: their least risks, whether heads have them, and where."""
    told = []
    for count in sorted(ends):
        if count < 3:
            continue
        found, risk = ends[count]
        gain = descent(task) - risk
        if not found.minimal:
            told.append(
                f"Of {count} heads risks go down to {risk:.7f} at least, where the search ended at an edge."
            )
            continue
        side = float(np.sign(found.omega[np.argmax(np.abs(found.omega))]))
        beside = ", ".join(
            f"ω = {side * w:.3f}, μ = {side * m:.4f}"
            for w, m in zip(found.omega, found.coefficients)
        )
        if found.pair is None:
            told.append(
                f"{count} have the least risk {risk:.7f}, {gain:.3e} below debiased descent, at {beside}."
            )
            continue
        m, nu = found.coefficients[-2:]
        told.append(
            f"The risks of {count} have the infimum {risk:.7f}, {gain:.3e} below debiased descent, which no heads "
            f"reach: two coalesce at a = {side * found.pair + 0.0:.4f} with m = {side * m:.4f}, ν = {nu:.4f}, beside {beside}."
        )
    if any(end.found.pair is not None for end in ends.values()):
        told.append(
            "(Heads a ± ε with μ = m/2 ± ν/2ε predict m p(a)·y + ν p'(a)·y as ε → 0, for a = 0 the mean label and "
            "a step ν of debiased descent; p' = p (s - p·s), s the scores.)"
        )
    return " ".join(told)


def _opened(task: InContextRegression, end: Infimum) -> tuple[float, np.ndarray]:
    """With the pair opened to `a ± ε`: the order in `ε` of what that costs at fixed coefficients, and
    the least risk at these `ω` over the infimum."""
    found, noise = end.found, task.noise_std**2
    *mu, m, nu = found.coefficients
    costs, least = [], []
    for gap in _OPENED / math.sqrt(task.dim):
        table = heads_quadratic(task, np.append(found.omega, [found.pair + gap, found.pair - gap]))
        sides = m / 2 + np.array([1, -1]) * nu / (2 * gap)
        costs.append(table.risk(np.append(mu, sides), noise) - found.risk)
        least.append(table.least(noise)[0] - found.risk)
    return math.log2(costs[0] / costs[1]), np.array(least)


def _sampled_gain(
    task: InContextRegression, found: LeastHeads, samples: int, seed: int
) -> tuple[float, float]:
    """The risk of the best debiased step minus that of the limit, on the same prompts.

    Given the length of the query and the covariates' projections `s` on it, weights `w` of the labels
    have the risk `((d-1)/d + σ²)|w|² + (s·w - r)²/d` up to a constant.
    """
    rng = np.random.default_rng([seed, 17])
    d, length, noise = task.dim, task.length, task.noise_std**2
    step = 1 / (1 + (1 + noise) * d / length)
    gains = []
    for count in np.diff(np.append(np.arange(0, samples, _BATCH), samples)):
        s = rng.standard_normal((count, length))
        r = np.sqrt(rng.chisquare(d, count))[:, None]

        def softmax(omega: float, scores: np.ndarray = r * s) -> np.ndarray:
            weights = np.exp(omega * scores - np.max(omega * scores, -1, keepdims=True))
            return weights / weights.sum(-1, keepdims=True)

        def risk(w: np.ndarray, s: np.ndarray = s, r: np.ndarray = r) -> np.ndarray:
            along = (np.sum(s * w, -1) - r[:, 0]) ** 2 / d
            return along + ((d - 1) / d + noise) * np.sum(w**2, -1)

        *mu, m, nu = found.coefficients
        last = softmax(float(found.pair or 0.0))
        slope = last * (r * s - np.sum(last * r * s, -1, keepdims=True))
        limit = m * last + nu * slope
        for b, omega in zip(mu, found.omega, strict=True):
            limit = limit + b * softmax(float(omega))
        gains.append(risk(step * r * (s - s.mean(-1, keepdims=True)) / length) - risk(limit))
    every = np.concatenate(gains)
    return float(every.mean()), float(every.std(ddof=1) / math.sqrt(samples))


def _listed(counts: tuple[int, ...]) -> str:
    *first, last = map(str, counts)
    return f"{', '.join(first)} and {last}" if first else last
