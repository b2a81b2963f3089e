"""The softmax student's risk, put together from its bulk and its informative token.

    R = E (D - q σ(w) + S)² + ε²,    D = σ(w) - y,  q = 1 - p,  S = Σ_bulk p σ(w)

Written in the missed weight `q`, nothing cancels where attention is nearly perfect.
Source: `docs/theory/softmax-attention`.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from .gaussian_nodes import density, resolving_nodes
from .informative_token import Reader, given_score, reading_error
from .setting import Components, Setting
from .softmax_moments import Given, Window

SCORES = 129  # nodes of the informative score, of a range of at most 100 standard deviations


def score_nodes(
    mean: Any, wide: Any, made: Window, kinks: tuple[Any, ...], rule: int
) -> tuple[Any, Any]:
    """Standardised scores, fixed while the score itself moves with them, and their weights."""
    nodes = resolving_nodes(
        (mean - made.center) / made.width,
        wide / made.width,
        kinks,
        rule=rule,
        panels=8,
        order=20,
        count=SCORES,
    )
    return nodes.z, density(nodes.z) * nodes.weights


def assembled(
    reader: Reader, row: Any, setting: Setting, given: Given, z: Any, weights: Any
) -> tuple[Components, Any]:
    """The risk `E (D - q σ(w) + S)²` in its parts, and the size of what cancels in it."""
    own = given_score(reader, row, setting, z)
    reading, size = reading_error(reader, row, setting)
    missed = -2 * own.product * given.missed
    lost = own.square * given.missed_square
    cross = 2 * (own.error * given.bulk - own.value * given.cross)
    informative = reading + jnp.sum(weights * (missed + lost))
    mean, square = jnp.sum(weights * given.bulk), jnp.sum(weights * given.bulk_square)
    magnitudes = jnp.abs(missed) + lost + 2 * jnp.abs(own.error * given.bulk)
    magnitudes = magnitudes + 2 * jnp.abs(own.value * given.cross) + given.bulk_square
    total = Components(
        informative=informative,
        bulk_variance=square - mean**2,
        bulk_mean=mean**2,
        cross=jnp.sum(weights * cross),
        label_noise=setting.noise_std**2 + 0 * informative,
    )
    noise = setting.noise_std**2
    if reader.polynomial:
        return total, size + jnp.sum(weights * magnitudes) + noise
    # products of links lose digits where they cancel, to rounding of the values themselves
    scale = jnp.sum(weights * own.square) + size
    return total, scale + jnp.sum(weights * magnitudes) + noise
