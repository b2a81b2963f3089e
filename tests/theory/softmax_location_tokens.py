"""Softmax attention on single-location prompts, token by token: two and three tokens by integrals
over differences of scores (no Laplace transform), any number by sampling. Nothing of attnlab's is
imported."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
from softmax_location_oracle import LINKS, POLYNOMIALS, Case


def form_square(forms: Any, means: Any, cov: Any) -> Any:
    """`E (Σ_i c_i + l_i g_i + a_i g_i²)²` of a Gaussian vector `g`, with `forms[i] = (c, l, a)`."""
    n = range(len(forms))
    mean = sum(
        c + line * m + curve * (m * m + cov[i][i])
        for i, ((c, line, curve), m) in enumerate(zip(forms, means, strict=True))
    )
    slopes = [forms[i][1] + 2 * forms[i][2] * means[i] for i in n]
    variance = sum(slopes[i] * slopes[j] * cov[i][j] for i in n for j in n)
    curved = sum(forms[i][2] * forms[j][2] * cov[i][j] ** 2 for i in n for j in n)
    return mean * mean + variance + 2 * curved


def _forms(case: Case, weights: Any) -> Any:
    """The error `Σ_ℓ p_ℓ σ(w_ℓ) - y` as a form in `(w_*, w_1, ..., u)`."""
    student, task = POLYNOMIALS[case.student], POLYNOMIALS[case.task]
    return [[weight * c for c in student] for weight in weights] + [[-c for c in task]]


def two_tokens(case: Case, digits: int = 30) -> mp.mpf:
    """The risk for `L = 2` and links of degree two, as one integral over the difference of scores:
    given it, the values and the label are Gaussian."""
    with mp.workdps(digits):
        number = mp.mpf
        g2, rho, nu, eta = (number(x) for x in (case.token_std**2, case.rho, case.nu, case.eta))
        g2 = number(case.token_std) ** 2
        root = mp.sqrt(case.dim)
        b, shift = number(case.beta) * root, number(case.signal) * root
        mean, var = b * shift * number(case.kappa), b * b * (g2 + 1)
        centres = [shift * number(case.theta), number(0), number(0)]
        lean = [b * g2 * rho, -b * rho, b * g2 * eta]
        cov = [[g2, 0, g2 * nu], [0, 1, 0], [g2 * nu, 0, g2]]
        left = [[cov[i][j] - lean[i] * lean[j] / var for j in range(3)] for i in range(3)]

        def integrand(x: Any) -> Any:
            d = mean + mp.sqrt(var) * x
            p, q = 1 / (1 + mp.exp(-d)), 1 / (1 + mp.exp(d))
            means = [m + c * x / mp.sqrt(var) for m, c in zip(centres, lean, strict=True)]
            return mp.npdf(x) * form_square(_forms(case, (p, q)), means, left)

        turn = -mean / mp.sqrt(var)
        knots = {number(k) for k in range(-14, 15, 2)}
        knots |= {turn + k / mp.sqrt(var) for k in (-30, -10, -3, 0, 3, 10, 30)}
        inner = sorted(k for k in knots if abs(k) <= 14)
        return mp.quad(integrand, inner) + number(case.noise_std) ** 2


def three_tokens(case: Case, nodes: int = 901, reach: float = 9.5) -> float:
    """The same for `L = 3`: two differences of scores, by the trapezoid rule."""
    b, g2, rho = case.slope, case.token_std**2, case.rho
    var = b * b * np.array([[g2 + 1, g2], [g2, g2 + 1]])
    root = np.linalg.cholesky(var)
    x = np.linspace(-reach, reach, nodes)
    weight = np.exp(-(x**2) / 2) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    white = np.stack(np.meshgrid(x, x, indexing="ij"))
    d1, d2 = np.einsum("ij,jab->iab", root, white) + b * case.shift * case.kappa
    top = np.maximum(0.0, np.maximum(-d1, -d2))
    raw = np.stack([np.exp(-top), np.exp(-d1 - top), np.exp(-d2 - top)])
    lean = b * np.array([[g2 * rho] * 2, [-rho, 0], [0, -rho], [g2 * case.eta] * 2])
    cov = np.diag([g2, 1, 1, g2])
    cov[0, 3] = cov[3, 0] = g2 * case.nu
    gain = np.linalg.solve(root, lean.T).T
    means = np.einsum("ij,jab->iab", gain, white)
    means[0] += case.shift * case.theta
    square = form_square(_forms(case, raw / raw.sum(0)), means, cov - gain @ gain.T)
    return float(weight @ square @ weight) + case.noise_std**2


class Sample(NamedTuple):
    """Sampled prompts: losses, the informative token's logit `log(p/(1-p))`, and of the bulk's own
    softmax `q`: `log Z`, `Σ q²`, `Σ q σ(w)`."""

    loss: Any
    logit: Any
    log_partition: Any
    participation: Any
    bulk: Any


def sample(case: Case, count: int, rng: np.random.Generator) -> Sample:
    """`count` prompts, in the span of the four vectors; the scores of a token are a normal, its
    value another one that leans on it."""
    others = round(math.exp(case.log_length)) - 1
    student, task = LINKS[case.student].function, LINKS[case.task].function
    k, v, v_star = _directions(case)
    sizes = [max(1, int(1.5e6) // (others + 1))] * (count // max(1, int(1.5e6) // (others + 1)) + 1)
    sizes[-1] = count - sum(sizes[:-1])
    parts = []
    for size in sizes:
        x = case.token_std * rng.standard_normal((size, 4))
        x[:, 0] += case.shift
        first = case.slope * (x @ k)
        y = task(x @ v_star) + case.noise_std * rng.standard_normal(size)
        s = rng.standard_normal((size, others), dtype=np.float32)
        w = rng.standard_normal((size, others), dtype=np.float32)
        w *= np.float32(math.sqrt(max(1 - case.rho**2, 0.0)))
        w += np.float32(case.rho) * s
        s *= np.float32(case.slope)
        if not others:
            blank = np.full(size, np.nan)
            loss = (student(x @ v) - y) ** 2
            parts.append(Sample(loss, blank + np.inf, blank, blank, blank))
            continue
        top = s.max(axis=1)
        q = np.exp(s - top[:, None])
        total = q.sum(axis=1, dtype=np.float64)
        bulk = np.einsum("il,il->i", q, student(w), dtype=np.float64) / total
        log_z = top + np.log(total)
        square = np.einsum("il,il->i", q, q, dtype=np.float64) / total**2
        logit = first - log_z
        p = np.exp(-np.logaddexp(0, -logit))
        miss = np.exp(-np.logaddexp(0, logit))
        loss = (p * student(x @ v) + miss * bulk - y) ** 2
        parts.append(Sample(loss, logit, log_z, square, bulk))
    return Sample(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _directions(case: Case) -> Any:
    """`k, v, v*` in coordinates in which `k*` is the first axis: rows of a root of the Gram matrix."""
    gram = np.eye(4)
    for i, j, value in (
        (0, 2, case.kappa),
        (0, 3, case.theta),
        (1, 2, case.eta),
        (1, 3, case.nu),
        (2, 3, case.rho),
    ):
        gram[i, j] = gram[j, i] = value
    eigenvalues, basis = np.linalg.eigh(gram)
    rows = basis * np.sqrt(np.maximum(eigenvalues, 0.0))
    turn, _ = np.linalg.qr(np.column_stack([rows[0], rows[1], np.eye(4)]))
    turned = rows @ (turn * np.sign(rows[0] @ turn[:, 0] or 1.0))
    return turned[2], turned[3], turned[1]


class Estimate(NamedTuple):
    mean: float
    error: float
    """Standard error of the mean."""
    weight: float
    """How many prompts carry the standard error: small where rare ones do, and then it means little."""


def estimate(losses: Any) -> Estimate:
    count = losses.size
    centred = losses - losses.mean()
    square = np.mean(centred**2)
    weight = count * square**2 / max(np.mean(centred**4), 1e-300)
    return Estimate(float(losses.mean()), float(np.sqrt(square / (count - 1))), float(weight))


def random_case(index: int, **given: Any) -> Case:
    """One of a fixed sequence of settings that sampling resolves: sizes from 2 and 1 to 1000 and
    4096, all links, overlaps at random, at corners and on M."""
    rng = np.random.default_rng([7, index])
    names = ("linear", "quadratic", "tanh", "relu", "erf")
    dim = int(np.exp(rng.uniform(np.log(2), np.log(1000))))
    length = int(
        rng.choice(
            [1, 2, 3, int(np.exp(rng.uniform(1, 8.32))), 4096], p=[0.05, 0.1, 0.1, 0.65, 0.1]
        )
    )
    slope = float(np.exp(rng.uniform(np.log(0.01), np.log(12))))
    student = names[index % 5]
    overlaps = random_overlaps(rng)
    fields = {
        "dim": dim,
        "log_length": math.log(length),
        "signal": float(rng.choice([0.0, rng.uniform(0, 1), rng.uniform(0, 3)]))
        / math.sqrt(dim)
        * rng.choice([1, 3]),
        "token_std": float(np.exp(rng.uniform(np.log(0.05), np.log(2)))),
        "noise_std": float(rng.choice([0.0, 0.3])),
        "beta": slope / math.sqrt(dim),
        "student": student,
        "task": student if rng.uniform() < 0.6 else str(rng.choice(names)),
        **dict(zip(("kappa", "nu", "theta", "eta", "rho"), overlaps, strict=True)),
    }
    return Case(**{**fields, **given})


def random_overlaps(rng: np.random.Generator) -> list[float]:
    """Overlaps of two random unit vectors in few dimensions, sometimes equal to each other or to a
    hidden direction."""
    size = int(rng.integers(3, 7))
    k, v = (x / np.linalg.norm(x) for x in rng.standard_normal((2, size)))
    kind = rng.integers(8)
    axes = np.eye(size)
    if kind == 0:
        v = k * rng.choice([-1, 1])
    if kind == 1:
        k = axes[0] * rng.choice([-1, 1])
    if kind == 2:
        v = axes[1] * rng.choice([-1, 1])
    if kind == 3:
        k, v = axes[0], axes[1]
    if kind == 4:
        k = axes[1] * rng.choice([-1, 1])
    return [float(x) for x in (k[0], v[1], v[0], k[1], k @ v)]
