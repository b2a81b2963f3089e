"""Spectra, norms and products of matrices of low rank, from their thin factors alone.

For `M = A B` with `A` of shape `(D, e)` and `B` `(e, D)` nothing here is larger than `D × e`.
Source: `docs/theory/head-circuits`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Spectrum(NamedTuple):
    """Numbers of a matrix `M = A B`, `r = min(e, D)` of each spectrum; the other values are 0.

    - `singular`: singular values, falling; `eigenvalues`: by falling modulus.
    - `norm`: Frobenius norm; `trace`.
    - `symmetric`: `|S|² / |M|²` of the symmetric part `S = (M + Mᵀ)/2`, 1 for symmetric and 0 for
      antisymmetric matrices, 1/2 for one in general position.
    - `sign`: `Re Σλ / Σ|λ|`, 1 where all eigenvalues are positive, -1 where all are negative.
    - `effective_rank`: `exp` of the entropy of the singular values as shares of their sum;
      `stable_rank`: `|M|² / σ_1²`.
    - `diagonal`: `|diag M| / |M|`; `identity`: the cosine of `M` and the identity,
      `tr M / (√D |M|)`.

    Everything that is a share of 0 is 0.
    """

    singular: Float[np.ndarray, " rank"]
    eigenvalues: np.ndarray
    norm: float
    trace: float
    symmetric: float
    sign: float
    effective_rank: float
    stable_rank: float
    diagonal: float
    identity: float


def spectrum(
    left: Float[np.ndarray, "width rank"], right: Float[np.ndarray, "rank width"]
) -> Spectrum:
    """The numbers of `left @ right`, which is not formed."""
    width = left.shape[0]
    left, right = _thin(left, right)
    # A = Q R and Bᵀ = P T with orthonormal columns: singular values of M are those of R Tᵀ
    r, t = np.linalg.qr(left)[1], np.linalg.qr(right.T)[1]
    singular = np.linalg.svd(r @ t.T, compute_uv=False)
    # A B and B A have the same eigenvalues except for zeros
    small = right @ left
    eigenvalues = np.linalg.eigvals(small).astype(np.complex128)
    eigenvalues = eigenvalues[np.argsort(-np.abs(eigenvalues), kind="stable")]
    squares = float(singular @ singular)
    norm = squares**0.5
    trace = float(np.trace(small))
    # tr M² = <M, Mᵀ>, so that |S|² = (|M|² + tr M²) / 2
    twice = float(np.sum(small * small.T))
    moduli = float(np.abs(eigenvalues).sum())
    entries = np.einsum("ie,ei->i", left, right)
    if norm == 0.0:
        return Spectrum(singular, eigenvalues, *(0.0,) * 8)
    shares = singular / singular.sum()
    shares = shares[shares > 0]
    return Spectrum(
        singular=singular,
        eigenvalues=eigenvalues,
        norm=norm,
        trace=trace,
        symmetric=min(max((1 + twice / squares) / 2, 0.0), 1.0),
        # eigenvalues that are rounding alone have no sign
        sign=trace / moduli if moduli > 1e-10 * norm else 0.0,
        effective_rank=float(np.exp(-np.sum(shares * np.log(shares)))),
        stable_rank=squares / float(singular[0]) ** 2,
        diagonal=float(np.linalg.norm(entries)) / norm,
        identity=trace / (width**0.5 * norm),
    )


def _thin(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factors with no more columns than rows: a layer's heads can be wider than its tokens."""
    width, inner = left.shape
    return (left @ right, np.eye(width)) if inner > width else (left, right)


def gram(
    left: Float[np.ndarray, "heads width rank"], right: Float[np.ndarray, "heads rank width"]
) -> Float[np.ndarray, "heads heads"]:
    """`<M_g, M_h> = tr(M_gᵀ M_h)` for all pairs, by `Σ (A_gᵀ A_h) ∘ (B_g B_hᵀ)`."""
    count, width, inner = left.shape
    columns = left.transpose(1, 0, 2).reshape(width, count * inner)
    rows = right.reshape(count * inner, width)
    out = np.empty((count, count))
    for g in range(count):
        product = (left[g].T @ columns) * (right[g] @ rows.T)
        out[g] = product.sum(0).reshape(count, inner).sum(-1)
    return (out + out.T) / 2


def cosines(products: Float[np.ndarray, "heads heads"]) -> Float[np.ndarray, "heads heads"]:
    """The matrix of cosines that a Gram matrix tells; 0 for heads that are 0."""
    sizes = np.sqrt(np.clip(np.diagonal(products), 0.0, None))
    scale = np.where(sizes > 0, 1 / np.where(sizes > 0, sizes, 1.0), 0.0)
    return np.clip(products * scale[:, None] * scale, -1.0, 1.0)
