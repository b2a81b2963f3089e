"""Checks of the classical competitors: risks of gradient descent, Bayes' risk, and their ratio."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...claims import Check, Outcome
from ...tasks import InContextRegression

_SIZES = ((1, 6), (3, 10), (5, 40), (11, 30))  # of the samples


def descent_risk(dim: Any, length: Any, noise: Any, step: Any, *, debiased: bool) -> Any:
    """The claimed risk of one gradient step."""
    m = length - 1 if debiased else length
    return noise + 1 - 2 * step * m / length + step**2 * m * (m + dim + 1 + dim * noise) / length**2


def limit_bayes_risk(ratio: Any, noise: Any) -> Any:
    """The claimed limit of Bayes' risk at `d/L -> ratio`."""
    return (noise + 1 - 1 / ratio + np.sqrt(4 * noise + (noise + 1 / ratio - 1) ** 2)) / 2


def limit_descent_risk(ratio: Any, noise: Any) -> Any:
    """The claimed limit of the risk of the best gradient step, debiased or not."""
    return noise + 1 - 1 / (1 + (1 + noise) * ratio)


def ratio_bound(ratio: Any, noise: Any) -> Any:
    """The claimed bound on the ratio of the two, as the end of the proof determines it."""
    return 1 + (1 + noise) * ratio / (noise * (1 + (1 + noise) * ratio))


