"""The law of a random-energy partition function at finite size, in closed form.

For `Z = Σ e^{b g}` over `N` standard normals `g`, the law of `log Z + Gumbel` is exactly
`P(· <= τ) = E e^{-e^{-τ} Z} = (1 - Λ(τ)/N)^N`, with

    Λ(τ) = N E[1 - e^{-A}],   A = e^{bg - τ}.

Every average of softmax attention over the bulk is an average over that law, with the weights
`W = N E[A e^{-A}] = -Λ'` and `W2 = N E[A² e^{-A}] = -Λ' - Λ''`. Here `1 - e^{-A}` is split into
`A - A²/2` below `A = 1` and 1 above, whose averages are normal probabilities, and a remainder that
lives on `A` of order one, where the levels have the exponential density of slope `m = τ/b²`: it is a
Gamma function of `m`, up to `1/b²`. One formula holds in both phases and across the transition.

Source: `docs/theory/random-energy-model`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float

from .gaussian_nodes import uniform_nodes

_SPACING = 0.45  # of the nodes in τ; functions of τ are analytic within π/2 of the real axis
_MOST_NODES = 2048
_MILD = 3.0  # steepness up to which sums over levels are smooth, and are done as they stand
_STEEPEST = 2.5  # slope from which on the remainder no longer matters; its next pole is at 3
_SHALLOWEST = -1.0
_DEGREE = 28
_DOMAIN = (_SHALLOWEST, _STEEPEST)
_LOG_ROOT = 0.5 * math.log(2 * math.pi)


class LevelLaw(NamedTuple):
    """What the bulk looks like from `τ`; arrays of the shape of `τ`.

    - `total`: `Λ`, `weight`: `W`, `pair`: `W2`
    - `mean`, `variance`: of the level `g` under the weight `A e^{-A}`, exact given `Λ` (Stein)
    - `pair_mean`, `pair_variance`: the same under `A² e^{-A}`
    """

    total: Float[Array, "*n"]
    weight: Float[Array, "*n"]
    pair: Float[Array, "*n"]
    mean: Float[Array, "*n"]
    variance: Float[Array, "*n"]
    pair_mean: Float[Array, "*n"]
    pair_variance: Float[Array, "*n"]


def level_law(
    tau: Float[Array, "*n"],
    steepness: Float[Array, "*#n"],
    log_number: Float[Array, "*#n"],
    *,
    beyond: Any = 1.0,
) -> LevelLaw:
    """`LevelLaw` at `tau` for `steepness = b`. `beyond = 0` leaves the second term in
    `1/b²` out, to see how much it matters.

    Differentiable in everything. Call inside `float64()`.
    """
    mild = steepness < _MILD
    sums = _direct(tau, jnp.minimum(steepness, _MILD), log_number)
    expanded = _expanded(tau, jnp.maximum(steepness, _MILD), log_number, beyond)
    chosen = (jnp.where(mild, one, other) for one, other in zip(sums, expanded, strict=True))
    total, weight, pair, pair_slope, pair_bend = chosen
    b = steepness
    share, bend = _ratio(pair, weight), _ratio(pair_slope, weight)
    steep, curved = _ratio(pair_slope, pair), _ratio(pair_bend, pair)
    return LevelLaw(
        total=total,
        weight=weight,
        pair=pair,
        mean=b * (1 - share),
        variance=jnp.clip(1 + b**2 * (share * (1 - share) + bend), 0.0, 1.0),
        pair_mean=-b * steep,
        pair_variance=jnp.clip(1 + b**2 * (curved - steep**2), 0.0, 1.0),
    )


def _expanded(tau: Any, b: Any, log_number: Any, beyond: Any) -> tuple[Any, ...]:
    """`Λ, W, W2, W2', W2''` by the expansion in `1/b²`."""
    g, m = tau / b, tau / b**2
    log_edge = log_number - 0.5 * g**2 - _LOG_ROOT - jnp.log(b)
    edge = jnp.exp(log_edge)  # N φ(g)/b, the density of levels at A = 1 in units of log A
    above = jnp.exp(log_number + log_ndtr(-g))
    one = jnp.exp(log_number + 0.5 * b**2 - tau + log_ndtr(g - b))
    two = jnp.exp(log_number + 2 * b**2 - 2 * tau + log_ndtr(g - 2 * b))
    c = _remainder(m)
    c = [low - beyond * high / (2 * b**2) for low, high in zip(c[:5], c[2:], strict=True)]
    # all of it follows from edge' = -m edge, m' = 1/b², one' = edge - one, two' = edge - 2 two
    u = [
        0.5 + m * c[0] - c[1] / b**2,
        c[0] + m * c[1] - c[2] / b**2,
        2 * c[1] + m * c[2] - c[3] / b**2,
        3 * c[2] + m * c[3] - c[4] / b**2,
    ]
    p = [(1 - m) * u[k] - k * u[k - 1] + u[k + 1] / b**2 for k in range(3)]
    slope = [1 - m * p[0] + p[1] / b**2, -p[0] - m * p[1] + p[2] / b**2]
    return (
        above + one - 0.5 * two + edge * c[0],
        one - two + edge * u[0],
        two + edge * p[0],
        -2 * two + edge * slope[0],
        4 * two + edge * (slope[1] / b**2 - m * slope[0] - 2),
    )


def _direct(tau: Any, b: Any, log_number: Any) -> tuple[Any, ...]:
    """The same by sums over `g`: where `b` is small, all levels are of the same order."""
    g, weights = uniform_nodes(0.15)
    exponent = jnp.asarray(b)[..., None] * g - tau[..., None]
    a = jnp.exp(jnp.minimum(exponent, 50.0))
    scaled = jnp.exp(jnp.minimum(log_number[..., None] + exponent, 650.0)) * weights  # N A
    some = -jnp.expm1(-a) / jnp.maximum(a, 1e-290)
    left = scaled * jnp.exp(-a)
    factors = (1.0 + 0 * a, a, a * (a - 2), a * (4 - 5 * a + a**2))
    return (jnp.sum(scaled * some, -1), *(jnp.sum(left * factor, -1) for factor in factors))


def _ratio(top: Any, bottom: Any) -> Any:
    """`top/bottom`, and 0 where the levels end and both vanish."""
    there = bottom > 1e-200
    return jnp.where(there, top / jnp.where(there, bottom, 1.0), 0.0)


def _remainder_series() -> np.ndarray:
    """Powers of `m`, mapped to [-1, 1], for `C(m) = ∫ e^{-my} (1 - e^{-e^y} - split part) dy` and its
    first six derivatives, `(7, degree + 1)`, lowest power first."""

    def remainder(m: np.ndarray) -> np.ndarray:
        gamma = np.array([math.gamma(1 - x) for x in m])
        return gamma / m - 1 / m - 1 / (1 - m) + 0.5 / (2 - m)

    series = np.polynomial.Chebyshev.interpolate(remainder, _DEGREE, domain=_DOMAIN)
    power = series.convert(kind=np.polynomial.Polynomial, domain=_DOMAIN)
    rows = [power.deriv(k).coef if k else power.coef for k in range(7)]
    return np.stack([np.pad(row, (0, _DEGREE + 1 - len(row))) for row in rows])


_SERIES = _remainder_series()


def _remainder(m: Any) -> list[Any]:
    middle, half = (_STEEPEST + _SHALLOWEST) / 2, (_STEEPEST - _SHALLOWEST) / 2
    x = (jnp.clip(m, *_DOMAIN)[..., None] - middle) / half
    start = jnp.zeros((*jnp.shape(m), len(_SERIES)))
    columns = jnp.asarray(_SERIES.T[::-1])
    total, _ = jax.lax.scan(lambda total, column: (total * x + column, None), start, columns)
    return [total[..., k] for k in range(len(_SERIES))]


def level_nodes(
    steepness: Float[Array, "*n"], log_number: Float[Array, "*n"], nodes: int
) -> tuple[Float[Array, "*n nodes"], Float[Array, "*n"]]:
    """Trapezoid nodes in `τ` that cover the law, and the place where `Λ = 1`. They carry no
    derivative."""
    b, log_number = jax.lax.stop_gradient((steepness, log_number))
    annealed = log_number + 0.5 * b**2
    maximum = b * jnp.sqrt(jnp.maximum(2 * (log_number - _LOG_ROOT), 0.25))
    start = jnp.where(b**2 < 2 * log_number, annealed, maximum)
    target = jnp.array([math.log(50.0), 0.0, -30.0]).reshape((3,) + (1,) * b.ndim)

    def newton(_: Any, tau: Any) -> Any:
        law = level_law(tau, b, log_number)
        step = (jnp.log(jnp.maximum(law.total, 1e-300)) - target) * _ratio(law.total, law.weight)
        return jnp.maximum(tau + jnp.clip(step, -5 * (1 + b), 5 * (1 + b)), -9 * b - 5)

    low, centre, high = jax.lax.fori_loop(0, 40, newton, jnp.broadcast_to(start, (3, *b.shape)))
    fraction = jnp.linspace(0.0, 1.0, nodes)
    return low[..., None] + (high - low)[..., None] * fraction, centre


def node_count(steepness: Any, log_number: float) -> int:
    """A power of two: nodes enough for these steepnesses, concrete numbers."""
    b = np.asarray(steepness, np.float64)
    slope = np.minimum(np.sqrt(max(2 * log_number, 0.0)) / b, 1.0)
    right = np.minimum(b**2 * (np.sqrt(slope**2 + 60 / b**2) - slope), 30 / np.maximum(slope, 0.03))
    left = np.minimum(
        9 * b + 5 + b * np.sqrt(2 * max(log_number, 0.0)), 5 / np.maximum(slope, 0.03)
    )
    needed = float(np.max(right + left)) / _SPACING
    return int(min(_MOST_NODES, 2 ** math.ceil(math.log2(max(needed, 128.0)))))


class BulkLaw(NamedTuple):
    """The law of `log Z + Gumbel` on nodes `(*runs, nodes)`, ready for sums over them.

    - `tau`: nodes, `centre`: the place `(*runs,)` where `Λ = 1`
    - `single`: measure with which one bulk token is drawn, of total mass 1
    - `double`: measure with which one is drawn twice, of total mass `E Σ q²`
    - `couple`: measure of two different ones
    - `levels`: the levels' means and variances
    """

    tau: Float[Array, "*runs nodes"]
    centre: Float[Array, "*runs"]
    single: Float[Array, "*runs nodes"]
    double: Float[Array, "*runs nodes"]
    couple: Float[Array, "*runs nodes"]
    levels: LevelLaw


def bulk_law(
    steepness: Float[Array, "*runs"],
    log_number: Float[Array, "*runs"],
    nodes: int,
    *,
    beyond: Any = 1.0,
) -> BulkLaw:
    """`BulkLaw` of `N = e^{log_number}` levels. Call inside `float64()`."""
    steepness, log_number = jnp.broadcast_arrays(steepness, log_number)
    tau, centre = level_nodes(steepness, log_number, nodes)
    law = level_law(tau, steepness[..., None], log_number[..., None], beyond=beyond)
    inverse = jnp.exp(-log_number)[..., None]
    log_rest = jnp.log1p(-jnp.minimum(law.total * inverse, 1 - 1e-15))  # log B0
    number = jnp.exp(jnp.minimum(log_number, 40.0))[..., None]
    power = jnp.where(log_number[..., None] < 30.0, number * log_rest, -law.total)
    spacing = (tau[..., 1] - tau[..., 0])[..., None]
    one_less = spacing * jnp.exp(power - log_rest)
    two_less = spacing * jnp.exp(power - 2 * log_rest) * jnp.maximum(1 - inverse, 0.0)
    return BulkLaw(
        tau, centre, one_less * law.weight, one_less * law.pair, two_less * law.weight**2, law
    )
