"""The risk of any pointwise student by nested integration of its definition, in NumPy.

Panels of Gauss-Legendre nodes that split at kinks and refine geometrically towards every feature,
outside in: the score, then the student's value given the score, then the label's projection given
both. Nothing of attnlab is imported. Good to about 1e-12 of the sum of absolute terms.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

# name -> function, points where it bends, width of the bend (0 for a kink)
ACTIVATIONS = {
    "tanh": (np.tanh, (0.0,), 1.0),
    "relu": (lambda x: np.maximum(x, 0), (0.0,), 0.0),
    "hard-tanh": (lambda x: np.clip(x, -1, 1), (-1.0, 1.0), 0.0),
    "sign": (np.sign, (0.0,), 0.0),
}
LINKS = {
    "linear": (lambda x: x, 1.0),
    "quadratic": (lambda x: x * x, 1.0),
    "tanh": (np.tanh, 1.0),
    "erf": (special.erf, 1.0),
    "relu": (lambda x: np.maximum(x, 0), 0.0),
}
_REACH = 9.5
_X, _W = np.polynomial.legendre.leggauss(10)
_LADDER = 2.0 ** np.arange(-2, 20, 1.5)


def rule(features):
    """Nodes and Gaussian weights `(*batch, n)`; `features` are pairs of arrays (place, width)."""
    batch = np.broadcast_shapes(*(np.shape(x) for pair in features for x in pair))
    edges = [np.broadcast_to(np.linspace(-_REACH, _REACH, 17), (*batch, 17))]
    for place, width in features:
        steps = np.maximum(np.asarray(width), 1e-9)[..., None] * _LADDER
        place = np.asarray(place)[..., None]
        edges += [
            np.broadcast_to(e, (*batch, e.shape[-1])) for e in (place, place - steps, place + steps)
        ]
    edges = np.sort(np.clip(np.concatenate(edges, -1), -_REACH, _REACH), -1)
    half, middle = np.diff(edges) / 2, (edges[..., 1:] + edges[..., :-1]) / 2
    z = (middle[..., None] + half[..., None] * _X).reshape(*batch, -1)
    w = (half[..., None] * _W).reshape(*batch, -1)
    return z, w * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def smoothed(link, mean, std):
    """`E τ(mean + std Z)`."""
    if link == "linear":
        return mean
    if link == "quadratic":
        return mean**2 + std**2
    if link == "erf":
        return special.erf(mean / np.sqrt(1 + 2 * std**2))
    if link == "relu":
        ratio = np.clip(mean / np.maximum(std, 1e-200), -40.0, 40.0)
        bump = np.exp(-(ratio**2) / 2) / math.sqrt(2 * math.pi)
        return mean * special.ndtr(ratio) + std * bump
    z = np.linspace(-_REACH, _REACH, 2 * int(_REACH / min(0.4, 0.25 / max(np.max(std), 0.1))) + 1)
    w = np.exp(-z * z / 2)
    total = np.zeros(np.broadcast_shapes(np.shape(mean), np.shape(std)))
    for node, weight in zip(z, w / w.sum(), strict=True):
        total += weight * np.tanh(mean + std * node)
    return total


def nested_risk(case, activation, links):
    """`(risk, slack)`: `slack` is this oracle's own error."""
    a, bends, width = ACTIVATIONS[activation]
    (student, s_width), (task, t_width) = (LINKS[name] for name in links)
    g, shift = case.token_std, case.signal * math.sqrt(case.dim)

    def outer(mean, std, turns):
        places = [((bend / case.scale - mean) / std, width / (case.scale * std)) for bend in bends]
        for middle, overlap, own in turns:  # where the smoothed links turn, given the score
            steep = math.copysign(max(abs(overlap), 1e-12), overlap)
            blur = math.hypot(math.sqrt(max(1 - overlap**2, 0.0)), own / std) / abs(steep)
            places.append((-middle / (std * steep), blur))
        z, w = rule(places)
        return z, w, a(case.scale * (mean + std * z))

    def value_rule(m_w, s_w, extra=()):
        steep = max(s_w, 1e-12)
        return rule([(-m_w / steep, np.full(np.shape(m_w), s_width / steep)), *extra])

    turns = [(shift * case.theta, case.rho, s_width), (0.0, case.eta, t_width)]
    z, w, score = outer(shift * case.kappa, g, turns)
    m_w, s_w = shift * case.theta + g * case.rho * z, g * math.sqrt(max(1 - case.rho**2, 0.0))
    # u = g η z + slope·z_w + rest
    cov = g * (case.nu - case.rho * case.eta)
    slope = cov / math.sqrt(1 - case.rho**2) if case.rho**2 < 1 else 0.0
    rest2 = max(g**2 * (1 - case.eta**2) - slope**2, 0.0)
    rest = math.sqrt(rest2) if rest2 > 1e-15 * g**2 else 0.0
    m_u = g * case.eta * z
    steep = math.copysign(max(abs(slope), 1e-12), slope)
    blur = np.full(np.shape(z), max(rest, t_width) / abs(steep))
    z_w, w_w = value_rule(m_w, s_w, [(-m_u / steep, blur)])
    sigma = student(m_w[:, None] + s_w * z_w)
    tau = smoothed(links[1], m_u[:, None] + slope * z_w, rest)
    own, shared = np.sum(w_w * sigma**2, -1), np.sum(w_w * sigma * tau, -1)
    alone = np.sum(w_w * sigma, -1)
    z_u, w_u = rule([(0.0, t_width / g)])
    label_mean, label_square = np.sum(w_u * task(g * z_u)), np.sum(w_u * task(g * z_u) ** 2)

    z0, w0, score0 = outer(0.0, 1.0, [(0.0, case.rho, s_width)])
    m_0, s_0 = case.rho * z0, math.sqrt(max(1 - case.rho**2, 0.0))
    z_b, w_b = value_rule(m_0, s_0)
    sigma0 = student(m_0[:, None] + s_0 * z_b)
    bulk_mean = np.sum(w0 * score0 * np.sum(w_b * sigma0, -1))
    bulk_square = np.sum(w0 * score0**2 * np.sum(w_b * sigma0**2, -1))

    n = case.length - 1
    first = np.sum(w * score**2 * own)
    cross = np.sum(w * score * shared)
    bias = np.sum(w * score * alone) - label_mean
    total = first - 2 * cross + label_square + n * (bulk_square - bulk_mean**2)
    total += (n * bulk_mean) ** 2 + 2 * n * bias * bulk_mean + case.noise_std**2
    size = first + 2 * abs(cross) + label_square + n * bulk_square + (n * bulk_mean) ** 2
    typical = n * abs(bulk_mean) * (math.sqrt(first) + math.sqrt(label_square))
    absolute = np.sum(w0 * abs(score0) * np.sum(w_b * abs(sigma0), -1))
    return total, 1e-12 * (size + typical + n**2 * abs(bulk_mean) * absolute)