def gd_risk(preset: str, seed: int) -> Outcome:
    """Samples against the formulas, the limit, and which of the two is better."""
    from ...estimators import debiased_gradient_descent, gradient_descent, gradient_descent_risk

    rng = np.random.default_rng(seed)
    settings, samples = (60, 100_000) if preset == "paper" else (32, 8_000)
    zscores, exact, precision = [], [], []
    for setting in range(settings):
        dim, length = _SIZES[setting // 2 % len(_SIZES)]
        noise, step = float(rng.choice([0.0, 0.1, 1.0])), float(rng.uniform(0.2, 1.2))
        task = InContextRegression(dim, length, noise_std=math.sqrt(noise))
        X, y, xq, yq = _prompts(rng, task, samples)
        debiased = setting % 2 == 1
        estimator = debiased_gradient_descent if debiased else gradient_descent
        stated = descent_risk(dim, length, noise, step, debiased=debiased)
        loss = (np.asarray(estimator(X, y, xq, step=step)) - yq) ** 2
        error = np.std(loss) / math.sqrt(samples)
        zscores.append((loss.mean() - stated) / error)
        precision.append(error / stated)
        library = gradient_descent_risk(task, step=step, debiased=debiased)
        exact.append(float(library) / stated - 1)
    sizes = np.array([40, 400, 4000, 40_000])
    steps = np.linspace(0, 2, 21)[:, None]
    gap = np.abs(
        descent_risk(sizes / 8, sizes, 0.1, steps, debiased=True)
        - descent_risk(sizes / 8, sizes, 0.1, steps, debiased=False)
    ).max(0)
    dims, lengths, noises = np.meshgrid([1, 5, 50, 1000], [2, 10, 40, 1000], [0.0, 0.1, 1.0, 10.0])
    share = (1 + noises) * dims
    plain_best = lengths / (lengths + 1 + share)
    plain = descent_risk(dims, lengths, noises, plain_best, debiased=False)
    other_best = lengths / (lengths + share)
    other = descent_risk(dims, lengths, noises, other_best, debiased=True)
    nearby = np.concatenate([
        descent_risk(dims, lengths, noises, f * plain_best, debiased=False) - plain for f in (0.99, 1.01)
    ] + [descent_risk(dims, lengths, noises, f * other_best, debiased=True) - other for f in (0.99, 1.01)])  # fmt: skip
    advantage = (1 + share) / ((lengths + 1 + share) * (lengths + share))
    return Outcome(
        (
            Check.distribution("sampled risks against the formulas, vanilla and debiased", zscores),
            Check.agreement("the library's closed form over the stated one, minus 1", np.array(exact), 0.0, tolerance=1e-12),
            Check.bound("risk 1 % off the stated best steps minus the risk there", nearby, lower=0.0),
            Check.bound("largest difference for steps <= 2, d = L/8: at every tenfold L", gap[1:] / gap[:-1], upper=0.12),
            Check.agreement("best debiased minus best vanilla risk, against its formula", other - plain, advantage, tolerance=1e-12),
            Check.bound("that difference: vanilla is better at every finite size", other - plain, lower=0.0),
        ),
        notes=(
            f"{settings} settings, (d, L) in {_SIZES}, random steps and noise, {samples} prompts each, seed {seed}; median relative "
            f"standard error {np.median(precision):.1%}. Best steps: L/(L+1+(1+σ²)d) and, debiased, L/(L+(1+σ²)d). The "
            "difference of the best risks is (1+c)/((L+1+c)(L+c)) with c = (1+σ²)d: debiasing costs at every size, "
            f"0.0031 at d = 5, L = 40, and vanishes like 1/L in proportion ({gap[0]:.3f} at L = 40 to {gap[-1]:.1e} "
            "at L = 40000, uniformly in the step)."
        ),
    )  # fmt: skip


def bayes_risk(preset: str, seed: int) -> Outcome:
    """The limit against the exact risk at growing sizes, and that against samples of ridge."""
    from ...estimators import bayes_risk as finite_risk
    from ...estimators import ridge, ridge_risk

    rng = np.random.default_rng(seed)
    lengths = np.array([40, 80, 160] if preset == "quick" else [40, 80, 160, 320, 640])
    ratios, noises = (0.125, 0.5, 2.0), (0.1, 1.0)
    gaps, extrapolated, better = [], [], []
    for ratio in ratios:
        for noise in noises:
            tasks = [
                InContextRegression(int(ratio * n), int(n), noise_std=math.sqrt(noise))
                for n in lengths
            ]
            risks = np.array([float(finite_risk(task)) for task in tasks])
            limit = limit_bayes_risk(ratio, noise)
            gaps.append(np.abs(risks - limit))
            extrapolated.append((2 * risks[-1] - risks[-2]) / limit)
            penalty = tasks[0].dim * noise
            better.append(
                min(float(ridge_risk(tasks[0], penalty=f * penalty)) for f in (0.9, 1.1)) - risks[0]
            )
    settings, samples = (20, 50_000) if preset == "paper" else (10, 5_000)
    zscores = []
    for setting in range(settings):
        dim, length = _SIZES[setting % len(_SIZES)]
        noise = float(rng.choice([0.1, 0.5, 1.0]))
        task = InContextRegression(dim, length, noise_std=math.sqrt(noise))
        X, y, xq, yq = _prompts(rng, task, samples)
        loss = (np.asarray(ridge(X, y, xq, penalty=dim * noise)) - yq) ** 2
        error = np.std(loss) / math.sqrt(samples)
        zscores.append((loss.mean() - float(finite_risk(task))) / error)
    falls = np.array(gaps)[:, 1:] / np.array(gaps)[:, :-1]
    return Outcome(
        (
            Check.distribution("sampled ridge with λ = dσ² against its exact risk", zscores, minimum=8),
            Check.bound("distance to the limit: at every doubled size", falls, upper=0.6),
            Check.agreement("extrapolated exact risk over the limit", np.array(extrapolated), 1.0, tolerance=1e-4),
            Check.bound("risk at λ = 0.9, 1.1 dσ² minus that at dσ²", np.array(better), lower=0.0),
        ),
        notes=(
            f"d/L = {ratios}, σ² = {noises}, L = {lengths[0]} ... {lengths[-1]}, exact at each size from the mean spectrum of a "
            f"Wishart matrix; the distance to the limit falls like 1/L (largest {np.max(gaps):.1e} at L = 40, "
            f"{np.max(np.array(gaps)[:, -1]):.1e} at {lengths[-1]}). {settings} settings with {samples} prompts each, seed {seed}."
        ),
    )  # fmt: skip


def theorem_ratio(preset: str, seed: int) -> Outcome:
    """The limiting ratio against the bound everywhere, and the exact ratio at finite size."""
    count = 400 if preset == "paper" else 120
    ratio, noise = np.meshgrid(np.geomspace(1e-4, 1e4, count), np.geomspace(1e-4, 100, count))
    allowed = noise + 1 / ratio > 1
    measured = limit_descent_risk(ratio, noise) / limit_bayes_risk(ratio, noise)
    bound = ratio_bound(ratio, noise)
    room = (measured / bound)[allowed]
    finite, limits = [], []
    for xi in (0.125, 0.5):
        half, whole = (exact_ratio(InContextRegression(int(n * xi), n)) for n in (160, 320))
        finite.append(2 * whole - half)  # the next order is 1/L²
        limits.append(limit_descent_risk(xi, 0.1) / limit_bayes_risk(xi, 0.1))
    trained = exact_ratio(InContextRegression(5, 40))
    worst = np.unravel_index(np.argmax(np.where(allowed, measured, 0)), measured.shape)
    return Outcome(
        (
            Check.bound("limiting ratio over the bound", room, upper=1 + 1e-12),
            Check.bound("limiting ratio: descent is never better than Bayes", measured, lower=1 - 1e-9),
            Check.agreement("exact ratio, extrapolated from L = 160, 320, over the limit", np.array(finite) / limits, 1.0, tolerance=1e-3),
        ),
        notes=(
            "The bound is 1 + (1+σ²)ξ/(σ²(1+(1+σ²)ξ)), restored from the last step of the proof (Bayes' risk is at "
            "least σ²). It holds without the condition σ² + 1/ξ > 1 too. It is near the truth for small ξ "
            f"(within {1 - room.max():.1e}) and far for large ones, where the ratio tends to 1. "
            f"At d/L = 1/8, σ² = 0.1 the limiting ratio is {limits[0]:.3f} (bound {ratio_bound(0.125, 0.1):.3f}); exactly at "
            f"d = 5, L = 40 it is {trained:.3f}: one debiased step has twice Bayes' risk. It is unbounded as σ → 0: "
            f"{measured[worst]:.0f} at ξ = {ratio[worst]:.2g}, σ² = {noise[worst]:.1g}."
        ),
    )  # fmt: skip


def exact_ratio(task: InContextRegression) -> float:
    """The exact risk of the best debiased gradient step over Bayes' risk."""
    from ...estimators import bayes_risk as finite_risk
    from ...estimators import gradient_descent_risk, optimal_step

    step = optimal_step(task, debiased=True)
    return float(gradient_descent_risk(task, step=step, debiased=True)) / float(finite_risk(task))


def kms_tridiagonal(preset: str, seed: int) -> Outcome:
    """The inverse in closed form, and what is left of the pattern in the optimal preconditioner."""
    from ...estimators import optimal_preconditioner
    from ...tasks.in_context import kac_murdock_szego

    products, outside, band = [], [], []
    for dim in (2, 3, 5, 20, 100):
        for rho in (-0.9, -0.3, 0.1, 0.5, 0.99):
            sigma = kac_murdock_szego(dim, rho)
            stated = kms_inverse(dim, rho)
            products.append(np.abs(sigma @ stated - np.eye(dim)).max())
            inverse = np.linalg.inv(sigma)
            far = np.abs(np.subtract.outer(np.arange(dim), np.arange(dim))) > 1
            outside.append(np.abs(inverse[far]).max(initial=0.0) / np.abs(inverse).max())
            band.append(np.abs(inverse - stated).max() / np.abs(inverse).max())
    task = InContextRegression(5, 40, covariance=kac_murdock_szego(5, 0.5))
    optimal = np.linalg.inv(optimal_preconditioner(task))
    return Outcome(
        (
            Check.bound("|Σ Σ⁻¹ - I| with the stated inverse", np.array(products), upper=1e-11),
            Check.bound("largest entry outside of the three diagonals, relative", np.array(outside), upper=1e-11),
            Check.bound("stated against computed inverse, relative", np.array(band), upper=1e-11),
        ),
        evidence=(
            Check.bound("(i, i+2) entry of the optimal Γ⁻¹ over (i, i), d = 5, L = 40", np.abs(np.diag(optimal, 2)) / optimal[0, 0], lower=1e-3),
        ),
        notes=(
            "Σ⁻¹ = (1-ρ²)⁻¹ times the tridiagonal matrix with 1 + ρ² on the diagonal, 1 at its ends, and -ρ beside it. The "
            "preconditioner that is best at finite L, ((L+1)/L) Σ + ((tr Σ + dσ²)/L) I, has an inverse that is not "
            f"tridiagonal: its (i, i+2) entries are {np.diag(optimal, 2).min():.3f} to {np.diag(optimal, 2).max():.3f} "
            f"beside {optimal[0, 0]:.3f} on the diagonal: small values, as Figure 11 shows them for a trained layer."
        ),
    )  # fmt: skip


def kms_inverse(dim: int, rho: float) -> np.ndarray:
    """The claimed inverse."""
    diagonal = np.full(dim, 1 + rho**2)
    diagonal[[0, -1]] = 1.0
    beside = np.full(dim - 1, -rho)
    return (np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)) / (1 - rho**2)


def _prompts(rng: Any, task: InContextRegression, samples: int) -> tuple[np.ndarray, ...]:
    """`X, y, xq, yq` drawn in NumPy: numbers that do not come from the task's own sampler."""
    d, std = task.dim, task.noise_std
    X = rng.standard_normal((samples, task.length, d))
    xq, beta = rng.standard_normal((2, samples, d))
    beta /= math.sqrt(d)
    y = np.einsum("nld,nd->nl", X, beta) + std * rng.standard_normal((samples, task.length))
    yq = np.einsum("nd,nd->n", xq, beta) + std * rng.standard_normal(samples)
    return X, y, xq, yq
