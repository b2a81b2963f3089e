"""Sums over the bulk of a softmax student's prompt, given the informative token's score.

With `q = 1 - p` the weight that misses the informative token and `S = Σ_bulk p σ(w)`, the risk
needs `E q`, `E q²`, `E S`, `E[q S]`, `E S²` given the score, all from the engine's bulk factors.
For polynomial links they are combined from a few tables that no overlap enters.
Source: `docs/theory/softmax-attention`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..tasks import Link
from . import gaussian_links as links
from .informative_token import Reader, bulk_polynomials
from .kinked_bulk import kinked_sums
from .softmax_engine.bulk import (
    LEAST_SPREAD,
    Bulk,
    Plan,
    Range,
    bulk_factors,
    first,
    second,
)
from .softmax_engine.lattice import SURVIVAL, dense_sums, on_scores

_POWERS = 5  # of a bulk token's x·k: those of a squared polynomial of degree 2


class Given(NamedTuple):
    """Averages given the informative token's score; `q = 1 - p`, `S = Σ_bulk p σ(w)`."""

    missed: Float[Array, " nodes"]  # E q
    missed_square: Float[Array, " nodes"]  # E q²
    bulk: Float[Array, " nodes"]  # E S
    cross: Float[Array, " nodes"]  # E[q S]
    bulk_square: Float[Array, " nodes"]  # E S²


class Tables(NamedTuple):
    """For polynomial links, at all scores `T` of the lattice and for powers `s^j` of a bulk token's
    `x·k`: `E Σ p s^j`, `E Σ p² s^j`, `E Σ_{ℓ≠m} p_ℓ p_m s_ℓ^i s_m^j`."""

    scores: Float[Array, " n"]
    single: Float[Array, "3 n"]
    square: Float[Array, "5 n"]
    pair: Float[Array, "3 3 n"]
    good: Any  # 1, or NaN where the lattice does not hold everything


class Window(NamedTuple):
    """For any links: the bulk's factors where they count, those of `f = 1` included, and where and
    how broad the transition of the missed weight is."""

    x: Float[Array, " k"]
    scaled: Float[Array, " k"]
    tau_all: Float[Array, " n"]
    tau: Float[Array, " window"]
    power: Float[Array, " window"]
    root: Float[Array, " window"]
    first: Float[Array, " window"]
    second: Float[Array, " window"]
    center: Any
    width: Any
    good: Any  # as in `Tables`

    @property
    def bulk(self) -> Bulk:
        """What sums over the bulk need."""
        unused = self.tau_all  # factors that sums do not read
        return Bulk(self.tau_all, self.x, self.scaled, unused, unused, unused, self.good)


def tables(fixed: Plan, size: Range) -> Tables:
    """The tables of polynomial links. Pure, float64; derivatives in all of `size`."""
    bulk = bulk_factors(fixed, size)
    s = bulk.x / size.spread
    powers = jnp.stack([s**j for j in range(_POWERS)])
    one, two = first(fixed, bulk, powers[:3]), second(fixed, bulk, powers)
    rooted = one * bulk.root
    pairs = rooted[:, None] * rooted
    rows, columns = np.triu_indices(3)
    stacked = jnp.concatenate([one * bulk.power, two * bulk.power, pairs[rows, columns]])
    out = on_scores(stacked, fixed.step)
    good = jnp.where(bulk.good & (size.wide >= LEAST_SPREAD), 1.0, jnp.nan)
    index = np.zeros((3, 3), int)
    index[rows, columns] = index[columns, rows] = np.arange(6)
    return Tables(bulk.tau, out[:3], out[3:8], out[8:][index], good)


def from_tables(made: Tables, link: Link, rho: Float[Array, ""]) -> Given:
    """The averages at all scores of the tables, for the overlap `rho`."""
    g, g2 = bulk_polynomials(link, rho)
    return Given(
        missed=made.single[0],
        missed_square=made.square[0] + made.pair[0, 0],
        bulk=g @ made.single,
        cross=g @ made.square[:3] + jnp.einsum("i,in->n", g, made.pair[0]),
        bulk_square=g2 @ made.square + jnp.einsum("i,j,ijn->n", g, g, made.pair),
    )


def window(fixed: Plan, size: Range) -> Window:
    """The bulk's factors for any links. Pure, float64; derivatives in all of `size`."""
    bulk = bulk_factors(fixed, size)
    ones = jnp.ones_like(bulk.x)
    whole = bulk.tau, bulk.power, bulk.root, first(fixed, bulk, ones), second(fixed, bulk, ones)
    tau, power, root, one, two = (vector[fixed.before :] for vector in whole)
    mass = jax.lax.stop_gradient(one * power)
    center = jnp.sum(mass * tau) / jnp.sum(mass)
    width = jnp.sqrt(jnp.sum(mass * (tau - center) ** 2) / jnp.sum(mass))
    good = jnp.where(bulk.good, 1.0, jnp.nan)
    parts = bulk.x, bulk.scaled, bulk.tau, tau, power, root, one, two
    return Window(*parts, center, jnp.maximum(width, 1.0), good)


def from_window(
    made: Window,
    fixed: Plan,
    size: Range,
    reader: Reader,
    rho: Float[Array, ""],
    scores: Float[Array, " nodes"],
) -> Given:
    """The averages at the informative scores `scores`, for the overlap `rho`."""
    link, h = reader.student, reader.bulk_spacing

    def averages(s: Any) -> tuple[Any, Any]:
        m, v = rho * s, 1 - rho**2 + 0 * s
        return links.mean(link, m, v, spacing=h), links.square(link, m, v, spacing=h)

    if link.kinks:
        one, *kinked = kinked_sums(fixed, made.bulk, made.tau, size, link, rho, averages)
        two = jnp.stack(kinked)
    else:
        value, square = averages(made.x / size.spread)
        one = first(fixed, made.bulk, value)[fixed.before :]
        two = second(fixed, made.bulk, jnp.stack([value, square]))[:, fixed.before :]
    plain, rooted = made.first * made.root, one * made.root
    vectors = jnp.stack(
        [
            made.first * made.power,
            made.second * made.power + plain**2,
            one * made.power,
            two[0] * made.power + plain * rooted,
            two[1] * made.power + rooted**2,
        ]
    )
    return Given(*dense_sums(SURVIVAL, vectors, -made.tau, -scores))
