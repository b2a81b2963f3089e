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
    """One token at each Laplace node `t` and score: `x = t e^{score}`.

    `decay = e^{-x}`; `lifted = L x`, of order one for a typical token at any length, and
    `gap = L (x - t)` formed without cancellation.
    """

    x: Float[Array, "*laplace scores"]
    decay: Float[Array, "*laplace scores"]
    lifted: Float[Array, "*laplace scores"]
    gap: Float[Array, "*laplace scores"]


class Factors(NamedTuple):
    """What one token contributes to the double integrals.

    - `complement`: `1 - e^{-x}`; `power0`..`power3`: `(Lx)^k e^{-x}`; `centred`: `L (x-t) e^{-x}`
    """

    complement: Float[Array, "*laplace scores"]
    power0: Float[Array, "*laplace scores"]
    power1: Float[Array, "*laplace scores"]
    power2: Float[Array, "*laplace scores"]
    power3: Float[Array, "*laplace scores"]
    centred: Float[Array, "*laplace scores"]


def token(scores: Float[Array, " scores"], tau: Float[Array, " laplace"], log_length: Any) -> Token:
    """One token at all `t = e^{-τ}` and scores."""
    # beyond e^7 nothing is left of e^{-x}, and its products stay finite
    log_x = jnp.minimum(scores - tau[:, None], 7.0)
    x = jnp.exp(log_x)
    # beyond e^150 the excess is taken from the overlap itself, and this only has to stay finite
    gap = jnp.exp(jnp.minimum(log_length - tau, 150.0))[:, None]
    gap = gap * jnp.expm1(jnp.minimum(scores, 150.0))
    return Token(x, jnp.exp(-x), jnp.exp(log_x + log_length), gap)


def factors(one: Token) -> Factors:
    """The factors of the double integrals."""
    power1 = one.lifted * one.decay
    power2 = one.lifted * power1
    centred = one.gap * one.decay
    return Factors(-jnp.expm1(-one.x), one.decay, power1, power2, one.lifted * power2, centred)


def moments(
    scales: Float[Array, " heads"],
    log_length: Float[ArrayLike, ""],
    resolution: Resolution,
    shift: ArrayLike = 0.0,
) -> tuple[HeadMoments, PairMoments]:
    """All moments of heads with scores `a_h s` of the same `s`. Pure, float64.

    `shift` moves all grids by a fraction of their steps: an independent rule of the same size.
    `scales` are the `a_h`. Returns the moments of each head, `(H,)`, and of each pair `h < h'`,
    `(H(H-1)/2,)` in the order of `numpy.triu_indices(H, 1)`.
    """
    s, weights = score_nodes(scales, log_length, resolution.scores, shift)
    nodes = laplace_nodes(scales, log_length, s, weights, resolution, shift)
    tokens = jax.vmap(lambda a, tau: token(a * s, tau, log_length))(scales, nodes.tau)
    heads = jax.vmap(lambda one, at: head_integrals(one, weights, at, log_length))(tokens, nodes)
    first, second = np.triu_indices(len(scales), 1)
    f = factors(tokens)

    def pair(i: Any, j: Any) -> PairMoments:
        one, other = at_index((f, nodes), i), at_index((f, nodes), j)
        alone = one[0].complement @ weights
        return pair_integrals(one[0], other[0], weights, alone, one[1], other[1], log_length)

    return heads, jax.vmap(pair)(first, second)


def certain_moments(heads: int) -> tuple[HeadMoments, PairMoments]:
    """The moments for a single token, whose weight is 1."""
    one, pairs = jnp.ones(heads), jnp.ones(heads * (heads - 1) // 2)
    return HeadMoments(one, 0 * one, one, one), PairMoments(pairs, 0 * pairs, *(pairs,) * 6)


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
    power = [one.decay]
    for _ in range(4):
        power.append(one.lifted * power[-1])
    survival, _, square, cubic, quartic = (f @ weights for f in power)
    complement = jnp.sum(-jnp.expm1(-one.x) * weights, axis=-1)
    single, double = _token_measures(complement, survival, log_length, nodes.weights)
    centred = one.gap * one.decay
    joint, separate = survival * (one.gap * centred @ weights), (centred @ weights) ** 2
    share = jnp.exp(-log_length)
    overlap = share * jnp.sum(single * square)
    return HeadMoments(
        square=overlap,
        excess=_excess(overlap, joint, separate, double, share),
        cubic=share**2 * jnp.sum(single * cubic) / 2,
        quartic=share**2 * jnp.sum(single * quartic * share + double * square**2) / 6,
    )


def pair_integrals(
    f: Factors,
    g: Factors,
    weights: Float[Array, " scores"],
    alone: Float[Array, " laplace"],
    left: LaplaceNodes,
    right: LaplaceNodes,
    log_length: Any,
) -> PairMoments:
    """Double integrals over `t` and `u` by matrix products.

    All averages are `E f(t, s) g(u, s) = Σ f weights g` over nodes `s`, or over the coefficients of
    `f` and `g` in a basis with that inner product. `alone` is `E[1 - e^{-tA}]` of the first head.
    """

    def mean(one: Any, other: Any) -> Any:
        return (one * weights) @ other.T

    # 1 - φ as a sum of positive terms
    complement = alone[:, None] + mean(f.power0, g.complement)
    survival = mean(f.power0, g.power0)
    area = left.weights[:, None] * right.weights
    single, double = _token_measures(complement, survival, log_length, area)
    m11, m20, m02 = mean(f.power1, g.power1), mean(f.power2, g.power0), mean(f.power0, g.power2)
    both = single * mean(f.power2, g.power2)
    joint = survival * mean(f.centred, g.centred)
    separate = mean(f.centred, g.power0) * mean(f.power0, g.centred)
    share = jnp.exp(-log_length)
    both = share * both
    third, fourth = share**2 * single, share**2 * double
    left, right = mean(f.power3, g.power1), mean(f.power1, g.power3)
    overlap = share * jnp.sum(single * m11)
    return PairMoments(
        product=overlap,
        excess=_excess(overlap, joint, separate, double, share),
        squares=share**2 * jnp.sum(both + double * m20 * m02),
        product_squared=share**2 * jnp.sum(both + double * m11**2),
        left_cubic=jnp.sum(third * mean(f.power2, g.power1)),
        right_cubic=jnp.sum(third * mean(f.power1, g.power2)),
        left_quartic=jnp.sum(third * share * left + fourth * m20 * m11) / 2,
        right_quartic=jnp.sum(third * share * right + fourth * m02 * m11) / 2,
    )


def _excess(overlap: Any, joint: Any, separate: Any, double: Any, share: Any) -> Any:
    """`E p·p' - 1/L`: as a covariance, which has its own digits for small scores; for large ones its
    two parts are huge at small `t` and cancel, and the difference itself loses nothing."""
    cancels = share * jnp.sum(double * (jnp.abs(joint) + jnp.abs(separate)))
    covariance = share * jnp.sum(double * (joint - separate))
    return jnp.where(cancels < overlap + share, covariance, overlap - share)


def _token_measures(complement: Any, survival: Any, log_length: Any, weights: Any) -> Any:
    """`φ^{L-1}` and `(1 - 1/L) φ^{L-2}` at the nodes, times their weights."""
    log_phi = log_survival(complement, survival)
    length = jnp.exp(log_length)
    single = weights * jnp.exp((length - 1) * log_phi)
    return single, weights * -jnp.expm1(-log_length) * jnp.exp((length - 2) * log_phi)
