"""Moments of softmax weights by ways that share nothing with the engine: direct integrals over the
scores of two and three tokens in mpmath or NumPy."""

import itertools

import mpmath
import numpy as np


def two_tokens(a, b):
    """`Q - 1/2` and `M11` for `L = 2` in 30 digits: with `δ = s₁ - s₂`, `p - 1/2 = ± tanh(aδ/2)/2`,
    and `Σ p s` is the mean of the scores plus `δ/2 tanh(aδ/2)`."""
    with mpmath.workdps(30):
        a, b = mpmath.mpf(a), mpmath.mpf(b)

        def mean(f):
            def density(z):
                return mpmath.exp(-(z**2) / 2) / mpmath.sqrt(2 * mpmath.pi)

            knots = [k * mpmath.mpf("1.5") for k in range(9)]
            return 2 * mpmath.quad(lambda z: f(mpmath.sqrt(2) * z) * density(z), knots)

        def product(d):
            return mpmath.tanh(a * d / 2) * mpmath.tanh(b * d / 2)

        return float(mean(product) / 2), float(mean(lambda d: d**2 / 4 * product(d)) + 0.5)


def three_tokens(a, b, nodes=220, reach=8.5):
    """All moments of the engine for `L = 3`: the weights depend on two differences of scores."""
    grid = np.linspace(-reach, reach, nodes)
    weight = np.exp(-(grid**2) / 2)
    weight /= weight.sum()
    u, v = np.meshgrid(grid, grid)
    mass = np.outer(weight, weight)
    # an orthonormal basis of the scores of zero sum; the mean of the scores is independent
    s = np.stack([u / np.sqrt(2) + v / np.sqrt(6), -u / np.sqrt(2) + v / np.sqrt(6)])
    s = np.concatenate([s, [-2 * v / np.sqrt(6)]])
    p, q = (np.exp(c * s - np.max(c * s, axis=0)) for c in (a, b))
    p, q = p / p.sum(0), q / q.sum(0)

    def mean(f):
        return float(np.sum(f * mass))

    pp, qq, pq = (p * p).sum(0), (q * q).sum(0), (p * q).sum(0)
    return {
        "product": mean(pq),
        "squares": mean(pp * qq),
        "product_squared": mean(pq**2),
        "left_cubic": mean((p * p * q).sum(0)),
        "right_cubic": mean((p * q * q).sum(0)),
        "left_quartic": mean(pp * pq),
        "right_quartic": mean(qq * pq),
        "second": mean((p * s).sum(0) * (q * s).sum(0)) + 1 / 3,
        "mean": mean((p * s).sum(0)),
        "cubic": mean((p**3).sum(0)),
        "quartic": mean(pp**2),
    }


def one_head(a, log_length):
    """`E|p|²` by a plain trapezoid rule over all of `log t` and `s`, with nothing tuned."""
    s = np.linspace(-10.0, 24.0, 4001)
    weight = np.exp(-(s**2) / 2) / np.sqrt(2 * np.pi) * (s[1] - s[0])
    log_t, total = np.arange(-a * 24.0 - 120.0 - log_length, a * 10.0 + 6.0, 0.1), 0.0
    for t in log_t:
        x = np.exp(np.minimum(t + a * s, 20.0))
        survival, complement = np.exp(-x) @ weight, -np.expm1(-x) @ weight
        log_phi = np.log1p(-complement) if complement < 0.5 else np.log(max(survival, 1e-300))
        lifted = x * np.exp(log_length)
        density = np.exp(-log_length + (np.exp(log_length) - 1) * log_phi)
        total += 0.1 * density * ((lifted**2 * np.exp(-x)) @ weight)
    return total


def signs(scales):
    """All pairs of scales with all signs of the second."""
    return [(a, sign * b) for a, b in itertools.product(scales, scales) for sign in (1, -1)]
