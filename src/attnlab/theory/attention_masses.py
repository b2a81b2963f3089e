"""Exact softmax attention at many sizes in one program: one token among Gaussian others.

What `SoftmaxRisk.attention` gives for one risk, which is one program, here for arrays of the four
numbers that it depends on: the informative token's score is `N(mean, std²)`, those of the `N` other
tokens are `N(0, spread²)`. The same integrals, with the informative score on the lattice of the
Laplace variable. Source: `docs/theory/attention-mass`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from .._core.errors import InvalidArgument, is_traced
from .._core.precision import float64, to_float64
from .gaussian_nodes import density
from .softmax_engine.bulk import (
    LEAST_SPREAD,
    Plan,
    Range,
    all_beyond,
    bulk_factors,
    first,
    log_partition,
    plan,
    second,
)
from .softmax_engine.lattice import FIRST, SECOND, STEP, SURVIVAL, lattice_sums

_CHUNK = 16  # sizes at a time, always as many
_DEPTH = 350.0  # weights are right down to e^-350
_RESOLVED = 1.1  # steps of the lattice in a standard deviation: an error of e^-24
_LEAST = 0.02
_DIRECT = 1e-6  # weights above are complements: to 1e-16, and scores beyond the lattice count too
_LARGEST = 2**26  # pairs of a node of the lattice and one of a narrow token's scores


class AttentionMasses(NamedTuple):
    """Averages over prompts; `p` is the informative token's weight, arrays of the sizes' shape.

    `mass` = `E p`, `missing` = `E (1-p)`, and their squares; `participation` = `E Σ q²` of the
    weights within the bulk; `log_partition` = `E log Z` of the bulk.
    """

    mass: Float[np.ndarray, "*sizes"]
    missing: Float[np.ndarray, "*sizes"]
    mass_square: Float[np.ndarray, "*sizes"]
    missing_square: Float[np.ndarray, "*sizes"]
    participation: Float[np.ndarray, "*sizes"]
    log_partition: Float[np.ndarray, "*sizes"]


def attention_masses(
    spread: Float[ArrayLike, "*#sizes"],
    log_others: Float[ArrayLike, "*#sizes"],
    mean: Float[ArrayLike, "*#sizes"],
    std: Float[ArrayLike, "*#sizes"],
    *,
    family: Range | None = None,
) -> AttentionMasses:
    """The exact averages for scores `N(mean, std²)` and `N = e^{log_others}` times `N(0, spread²)`.

    The arguments broadcast. `family` is a `Range` of arrays: all sizes within it share one compiled
    program. For single-location regression `spread = β√d`, `std = γβ√d`, and
    `mean = β c d κ`. Raises `InvalidArgument` for numbers that are not finite, a spread or standard
    deviation outside of 0.02 to 100, means beyond ±10⁴ or `log_others` outside of 0 to 600.
    """
    limits = {
        "spread": (spread, _LEAST, 100.0),
        "log_others": (log_others, 0.0, 600.0),
        "mean": (mean, -1e4, 1e4),
        "std": (std, _LEAST, 100.0),
    }
    columns = []
    for name, (value, low, high) in limits.items():
        allowed = f"numbers from {low:g} to {high:g}, known outside of jit"
        if is_traced(value):
            raise InvalidArgument(name, value, allowed)
        try:
            column = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            raise InvalidArgument(name, value, allowed) from None
        if not column.size or not np.all((column >= low) & (column <= high)):
            raise InvalidArgument(name, value, allowed)
        columns.append(column)
    try:
        shape = np.broadcast_shapes(*map(np.shape, columns))
    except ValueError:
        given = dict(zip(limits, map(np.shape, columns)))
        raise InvalidArgument("shapes", given, "such as broadcast together") from None
    b, n, m, s = (np.broadcast_to(column, shape).ravel() for column in columns)
    return _averaged(np.stack([b, n, np.abs(m), s, m], axis=1), family, shape)


def _averaged(
    rows: Float[np.ndarray, "rows 5"], family: Range | None, shape: tuple[int, ...]
) -> AttentionMasses:
    here = Range(*rows.T[:4])
    held = Range(*(np.concatenate([np.ravel(f), h]) for f, h in zip(family or here, here)))
    fixed = plan(
        held,
        depth=_DEPTH,
        shared=float(held.spread.min()) >= LEAST_SPREAD,
        informative=True,
        step=min(STEP, float(held.wide.min()) / _RESOLVED),
    )
    narrow = rows[:, 0] < LEAST_SPREAD
    if fixed.scores is not None and fixed.nodes * fixed.scores > _LARGEST and len(rows) > 1:
        # wide tokens need no nodes of their own; of narrow ones those with a fine lattice are few
        cut = ~narrow if not narrow.all() else rows[:, 3] > np.median(rows[:, 3])
        cut = cut if cut.any() and not cut.all() else np.arange(len(rows)) < len(rows) // 2
        parts = [_averaged(rows[side], None, (int(side.sum()),)) for side in (cut, ~cut)]
        order = np.argsort(np.concatenate([np.flatnonzero(cut), np.flatnonzero(~cut)]))
        both = (np.concatenate(pair)[order].reshape(shape) for pair in zip(*parts))
        return AttentionMasses(*both)
    found = []
    with float64():
        for start in range(0, len(rows), _CHUNK):
            index = np.minimum(np.arange(start, start + _CHUNK), len(rows) - 1)
            part = _program(fixed, to_float64(rows[index]))
            found.append(np.stack(part, axis=-1)[: len(rows) - start])
    return AttentionMasses(*(column.reshape(shape) for column in np.concatenate(found).T))


@eqx.filter_jit
def _program(fixed: Plan, rows: Float[ArrayLike, "sizes 5"]) -> Any:
    return jax.lax.map(lambda row: _averages(fixed, row), rows)


def _averages(fixed: Plan, row: Any) -> Any:
    size = Range(*row[:4])
    bulk = bulk_factors(fixed, size)
    ones = jnp.ones_like(bulk.x)
    one, two = first(fixed, bulk, ones), second(fixed, bulk, ones)
    whole = all_beyond(bulk)
    law = density((bulk.tau - row[4]) / size.wide) * fixed.step / size.wide

    def averaged(kernel: Any, values: Any) -> Any:
        """`∫ dT law(T) ∫ dτ kernel(T - τ) values(τ)`."""
        sums = jnp.flip(lattice_sums(kernel, jnp.flip(values), fixed.step))
        return jnp.sum(law * jnp.where(bulk.good, sums, jnp.nan))

    found: dict[str, Any] = {
        "mass": averaged(FIRST, whole),
        "missing": averaged(SURVIVAL, one * bulk.power),
        "mass_square": averaged(SECOND, whole),
        "missing_square": averaged(SURVIVAL, two * bulk.power + (one * bulk.root) ** 2),
        "participation": jnp.sum(two * bulk.power),
        "log_partition": log_partition(fixed, bulk),
    }
    # scores beyond the lattice, where the weight is 1 up to e^-350, are in no sum but that of `1-p`
    gone, squared = found["missing"], found["missing_square"]
    held = gone > 1 - _DIRECT
    found["mass"] = jnp.where(held, found["mass"], 1 - gone)
    found["mass_square"] = jnp.where(held, found["mass_square"], 1 - 2 * gone + squared)
    return AttentionMasses(**found)
