"""Sums over bulk tokens for links with kinks, which the lattice alone cannot resolve.

A kink of the link, seen through `w = ρ s + √(1-ρ²) Z`, is blurred over `√(1-ρ²)/|ρ|` in a token's
score: as `|ρ|` nears 1 it is sharper than any lattice. A smooth partition of unity gives the
neighbourhoods of kinks to Gauss-Legendre panels and the rest to the lattice.
Source: `docs/theory/softmax-attention`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc
from jaxtyping import Array, Float

from ..tasks import Link
from .gaussian_nodes import REACH, seen_through
from .softmax_engine.bulk import (
    Bulk,
    Plan,
    Range,
    first,
    log_density,
    panel_order,
    panels,
    second,
    split_scores,
)
from .softmax_engine.lattice import STEP, dense_powers

_EDGE = 2.0 * STEP  # on which the partition of unity changes: smooth enough for the lattice
_HALF = 25.0 * STEP  # beyond every stretch that the lattice cannot resolve
_WINDOW = _HALF + 6 * _EDGE
_AROUND = np.array([-1.0, -2 / 3, -1 / 3, -1 / 9, 0.0, 1 / 9, 1 / 3, 2 / 3, 1.0]) * REACH

Averages = Callable[[Any], tuple[Any, Any]]  # of a token's x·k: E[σ(w) | .], E[σ(w)² | .]


def kinked_sums(
    fixed: Plan,
    bulk: Bulk,
    tau: Float[Array, " window"],
    size: Range,
    link: Link,
    rho: Float[Array, ""],
    averages: Averages,
) -> Float[Array, "3 window"]:
    """`N E[A e^{-A} σ]`, `N E[A² e^{-A} σ]` and `N E[A² e^{-A} σ²]` at the window's `τ`."""
    held = Range(*jax.lax.stop_gradient(tuple(jnp.asarray(value) for value in size)))
    places, points = _bends(link, jax.lax.stop_gradient(rho), held)
    if fixed.scores is not None:  # few nodes do
        x, weights = split_scores(fixed, size, points)
        return _dense(x, weights, tau, size, averages)
    rest = jnp.ones_like(bulk.x)
    for place in places:
        rest = rest * _away(bulk.x, place)
    value, square = averages(bulk.x / size.spread)
    ones = first(fixed, bulk, (value * rest)[None])
    twos = second(fixed, bulk, jnp.stack([value, square]) * rest)
    total = jnp.concatenate([ones, twos])[:, fixed.before :]
    for index, place in enumerate(places):
        uniform = place + _WINDOW * np.linspace(-1.0, 1.0, 8)
        x, weights = panels(uniform, points, order=panel_order(fixed.step))
        share = _near(x, place)
        for earlier in places[:index]:
            share = share * _away(x, earlier)
        total = total + _dense(x, weights * share, tau, size, averages)
    return total


def _near(x: Any, place: Any) -> Any:
    """1 within `_HALF` of the place, 0 beyond `_WINDOW`, smooth on the lattice's scale."""
    low, high = (x - place + _HALF) / _EDGE, (x - place - _HALF) / _EDGE
    return 0.5 * jnp.where(x > place, erfc(high) - erfc(low), erfc(-low) - erfc(-high))


def _away(x: Any, place: Any) -> Any:
    """`1 - _near`, with its own digits: the density of scores varies by many orders of magnitude."""
    return 0.5 * (erfc((x - place + _HALF) / _EDGE) + erfc((place - x + _HALF) / _EDGE))


def _dense(x: Any, weights: Any, tau: Any, size: Range, averages: Averages) -> Any:
    weights = weights * jnp.exp(log_density(x, size))
    value, square = (f * weights for f in averages(x / size.spread))
    return dense_powers(jnp.stack([value, value, square]), x, tau)


def _bends(link: Link, rho: Any, size: Range) -> tuple[Any, Any]:
    """Where in the scores kinks lie, and points that resolve their blur."""
    steep, blur = seen_through(rho)
    places = size.spread * jnp.asarray(link.kinks) / steep
    return places, (places[:, None] + size.spread * blur * _AROUND).ravel()
