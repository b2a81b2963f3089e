"""Exact attention at many sizes in one program: the informative token's weight, and the bulk's own.

What `SoftmaxRisk.attention` gives for one size, which is one program, here for arrays of sizes: the
same integrals, with the informative token's score on the lattice of the Laplace variable.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .exact import Sizes, score_range

_CHUNK = 16  # sizes at a time, always as many
_DEPTH = 350.0  # weights are right down to e^-350


class Attention(NamedTuple):
    """Averages over prompts; arrays of the sizes' shape. `p` is the informative token's weight.

    `mass` = `E p`, `missing` = `E (1-p)`, and their squares; `participation` = `E Σ q²` of the
    weights within the bulk; `log_partition` = `E log Z` of the bulk.
    """

    mass: np.ndarray
    missing: np.ndarray
    mass_square: np.ndarray
    missing_square: np.ndarray
    participation: np.ndarray
    log_partition: np.ndarray


def attention_at(sizes: Sizes, kappa: Any = 1.0, *, family: Sizes | None = None) -> Attention:
    """The exact averages at all sizes, for students that look along `κ`; both broadcast."""
    from ..._core.precision import float64, to_float64
    from ...theory.softmax_engine.bulk import plan

    shape = np.broadcast_shapes(sizes.shape, np.shape(kappa))
    rows = Sizes(*(np.broadcast_to(part, shape) for part in sizes)).rows()
    rows = np.concatenate([rows, np.broadcast_to(kappa, shape).reshape(-1, 1)], axis=1)
    largest = rows[:, :4] if family is None else np.concatenate([rows[:, :4], family.rows()])
    fixed = plan(score_range(np, largest.T), depth=_DEPTH, shared=True, informative=True)
    found = []
    with float64():
        for start in range(0, len(rows), _CHUNK):
            index = np.minimum(np.arange(start, start + _CHUNK), len(rows) - 1)
            part = _program()(fixed, to_float64(rows[index]))
            found.append(np.stack(part, axis=-1)[: len(rows) - start])
    return Attention(*(column.reshape(shape) for column in np.concatenate(found).T))


_COMPILED: dict[str, Any] = {}


def _program() -> Any:
    """Made on first use: this module is light at import."""
    if not _COMPILED:
        import equinox as eqx
        import jax

        @eqx.filter_jit
        def program(fixed: Any, rows: Any) -> Any:
            return jax.lax.map(lambda row: _averages(fixed, row), rows)

        _COMPILED["program"] = program
    return _COMPILED["program"]


def _averages(fixed: Any, row: Any) -> Any:
    import jax.numpy as jnp

    from ...theory.gaussian_nodes import density
    from ...theory.softmax_engine.bulk import all_beyond, bulk_factors, first, log_partition, second
    from ...theory.softmax_engine.lattice import FIRST, SECOND, SURVIVAL, lattice_sums

    size = score_range(jnp, row[:4])
    bulk = bulk_factors(fixed, size)
    ones = jnp.ones_like(bulk.x)
    one, two = first(fixed, bulk, ones), second(fixed, bulk, ones)
    whole = all_beyond(bulk)
    law = density((bulk.tau - size.center * row[4]) / size.wide) * fixed.step / size.wide

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
    return Attention(**found)
