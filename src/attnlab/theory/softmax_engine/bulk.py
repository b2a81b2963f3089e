"""The bulk of a prompt: `N` tokens with scores `x ~ N(0, b²)`, seen through `1/Z` and `1/Z²`.

With `A = e^{x-τ}` and `B0 = E e^{-A}`, the sums over bulk tokens with weights `e^x/Z` are, for
functions `f, g` of a token's score, and `S(τ)` the factor of all other tokens,

    E Σ p f             = ∫ S(τ) N E[A e^{-A} f] B0^{N-1} dτ
    E (Σ p f)(Σ p g)    = ∫ S(τ) ( N E[A² e^{-A} f g] B0^{N-1}
                                   + N(N-1) E[A e^{-A} f] E[A e^{-A} g] B0^{N-2} ) dτ

This module holds the grids and the bulk's factors. Averages are formed as `N E[...]`, so that
`log N` may be in the hundreds. Source: `docs/theory/softmax-attention`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .grids import log_survival
from .lattice import (
    COMPLEMENT,
    FIRST,
    SECOND,
    STEP,
    SURVIVAL,
    Kernel,
    block_size,
    dense_sums,
    lattice_sums,
)

LEAST_SPREAD = 0.7  # standard deviation below which a Gaussian is too narrow for the lattice
_REACH = 12.0  # standard deviations; the Gaussian's mass beyond is 4e-33
_MARGIN = 38.0  # e^-38 is below all rounding errors
_DEPTH = 5.0  # where N E min(1, A) = e^5, at most e^-70 is left of B0^N


class Plan(NamedTuple):
    """What is fixed at compile time.

    - `before`, `window`: nodes of `τ` before and in the stretch where `B0^N` counts, multiples of
      the block; `step` between them
    - `scores`: nodes of a bulk token's score; None: the lattice of `τ` itself
    - `informative`: whether the lattice holds the informative token's scores too
    - `panels`: of the bulk's scores where a link has kinks
    - `depth`: the upper end of `τ` is where no bulk token counts, to `e^{-depth}`
    """

    before: int
    window: int
    step: float
    scores: int | None
    informative: bool
    panels: int
    depth: float

    @property
    def nodes(self) -> int:
        """Of the whole lattice of `τ`."""
        return self.before + self.window


class Range(NamedTuple):
    """How far things spread on the axis of scores: `spread = b`, `log_others = log N`, and the
    informative token's score, of mean within `±center` and standard deviation `wide`."""

    spread: Any
    log_others: Any
    center: Any
    wide: Any


class Bulk(NamedTuple):
    """The bulk's factors at the nodes of `τ`, the weights of `∫ dτ` included.

    - `tau`: nodes; `x`: scores of a token at its nodes; `scaled`: `N` times their weights
    - `power`: `B0^{N-1} dτ`; `root`: the square root of `(1 - 1/N) B0^{N-2} dτ`
    - `survival`: `B0`
    - `good`: whether the grid holds everything
    """

    tau: Float[Array, " n"]
    x: Float[Array, " k"]
    scaled: Float[Array, " k"]
    power: Float[Array, " n"]
    root: Float[Array, " n"]
    survival: Float[Array, " n"]
    good: Any


def plan(size: Range, *, depth: float, shared: bool, informative: bool, step: float = STEP) -> Plan:
    """Node counts for concrete sizes. With `shared` a bulk token's scores are nodes of the lattice
    of `τ`, else nodes of their own; with `informative` the informative token's are on it too."""
    size = Range(*(np.asarray(value, np.float64) for value in size))
    low, start, high = _ends(np, size, depth, informative)
    most, block = float(np.max(size.spread)), block_size(step)
    before, window = (
        _few(math.ceil(np.max(length) / step) + 2, 2 * block)
        for length in (start - low, high - start)
    )
    if shared:
        return Plan(before, window, step, None, informative, 0, depth)
    left, right = _bulk_ends(np, size.spread, start, high)
    pieces = _few(math.ceil(float(np.max((right - left) / _panel(np, size.spread)))), 16)
    scores = _few(math.ceil(128 * _own_reach(most) * max(1.0, most) / 24), 256)
    return Plan(before, window, step, scores, informative, pieces, depth)


def _few(needed: int, unit: int) -> int:
    """`needed` rounded up to the unit times a power of 2, so that settings share a compilation."""
    return unit * 2 ** max(0, math.ceil(math.log2(max(needed, 1) / unit)))


def bulk_factors(fixed: Plan, size: Range) -> Bulk:
    """The bulk at the nodes of a plan. Pure, float64; derivatives in `spread`, `log_others`."""
    held = Range(*jax.lax.stop_gradient(tuple(jnp.asarray(value) for value in size)))
    low, start, high = _ends(jnp, held, fixed.depth, fixed.informative)
    tau = start + fixed.step * (np.arange(fixed.nodes) - fixed.before)
    good = (tau[0] <= low) & (tau[-1] >= high)
    if fixed.scores is None:
        x, step = tau, fixed.step
        good &= held.spread >= LEAST_SPREAD
    else:
        step = _own_reach(held.spread) * held.spread / (fixed.scores - 1)
        x = step * np.arange(fixed.scores) - _REACH * held.spread
        good &= step <= 0.2
    scaled = jnp.exp(log_density(x, size) + jnp.log(step))
    bulk = Bulk(tau, x, scaled, tau, tau, tau, good)
    ones, share = jnp.ones_like(x), jnp.exp(-size.log_others)
    complement = sums(fixed, bulk, COMPLEMENT, ones) * share
    log_b0 = log_survival(complement, sums(fixed, bulk, SURVIVAL, ones) * share)
    others = jnp.exp(size.log_others)
    root = jnp.exp((0.5 * others - 1) * log_b0)
    root = root * jnp.sqrt(-jnp.expm1(-size.log_others) * fixed.step)
    power = jnp.exp((others - 1) * log_b0) * fixed.step
    return bulk._replace(power=power, root=root, survival=jnp.exp(log_b0))


