"""How far circuits are from the patterns of trained layers, each as a number.

All numbers of a head are shares of the norm of its own blocks, between 0 (the pattern is exact) and
1; a block of zeros has every pattern. Source: Observations 1 to 4 in Section 3 of he2025;
`docs/theory/multi-head-attention`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .._core.precision import float64
from ..students.normalizations import Normalization
from .circuits import Circuits


class HeadPatterns(NamedTuple):
    """Departures of each head from `KQ = ω I` and from an `OV` that reads the label only; `(H,)`.

    - `off_diagonal`: entries of the covariate block of `KQ` off its diagonal
    - `diagonal_spread`: the diagonal around its mean `ω`
    - `label_rows`: the label's rows of `KQ`, of all its effective entries
    - `identity_distance`: all that `KQ` has besides `ω I`, the three together
    - `ov_covariates`: what `OV` reads from covariates, of all its effective entries
    - `ov_mixing`: what it carries from one label to another; 0 for a single task
    """

    off_diagonal: Float[np.ndarray, " heads"]
    diagonal_spread: Float[np.ndarray, " heads"]
    label_rows: Float[np.ndarray, " heads"]
    identity_distance: Float[np.ndarray, " heads"]
    ov_covariates: Float[np.ndarray, " heads"]
    ov_mixing: Float[np.ndarray, " heads"]


class LayerPatterns(NamedTuple):
    """Relations between the heads, over the active ones.

    - `sign_matching`: share with `ω_h μ_h > 0`, of all heads and the tasks that they serve; `ω_h`
      is the mean of the diagonal on the coordinates that the task reads
    - `zero_sum`: `|Σ_h μ_h| / Σ_h |μ_h|`, `(N,)`
    - `omega_spread`: standard deviation of `|ω_h|` over its mean
    - `averaging`: `Σ_h μ_h`, the coefficient of the mean label in the prediction, `(N,)`
    - `effective_matrix`: `C Σ_h μ_h KQ_h` on the covariates, `(N, d, d)`, `C` the first-order
      coefficient of the normalisation: for small scores the prediction is
      `averaging · ȳ + (1/L) Σ_ℓ y_ℓ (x_ℓ - x̄)ᵀ M x_q`, without `ȳ` and `x̄` for weights that do not
      add up to 1
    - `effective_step`: mean diagonal of that matrix, `(N,)`; `2ωμ` for two opposite heads
    """

    sign_matching: float
    zero_sum: Float[np.ndarray, " outputs"]
    omega_spread: float
    averaging: Float[np.ndarray, " outputs"]
    effective_matrix: Float[np.ndarray, "outputs dim dim"]
    effective_step: Float[np.ndarray, " outputs"]


class Reference(NamedTuple):
    """How close the heads, and the whole layer's effective matrix, come to a given matrix.

    `cosine` is that of the Frobenius inner product, with its sign, and `distance` what is left of a
    matrix after the best multiple of the reference is taken away, as a share of its norm, that is
    `√(1 - cosine²)`. Both `(H,)`; `layer_cosine` and `layer_distance` `(N,)`.
    """

    name: str
    matrix: Float[np.ndarray, "dim dim"]
    cosine: Float[np.ndarray, " heads"]
    distance: Float[np.ndarray, " heads"]
    layer_cosine: Float[np.ndarray, " outputs"]
    layer_distance: Float[np.ndarray, " outputs"]


def head_patterns(circuits: Circuits) -> HeadPatterns:
    """The patterns of each head."""
    A, d = circuits.kq_covariates, circuits.dim
    diagonal = circuits.omega_diagonal
    spread = diagonal - circuits.omega[:, None]
    size = circuits.omega[:, None, None] * np.eye(d + circuits.n_outputs, d)
    labels = circuits.ov_labels
    crossed = labels * (1 - np.eye(circuits.n_outputs))
    return HeadPatterns(
        _share(A * (1 - np.eye(d)), A),
        _share(spread, diagonal),
        _share(circuits.kq_labels, circuits.effective_kq),
        _share(circuits.effective_kq - size, circuits.effective_kq),
        _share(circuits.ov_covariates, circuits.effective_ov),
        _share(crossed, circuits.effective_ov),
    )


def layer_patterns(
    circuits: Circuits,
    serves: Bool[np.ndarray, "heads outputs"],
    support: Float[np.ndarray, "outputs dim"],
) -> LayerPatterns:
    """The relations between the heads: `serves` says which tasks each of them serves, `support`
    which coordinates a task reads."""
    mu = circuits.mu
    matched = (circuits.omega_diagonal @ support.T * mu > 0)[serves]
    sizes = np.abs(circuits.omega[serves.any(1)])
    slope = first_order(circuits.normalization)
    matrix = slope * np.einsum("hn,hij->nij", mu, circuits.kq_covariates)
    return LayerPatterns(
        float(matched.mean()) if matched.size else np.nan,
        _ratio(np.abs(mu.sum(0)), np.abs(mu).sum(0)),
        float(_ratio(sizes.std(), sizes.mean())) if sizes.size else np.nan,
        mu.sum(0),
        matrix,
        np.trace(matrix, axis1=1, axis2=2) / circuits.dim,
    )


def compare_with(
    name: str, matrix: np.ndarray, circuits: Circuits, effective: np.ndarray
) -> Reference:
    """The heads' covariate blocks, and the layer's effective matrices, against `matrix`."""
    heads, layer = _against(circuits.kq_covariates, matrix), _against(effective, matrix)
    return Reference(name, matrix, *heads, *layer)


def first_order(normalization: Normalization) -> float:
    """The coefficient `C` with which a small score enters the weights, `C · score / L`.

    `C_f` of a normalised activation; 1 for linear weights; ½ for ReLU, whose even part, `|score|`,
    drops out between a positive and a negative head. From the weights of two opposite small scores.
    """
    if normalization.slope is not None:
        return normalization.slope
    with float64():
        size = 1e-4
        weights = np.asarray(normalization.weights(np.array([size, -size])))
    return float(weights[0] - weights[1]) / size


def _norm(blocks: np.ndarray) -> np.ndarray:
    return np.sqrt(np.sum(blocks.reshape(len(blocks), -1) ** 2, axis=1))


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return _ratio(_norm(part), _norm(whole))


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """0 where there is nothing to take a share of."""
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), 0.0)


def _against(blocks: np.ndarray, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosines, and what the best multiples leave over: the difference, which cancels no digits."""
    inner = np.einsum("hij,ij->h", blocks, matrix)
    size = np.linalg.norm(matrix)
    cosine = np.clip(_ratio(inner, _norm(blocks) * size), -1.0, 1.0)
    return cosine, _share(blocks - (inner / size**2)[:, None, None] * matrix, blocks)
