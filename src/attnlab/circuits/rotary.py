"""Rotary positions: queries and keys turned by an angle that grows with their place.

The first `r` of a head's `e` entries form planes, the k-th of which is turned by
`place · base^(-2k/r)`: entries `k` and `k + r/2` ("halves", as Llama has it in `transformers`) or `2k`
and `2k + 1` ("neighbours", as in su2021 and in Meta's own Llama). The others stay.
Source: su2021; `docs/theory/head-circuits`.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from ..checkpoints.layout import Pairs


def rotated(
    heads: Float[np.ndarray, "*batch length head_dim"],
    base: float,
    pairs: Pairs = "halves",
    share: float = 1.0,
) -> Float[np.ndarray, "*batch length head_dim"]:
    """Queries or keys at places `0, 1, ...` of the axis before the last, turned."""
    length, size = heads.shape[-2], turned_entries(heads.shape[-1], share)
    rates = base ** (-np.arange(0, size, 2) / size)
    angles = np.arange(length)[:, None] * rates
    cos, sin = np.cos(angles), np.sin(angles)
    if pairs == "halves":
        one, other = slice(size // 2), slice(size // 2, size)
    else:
        one, other = slice(0, size, 2), slice(1, size, 2)
    out = heads.copy()
    first, second = heads[..., one], heads[..., other]
    out[..., one], out[..., other] = first * cos - second * sin, second * cos + first * sin
    return out


def turned_entries(head_dim: int, share: float) -> int:
    """How many entries of a head are turned: a whole number, rounded down as programs do."""
    return int(head_dim * share)