def all_beyond(bulk: Bulk) -> Float[Array, " n"]:
    """`B0^N dτ`, the chance that `log Z` and a Gumbel variable stay below `τ`."""
    return bulk.power * bulk.survival


def log_partition(fixed: Plan, bulk: Bulk) -> Float[Array, ""]:
    """`E log Z`."""
    return jnp.sum(fixed.step * jnp.exp(-jnp.exp(-bulk.tau)) - all_beyond(bulk))


def log_density(x: Float[Array, "*n"], size: Range) -> Float[Array, "*n"]:
    """`log` of `N` times the density of a bulk token's score."""
    scale = jnp.log(size.spread * math.sqrt(2 * math.pi))
    return size.log_others - 0.5 * (x / size.spread) ** 2 - scale


def sums(fixed: Plan, bulk: Bulk, kernel: Kernel, f: Float[Array, "*batch k"]) -> Any:
    """`N E[kernel(x - τ) f(x)]` at all `τ`."""
    values = f * bulk.scaled
    if fixed.scores is None:
        return lattice_sums(kernel, values, fixed.step)
    return dense_sums(kernel, values, bulk.x, bulk.tau)


def first(fixed: Plan, bulk: Bulk, f: Float[Array, "*batch k"]) -> Float[Array, "*batch n"]:
    """`N E[A e^{-A} f]` at all `τ`."""
    return sums(fixed, bulk, FIRST, f)


def second(fixed: Plan, bulk: Bulk, f: Float[Array, "*batch k"]) -> Float[Array, "*batch n"]:
    """`N E[A² e^{-A} f]` at all `τ`."""
    return sums(fixed, bulk, SECOND, f)


def split_scores(
    fixed: Plan, size: Range, points: Float[Array, " points"]
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Gauss-Legendre nodes and weights for a bulk token's score, split at `points` too."""
    held = Range(*jax.lax.stop_gradient(tuple(jnp.asarray(value) for value in size)))
    _, start, high = _ends(jnp, held, fixed.depth, fixed.informative)
    left, right = _bulk_ends(jnp, held.spread, start, high)
    return panels(
        left + (right - left) * np.linspace(0.0, 1.0, fixed.panels + 1),
        points,
        order=panel_order(fixed.step),
    )


def panels(
    edges: Float[Array, " edges"], points: Float[Array, " points"], *, order: int
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Gauss-Legendre nodes and weights on panels between `edges`, split at `points` too."""
    inner = jnp.clip(points, edges[0], edges[-1])
    ends = jnp.sort(jnp.concatenate([jnp.asarray(edges), inner]))
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half, middle = jnp.diff(ends)[:, None] / 2, (ends[1:] + ends[:-1])[:, None] / 2
    return (middle + half * nodes).ravel(), (half * weights).ravel()


def panel_order(step: float) -> int:
    """Nodes of a panel beside a lattice of this step: fewer in the rules for error estimates."""
    return min(16, round(16 * (STEP / step) ** 2))


def _panel(xp: Any, spread: Any) -> Any:
    return xp.minimum(3.2, 3 * spread)


def _own_reach(spread: Any) -> Any:
    return 2 * _REACH + 2 * spread


def _ends(xp: Any, size: Range, depth: float, informative: bool) -> tuple[Any, Any, Any]:
    """Ends of the lattice, and between them the `τ` from which on `B0^N` counts."""
    spread, log_others = size.spread, size.log_others
    highest = size.center + 9 * size.wide
    low = -xp.maximum(_REACH * spread, highest if informative else 0.0) - 6

    def level(depth: Any) -> Any:
        """Where `N E min(1, A)` has fallen to `e^{-depth}`."""
        total = xp.maximum(log_others + depth, 0.0)
        near = spread * xp.sqrt(2 * total)
        return xp.where(total < spread**2 / 2, near, total + spread**2 / 2)

    # Φ(-√(2y)) < e^-y: where all tokens are lower than that of a few, with probability e^-75
    few = -spread * xp.minimum(xp.sqrt(150 * xp.exp(-log_others)), _REACH)
    # of a Gaussian tail at √(2 log N), what is beyond is less than its exponential by this factor
    mills = xp.log(1 + xp.sqrt(4 * math.pi * xp.maximum(log_others, 0.0)))
    start = xp.where(log_others > _DEPTH + 3, level(-_DEPTH - mills), few) - 6
    sure = xp.maximum(level(_MARGIN), highest + _MARGIN)
    return low, xp.maximum(start, low), xp.minimum(xp.maximum(level(depth), level(_MARGIN)), sure)


def _bulk_ends(xp: Any, spread: Any, start: Any, high: Any) -> tuple[Any, Any]:
    """Between which scores a bulk token can matter to `τ` in `[start, high]`."""
    left = xp.maximum(xp.minimum(start, spread**2) - 9.5 * spread, -_REACH * spread)
    return left, xp.minimum(high + 5, _REACH * spread + 2 * spread**2)
