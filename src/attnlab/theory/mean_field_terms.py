"""The terms of the mean-field risk at one row of overlaps: at leading order, and refined.

With `q = 1 - p` the weight that misses the informative token, `S = Σ_bulk p σ(w)` and the reading
error `D = σ(w*) - y`, the risk is `E (D - q σ(w*) + S)²`. Source: Proposition 1 of dohmatob2025 (for
links that are centred, and with its sign repaired); `docs/theory/mean-field`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..tasks import Link
from . import gaussian_links as links
from .gaussian_nodes import attached, resolving_nodes
from .informative_token import Reader, given_score, reading_error, score_bends
from .random_energy import bulk_free_energy
from .random_energy_levels import bulk_law
from .setting import Components, Setting

_BEND = 2.0  # scale on which attention turns over, in units of the informative token's logit


class Sizes(NamedTuple):
    """Numbers of a run: `d`, `log L`, `log(L - 1)`, and the inverse temperature."""

    dim: Any
    log_length: Any
    log_others: Any
    scale: Any


class Terms(NamedTuple):
    """Components of the risk at one row, and how far they may be off because a bulk token's value
    is not quite Gaussian: `E S` by `slack`, `E S²` by `pair_slack` on top of that."""

    components: Components
    slack: Float[Array, ""]
    pair_slack: Float[Array, ""]


def leading_terms(reader: Reader, row: Float[Array, " 5"], setting: Setting, sizes: Sizes) -> Terms:
    """`d → ∞` at fixed `α = log L / d`: `p` is the sigmoid of the mean logit."""
    kappa, nu, theta, eta, rho = row
    beta, alpha = sizes.scale, sizes.log_length / sizes.dim
    root, critical = jnp.sqrt(sizes.dim), jnp.sqrt(2 * alpha)
    logit = beta * (setting.shift * root * kappa - sizes.dim * bulk_free_energy(beta, alpha))
    q = jax.nn.sigmoid(-logit)
    condensed = beta >= critical
    centre = rho * root * jnp.minimum(beta, critical)
    # E σ over the bulk: all of its spread in one prompt, or only that of the few that count
    spread = jnp.where(condensed, 1 - rho**2, 1.0)
    value = links.mean(reader.student, centre, spread, spacing=reader.bulk_spacing)
    square = links.square(reader.student, centre, spread, spacing=reader.bulk_spacing)
    shared = jnp.where(condensed, 1 - critical / beta, 0.0)
    second = value**2 + shared * (square - value**2)
    # p is the same in all prompts, so the informative token's score plays no part
    blind = jnp.stack([kappa, nu, theta, 0 * eta, 0 * rho])
    own = given_score(reader, blind, setting, jnp.zeros(1))
    return _assembled(
        reader, row, setting, own, jnp.ones(1), q, q**2, q * value, q**2 * value, q**2 * second
    )


def refined_terms(
    reader: Reader,
    row: Float[Array, " 5"],
    setting: Setting,
    sizes: Sizes,
    *,
    nodes: int,
    beyond: Any = 1.0,
) -> Terms:
    """Finite `d`: averages over the informative token's logit and over `log Z` of the bulk, whose
    law is that of `level_law`; a bulk token's value is taken as Gaussian given that law."""
    kappa, rho = row[0], row[4]
    b = sizes.scale * jnp.sqrt(sizes.dim)
    mean, std = b * setting.shift * kappa, b * setting.token_std
    law = bulk_law(b, sizes.log_others, nodes, beyond=beyond)
    centre = law.centre
    kinks = tuple(
        (mean + std * place - centre) / _BEND for place in score_bends(reader, row, setting)
    )
    at = resolving_nodes((mean - centre) / _BEND, std / _BEND, kinks, panels=6, order=20)
    z, weights = attached(at, (mean - centre) / _BEND, std / _BEND)
    odds = jnp.exp(jnp.minimum(_BEND * at.b[:, None] + (centre - law.tau), 500.0))
    missing = jnp.exp(-odds)
    split = odds * missing

    levels, link, h = law.levels, reader.student, reader.bulk_spacing
    first = rho * levels.mean, 1 - rho**2 + rho**2 * levels.variance
    pair = rho * levels.pair_mean, 1 - rho**2 + rho**2 * levels.pair_variance
    value = links.mean(link, *first, spacing=h)
    square = links.square(link, *pair, spacing=h)
    q = missing @ law.single
    bulk = missing @ (law.single * value)
    given = (
        q,
        q - split @ law.single,
        bulk,
        bulk - split @ (law.single * value),
        missing @ (law.double * square + law.couple * value**2),
    )
    own = given_score(reader, row, setting, z)
    terms = _assembled(reader, row, setting, own, weights, *given)
    if link.polynomial is not None and len(link.polynomial) < 3:
        return terms  # averages of a linear link need no more than two moments
    bent, pair_bent = (_bending(link, *law_of, h) for law_of in (first, pair))
    skewed = _skewness(rho, levels.variance) * jnp.sqrt(bent / 6)
    if link.polynomial is not None:
        skewed = 0 * skewed
    spread = square - links.mean(link, *pair, spacing=h) ** 2
    size = 2 * jnp.sqrt(jnp.abs(square) * pair_bent / 6) + spread
    pair_skewed = _skewness(rho, levels.pair_variance) * size
    return terms._replace(
        slack=jnp.sum(weights * (missing @ (law.single * skewed))),
        pair_slack=jnp.sum(weights * (missing @ (law.double * pair_skewed))),
    )


def _skewness(rho: Any, variance: Any) -> Any:
    """A bound on that of `x·v` for a token whose `x·k`, cut off at a level, has this variance."""
    variance = jnp.maximum(variance, 1e-12)
    share = rho**2 * variance / (1 - rho**2 * (1 - variance))
    return share**1.5 * (1 - variance)


def _bending(link: Link, mean: Any, variance: Any, spacing: float) -> Any:
    """The part of `Var σ` that is not linear in the argument."""

    def averaged(m: Any) -> Any:
        return links.mean(link, m, variance, spacing=spacing)

    value, slope = jax.jvp(averaged, (mean,), (jnp.ones_like(mean),))
    spread = links.square(link, mean, variance, spacing=spacing) - value**2
    return jnp.maximum(spread - slope**2 * variance, 0.0)


def _assembled(
    reader: Reader,
    row: Any,
    setting: Setting,
    own: Any,
    weights: Any,
    missed: Any,
    missed_square: Any,
    bulk: Any,
    cross: Any,
    bulk_square: Any,
) -> Terms:
    """The risk's parts from `E q`, `E q²`, `E S`, `E[q S]` and `E S²` given the score."""
    reading, _ = reading_error(reader, row, setting)
    informative = reading + jnp.sum(
        weights * (own.square * missed_square - 2 * own.product * missed)
    )
    mean = jnp.sum(weights * bulk)
    components = Components(
        informative=informative,
        bulk_variance=jnp.sum(weights * bulk_square) - mean**2,
        bulk_mean=mean**2,
        cross=2 * jnp.sum(weights * (own.error * bulk - own.value * cross)),
        label_noise=setting.noise_std**2 + 0 * informative,
    )
    return Terms(components, 0 * informative, 0 * informative)
