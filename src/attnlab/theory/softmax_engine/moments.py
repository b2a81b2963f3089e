"""Moments of the weights of one softmax head, and of two heads on the same tokens.

With `A = e^{a s}`, `B = e^{b s'}` of one token and `w = e^{-tA-uB}`, `φ = E w`, for example

    E p·p'        = ∬ L E[ABw] φ^{L-1} dt du
    E p·p' - 1/L  = (L-1) ∬ (φ φ_tu - φ_t φ_u) φ^{L-2} dt du

The second line is what risks need: it is of the order `ab/L` for small scores, and a covariance of
`A` and `B`, which keeps its digits there. Source: `docs/theory/softmax-engine`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .grids import LaplaceNodes, Resolution, laplace_nodes, log_survival, score_nodes


class HeadMoments(NamedTuple):
    """Moments of `p = softmax(a s)`, `s` of `L` independent standard normal scores.

    - `square`: `E|p|²`, and `excess`: the same minus `1/L`
    - `cubic`: `E Σ p³`; `quartic`: `E|p|⁴`
    """

    square: Float[Array, "*shape"]
    excess: Float[Array, "*shape"]
    cubic: Float[Array, "*shape"]
    quartic: Float[Array, "*shape"]


class PairMoments(NamedTuple):
    """Moments of `p = softmax(a s)` and `p' = softmax(b s')` on the same `L` tokens.

    - `product`: `E p·p'`, and `excess`: the same minus `1/L`
    - `squares`: `E|p|²|p'|²`; `product_squared`: `E(p·p')²`
    - `left_cubic`, `right_cubic`: `E Σ p²p'`, `E Σ p p'²`
    - `left_quartic`, `right_quartic`: `E|p|² p·p'`, `E|p'|² p·p'`
    """

    product: Float[Array, "*shape"]
    excess: Float[Array, "*shape"]
    squares: Float[Array, "*shape"]
    product_squared: Float[Array, "*shape"]
    left_cubic: Float[Array, "*shape"]
    right_cubic: Float[Array, "*shape"]
    left_quartic: Float[Array, "*shape"]
    right_quartic: Float[Array, "*shape"]


class Token(NamedTuple):
    """One token at each Laplace node `t` and score: `x = t e^{score}`, `gap = x - t` formed without
    cancellation, and `decay = e^{-x}`."""

    x: Float[Array, "*laplace scores"]
    gap: Float[Array, "*laplace scores"]
    decay: Float[Array, "*laplace scores"]


class Factors(NamedTuple):
    """What one token contributes to the double integrals.

    - `complement`: `1 - e^{-x}`; `power0`..`power3`: `x^k e^{-x}`; `centred`: `(x - t) e^{-x}`
    """

    complement: Float[Array, "*laplace scores"]
    power0: Float[Array, "*laplace scores"]
    power1: Float[Array, "*laplace scores"]
    power2: Float[Array, "*laplace scores"]
    power3: Float[Array, "*laplace scores"]
    centred: Float[Array, "*laplace scores"]


def token(scores: Float[Array, " scores"], tau: Float[Array, " laplace"]) -> Token:
    """One token's `x`, `gap` and `decay` at all `t = e^{-τ}` and scores."""
    x = jnp.exp(scores - tau[:, None])
    return Token(x, jnp.exp(-tau)[:, None] * jnp.expm1(scores), jnp.exp(-x))


def factors(one: Token) -> Factors:
    """The factors of the double integrals."""
    x, gap, decay = one
    return Factors(-jnp.expm1(-x), decay, x * decay, x**2 * decay, x**3 * decay, gap * decay)


