"""Rotary positions: queries and keys turned by an angle that grows with their place.

Entries `k` and `k + e/2` of a head form a plane that is turned by `place · base^(-2k/e)`, as Llama
and its relatives have it. Source: su2021; `docs/theory/head-circuits`.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def rotated(
    heads: Float[np.ndarray, "*batch length head_dim"], base: float
) -> Float[np.ndarray, "*batch length head_dim"]:
    """Queries or keys at places `0, 1, ...` of the axis before the last, turned."""
    length, size = heads.shape[-2:]
    rates = base ** (-np.arange(0, size, 2) / size)
    angles = np.arange(length)[:, None] * rates
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = heads[..., : size // 2], heads[..., size // 2 :]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
