"""Checks of Theorem 4.2 (i) and (ii): small heads approximate debiased gradient descent, the best."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...claims import Check, Outcome
from ...tasks import InContextRegression
from .checks_loss import approximation


def best_step(task: InContextRegression) -> float:
    """The claimed `η*`."""
    return 1 / (1 + (1 + task.noise_std**2) * task.dim / task.length)


def printed_distance(task: InContextRegression, gamma: Any) -> Any:
    """The claimed order of the distance, without logarithms."""
    return gamma * task.dim * math.sqrt(1 + task.noise_std**2)


def theorem_approximation(preset: str, seed: int) -> Outcome:
    """Quantiles against the bound; exponents in γ, d, L; the exact leading term; single heads."""
    from ...theory import small_heads_distance

    samples = 40_000 if preset == "paper" else 3_000
    rng = np.random.default_rng(seed)
    delta, step = 0.01, 0.9
    sizes = [(5, 96), (20, 96), (80, 96), (5, 384), (20, 384)]
    quantiles, zscores, roots, laws = [], [], [], []
    for dim, length in sizes:
        task = InContextRegression(dim, length)
        gamma = 0.5 / (math.sqrt(dim) * math.log(length / delta))
        distance, *_ = _distances(rng, task, gamma, step, samples)
        quantiles.append(np.quantile(np.abs(distance), 1 - delta) / printed_distance(task, gamma))
        square = distance**2
        law = float(small_heads_distance(task, gamma, step=step))
        zscores.append((square.mean() / law - 1) / (np.std(square) / math.sqrt(samples) / law))
        roots.append(math.sqrt(square.mean()))
        laws.append(math.sqrt(law))
    task = InContextRegression(5, 40)
    gammas = np.array([0.02, 0.04, 0.08])
    pairs, singles = [], []
    for gamma in gammas:
        pair, positive, _ = _distances(np.random.default_rng(seed), task, gamma, step, samples)
        pairs.append(math.sqrt(np.mean(pair**2)))
        singles.append(math.sqrt(np.mean(positive**2)))
    in_gamma = np.diff(np.log(pairs)) / math.log(2)
    one_head = np.diff(np.log(singles)) / math.log(2)
    wide = [
        math.sqrt(small_heads_distance(InContextRegression(d, 10**6), 1e-4)) for d in (1000, 2000)
    ]
    long = [
        math.sqrt(small_heads_distance(InContextRegression(5, n), 0.01)) for n in (10**5, 2 * 10**5)
    ]
    trained = math.sqrt(small_heads_distance(task, 0.13))
    pair = _distances(rng, task, 0.13, best_step(task), samples)[0]
    return Outcome(
        (
            Check.bound("99 % quantile of the distance over γd√(1+σ²)", np.array(quantiles), upper=1.0),
        ),
        evidence=(
            Check.agreement("exponent of the distance in γ", in_gamma, 2.0, tolerance=0.03),
            Check.agreement("exponent in γ of one head's distance to its own linear part", one_head, 1.0, tolerance=0.05),
            Check.distribution("sampled mean square against the exact leading term", np.array(zscores), minimum=5),
            Check.agreement("exponent in d", math.log2(wide[1] / wide[0]), 1.5, tolerance=0.01),
            Check.agreement("exponent in L", math.log2(long[1] / long[0]), -0.5, tolerance=0.01),
        ),
        notes=(
            f"η = {step} fixed, σ² = 0.1, γ = 1/(2√d log(100 L)), {samples} prompts each, seed {seed}. The bound Õ(γd) holds, at "
            f"most {max(quantiles):.3f} of it is used; it is not of the right order. Each head is off by the first order in "
            "γ, but what is even in γ cancels between opposite heads, and the distance is ηγ²√(d³(1+σ²)/(6L)) to leading "
            "order, with an exact formula at every (d, L). At γ = 0.13, d = 5, L = 40 the distance is "
            f"{math.sqrt(np.mean(pair**2)):.3f} (leading term {trained:.3f}) beside predictions of size about 1."
        ),
    )  # fmt: skip


def _distances(
    rng: Any, task: InContextRegression, gamma: float, step: float, samples: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Heads minus debiased descent, and what each head differs from `(μ/L) Σ y (1 ± γ c_ℓ)` by."""
    d, length = task.dim, task.length
    X = rng.standard_normal((samples, length, d))
    xq, beta = rng.standard_normal((2, samples, d))
    y = np.einsum("nld,nd->nl", X, beta / math.sqrt(d))
    y += task.noise_std * rng.standard_normal((samples, length))
    scores = gamma * np.einsum("nld,nd->nl", X, xq)
    centred = scores - scores.mean(-1, keepdims=True)
    heads = []
    for sign in (1, -1):
        # softmax minus its linear part, both of order 1/L
        weights = np.exp(sign * centred)
        weights /= weights.sum(-1, keepdims=True)
        linear = (1 + sign * centred) / length
        heads.append(step / (2 * gamma) * np.sum((weights - linear) * y, -1))
    return heads[0] - heads[1], *heads


