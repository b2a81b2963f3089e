"""Checks of the claims on the bulk: free energy, thermal average, condensation. All exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...claims import Check, Outcome
from .exact import Sizes
from .finite_size import logarithm
from .masses import attention_at

if TYPE_CHECKING:
    from ...theory import AttentionMasses

FAMILY = Sizes(1000.0, 0.3, 2.0, 0.8)  # sizes as large as all that are checked: one program
ALPHAS = (0.1, 0.2, 0.3)
_STEP = 1e-3


def limit_free_energy(beta: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """`ψ`, as stated."""
    critical = np.sqrt(2 * alpha)
    return np.where(beta < critical, alpha / beta + beta / 2, critical)


def limit_thermal_average(beta: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """`r`, as stated."""
    return np.minimum(beta, np.sqrt(2 * alpha))


def limit_participation(beta: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """The participation ratio, as stated."""
    return np.maximum(1 - np.sqrt(2 * alpha) / beta, 0.0)


def _grid(cooling: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """β and α on (cooling, alpha)."""
    alpha = np.array(ALPHAS)
    return np.array(cooling)[:, None] * np.sqrt(2 * alpha), np.broadcast_to(
        alpha, (len(cooling), len(alpha))
    )


def _exact(dims: np.ndarray, beta: np.ndarray, alpha: np.ndarray) -> AttentionMasses:
    """The exact averages on (dim, *beta)."""
    shape = (-1,) + (1,) * beta.ndim
    return attention_at(Sizes(dims.reshape(shape), alpha, beta), family=FAMILY)


def _dims(preset: str) -> np.ndarray:
    few = (100.0, 300.0, 1000.0)
    return np.array(few if preset == "quick" else (30.0, 100.0, 180.0, 300.0, 1000.0))


def free_energy(preset: str, seed: int) -> Outcome:
    """`E log Z / (βd)` against `ψ` on both sides of the transition, and how fast it gets there."""
    from ... import theory

    dims = _dims(preset)
    beta, alpha = _grid((0.5, 0.8, 1.0, 1.25, 1.9))
    exact = _exact(dims, beta, alpha).log_partition / (beta * dims[:, None, None])
    stated = limit_free_energy(beta, alpha)
    gap = np.abs(exact - stated)
    levels = alpha * 1000 + np.log(-np.expm1(-alpha * 1000))
    closed = theory.finite_random_energy(beta, 1000.0, levels).free_energy
    far = gap[:, beta[:, 0] > np.sqrt(2 * alpha[:, 0])]
    cold = gap[:, -1]
    return Outcome(
        (
            Check.agreement("E log Z / (βd) at d = 1000", exact[-1], stated, tolerance=0.01),
            Check.bound("error of ψ for β > β_c: d = 1000 against 300", far[-1] / far[-2], upper=0.6),
            Check.bound("error of ψ for β = β_c/2, d = 1000", gap[-1, 0], upper=1e-8),
        ),
        notes=(
            f"Exact at α = {ALPHAS}, β/β_c = 0.5 to 1.9, d = {dims[0]:.0f} to 1000. Below β_c the "
            f"error is exponentially small ({gap[0, 0].max():.1e} at d = {dims[0]:.0f}, β = β_c/2); "
            f"above it falls as log d / d ({cold[0].max():.4f} at d = {dims[0]:.0f}, "
            f"{cold[-1].max():.4f} at d = 1000, β = 1.9 β_c). A closed form of finite size is within "
            f"{np.abs(closed - exact[-1]).max():.0e} of all values at d = 1000."
        ),
    )  # fmt: skip


def thermal_average(preset: str, seed: int) -> Outcome:
    """The derivative of `E log Z` against `min(β, β_c)` and against Gaussian integration by parts."""
    dims = _dims(preset)
    beta, alpha = _grid((0.5, 0.8, 1.25, 1.9))
    around = beta * np.array([1 - _STEP, 1.0, 1 + _STEP])[:, None, None]
    exact = _exact(dims, around, np.broadcast_to(alpha, around.shape))
    low, high = exact.log_partition[:, 0], exact.log_partition[:, 2]
    slope = (high - low) / (2 * _STEP * beta * dims[:, None, None])
    parts = beta * (1 - exact.participation[:, 1])
    stated = limit_thermal_average(beta, alpha)
    gap = np.abs(slope - stated)
    return Outcome(
        (
            Check.agreement("∂_β E log Z / d at d = 1000", slope[-1], stated, tolerance=0.015),
            Check.bound("error of r for β > β_c: d = 1000 against 300", gap[-1, 2:] / gap[-2, 2:], upper=0.6),
            Check.agreement("the derivative is β(1 - E Σq²)", slope, parts, tolerance=1e-5),
        ),
        notes=(
            f"Exact at α = {ALPHAS}, β/β_c = 0.5, 0.8, 1.25, 1.9; the derivative by a central "
            f"difference. Largest error {gap[0].max():.4f} at d = {dims[0]:.0f} and "
            f"{gap[-1].max():.4f} at d = 1000; β(1 - E Σq²) is Stein's identity, exact at every d."
        ),
    )  # fmt: skip


def condensation(preset: str, seed: int) -> Outcome:
    """The participation ratio above, and its rate below the transition."""
    from ... import theory

    dims = _dims(preset)
    beta, alpha = _grid((1.25, 1.5, 1.9))
    share = _exact(dims, beta, alpha).participation
    stated = limit_participation(beta, alpha)
    excess = (share - stated) * dims[:, None, None] * beta * np.sqrt(2 * alpha)
    short = np.array(
        [[logarithm(b, a, np.array(1000.0)) for b, a in zip(*row)] for row in zip(beta, alpha)]
    )
    warm, alpha_ = _grid((0.35, 0.5, 0.7))
    ends = np.array([800.0, 1000.0])
    small = np.log(_exact(ends, warm, alpha_).participation)
    rate = (small[0] - small[1]) / (ends[1] - ends[0])
    predicted: Any = theory.participation_rate(warm, alpha_)
    return Outcome(
        (
            Check.agreement("E Σq² at d = 1000, β > β_c, against 1 - β_c/β", share[-1], stated, tolerance=0.03),
            Check.bound("its error: d = 1000 against 300", (share[-1] - stated) / (share[-2] - stated), upper=0.6),
            Check.bound("E Σq² falls exponentially for β < β_c: rate per d at d = 900", rate, lower=1e-3),
        ),
        evidence=(
            Check.agreement("rate of E Σq² below β_c", rate, predicted, tolerance=2e-3),
            Check.agreement("error above β_c against ℓ_d/(ββ_c d), ratio", excess[-1] / short, 1.0, tolerance=0.1),
        ),
        notes=(
            f"Exact at α = {ALPHAS}. At d = 1000 the ratio exceeds 1 - β_c/β by up to "
            f"{np.max(share[-1] - stated):.4f}, {np.min(excess[-1] / short):.2f} to "
            f"{np.max(excess[-1] / short):.2f} of ℓ_d/(ββ_c d). Below β_c the mean has the rate "
            "α - β² only up to β_c/√3, then (α/β - β/2)²/2: there rare prompts with one heavy token "
            f"make it. Largest deviation from these rates {np.abs(rate - predicted).max():.1e}, at "
            f"rates from {predicted.min():.3f} to {predicted.max():.3f}."
        ),
    )  # fmt: skip
