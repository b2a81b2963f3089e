"""Layers of linear attention with any matrices, on any covariance, averaged over sampled examples.

Given `S = XᵀX/n` the prediction is `x_qᵀ G Xᵀy/n`, with `G` from the recursion

    G <- G + T Aᵀ Tᵀ R,   R <- R - S T Aᵀ Tᵀ R,   T <- T (I - Aᵀ TᵀST Bᵀ)

from `G = 0`, `R = T = I`. Only `X` is drawn; the coefficients, the noise and the query are averaged
exactly. Source: ahn2023; `docs/theory/deep-linear-attention`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, Float

from .._core.errors import InvalidArgument, check_integer
from ..tasks import InContextRegression
from .deep_linear import check_layers
from .estimator_risk import EstimatorRisk
from .sampled_risk import sampled_risk


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

    def estimator(W: np.ndarray) -> np.ndarray:
        return preconditioner_of(W / length, steps, moves) / length

    with np.errstate(over="ignore", invalid="ignore"):
        risk = sampled_risk(task, estimator, freedom=length, key=key, samples=samples)
    if not (math.isfinite(risk.value) and math.isfinite(risk.error)):
        raise InvalidArgument("a", a, "such that the risk does not exceed floating point")
    return risk


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
