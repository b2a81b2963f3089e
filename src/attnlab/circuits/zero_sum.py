"""Groups of heads whose outputs cancel: `Σ OV^h` small against `Σ |OV^h|`.

Source: Section 3 of he2025, where they are the heads of one layer; `docs/theory/head-circuits`.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

_MOST_GROUPS = 10**6


class ZeroSum(NamedTuple):
    """Heads, and `|Σ OV| / Σ |OV|` over them: 0 where they cancel, 1 where all are parallel."""

    heads: tuple[int, ...]
    value: float


def zero_sum_groups(
    products: Float[np.ndarray, "heads heads"],
    *,
    threshold: float,
    dummy: float,
    largest: int,
) -> tuple[ZeroSum, ...]:
    """All groups of up to `largest` heads below `threshold` that contain no smaller one, the best
    first; heads below `dummy` of the largest norm are left out.

    `products` is the Gram matrix of `OV`. Sizes of which there are over a million groups are left
    out, so that the time does not explode with the number of heads.
    """
    sizes = np.sqrt(np.clip(np.diagonal(products), 0.0, None))
    candidates = np.flatnonzero((sizes > dummy * sizes.max(initial=0.0)) & (sizes > 0))
    found: list[ZeroSum] = []
    for count in range(2, min(largest, len(candidates)) + 1):
        if comb(len(candidates), count) > _MOST_GROUPS:
            break
        groups = np.array(list(combinations(candidates, count)))
        squares = np.zeros(len(groups))
        for i in range(count):
            for j in range(count):
                squares += products[groups[:, i], groups[:, j]]
        values = np.sqrt(np.clip(squares, 0.0, None)) / sizes[groups].sum(1)
        smaller = [set(group.heads) for group in found]
        for k in np.flatnonzero(values <= threshold):
            group = tuple(int(h) for h in groups[k])
            if not any(known <= set(group) for known in smaller):
                found.append(ZeroSum(group, float(values[k])))
    return tuple(sorted(found, key=lambda group: (group.value, group.heads)))
