"""How far a merged head is from the sparse pattern of linear attention that descends a gradient.

Source: Theorem 1 of ahn2023 and its note on ReLU attention: `P` is its last entry alone, `Q` its
block of covariates alone; `docs/theory/unnormalised-attention`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Float

from .._core.errors import InvalidArgument
from ..students import MergedAttention


class BlockPattern(NamedTuple):
    """A merged head against the pattern. Leading axes are those of the layer's arrays (runs).

    Only entries with an effect on the prediction count: the last row `(u, v)` of `P` and the first
    `d` columns `(Q_xx; bᵀ)` of `Q`. None of the numbers depends on how a scale is shared between `P`
    and `Q`.

    - `value`: `v`; `A`: `Q_xxᵀ`; `effective`: `v A`, which decides on the risk of a linear or ReLU
      head with the pattern
    - `read_covariates`: `|u| / |(u, v)|`
    - `scored_responses`: `|b| / |(Q_xx; b)|`
    - `off_pattern`: what the two leave out of the pattern, `√(1 - (1 - first²)(1 - second²))`: 0
      where the pattern holds, 1 where one of its two blocks is empty
    - `scale`: mean diagonal of `effective`
    - `off_identity`: `|effective - scale I| / |effective|`, Frobenius
    """

    value: Float[np.ndarray, "*runs"]
    A: Float[np.ndarray, "*runs dim dim"]
    effective: Float[np.ndarray, "*runs dim dim"]
    read_covariates: Float[np.ndarray, "*runs"]
    scored_responses: Float[np.ndarray, "*runs"]
    off_pattern: Float[np.ndarray, "*runs"]
    scale: Float[np.ndarray, "*runs"]
    off_identity: Float[np.ndarray, "*runs"]

    def distance(self, matrix: Float[ArrayLike, "dim dim"]) -> Float[np.ndarray, "*runs"]:
        """`|c effective - matrix| / |matrix|` at the best `c`: how far the two are from parallel.

        Raises `InvalidArgument` for another shape, numbers that are not finite, and zero.
        """
        found = np.asarray(matrix, np.float64)
        if found.shape != self.effective.shape[-2:] or not np.isfinite(found).all():
            shape = self.effective.shape[-2:]
            raise InvalidArgument("matrix", matrix, f"finite, of shape {shape}")
        if not found.any():
            raise InvalidArgument("matrix", matrix, "different from 0")
        product = np.sum(self.effective * found, (-2, -1))
        cosine = product / np.maximum(_norm(self.effective) * _norm(found), 1e-300)
        return np.sqrt(np.maximum(1 - cosine**2, 0.0))


def block_pattern(layer: MergedAttention) -> BlockPattern:
    """Numbers that say how far `layer` is from the sparse pattern, in float64.

    The arrays of the layer may have leading axes, such as those of several runs of `train`. Raises
    `InvalidArgument` for other layers and several outputs.
    """
    if not isinstance(layer, MergedAttention) or layer.n_outputs != 1:
        raise InvalidArgument("layer", layer, "a MergedAttention of one output")
    d = layer.dim
    P, Q = np.asarray(layer.P, np.float64), np.asarray(layer.Q, np.float64)
    row, columns = P[..., d, :], Q[..., :, :d]
    value, A = row[..., d], np.swapaxes(columns[..., :d, :], -1, -2)
    effective = value[..., None, None] * A
    read = _share(np.linalg.norm(row[..., :d], axis=-1), np.linalg.norm(row, axis=-1))
    scored = _share(np.linalg.norm(columns[..., d, :], axis=-1), _norm(columns))
    scale = np.trace(effective, axis1=-2, axis2=-1) / d
    rest = effective - scale[..., None, None] * np.eye(d)
    return BlockPattern(
        value,
        A,
        effective,
        read,
        scored,
        np.sqrt(1 - (1 - read**2) * (1 - scored**2)),
        scale,
        _share(_norm(rest), _norm(effective)),
    )


def _norm(matrix: Any) -> Any:
    return np.sqrt(np.sum(np.square(matrix), (-2, -1)))


def _share(part: Any, whole: Any) -> Any:
    """A zero block has every pattern."""
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
