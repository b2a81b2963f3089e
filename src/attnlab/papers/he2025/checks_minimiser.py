"""The open question: the minimiser of the exact loss at finite L, and where training stops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...claims import Check, Outcome
from ...tasks import InContextRegression
from .adam_noise import noisy_valley, trained_gamma
from .checks_heads import descent, heads_checks, in_words
from .exact_heads import heads_quadratic, opposite_heads
from .least_heads import GRID
from .least_risk import best_opposite, long_prompt_gamma

_LEARNED = 0.13  # the size of the trained heads in Figures 1, 2 and 12


def slope_at_zero(task: InContextRegression) -> float:
    """The claimed derivative in `γ²`, at `γ = 0`, of the least risk of opposite heads."""
    from ...theory import small_heads_risk_slope

    return small_heads_risk_slope(task)


def open_true_minimiser(preset: str, seed: int) -> Outcome:
    """The valley's floor over sizes; unequal and more heads, in the limit; Adam's resting place."""
    sizes = [
        (5, 40, 0.1),
        (5, 10, 0.1),
        (5, 160, 0.1),
        (5, 2560, 0.1),
        (20, 40, 0.1),
        (5, 40, 1.0),
        (2, 40, 0.1),
    ]
    if preset == "paper":
        sizes += [(50, 40, 0.1), (10, 80, 0.1), (5, 40, 0.0), (5, 5, 0.1), (1, 40, 0.1)]
    tasks = [InContextRegression(d, n, noise_std=math.sqrt(s)) for d, n, s in sizes]
    best = [best_opposite(task) for task in tasks]
    gain = np.array([descent(task) - found.risk for task, found in zip(tasks, best)])
    slopes = [found.profile.deriv()(0.0) / slope_at_zero(task) for task, found in zip(tasks, best)]
    dims, lengths, noises = np.meshgrid(
        [1, 2, 5, 50, 1000], [2, 5, 40, 1000], [0.0, 0.1, 1.0, 10.0]
    )
    signs = [
        slope_at_zero(InContextRegression(int(d), int(n), noise_std=math.sqrt(s)))
        for d, n, s in zip(dims.ravel(), lengths.ravel(), noises.ravel())
    ]
    task, found = tasks[0], best[0]
    learned = float(opposite_heads(task, np.array([_LEARNED])).least(0.1)[0][0])
    excess = learned - found.risk
    unequal = [
        heads_quadratic(task, [found.gamma * (1 + e), -found.gamma * (1 - e)]).least(0.1)[0]
        - found.risk
        for e in (0.05, 0.2, 0.5)
    ]
    counts, starts = ((3, 4), 1) if preset == "quick" else ((1, 2, 3, 4), 2)
    samples = 100_000 if preset == "quick" else 1_000_000
    more, ends = heads_checks(task, counts, starts, samples, seed)
    shorter = InContextRegression(3, 20, noise_std=math.sqrt(0.1))
    elsewhere = heads_checks(shorter, counts, starts, samples, seed)[0] if preset == "paper" else ()
    vanilla = descent(task) - (1.1 - 40 / (40 + 1 + 5.5))
    ratio = best[3].gamma / long_prompt_gamma(tasks[3])
    # Adam: a large rate and a small batch, so that the valley is crossed in a few thousand steps
    rates = (
        [(1e-2, 64, 8_000, 4)]
        if preset == "quick"
        else [(1e-2, 64, 20_000, 8), (3e-3, 64, 50_000, 8), (1e-3, 256, 200_000, 2)]
    )
    valley = noisy_valley(task, 25_000 if preset == "quick" else 100_000, seed)
    predicted = [valley.resting_gamma(rate, batch) for rate, batch, *_ in rates]
    runs = [
        trained_gamma(task, rate, batch, steps, count, seed) for rate, batch, steps, count in rates
    ]
    reached = np.array([run.mean() for run in runs])
    errors = np.array([run.std(ddof=1) / math.sqrt(len(run)) for run in runs])
    default = valley.resting_gamma(1e-3, 256)
    shaken = valley.excess(default, 1e-3, 256)
    table = "; ".join(
        f"({d}, {n}, {s:g}): {b.gamma:.4f}, {g:.1e}" for (d, n, s), b, g in zip(sizes, best, gain)
    )
    return Outcome(
        (
            Check.bound("debiased descent (γ → 0) minus the least exact risk of two heads", gain, lower=1e-10),
            Check.agreement("slope of the least risk in γ² at 0 over its formula", np.array(slopes), 1.0, tolerance=1e-3),
            Check.bound("that slope at 80 sizes, L >= 2: γ → 0 is never best", np.array(signs), upper=0.0),
            Check.agreement("best γ at d = 5, L = 2560 over √(12/(L(d+4)((1+σ²)d+3)))", ratio, 1.0, tolerance=0.02),
            Check.bound("unequal |ω|, 5, 20 and 50 % off at d = 5, L = 40: added risk", np.array(unequal), lower=0.0),
            Check.bound("γ = 0.13 at d = 5, L = 40: excess over the best two heads, relative", excess / found.risk, upper=1e-3),
            Check.agreement("γ where Adam stops over the prediction from its noise", reached / predicted, 1.0, standard_error=errors / predicted, tolerance=0.12),
            *more,
            *(replace(check, name=f"d = 3, L = 20: {check.name}") for check in elsewhere),
        ),
        answer=(
            f"No. The exact loss of two heads falls from γ = 0 at every size, with slope -4η*(d+2)(L-1)/(L²(L+d+dσ²)) in "
            f"γ², and is least at a finite γ: {found.gamma:.5f} ± 0.00001 at d = 5, L = 40, σ² = 0.1, with 2γμ = "
            f"{found.eta:.4f}; for long prompts γ² = 12/(L(d+4)((1+σ²)d+3)). The gain over debiased descent is small: "
            f"{gain[0]:.2e} of {found.risk:.5f}, and {gain[1]:.1e} at L = 10 with γ = {best[1].gamma:.2f}. Equal |ω| is best for two "
            f"heads, and attained. More heads do better: {in_words(task, ends)} Vanilla descent is "
            f"{vanilla:.1e} better than debiased descent. Training stops above the best γ of two heads "
            f"because the valley is flat (at 0.13 the excess is {excess:.2e}, {excess / found.risk:.2%}) and Adam shakes: its batches' noise pushes γ "
            f"outwards until γR' = (rate/2) Σ√v. That predicts γ = {default:.3f} for heads with free matrices KQ at the "
            f"paper's rate 10⁻³ and batch 256, where the shaking itself costs {shaken:.1e}, and {predicted[0]:.3f} at "
            f"{rates[0][0]:g} and {rates[0][1]}, where trained heads stop at {reached[0]:.3f} ± {errors[0]:.3f}, from either side. The paper's layer, whose KQ "
            "are products of weights and shake in other coordinates, rests at 0.13."
        ),
        notes=(
            f"(d, L, σ²): γ, gain over debiased descent: {table}. Exact quadrature, errors below 1e-9. Heads: all choices of "
            f"|ω|√d from 0 to {GRID[-1]:g} on a grid, then descents, with the closest two as a pair and apart. "
            f"A search, no proof. "
            "Even without noise the gradient flow needs t = 10⁴ to fall to 0.125 and 10⁶ for "
            "the rest (flow-decay). Neither edge of stability nor a schedule is needed: a smaller rate or a larger batch "
            f"stops at a smaller γ ({valley.resting_gamma(1e-4, 256):.3f} at 10⁻⁴, 256). The prediction is first "
            f"order in the rate and for free matrices KQ; the 0.13 of the full layer is not predicted. Seed {seed}."
        ),
    )  # fmt: skip
