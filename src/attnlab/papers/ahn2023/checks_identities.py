"""Checks of the identities behind the lemma on ReLU attention, by SymPy and on samples.

With `g` = ReLU, `g_i = g(xᵀAx_i)` and independent standard normal `x`, `x_i` in `d` dimensions. What
is stated stands in one small function each, which symbols and numbers go through alike. Samples are
drawn here and know nothing of the library's theory.

Source: note on ReLU attention, Proof; `docs/theory/relu-identities`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ...claims import Check, Outcome
from . import symbolic
from .identity_samples import (
    KINKED,
    Function,
    Mean,
    above,
    cantor,
    cantor_average,
    pooled,
    random_matrix,
    relu,
    sizes,
)

KINDS = "full, symmetric, antisymmetric and of rank one"


def stein_side(slope: Any, v: Any) -> Any:
    """The stated mean of `x h(x·v)`, from `h'(x·v)` or its mean."""
    return slope * v


def half() -> Fraction:
    """The stated `E g'(xᵀAx_i)`."""
    return Fraction(1, 2)


def pair_side(square: Any) -> Any:
    """The stated `E[g_i g_j x_i·x_j]`, `i ≠ j`, from `|A|_F²`."""
    return square / 4


def cross_side(trace: Any) -> Any:
    """The stated `E[g_i x_i·x]`, from `tr A`."""
    return trace / 2


def stein_relu(preset: str, seed: int) -> Outcome:
    """One-dimensional integrals; samples in all dimensions; what a jump adds."""
    import sympy

    rng = np.random.default_rng(seed)
    settings, samples = sizes(preset)
    z, s = symbolic.scale()
    a, t = sympy.Symbol("a", real=True), sympy.Symbol("t", real=True)
    read = symbolic.half_average(sympy.Integer(0), z * s * z)
    left, right = (
        sum(c * a**k for k, c in enumerate(sympy.symbols(f"{name}0:4"))) for name in "pq"
    )
    jump = (right - left).subs(a, 0) / sympy.sqrt(2 * sympy.pi)

    def sides(h: Function, slope: Function) -> list[float]:
        dim = int(rng.integers(1, 9))
        v, probe = rng.standard_normal((2, dim))
        v *= rng.uniform(0.5, 2) / np.linalg.norm(v)
        x = rng.standard_normal((samples, dim))
        score = x @ v
        along = score * h(score) - stein_side(slope(score), v @ v)
        across = x @ (probe - v * (probe @ v) / (v @ v)) * h(score)
        return [Mean.of(values).z() for values in ((along, across) if dim > 1 else (along,))]

    same = [value for _ in range(settings) for value in sides(relu, above)]
    others = [value for k in range(settings) for value in sides(*KINKED[k % len(KINKED)])]
    ends = (0.0, 0.5, 1.0, 1.5)
    step = symbolic.step_defect(t)
    stated = [float(step.subs({t: end, s: 1})) for end in ends]
    drawn = rng.standard_normal(40 * samples)
    steps = [Mean.of(drawn * (drawn > end)) for end in ends]
    stairs = Mean.of(drawn * cantor(drawn))
    density = cantor_average(lambda u: np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi))
    return Outcome(
        (
            Check.condition(
                "SymPy, ReLU: E[Z g(sZ)] = s E g'(sZ)",
                symbolic.vanishes(read - stein_side(symbolic.mean_slope(), s)),
                "the difference of two integrals, for a symbol s > 0; it simplifies to 0, each is s/2",
            ),
            Check.condition(
                "SymPy, cubic pieces: all that can miss is the jump at 0 times the density there",
                symbolic.vanishes(symbolic.stein_defect(left, right, a) - jump),
                "symbols for all 8 coefficients: E[Z h] - s E h' - (q0 - p0)/√(2π) simplifies to 0, so "
                "that the identity holds whenever the pieces meet",
            ),
            Check.distribution("ReLU, along v and across, the same samples on both sides", same),
            Check.distribution("|a|, leaky ReLU, a hat, a soft threshold, alike", others),
        ),
        evidence=(
            Check.agreement(
                "steps at 0, ½, 1, 1.5: E[Z h(Z)] is the density there, not E h' = 0",
                [m.mean for m in steps], stated, standard_error=[m.error for m in steps],
            ),
            Check.agreement(
                "Cantor's staircase: E[Z h(Z)] is the density averaged over its rise, not E h' = 0",
                stairs.mean, density, standard_error=stairs.error,
            ),
        ),
        notes=(
            f"{settings} random v (d <= 8, ½ <= |v| <= 2) for ReLU and as many for the others, {samples} samples "
            f"each, seed {seed}. Across v both sides are 0, as x is independent of x·v there. The "
            "identity is an integration by parts and needs h to be the integral of its derivative, "
            "which a kink does not disturb. A step at t is no integral: SymPy finds E[Z 1{sZ > t}] = "
            "exp(-t²/(2s²))/√(2π), where the derivative, 0 but at t, gives 0. To be continuous is not "
            "enough either: for Cantor's staircase on [0, 1] the left side is "
            f"{stairs.mean:.4f} ± {stairs.error:.4f} (exactly {density:.4f}) and the right one 0."
        ),
    )  # fmt: skip


def half_derivative(preset: str, seed: int) -> Outcome:
    """The integral; counts at random A; another symmetric law; where it ends."""
    rng = np.random.default_rng(seed)
    settings, samples = sizes(preset)
    shares, fixed, laplace = [], [], []
    for k in range(settings):
        A = random_matrix(rng, k)
        x, y = rng.standard_normal((2, samples, len(A)))
        shares.append(_share(np.sum(x @ A * y, -1)))
        fixed.append(_share(y @ A.T @ rng.standard_normal(len(A))))
        laplace.append(_share(np.sum(x @ A * rng.laplace(size=y.shape), -1)))
    signs = rng.choice([-1.0, 1.0], (2, 30 * samples, 2))
    strictly = Mean.of(above(np.sum(signs[0] * signs[1], -1)))
    return Outcome(
        (
            Check.condition(
                "SymPy: E g'(sZ) = ½",
                symbolic.vanishes(symbolic.mean_slope() - half()),
                "the integral of the normal density over z > 0, less ½, simplifies to 0; s drops out",
            ),
            Check.distribution("shares of positive scores at random A", shares),
            Check.distribution("the same with one query kept fixed for each A", fixed),
            Check.distribution("examples with independent Laplace entries instead", laplace),
        ),
        evidence=(
            Check.agreement(
                "entries that are random signs, d = 2, A = I: share of positive scores",
                strictly.mean, 0.25, standard_error=strictly.error,
            ),
        ),
        notes=(
            f"{settings} random A ({KINDS}; d <= 8), {samples} samples each, seed {seed}. It takes no "
            "more than an example's law that is symmetric and gives no scores of exactly 0, where g' "
            "is not defined. With random signs half of the scores are 0 in d = 2, and a quarter is "
            "positive. A must not be 0, and can be anything else."
        ),
    )  # fmt: skip


def pair_term(preset: str, seed: int) -> Outcome:
    """Proof by symbols; samples at random A."""
    rng = np.random.default_rng(seed)
    settings, samples = sizes(preset)

    def read(A: np.ndarray) -> Mean:
        x, y, z = rng.standard_normal((3, samples, len(A)))
        rows = x @ A
        return Mean.of(relu(np.sum(rows * y, -1)) * relu(np.sum(rows * z, -1)) * np.sum(y * z, -1))

    found = [read(random_matrix(rng, k)) for k in range(settings)]
    factor = pooled(1.0, found)
    square = symbolic.symbols()[2]
    return Outcome(
        (
            proof("¼|A|²", symbolic.pair_term() - pair_side(square), [("A", "x", "y")] * 2),
            Check.distribution("samples at random A", [m.z(pair_side(1.0)) for m in found]),
            Check.agreement(
                "factor of |A|², all settings", factor.mean, pair_side(1.0),
                standard_error=factor.error, resolution=0.1,
            ),
        ),
        notes=(
            f"{settings} random A ({KINDS}; d <= 8, |A| = 1), {samples} samples each, seed {seed}. "
            "Given the query x, both examples read Aᵀx/2 on average and are independent, which leaves "
            "¼ E|Aᵀx|²: only the size of A enters, not its shape."
        ),
    )  # fmt: skip


def cross_term(preset: str, seed: int) -> Outcome:
    """Proof by symbols; samples at random A."""
    rng = np.random.default_rng(seed)
    settings, samples = sizes(preset)

    def read(A: np.ndarray) -> Mean:
        x, y = rng.standard_normal((2, samples, len(A)))
        return Mean.of(relu(np.sum(x @ A * y, -1)) * np.sum(x * y, -1))

    matrices = [random_matrix(rng, k) for k in range(settings)]
    traces = [float(np.trace(A)) for A in matrices]
    found = [read(A) for A in matrices]
    factor = pooled(traces, found)
    trace = symbolic.symbols()[3]
    zscores = [m.z(cross_side(t)) for m, t in zip(found, traces, strict=True)]
    return Outcome(
        (
            proof("½ tr A", symbolic.cross_term() - cross_side(trace), [("A", "x", "x")]),
            Check.distribution("samples at random A", zscores),
            Check.agreement(
                "factor of tr A, all settings", factor.mean, cross_side(1.0),
                standard_error=factor.error, resolution=0.1,
            ),
        ),
        notes=(
            f"{settings} random A ({KINDS}; d <= 8, |A| = 1), {samples} samples each, seed {seed}. An "
            "example reads Aᵀx/2 on average, and x·Aᵀx has the mean tr A."
        ),
    )  # fmt: skip


def proof(value: str, difference: Any, factors: Any) -> Check:
    """That SymPy reduces `difference` to 0, and that its pairings are right in small dimensions."""
    import sympy

    d, _, square, trace = symbolic.symbols()
    wrong = []
    for dim in (1, 2, 3):
        A = symbolic.entries("A", dim)
        values = {d: dim, square: (A * A.T).trace(), trace: A.trace()}
        sums = symbolic.isserlis(factors).subs(values)
        if sympy.expand(symbolic.by_entries(factors, dim) - sums) != 0:
            wrong.append(dim)
    return Check.condition(
        f"SymPy: it is {value} for any d",
        symbolic.vanishes(difference) and not wrong,
        f"the difference to it simplifies to {sympy.factor(difference)}, with symbols for d and the "
        "traces; the sum over pairings that it rests on is, entry by entry of a symbolic A, that of all "
        f"monomials for d = 1, 2, 3{f' (but not for {wrong})' if wrong else ''}",
    )


def _share(scores: np.ndarray) -> float:
    """The share of positive scores against `half()`, in binomial standard errors."""
    p = float(half())
    return float((np.mean(above(scores)) - p) / math.sqrt(p * (1 - p) / len(scores)))
