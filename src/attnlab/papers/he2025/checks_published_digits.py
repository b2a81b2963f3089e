"""Checks of the numbers that the text and the captions give with two digits."""

from __future__ import annotations

import math

import numpy as np

from ...claims import Check, Outcome
from ...tasks import InContextRegression
from .checks_loss import single_minimiser
from .exact_heads import opposite_heads
from .least_risk import best_single
from .published import printed_unit, published
from .two_head_flow import approximate_valley, follow

_START = 1e-3


def peak(task: InContextRegression) -> float:
    """The largest `ϱ` on the flow of Figures 21 and 22."""
    times = np.arange(1, 4001) / 200
    return float(follow(approximate_valley(task), (_START, _START), times).rho.max())


def peak_scale(dim: int) -> float:
    """`√(log d/d)`."""
    return math.sqrt(math.log(dim) / dim)


def moment_exponent(kappa: float) -> float:
    """`ε` of Lemma E.3 at `τ = 5κ²`."""
    tau = 5 * kappa**2
    return math.sqrt(tau / 2) + 3 / (1 + math.sqrt(1 + 1 / tau))


def exact_numbers() -> dict[str, float]:
    """What the numbers of `text` should be that do not depend on a run."""
    tasks = {dim: InContextRegression(dim, 40) for dim in (5, 10)}
    return {
        "peak_5": peak(tasks[5]),
        "scale_5": peak_scale(5),
        "peak_10": peak(tasks[10]),
        "scale_10": peak_scale(10),
        "exponent": moment_exponent(0.1),
        "one_head_omega": best_single(tasks[5]).omega,
    }


def published_digits(preset: str, seed: int) -> Outcome:
    """Distances in units of the last digit; which numbers are cut off and not rounded."""
    table = published()["text"]
    exact = exact_numbers()
    texts = [table[name]["printed"] for name in exact]
    units = np.array([printed_unit(text) for text in texts])
    printed, right = np.array([float(text) for text in texts]), np.array(list(exact.values()))
    far = (right - printed) / units
    cut = [name for name, distance in zip(exact, far, strict=True) if distance > 0.5]
    omega, mu = float(table["two_heads_omega"]["printed"]), 3.5
    ends = omega + np.array([-0.005, 0.0, 0.005])
    valley = opposite_heads(InContextRegression(5, 40), ends).least(0.1)[1] / (2 * ends)
    root = single_minimiser(InContextRegression(5, 40))[0]
    rows = "; ".join(
        f"{table[name]['place']}: {text}, exactly {value:.4f}"
        for name, text, value in zip(exact, texts, right, strict=True)
    )
    return Outcome(
        (
            Check.agreement("six numbers, distance in units of the last printed digit", far, 0.0, tolerance=1.0),
            Check.agreement("two heads: |ω| = 0.13, best |μ| of the exact loss, in units of the last digit of 3.5", (valley[1] - mu) / 0.1, 0.0, tolerance=1.5),
            Check.bound("best |μ| at |ω| = 0.125 and 0.135, less 3.5: of both signs", float(np.prod(valley[[0, 2]] - mu)), upper=0.0),
        ),
        notes=(
            f"{rows}. {len(cut)} of the six are not the nearest number of two digits ({', '.join(cut)}): all are what is left "
            "when the further digits are cut off, and none is off by a unit. Best |μ| at |ω| = 0.13 is "
            f"{valley[1]:.3f}, {valley[0]:.2f} at 0.125 and {valley[2]:.2f} at 0.135, the range that rounds to 0.13: 3.5 agrees. "
            f"Two numbers of the text are no more than near each other: 0.52 and 1/√d = {root:.3f}. The first is the minimiser of the "
            f"exact loss, the second that of the approximate one. |μ| = {table['one_head_mu']['printed']} of one head: see published-heads."
        ),
    )  # fmt: skip
