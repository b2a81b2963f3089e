"""Exact risks of the classical estimators of in-context regression, at every finite `(d, L)`.

One gradient step, and least squares, are closed forms. Ridge regression (Bayes' estimator among
them) and several gradient steps are averages over the mean spectrum of a Wishart matrix, which
`theory.wishart` has to rounding. What has neither form is sampled, when a key is given for it.
Source: Appendix F.3 of he2025; `docs/theory/in-context-risks`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, Float

from .._core.errors import InvalidArgument, check_integer, check_real
from .._core.search import interior_minimum
from ..tasks import InContextRegression
from ..tasks.in_context import check_in_context
from ..theory.wishart import MeanSpectrum, mean_spectrum
from .estimator_risk import EstimatorRisk, closed_form
from .one_step_risk import inverse_of, one_step_optimum, one_step_risk, signal
from .sampled_risk import sampled_risk

_SAMPLES = 4000


def gradient_descent_risk(
    task: InContextRegression,
    *,
    step: float,
    steps: int = 1,
    debiased: bool = False,
    preconditioner: Float[ArrayLike, "dim dim"] | None = None,
    key: Any = None,
    samples: int = _SAMPLES,
) -> EstimatorRisk:
    """The risk of `estimators.gradient_descent_steps` with these options.

    One step: closed form, for any covariance, preconditioner and supports (the sum over tasks that
    share the step). Isotropic and with `m = L` (`L - 1` if debiased):

        σ² + 1 - 2η m/L + η² m (m + 1 + d + dσ²)/L²

    Several steps: quadrature when `Γ` is a multiple of `Σ`, else sampled (needs a `key`).

    Raises `InvalidArgument` for several steps of several tasks, for bad numbers, and for steps so
    large that the risk is none.
    """
    inverse = inverse_of(task, preconditioner)
    step = check_real("step", step)
    steps = check_integer("steps", steps, minimum=0)
    if steps != 1:
        _check_single(task)  # which knows the default prior only
    with np.errstate(over="ignore", invalid="ignore"):
        risk = _descent_risk(task, inverse, step, steps, debiased, key, samples)
    if not (math.isfinite(risk.value) and math.isfinite(risk.error)):
        allowed = f"such that the risk after steps = {steps} does not exceed floating point"
        raise InvalidArgument("step", step, allowed)
    return risk


def _descent_risk(
    task: InContextRegression,
    inverse: np.ndarray,
    step: float,
    steps: int,
    debiased: bool,
    key: Any,
    samples: int,
) -> EstimatorRisk:
    if steps == 1:
        return one_step_risk(task, step * inverse, debiased=debiased)
    freedom = task.length - 1 if debiased else task.length
    whitened = inverse @ task.covariance_matrix
    scale = float(np.trace(whitened)) / task.dim
    if np.allclose(whitened, scale * np.eye(task.dim), rtol=1e-12, atol=1e-12 * abs(scale)):
        spectrum = mean_spectrum(task.dim, freedom)
        rate = step * scale / task.length

        def function(x: Any) -> Any:
            return _descent_statistic(task, rate, steps, x)

        return _by_spectrum(task, spectrum, function)

    def estimator(W: np.ndarray) -> np.ndarray:
        T = np.zeros_like(W)
        rate = step / task.length * inverse
        for _ in range(steps):
            T = T + rate @ (np.eye(task.dim) - W @ T)
        return T

    return sampled_risk(task, estimator, freedom=freedom, key=key, samples=samples)


def optimal_step(
    task: InContextRegression,
    *,
    steps: int = 1,
    debiased: bool = False,
    preconditioner: Float[ArrayLike, "dim dim"] | None = None,
) -> float:
    """The step `η` with the smallest `gradient_descent_risk`.

    Closed form for one step: `L/(L+d+1+dσ²)` for isotropic covariates, and debiased exactly
    `(1 + (1+σ²)d/L)⁻¹` at every finite size. For several steps a search, for isotropic
    covariates without a preconditioner.

    Raises `InvalidArgument` for several steps and other covariates, or where the search ends at an
    edge of what it covers.
    """
    steps = check_integer("steps", steps, minimum=1)
    one = one_step_optimum(task, debiased=debiased, preconditioner=preconditioner)
    if steps == 1:
        return one
    _check_single(task)
    if task.covariance is not None or preconditioner is not None:
        raise InvalidArgument("steps", steps, "1 unless the covariates are isotropic")
    from scipy.optimize import minimize_scalar

    freedom = task.length - 1 if debiased else task.length
    spectrum = mean_spectrum(task.dim, freedom)

    def risk(step: float) -> float:
        rate = step / task.length
        with np.errstate(over="ignore", invalid="ignore"):
            value = spectrum.average(lambda x: _descent_statistic(task, rate, steps, x))[0]
        return value if math.isfinite(value) else math.inf

    # noise is fitted by many steps: what is best then shrinks like 1/steps
    grid = 2 * one * np.geomspace(1e-2 / steps, 2, 60 + round(8 * math.log(steps)))
    best = interior_minimum(grid, np.array([risk(step) for step in grid]))
    if not best.inside:
        allowed = f"a number with a best step between {grid[0]:.2g} and {grid[-1]:.2g}"
        raise InvalidArgument("steps", steps, allowed)
    bounds = grid[best.argmin - 1], grid[best.argmin + 1]
    found: Any = minimize_scalar(risk, bounds=bounds, method="bounded", options={"xatol": 1e-12})
    return float(found.x)


def ridge_risk(
    task: InContextRegression,
    *,
    penalty: float | None = None,
    key: Any = None,
    samples: int = _SAMPLES,
) -> EstimatorRisk:
    """The risk of `estimators.ridge`; by default with `λ = dσ²`, which makes it Bayes' risk.

    Isotropic covariates: `σ² + E tr[(λ²/d + σ²W)(W + λ)⁻²]`, by quadrature over the mean
    spectrum of `W`. Other covariances are sampled (needs a `key`); `λ = 0` is least squares.
    """
    _check_single(task)
    noise, d = task.noise_std**2, task.dim
    penalty = d * noise if penalty is None else check_real("penalty", penalty, low=0.0)
    if penalty == 0:
        return ordinary_least_squares_risk(task, key=key, samples=samples)
    if task.covariance is None:

        def function(x: Any) -> Any:
            # in ratios: no square leaves the range of floating point, however large or small λ is
            kept = penalty / (x + penalty)
            return kept**2 / d + noise * (x / (x + penalty)) / (x + penalty)

        return _by_spectrum(task, mean_spectrum(d, task.length), function)

    def estimator(W: np.ndarray) -> np.ndarray:
        return np.linalg.inv(W + penalty * np.eye(d))

    return sampled_risk(task, estimator, freedom=task.length, key=key, samples=samples)


def bayes_risk(
    task: InContextRegression, *, key: Any = None, samples: int = _SAMPLES
) -> EstimatorRisk:
    """The smallest risk of any predictor: `σ² (1 + E tr Σ(XᵀX + dσ²)⁻¹)`, that of `ridge_risk`."""
    return ridge_risk(task, key=key, samples=samples)


def ordinary_least_squares_risk(
    task: InContextRegression, *, key: Any = None, samples: int = _SAMPLES
) -> EstimatorRisk:
    """The risk of `estimators.ordinary_least_squares`, of minimal norm for `L < d`.

        L >= d + 2:  σ² (1 + d/(L-d-1)), for any covariance
        L <= d - 2:  σ² (1 + L/(d-L-1)) + 1 - L/d, isotropic; others are sampled (needs a `key`)

    With noise it is infinite at `L = d-1, d, d+1`: the smallest singular value of `X` is then
    close to 0 too often. Without noise only the second line's `1 - L/d` remains, for any `L <= d`.
    """
    _check_single(task)
    noise, d, length = task.noise_std**2, task.dim, task.length
    missing = max(0.0, 1 - length / d)
    if noise > 0 and abs(length - d) <= 1:
        return closed_form(math.inf)
    if missing > 0 and task.covariance is not None:
        # (XᵀX)⁺ by its eigenvalues; d - L of them are 0
        def estimator(W: np.ndarray) -> np.ndarray:
            return np.linalg.pinv(W, rcond=1e-12, hermitian=True)

        return sampled_risk(task, estimator, freedom=length, key=key, samples=samples)
    if noise == 0:
        return closed_form(missing)
    fewer, more = min(d, length), max(d, length)
    return closed_form(noise, noise * fewer / (more - fewer - 1), missing)


def zero_prediction_risk(task: InContextRegression) -> float:
    """The risk of predicting 0: `σ² + tr WΣ`, summed over the tasks if there are several."""
    check_in_context(task, any_prior=True)
    # E (β·x)² of each task; only coordinates that it reads
    product = task.prior_matrix * task.covariance_matrix
    levels = np.einsum("ni,ij,nj->n", task.support_mask, product, task.support_mask)
    return float(np.sum(levels)) + task.n_outputs * task.noise_std**2


def _descent_statistic(task: InContextRegression, rate: float, steps: int, x: Any) -> Any:
    """What a mode of `XᵀX` with eigenvalue `x` adds to the risk after `steps` steps."""
    kept = (1 - rate * x) ** steps
    # (1 - kept)²/x without dividing by 0, from the sum of the geometric series
    total = np.zeros_like(x)
    for _ in range(steps):
        total = rate + (1 - rate * x) * total
    return signal(task) * kept**2 / task.dim + task.noise_std**2 * total**2 * x


def _by_spectrum(task: InContextRegression, spectrum: MeanSpectrum, function: Any) -> EstimatorRisk:
    value, error = spectrum.average(function)
    noise = task.noise_std**2
    return EstimatorRisk(value + noise, "quadrature", error + 1e-15 * noise)


def _check_single(task: Any) -> None:
    check_in_context(task)
    if task.supports is not None:
        raise InvalidArgument("supports", task.supports, "None, a single task, for this estimator")
