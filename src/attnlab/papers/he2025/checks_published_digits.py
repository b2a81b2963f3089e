"""Checks of the numbers that the text and the captions give with two digits."""

from __future__ import annotations

import math

import numpy as np

from ...claims import Check, Outcome
from ...tasks import InContextRegression
from .checks_loss import single_minimiser
from .exact_heads import heads_quadratic, opposite_heads
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
    weights = published()["weights"]
    sizes = [weights["one_head"]["diagonal"], *weights["two_heads"]["diagonals"]]
    read = np.array([abs(np.mean(row)) for row in sizes])
    quoted = np.array([float(table["one_head_omega"]["printed"]), omega, omega])
    shares = np.concatenate([_share(**row) for row in weights["read_outs"]])
    lone_mu = float(table["one_head_mu"]["printed"]) / best_single(InContextRegression(5, 40)).mu
    rows = "; ".join(
        f"{table[name]['place']}: {text}, exactly {value:.4f}"
        for name, text, value in zip(exact, texts, right, strict=True)
    )
    return Outcome(
        (
            Check.agreement("six numbers, distance in units of the last printed digit", far, 0.0, tolerance=1.0),
            Check.agreement("|ω| of the printed KQ matrices (one head, two heads) less the text's, in units of the last digit", (read - quoted) / 0.01, 0.0, tolerance=1.0),
            Check.bound("two heads: best |μ| at |ω| = 0.125 and 0.135, the ends of 0.13, less 3.5: product of both", float(np.prod(valley[[0, 2]] - mu)), upper=0.0),
        ),
        notes=(
            f"{rows}. {len(cut)} of the six are not the nearest number of two digits ({', '.join(cut)}): these are what is left "
            "when the further digits are cut off, and none is off by a unit. Best |μ| at |ω| = 0.13 is "
            f"{valley[1]:.3f}, {valley[0]:.2f} at 0.125 and {valley[2]:.2f} at 0.135, the range that rounds to 0.13: 3.5 agrees. "
            f"Two numbers of the text are no more than near each other: 0.52 and 1/√d = {root:.3f}. The first is the minimiser of the "
            f"exact loss, the second that of the approximate one. Diagonals of printed KQ matrices: {read[0]:.4f}, {read[1]:.4f} and {read[2]:.4f}. Read-outs that a notebook "
            f"prints are {shares.min():.3f} to {shares.max():.3f} times the best ones for their ω; |μ| = {table['one_head_mu']['printed']} of one head in the text is {lone_mu:.3f} times the best (see published-heads)."
        ),
    )  # fmt: skip


def _share(noise_std: float, omega: list[float], mu: list[float]) -> np.ndarray:
    """Printed read-outs over the best ones for these `ω`."""
    task = InContextRegression(5, 40, noise_std=noise_std)
    return np.asarray(np.array(mu) / heads_quadratic(task, omega).least(noise_std**2)[1])
