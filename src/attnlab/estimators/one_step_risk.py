"""Exact risk of one step of (preconditioned, debiased) gradient descent, and the best such step.

The predictor is `x_qᵀ A (1/L) Xᵀy` with `A = η Γ⁻ᵀ`, and `W = XᵀX` (of the centred covariates if
debiased) is Wishart with `m = L` (`L - 1`) degrees of freedom, so two moments are all it takes:

    E W = mΣ,      E[W B W] = m(m+1) ΣBΣ + m tr(BΣ) Σ.

Source: Appendix F.3 of he2025 (isotropic), B.3 (preconditioner); `docs/theory/in-context-risks`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, Float

from .._core.errors import InvalidArgument
from ..tasks import InContextRegression
from ..tasks.in_context import check_in_context
from .estimator_risk import EstimatorRisk, closed_form

_LARGEST_STEP = 1e50  # its square times moments of the covariates is a number


def one_step_risk(
    task: InContextRegression, metric: np.ndarray, *, debiased: bool, mask: np.ndarray | None = None
) -> EstimatorRisk:
    """The risk for `A = metric`, summed over the tasks whose coordinates `mask` `(N, d)` tells."""
    check_in_context(task, any_prior=True)
    sigma, length = task.covariance_matrix, task.length
    m = length - 1 if debiased else length
    mask = task.support_mask if mask is None else mask
    noise = task.noise_std**2
    spread = metric.T @ sigma @ metric  # E(prediction)² weighs Aᵀ Σ A
    terms = []
    for row in mask:
        prior = task.prior_matrix * np.outer(row, row)
        level = float(np.trace(prior @ sigma))
        square = m * (m + 1) * sigma @ prior @ sigma + m * level * sigma
        terms += [
            noise,
            level,
            -2 * m / length * float(np.trace(sigma @ metric @ sigma @ prior)),
            float(np.trace(spread @ square)) / length**2,
            noise * m / length**2 * float(np.trace(spread @ sigma)),
        ]
    return closed_form(*terms)


def optimal_preconditioner(
    task: InContextRegression, *, debiased: bool = False
) -> Float[np.ndarray, "dim dim"]:
    """The preconditioner `Γ` with which one step `η = 1` has the smallest risk.

        Γ = ((L+1)/L) Σ + ((tr Σ + dσ²)/L) I,       debiased:  Γ = Σ + ((tr Σ + dσ²)/L) I

    For several tasks that share it, `I` becomes `B⁻¹ Σ_n (tr(ΣB_n) + dσ²)`, with `B_n` the
    coordinates of task `n` and `B` their sum. For a single task with another prior `W` the
    last term is `((tr(WΣ) + σ²)/L) W⁻¹` (Theorem 1 of ahn2023 for `W = I` without noise).

    Raises `InvalidArgument` for several tasks that leave a coordinate out, or with a prior.
    Source: eq. (B.6) of he2025; `docs/theory/in-context-risks`.
    """
    check_in_context(task, any_prior=task.supports is None)
    sigma = task.covariance_matrix
    if task.prior is not None:
        m = task.length - 1 if debiased else task.length
        signal_and_noise = float(np.trace(task.prior_matrix @ sigma)) + task.noise_std**2
        inverse = np.linalg.inv(task.prior_matrix)
        return ((m + 1) * sigma + signal_and_noise * inverse) / task.length
    mask = task.support_mask
    counts = mask.sum(0)
    if not np.all(counts > 0):
        raise InvalidArgument("supports", task.supports, "such that every coordinate is read")
    m = task.length - 1 if debiased else task.length
    level = float(np.sum(mask @ np.diag(sigma))) + len(mask) * task.dim * task.noise_std**2
    return ((m + 1) * sigma + np.diag(level / counts)) / task.length


def one_step_optimum(
    task: InContextRegression, *, debiased: bool = False, preconditioner: Any = None
) -> float:
    """The step `η` with the smallest risk for a given preconditioner (default: none).

    Isotropic: `L/(L+d+1+dσ²)`, and debiased `(1 + (1+σ²)d/L)⁻¹`, the same as the limit of small
    heads of `theory.optimal_effective_step`. A debiased step on a single example is 0 whatever
    `η`; the formula's value is returned.
    """
    inverse = inverse_of(task, preconditioner)
    sigma, mask = task.covariance_matrix, task.support_mask
    m = task.length - 1 if debiased else task.length
    noise = task.noise_std**2
    spread = inverse.T @ sigma @ inverse
    slope = square = 0.0
    for row in mask:
        prior = task.prior_matrix * np.outer(row, row)
        level = float(np.trace(prior @ sigma))
        slope += float(np.trace(sigma @ inverse @ sigma @ prior))
        square += (m + 1) * float(np.trace(spread @ sigma @ prior @ sigma))
        square += (level + noise) * float(np.trace(spread @ sigma))
    return task.length * slope / square


def independent_tasks_risk(
    task: InContextRegression,
    *,
    step: Float[ArrayLike, "*tasks"] | None = None,
    debiased: bool = True,
) -> EstimatorRisk:
    """The summed risk when each task takes its own step on its own coordinates.

    What heads dedicated to one task each can reach (mode III of he2025). **Arguments:** `step`: one
    number or one for each task; default the best ones, `L/(m + 1 + s + dσ²)` for `s` coordinates
    of isotropic covariates, `m = L - 1` (`L` unless `debiased`).

    Raises `InvalidArgument` for another number of steps, or what is none.
    Source: Appendix C.3 of he2025; `docs/theory/in-context-risks`.
    """
    check_in_context(task)
    steps: list[Any] = [None] * task.n_outputs
    if step is not None:
        allowed = (
            f"a finite number up to {_LARGEST_STEP:g}, or one for each of {len(steps)} task(s)"
        )
        try:
            given = np.broadcast_to(np.asarray(step, np.float64), (task.n_outputs,))
        except (TypeError, ValueError):
            raise InvalidArgument("step", step, allowed) from None
        if not (np.abs(given) <= _LARGEST_STEP).all():  # NaN included
            raise InvalidArgument("step", step, allowed)
        steps = given.tolist()
    m = task.length - 1 if debiased else task.length
    noise, d = task.noise_std**2, task.dim
    terms: list[float] = []
    for row, eta in zip(task.support_mask, steps):
        inside = row > 0
        sigma = task.covariance_matrix[np.ix_(inside, inside)]
        level, square = float(np.trace(sigma)), float(np.trace(sigma @ sigma))
        cube = float(np.trace(sigma @ sigma @ sigma))
        # as in one_step_risk with A = η P_S, whose covariates outside of S drop out
        curve = ((m + 1) * cube / d + (level / d + noise) * square) * m / task.length**2
        slope = m / task.length * square / d
        eta = slope / curve if eta is None and curve > 0 else (eta or 0.0)
        terms += [noise, level / d, -2 * eta * slope, eta**2 * curve]
    return closed_form(*terms)


def inverse_of(task: InContextRegression, preconditioner: Any) -> np.ndarray:
    """`Γ⁻ᵀ`, checked; the identity for None."""
    check_in_context(task, any_prior=True)
    if preconditioner is None:
        return np.eye(task.dim)
    allowed = f"a finite, invertible matrix of shape {(task.dim, task.dim)}"
    try:
        matrix = np.asarray(preconditioner, np.float64)
        good = matrix.shape == (task.dim, task.dim) and bool(np.isfinite(matrix).all())
        if good:
            singular = np.linalg.svd(matrix, compute_uv=False)
            good = singular[-1] > 1e-14 * singular[0]
    except (TypeError, ValueError):
        good = False
    if not good:
        raise InvalidArgument("preconditioner", preconditioner, allowed)
    return np.linalg.inv(matrix).T


def signal(task: InContextRegression) -> float:
    """`E(β·x)² = tr Σ/d`, what is there to be learned by a single task."""
    return math.fsum(np.diag(task.covariance_matrix)) / task.dim
