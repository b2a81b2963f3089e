"""The declared laws of in-context regression: covariates, coefficients, noise, supports."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..tasks import InContextRegression
from .invariants import Invariants

# As for the other tasks: 5.5 standard errors.
_WIDTH = 5.5


def check_in_context_laws(found: Invariants, task: InContextRegression, prompts: Any) -> None:
    """Adds the invariants of a sample of `task` to those that were `found`."""
    X, y, xq, yq, beta = (np.asarray(part, np.float64) for part in prompts)
    if not found.require("query and coefficients", lambda: _shapes(task, X, y, xq, yq, beta)):
        return
    if task.supports is None:
        y, yq, beta = y[..., None], yq[..., None], beta[:, None]
    found.require("covariates", lambda: _normal(task.covariance_matrix, X.reshape(-1, task.dim)))
    found.require("query", lambda: _normal(task.covariance_matrix, xq))
    found.require("coefficients", lambda: _coefficients(task, beta))
    residual = y - np.einsum("bld,bnd->bln", X, beta)
    residual_q = yq - np.einsum("bd,bnd->bn", xq, beta)
    found.require("response noise", lambda: _noise(task, residual, y))
    found.require("query's noise", lambda: _noise(task, residual_q, yq))


def _shapes(task: InContextRegression, *arrays: np.ndarray) -> str | None:
    batch, length, dim = arrays[0].shape
    own = () if task.supports is None else (task.n_outputs,)
    wanted = {
        "y": (batch, length, *own),
        "xq": (batch, dim),
        "yq": (batch, *own),
        "beta": (batch, *own, dim),
    }
    for (name, shape), array in zip(wanted.items(), arrays[1:], strict=True):
        if array.shape != shape:
            return f"{name} has shape {array.shape}, not {shape}"
        if not np.isfinite(array).all():
            return f"{name} is not finite"
    return None


def _normal(covariance: np.ndarray, x: np.ndarray) -> str | None:
    """Means and all second moments, whitened: those of `N(0, I)`."""
    white = np.linalg.solve(np.linalg.cholesky(covariance), x.T).T
    count = len(white)
    mean = np.abs(white.mean(axis=0)).max() * math.sqrt(count)
    moments = white.T @ white / count - np.eye(len(covariance))
    scale = np.sqrt((1 + np.eye(len(covariance))) / count)
    second = np.abs(moments / scale).max()
    # The largest of n normals grows like the root of 2 log n.
    allowed = _WIDTH + math.sqrt(2 * math.log(len(covariance) ** 2))
    if mean > allowed:
        return f"the mean of a coordinate is {mean:.1f} standard errors off"
    return f"a second moment is {second:.1f} standard errors off" if second > allowed else None


def _coefficients(task: InContextRegression, beta: np.ndarray) -> str | None:
    outside = beta * (1 - task.support_mask)
    if np.abs(outside).max() > 0:
        return "a coefficient outside of its support is not 0"
    if task.prior is not None:
        for row, of_task in zip(task.support_mask > 0, np.moveaxis(beta, 1, 0), strict=True):
            told = _normal(task.prior_matrix[np.ix_(row, row)], of_task[:, row])
            if told is not None:
                return f"coefficients: {told}"
        return _between_tasks(task, beta)
    z = beta[:, task.support_mask > 0] * math.sqrt(task.dim)
    count = len(z)
    off = max(
        np.abs(z.mean(axis=0)).max() * math.sqrt(count),
        np.abs(z.var(axis=0) - 1).max() * math.sqrt(count / 2),
    )
    allowed = _WIDTH + math.sqrt(2 * math.log(z.shape[1])) + 1.0
    if off > allowed:
        return f"mean or variance of a coefficient is {off:.1f} standard errors off N(0, 1/d)"
    return _between_tasks(task, beta)


def _between_tasks(task: InContextRegression, beta: np.ndarray) -> str | None:
    """Tasks share the coefficients of the coordinates that both read, or share none."""
    mask = task.support_mask > 0
    for first in range(task.n_outputs):
        for second in range(first):
            both = mask[first] & mask[second]
            a, b = beta[:, first, both], beta[:, second, both]
            if task.coefficients == "shared" and np.any(a != b):
                return "two tasks differ in a coefficient that they share"
            if task.coefficients == "independent" and both.any():
                level = np.diag(task.prior_matrix)[both]
                off = np.abs((a * b).mean(axis=0) / level).max() * math.sqrt(len(a))
                if off > _WIDTH + math.sqrt(2 * math.log(task.dim)):
                    return f"coefficients of two tasks are correlated ({off:.1f} standard errors)"
    return None


def _noise(task: InContextRegression, residual: np.ndarray, y: np.ndarray) -> str | None:
    std = float(task.noise_std)
    if std == 0:
        worst = float(np.max(np.abs(residual) / (1 + np.abs(y))))
        return f"a response is off by {worst:.3g} without noise" if worst > 1e-4 else None
    z = residual.ravel() / std
    off = max(abs(z.mean()) * math.sqrt(z.size), abs(z.var() - 1) * math.sqrt(z.size / 2))
    return f"the noise is {off:.1f} standard errors off" if off > _WIDTH + 1.0 else None
