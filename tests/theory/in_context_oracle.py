"""The in-context risk of scalar heads by plain quadrature in NumPy, written down from the definition.

Two and three examples: directly over `|x_q|` and the gaps between sorted scores, no Laplace
transform, no moments. Any number, one head: the moments of one softmax by its Laplace transform on
Gauss-Legendre panels, interpolated in `log a`, and a fine rule for `|x_q|`.
"""

import math
from functools import cache

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import softmax

MOST = 25.0  # largest scale of scores in the table of one softmax
_TOP = math.asinh(MOST)


def panels(low, high, count, order=16):
    """Gauss-Legendre nodes and weights on equal panels."""
    x, w = np.polynomial.legendre.leggauss(order)
    edges = np.linspace(low, high, count + 1)
    half, middle = np.diff(edges)[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    return (middle + half * x).ravel(), (half * w).ravel()


def lengths(dim, count=12):
    """Nodes and probabilities of `|x_q|`, on panels of its logarithm."""
    low = math.log(dim) / 2 - 40 / dim - math.sqrt(40 / dim)
    u, w = panels(low, math.log(math.sqrt(dim) + 9.0), count * (1 + int(40 / dim) // 8))
    log_mass = dim * u - np.exp(2 * u) / 2
    weights = w * np.exp(log_mass - log_mass.max())
    kept = weights > 1e-22 * weights.max()
    return np.exp(u[kept]), weights[kept] / weights.sum()


def two_examples(dim, noise, omega, mu):
    """`omega`, `mu` of shape `(settings, heads)`; the label's noise has the variance `noise`."""
    r, over_r = lengths(dim)
    u, w = panels(-40.0, math.log(9.5), 40)
    gap = math.sqrt(2) * np.exp(u)  # |s_1 - s_2|, whose variance is 2
    over_gap = 2 * np.exp(-np.exp(2 * u) / 2 + u) / math.sqrt(2 * math.pi) * w
    found = []
    for one, read in zip(omega, mu, strict=True):
        # p_1 - p_2 of the larger score's weight, all heads added up
        apart = sum(m * np.tanh(v * r[:, None] * gap / 2) for v, m in zip(one, read, strict=True))
        total = read.sum()
        target = r[:, None] * gap / 2 * apart
        along = (total**2 / 2 + (apart * gap / 2) ** 2) / dim
        across = ((dim - 1) / dim + noise) * (total**2 + apart**2) / 2
        found.append(1 + noise + over_r @ (along + across - 2 * target / dim) @ over_gap)
    return np.array(found)


def three_examples(dim, noise, omega, mu):
    """As `two_examples`; the gaps `a, b` of the sorted scores have the density
    `√3 e^{-(a²+ab+b²)/3} / π`."""
    r, over_r = lengths(dim, 6 if dim == 1 else 12)
    pieces = panels(-38.0, -3.0, 10, 20), panels(-3.0, math.log(13.0), 4, 20)
    u, w = np.concatenate(pieces, axis=1)
    a, b = np.exp(u)[:, None], np.exp(u)
    mass = math.sqrt(3) / math.pi * np.exp(-(a**2 + a * b + b**2) / 3) * a * b * w[:, None] * w
    keep = mass > 1e-20
    a, b = np.broadcast_to(a, mass.shape)[keep], np.broadcast_to(b, mass.shape)[keep]
    mass = mass[keep]
    s = np.stack([(2 * a + b) / 3, (b - a) / 3, -(a + 2 * b) / 3])  # sorted, less their mean
    found = []
    for one, read in zip(omega, mu, strict=True):
        total, value = read.sum(), 0.0
        for radius, share in zip(r, over_r, strict=True):
            beside = sum(
                m * (softmax(v * radius * s, axis=0) - 1 / 3)
                for v, m in zip(one, read, strict=True)
            )
            along, square = np.sum(beside * s, axis=0), np.sum(beside**2, axis=0) + total**2 / 3
            risk = (total**2 / 3 + along**2 - 2 * radius * along) / dim
            risk = risk + ((dim - 1) / dim + noise) * square
            value += share * (risk @ mass)
        found.append(1 + noise + value)
    return np.array(found)


def one_softmax(a, length):
    """`E|p|²`, `E Σ p³`, `E|p|⁴` of `p = softmax(a s)`, `L` standard normal scores, at one `a >= 0`."""
    s, w = panels(-9.0, 9.0, 8 + int(6 * a))
    density = w * np.exp(-s * s / 2) / math.sqrt(2 * math.pi)
    low, high = -9 * a - 5, min(9 * a, a * a / 2 + 9 * a) + math.log(length) + 38
    tau, dtau = panels(low, high, int((high - low) / 3) + 1)
    log_x = np.minimum(a * s - tau[:, None], 6.5)
    x = np.exp(log_x)
    decay = np.exp(-x)
    power = [decay @ density]
    for _ in range(4):
        decay *= x
        power.append(decay @ density)
    miss = -np.expm1(-x) @ density
    near = miss < 0.5
    log_phi = np.where(near, np.log1p(-miss * near), np.log(np.maximum(power[0], 1e-300)))
    single = length * np.exp((length - 1) * log_phi) * dtau
    double = length * (length - 1) * np.exp((length - 2) * log_phi) * dtau
    quartic = single @ power[4] + double @ power[2] ** 2
    return np.array([single @ power[2], single @ power[3] / 2, quartic / 6])


@cache
def softmax_table(length, degree=72):
    """Chebyshev coefficients of the three moments in `asinh a`, up to `a = MOST`."""
    x = np.cos(math.pi * (np.arange(degree) + 0.5) / degree)
    values = np.array([one_softmax(math.sinh(_TOP * (1 + t) / 2), length) for t in x])
    return chebyshev.chebfit(x, values, degree - 1)


def one_head(dim, length, noise, omega, mu):
    """The risk of single heads, shape `(settings,)`; scores `|ω| r` beyond `MOST` must be rare."""
    r, over_r = lengths(dim)
    a = np.minimum(np.abs(omega)[:, None] * r, MOST)
    coefficients = softmax_table(length)
    square, cubic, quartic = chebyshev.chebval(2 * np.arcsinh(a) / _TOP - 1, coefficients)
    aligned = omega[:, None] * r**2 * (1 - square)
    read = dim * square + a**2 * (1 - square - 6 * cubic + 6 * quartic)
    risk = mu[:, None] ** 2 * (read / dim + noise * square) - 2 * mu[:, None] * aligned / dim
    return 1 + noise + risk @ over_r
