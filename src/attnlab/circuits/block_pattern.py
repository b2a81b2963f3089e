"""How far a merged head is from the sparse pattern of linear attention that descends a gradient.

Source: Theorem 1 of ahn2023 and its note on ReLU attention: `P` is its last entry alone, `Q` its
block of covariates alone; `docs/theory/unnormalised-attention`.
"""

from __future__ import annotations

from typing import NamedTuple

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
        shape = self.effective.shape[-2:]
        try:
            found = np.asarray(matrix)
            good = found.dtype.kind in "fiu" and found.shape == shape and np.isfinite(found).all()
        except (TypeError, ValueError):
            good = False
        if not good or not found.any():
            raise InvalidArgument("matrix", matrix, f"finite, of shape {shape}, different from 0")
        one = found / np.abs(found).max()
        size = np.max(np.abs(self.effective), (-2, -1), keepdims=True)
        other = self.effective / np.where(size == 0, 1.0, size)
        norms = np.sqrt(np.sum(other**2, (-2, -1))) * np.linalg.norm(one)
        cosine = np.sum(other * one, (-2, -1)) / np.where(norms == 0, 1.0, norms)
        return np.asarray(np.sqrt(np.maximum(1 - cosine**2, 0.0)))


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
    read = _share(row[..., :d], row, 1)
    scored = _share(columns[..., d:, :], columns, 2)
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
        _share(rest, effective, 2),
    )


def _share(part: np.ndarray, whole: np.ndarray, axes: int) -> np.ndarray:
    """`|part| / |whole|` over the last axes, 0 where `whole` is zero: that has every pattern."""
    over = tuple(range(-axes, 0))
    largest = np.max(np.abs(whole), over, keepdims=True)
    largest = np.where(largest == 0, 1.0, largest)  # squares must not leave floating point
    below = np.sqrt(np.sum(np.square(whole / largest), over))
    above = np.sqrt(np.sum(np.square(part / largest), over))
    return np.asarray(above / np.where(below == 0, 1.0, below))
