"""Tail probabilities used by the checks. SciPy loads when the first is computed."""

from __future__ import annotations

import numpy as np


def ratio(distance: np.ndarray, error: np.ndarray) -> np.ndarray:
    """`distance / error` elementwise, with 0/0 = 0 and x/0 = ±inf."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = distance / error
    return np.where((distance == 0) & (error == 0), 0.0, z)


def one_sided(z: float) -> float:
    """`P(Z > z)` of a standard normal."""
    from scipy.special import ndtr

    return float(ndtr(-z))


def two_sided(z: float) -> float:
    """`P(|Z| > z)` of a standard normal, `z >= 0`."""
    return min(1.0, 2 * one_sided(z))


def binomial_low(successes: int, trials: int, probability: float) -> float:
    """`P(K <= successes)` of a binomial law."""
    from scipy.special import bdtr

    return float(bdtr(successes, trials, probability))


def proportion_low(successes: int, trials: int) -> float:
    """One-sided Clopper-Pearson lower limit of a probability, at two standard deviations (97.7 %)."""
    from scipy.special import betaincinv

    if successes == 0:
        return 0.0
    return float(betaincinv(successes, trials - successes + 1, one_sided(2.0)))


def normality(z: np.ndarray) -> dict[str, tuple[float, float]]:
    """Four tests of `z` (n,) against the standard normal: name -> (statistic, p-value).

    `kolmogorov-smirnov` (exact law of the statistic), `mean` (in standard errors), `variance` (mean
    square; `Σz²` is chi-squared with n degrees of freedom) and `largest` (modulus).
    """
    from scipy import special, stats

    n = z.size
    ks = stats.kstest(z, stats.norm.cdf)
    mean = float(np.sqrt(n) * np.mean(z))
    square = float(np.sum(z**2))
    upper = float(special.gammaincc(n / 2, square / 2))
    lower = float(special.gammainc(n / 2, square / 2))
    largest = float(np.max(np.abs(z)))
    # 1 − (1 − p)^n without cancellation
    p_largest = float(-np.expm1(n * np.log1p(-min(two_sided(largest), 1 - 1e-16))))
    return {
        "kolmogorov-smirnov": (float(ks.statistic), float(ks.pvalue)),
        "mean": (mean, two_sided(abs(mean))),
        "variance": (square / n, min(1.0, 2 * min(upper, lower))),
        "largest": (largest, p_largest),
    }
