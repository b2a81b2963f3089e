"""Heads whose scores on one token are different Gaussians, with any correlation.

Averages `E f(s) g(s')` over standard normals of correlation `c` are `Σ_k c^k f_k g_k` with the
coefficients of `f` and `g` in Hermite polynomials (Mehler's formula). So each head is projected
once, pairs are matrix products as before, and `c = ±1` is nothing special.
Source: `docs/theory/softmax-engine`.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .grids import Resolution, laplace_nodes
from .moments import (
    HeadMoments,
    PairMoments,
    at_index,
    factors,
    head_integrals,
    pair_integrals,
    token,
)

_REACH = 12.0  # Hermite polynomials times the density of the Gaussian fall like e^{-s²/4}


def correlated_moments(
    scales: Float[Array, " heads"],
    correlations: Float[Array, "heads heads"],
    log_length: Float[ArrayLike, ""],
    resolution: Resolution,
    shift: ArrayLike = 0.0,
) -> tuple[HeadMoments, PairMoments]:
    """All moments of heads with scores `a_h s_h`, `s_h` standard normal with these correlations.

    The order is that of `moments`. Scores have `4/3` of the resolution's nodes, and as many Hermite
    coefficients as two thirds of its Laplace nodes. Pure, float64; `log_length` is one number.
    `shift` moves all grids by a fraction of their steps and, unless it is 0, takes a tenth of the
    coefficients away: an independent rule of the same size.
    """
    reach = jnp.maximum(jnp.sqrt(2 * (2 * log_length + 40.0)), _REACH)
    count = 4 * resolution.scores // 3
    step = 2.0 / (count - 1)
    s = jax.lax.stop_gradient(reach) * (np.linspace(-1.0, 1.0, count) + shift * step)
    weights = jnp.exp(-0.5 * s**2) * ((s[1] - s[0]) / math.sqrt(2 * math.pi))
    terms = 2 * resolution.laplace // 3
    kept = jnp.arange(terms) < jnp.where(jnp.asarray(shift) == 0, terms, 9 * terms // 10)
    basis = _hermite(s, terms) * weights * kept[:, None]
    nodes = laplace_nodes(scales, log_length, s, weights, resolution, shift)
    tokens = jax.vmap(lambda a, tau: token(a * s, tau, log_length))(scales, nodes.tau)
    heads = jax.vmap(lambda one, at: head_integrals(one, weights, at, log_length))(tokens, nodes)
    projected = jax.tree.map(lambda f: f @ basis.T, factors(tokens))
    first, second = np.triu_indices(len(scales), 1)

    def pair(i: Any, j: Any) -> PairMoments:
        one, other = at_index((projected, nodes), i), at_index((projected, nodes), j)
        powers = jnp.cumprod(jnp.full(len(basis), correlations[i, j]).at[0].set(1.0))
        alone = one[0].complement[:, 0]
        return pair_integrals(one[0], other[0], powers, alone, one[1], other[1], log_length)

    return heads, jax.vmap(pair)(first, second)


def _hermite(s: Float[Array, " scores"], count: int) -> Float[Array, "count scores"]:
    """Orthonormal Hermite polynomials, by their recurrence."""

    def step(pair: Any, k: Any) -> Any:
        below, here = pair
        above = (s * here - jnp.sqrt(k) * below) / jnp.sqrt(k + 1)
        return (here, above), here

    start = jnp.zeros_like(s), jnp.ones_like(s)
    return jax.lax.scan(step, start, jnp.arange(count, dtype=s.dtype))[1]
