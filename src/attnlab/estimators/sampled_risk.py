"""Risks of linear estimators with other covariances, averaged over sampled examples.

An estimator `β̂ = T(W) Xᵀy` that sees the covariates through `W = XᵀX` has, given `W`, the risk

    σ² + tr[Σ (TW - I) V (TW - I)ᵀ] + σ² tr[Σ T W Tᵀ]

with `V` the covariance of the coefficients, so only `W` is drawn, and the noise, the coefficients and the query are averaged exactly.
Source: `docs/theory/in-context-risks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core.errors import InvalidArgument, check_integer
from .._core.keys import check_key
from ..tasks import InContextRegression
from .estimator_risk import EstimatorRisk

_CHUNK_NUMBERS = 2**23


def sampled_risk(
    task: InContextRegression,
    estimator: Callable[[np.ndarray], np.ndarray],
    *,
    freedom: int,
    key: Any,
    samples: int,
) -> EstimatorRisk:
    """The risk of `T = estimator(W)`, `W` and `T` of shape `(*, d, d)`; the error is a standard
    error.

    Raises `InvalidArgument` without a key: nothing is sampled unasked.
    """
    if key is None:
        allowed = "given: this risk has no closed form known here and is sampled with a key"
        raise InvalidArgument("key", key, allowed)
    key, samples = check_key(key), check_integer("samples", samples, minimum=2)
    sigma, d = task.covariance_matrix, task.dim
    root = np.linalg.cholesky(sigma)
    chunk = max(1, min(samples, _CHUNK_NUMBERS // (d * (freedom + d))))
    risks = []
    for start in range(0, samples, chunk):
        shape = (min(chunk, samples - start), freedom, d)
        draw = jax.random.normal(jax.random.fold_in(key, start), shape, jnp.float32)
        X = np.asarray(draw, np.float64) @ root.T
        W = np.swapaxes(X, -1, -2) @ X
        T = estimator(W)
        off = T @ W - np.eye(d)
        bias = np.einsum("de,bek,bdk->b", sigma, off @ task.prior_matrix, off)
        variance = np.einsum("de,bek,bdk->b", sigma, T @ W, T)
        risks.append(bias + task.noise_std**2 * variance)
    all_risks = np.concatenate(risks)
    error = float(np.std(all_risks, ddof=1)) / math.sqrt(samples)
    return EstimatorRisk(float(np.mean(all_risks)) + task.noise_std**2, "monte carlo", error)
