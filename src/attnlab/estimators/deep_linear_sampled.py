"""Layers of linear attention with any matrices, on any covariance, averaged over sampled examples.

Given `S = XᵀX/n` the prediction is `x_qᵀ G Xᵀy/n`, with `G` from the recursion

    G <- G + T Aᵀ Tᵀ R,   R <- R - S T Aᵀ Tᵀ R,   T <- T (I - Aᵀ TᵀST Bᵀ)

from `G = 0`, `R = T = I`. Only `X` is drawn; the coefficients, the noise and the query are averaged
exactly. Source: ahn2023; `docs/theory/deep-linear-attention`.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from .._core.errors import InvalidArgument, check_integer
from .._core.keys import check_key
from ..tasks import InContextRegression
from .deep_linear import check_layers
from .estimator_risk import EstimatorRisk

_CHUNK_NUMBERS = 2**23


def deep_linear_sampled_risk(
    covariance: Float[ArrayLike, "dim dim"],
    length: int,
    a: Float[ArrayLike, "layers dim dim"],
    b: Float[ArrayLike, "layers dim dim"] | None = None,
    *,
    prior: Float[ArrayLike, "dim dim"],
    noise_std: float = 0.0,
    key: Any,
    samples: int = 4000,
) -> EstimatorRisk:
    """The risk of the layers of `deep_linear_risk` with matrices `A_l`, `B_l`, sampled.

    Data: `x ~ N(0, covariance)`, `w ~ N(0, prior)`. The method is `"monte carlo"`, the error the
    standard error. Raises `InvalidArgument` for bad shapes and numbers, covariances that are not
    positive definite, and layers so large that the risk is none.
    """
    steps = check_layers("a", a, matrices=True)
    dim = steps.shape[1]
    moves = np.zeros_like(steps) if b is None else check_layers("b", b, matrices=True)
    if moves.shape != steps.shape:
        raise InvalidArgument("b", b, f"of the shape of a, {steps.shape}")
    length = check_integer("length", length, minimum=1)
    # a task refuses what is no covariance
    task = InContextRegression(dim, length, noise_std=noise_std, covariance=covariance, prior=prior)
    key, samples = check_key(key), check_integer("samples", samples, minimum=2)
    Sigma, W = task.covariance_matrix, task.prior_matrix
    noise, root = float(task.noise_std) ** 2, np.linalg.cholesky(Sigma)
    chunk = max(1, min(samples, _CHUNK_NUMBERS // (dim * (length + dim))))
    risks = []
    for start in range(0, samples, chunk):
        shape = (min(chunk, samples - start), length, dim)
        draw = jax.random.normal(jax.random.fold_in(key, start), shape, jnp.float32)
        X = np.asarray(draw, np.float64) @ root.T
        S = np.swapaxes(X, -1, -2) @ X / length
        with np.errstate(over="ignore", invalid="ignore"):
            G = preconditioner_of(S, steps, moves)
            off = G @ S - np.eye(dim)
            square = off @ W @ np.swapaxes(off, -1, -2)
            square = square + noise / length * G @ S @ np.swapaxes(G, -1, -2)
            risks.append(np.einsum("de,bde->b", Sigma, square))
    values = np.concatenate(risks)
    if not np.all(np.isfinite(values)):
        raise InvalidArgument("a", a, "such that the risk does not exceed floating point")
    spread = float(np.std(values, ddof=1)) / math.sqrt(samples)
    return EstimatorRisk(float(np.mean(values)) + noise, "monte carlo", spread)


def preconditioner_of(
    S: Float[np.ndarray, "*batch dim dim"],
    a: Float[np.ndarray, "layers dim dim"],
    b: Float[np.ndarray, "layers dim dim"],
) -> Float[np.ndarray, "*batch dim dim"]:
    """`G` with the prediction `x_qᵀ G Xᵀy/n`, given `S = XᵀX/n`."""
    eye = np.eye(S.shape[-1])
    G, R, T = np.zeros_like(S), eye, np.broadcast_to(eye, S.shape)
    for step, move in zip(a, b, strict=True):
        Tt = np.swapaxes(T, -1, -2)
        change = T @ step.T @ Tt @ R
        G, R = G + change, R - S @ change
        T = T @ (eye - step.T @ Tt @ S @ T @ move.T)
    return G