def moments(
    scales: Float[Array, " heads"], log_length: Float[ArrayLike, ""], resolution: Resolution
) -> tuple[HeadMoments, PairMoments]:
    """All moments of heads with scores `a_h s` of the same `s`. Pure, float64.

    `scales` are the `a_h`. Returns the moments of each head, `(H,)`, and of each pair `h < h'`,
    `(H(H-1)/2,)` in the order of `numpy.triu_indices(H, 1)`.
    """
    s, weights = score_nodes(scales, log_length, resolution.scores)
    nodes = laplace_nodes(scales, log_length, s, weights, resolution)
    tokens = jax.vmap(lambda a, tau: token(a * s, tau))(scales, nodes.tau)
    heads = jax.vmap(lambda one, at: head_integrals(one, weights, at, log_length))(tokens, nodes)
    first, second = np.triu_indices(len(scales), 1)
    f = factors(tokens)

    def pair(i: Any, j: Any) -> PairMoments:
        one, other = at_index((f, nodes), i), at_index((f, nodes), j)
        return pair_integrals(one[0], other[0], weights, one[1], other[1], log_length)

    return heads, jax.vmap(pair)(first, second)


def at_index(tree: Any, index: Any) -> Any:
    """The entries `index` of the leading axis of every leaf."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def head_integrals(
    one: Token,
    weights: Float[Array, " scores"],
    nodes: LaplaceNodes,
    log_length: Any,
) -> HeadMoments:
    """Single integrals over `t`, from `1/Z^{k+1} = ∫ t^k e^{-tZ} dt / k!`."""
    x, gap, decay = one
    survival, square, cubic, quartic = (x**k * decay @ weights for k in (0, 2, 3, 4))
    complement = jnp.sum(-jnp.expm1(-x) * weights, axis=-1)
    single, double = _token_measures(complement, survival, log_length, nodes.weights)
    variance = survival * (gap**2 * decay @ weights) - (gap * decay @ weights) ** 2
    return HeadMoments(
        square=jnp.sum(single * square),
        excess=jnp.sum(double * variance) * jnp.exp(-log_length),
        cubic=jnp.sum(single * cubic) / 2,
        quartic=jnp.sum(single * quartic + double * square**2) / 6,
    )


def pair_integrals(
    f: Factors,
    g: Factors,
    weights: Float[Array, " scores"],
    left: LaplaceNodes,
    right: LaplaceNodes,
    log_length: Any,
) -> PairMoments:
    """Double integrals over `t` and `u` by matrix products: all averages are of the form
    `E f(t, s) g(u, s)`. `g` may be averages given `s`, when the second head has a score of its own.
    """

    def mean(one: Any, other: Any) -> Any:
        return (one * weights) @ other.T

    # 1 - φ as a sum of positive terms
    complement = (f.complement @ weights)[:, None] + mean(f.power0, g.complement)
    survival = mean(f.power0, g.power0)
    area = left.weights[:, None] * right.weights
    single, double = _token_measures(complement, survival, log_length, area)
    m11, m20, m02 = mean(f.power1, g.power1), mean(f.power2, g.power0), mean(f.power0, g.power2)
    both = single * mean(f.power2, g.power2)
    covariance = survival * mean(f.centred, g.centred)
    covariance -= mean(f.centred, g.power0) * mean(f.power0, g.centred)
    return PairMoments(
        product=jnp.sum(single * m11),
        excess=jnp.sum(double * covariance) * jnp.exp(-log_length),
        squares=jnp.sum(both + double * m20 * m02),
        product_squared=jnp.sum(both + double * m11**2),
        left_cubic=jnp.sum(single * mean(f.power2, g.power1)),
        right_cubic=jnp.sum(single * mean(f.power1, g.power2)),
        left_quartic=jnp.sum(single * mean(f.power3, g.power1) + double * m20 * m11) / 2,
        right_quartic=jnp.sum(single * mean(f.power1, g.power3) + double * m02 * m11) / 2,
    )


def _token_measures(complement: Any, survival: Any, log_length: Any, weights: Any) -> Any:
    """`L φ^{L-1}` and `L (L-1) φ^{L-2}` at the nodes, times their weights."""
    log_phi = log_survival(complement, survival)
    length = jnp.exp(log_length)
    one = weights * jnp.exp(log_length + (length - 1) * log_phi)
    pairs = -jnp.expm1(-log_length)
    return one, weights * pairs * jnp.exp(2 * log_length + (length - 2) * log_phi)