def theorem_optimality(preset: str, seed: int) -> Outcome:
    """The least `L̃` at each γ over all signs and dummies; predictions as γ -> 0; η* exactly."""
    from scipy.optimize import minimize

    from ...estimators import debiased_gradient_descent, gradient_descent_risk, optimal_step
    from ...students import KernelHeads

    rng = np.random.default_rng(seed)
    gammas = np.array([1e-3, 0.03, 0.1, 0.2, 0.4])
    profiles, outputs, drops, steps, searched = [], [], [], [], []
    for dim, length, noise in ((5, 40, 0.1), (2, 10, 1.0), (30, 60, 0.5)):
        task = InContextRegression(dim, length, noise_std=math.sqrt(noise))
        eta = best_step(task)
        least = []
        for gamma in gammas:
            form = approximation(task, np.array([gamma, -gamma, 0.0]))
            value, mu = form.least(noise)
            least.append(value)
            share = (1 + noise) / length
            stated = 1 / (1 + share * math.sinh(dim * gamma**2) / gamma**2)
            profiles.append(value - (1 + noise - stated))
            if gamma >= 0.03:
                outputs.append(np.abs(2 * gamma * mu - [stated, -stated, 0]).max())
        drops.append(np.diff(least))
        risks = [
            float(gradient_descent_risk(task, step=eta * f, debiased=True)) for f in (0.9, 1, 1.1)
        ]
        # the vertex of the parabola through three steps
        steps.append(1 + 0.05 * (risks[0] - risks[2]) / (risks[0] - 2 * risks[1] + risks[2]))
        steps.append(optimal_step(task, debiased=True) / eta)

        def risk_of(free: np.ndarray, task: Any = task, noise: float = noise) -> float:
            return approximation(task, free[:3]).risk(free[3:] * 5, noise)

        start = np.concatenate([rng.uniform(-0.4, 0.4, 3), rng.uniform(-0.4, 0.4, 3)])
        found: Any = minimize(risk_of, start, method="Nelder-Mead", options={"maxiter": 1500})
        searched.append(found.fun - (1 + noise - eta))
    task = InContextRegression(5, 40)
    samples = 20_000 if preset == "paper" else 2_000
    X = rng.standard_normal((samples, 40, 5))
    xq = rng.standard_normal((samples, 5))
    y = np.einsum("nld,nd->nl", X, rng.standard_normal((samples, 5)) / math.sqrt(5))
    descent = np.asarray(debiased_gradient_descent(X, y, xq, step=best_step(task)))
    apart = []
    for gamma in (0.04, 0.02, 0.01):
        out = 1 / (1 + 1.1 / 40 * math.sinh(5 * gamma**2) / gamma**2) / (2 * gamma)
        heads = _predict(KernelHeads(np.array([gamma, -gamma]), np.array([out, -out])), X, y, xq)
        apart.append(np.abs(heads - descent).max())
    return Outcome(
        (
            Check.agreement("least L̃ at |ω| = γ, over all μ, minus 1 + σ² - 2γμ_γ", np.array(profiles), 0.0, tolerance=1e-9),
            Check.bound("2γμ there against (2γμ_γ, -2γμ_γ, 0), dummy included", np.array(outputs), upper=1e-6),
            Check.bound("least L̃ at γ minus that at the next smaller one", np.concatenate(drops), lower=0.0),
            Check.bound("least L̃ found by search over ω and μ of three heads, minus 1 + σ² - η*", np.array(searched), lower=0.0),
            Check.agreement("largest distance of predictions to debiased descent: ratio at halved γ", np.array(apart[1:]) / apart[:-1], 0.25, tolerance=0.05),
            Check.agreement("best step of debiased descent, exact risk, over η*", np.array(steps), 1.0, tolerance=1e-9),
        ),
        notes=(
            f"(d, L, σ²) = (5, 40, 0.1), (2, 10, 1), (30, 60, 0.5), seed {seed}. L̃ increases with γ, so its infimum 1 + σ² - η* "
            "is approached as γ → 0 and not attained. η* is at the same time the exactly best step of debiased descent at "
            "every size, with risk σ² + 1 - η*(L-1)/L. That is a statement about L̃: the exact loss of two opposite heads is "
            "least at a finite γ (open-true-minimiser), lower than debiased descent by 3e-5 at d = 5, L = 40."
        ),
    )  # fmt: skip


def _predict(heads: Any, X: np.ndarray, y: np.ndarray, xq: np.ndarray) -> np.ndarray:
    from ..._core.precision import float64, to_numpy

    with float64():
        return to_numpy(heads(X, y, xq))
