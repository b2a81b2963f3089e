"""What several tasks need of small heads: the least risk for a number of heads, and heads that reach it.

To first order `H` heads with `ω^h`, `μ^h` and `Σ_h μ^h = 0` are debiased gradient steps with the
matrix of steps `E_ni = Σ_h μ_n^h ω_i^h` of tasks and coordinates. Since the `μ^h` sum to 0, `E` is
any matrix of rank at most `H - 1`, and no other. Its risk is exact, and quadratic in `E`.
Source: Appendix C.3 of he2025, with conditions (C.5) and (C.6); `docs/theory/multi-head-attention`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...students import KernelHeads
from ...tasks import InContextRegression

_SWEEPS = 400
_STARTS = 12


class StepRisk(NamedTuple):
    """`R(E) = constant - 2 Σ slope·E + Σ curve·E²` of a debiased gradient step with steps `E`
    `(task, coordinate)` on isotropic covariates, where each output uses the labels of its task."""

    constant: float
    slope: np.ndarray
    curve: np.ndarray

    def __call__(self, steps: np.ndarray) -> float:
        """The risk, summed over tasks, label noise included."""
        return float(self.constant - 2 * np.sum(self.slope * steps) + np.sum(self.curve * steps**2))

    @property
    def best(self) -> np.ndarray:
        """The best steps: each task on its own coordinates."""
        return np.asarray(self.slope / self.curve)


def step_risk(task: InContextRegression) -> StepRisk:
    """The risk of debiased steps, at this size."""
    mask = task.support_mask
    d, length, noise = task.dim, task.length, task.noise_std**2
    m = length - 1
    level = mask.sum(1, keepdims=True) / d  # E(β·x)² of each task
    curve = (m * (m + 1) * mask / d + m * (level + noise)) / length**2
    return StepRisk(float(np.sum(level + noise)), m / length * mask / d, curve)


def least_of_rank(task: InContextRegression, rank: int, seed: int = 0) -> tuple[float, np.ndarray]:
    """The least risk of steps of that rank, found from several random starts, and the steps.

    `rank + 1` small heads can do that and no better.
    """
    risk = step_risk(task)
    if rank == 0:
        return risk.constant, np.zeros_like(risk.slope)
    rng = np.random.default_rng(seed)
    found = [_alternating(risk, rank, rng) for _ in range(_STARTS)]
    return min(found, key=lambda pair: pair[0])


def _alternating(risk: StepRisk, rank: int, rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """Least squares in one factor of `E = A B` after the other."""
    B = rng.standard_normal((rank, risk.slope.shape[1]))
    tiny = 1e-12 * risk.curve.mean()
    for _ in range(_SWEEPS):
        A = _factor(B.T, risk.curve, risk.slope, tiny)
        B = _factor(A, risk.curve.T, risk.slope.T, tiny).T
    return risk(A @ B), A @ B


def _factor(known: np.ndarray, curve: np.ndarray, slope: np.ndarray, tiny: float) -> np.ndarray:
    """Row `n` minimises `Σ_i curve_ni (row·known_i)² - 2 slope_ni row·known_i`."""
    form = np.einsum("ni,ia,ib->nab", curve, known, known) + tiny * np.eye(known.shape[1])
    return np.linalg.solve(form, (slope @ known)[..., None])[..., 0]


def heads_of(steps: np.ndarray, size: float) -> KernelHeads:
    """`rank + 1` heads with these steps, with `Σ μ = 0`, and largest `|ω|` equal to `size`."""
    left, values, right = np.linalg.svd(steps)
    rank = int(np.sum(values > 1e-9 * values[0]))
    # the corners of a simplex: columns that sum to 0, with orthonormal rows
    corners = np.linalg.svd(np.eye(rank + 1) - 1 / (rank + 1))[2][:rank]
    omega = corners.T @ right[:rank]
    mu = corners.T @ (values[:rank, None] * left[:, :rank].T)
    scale = size / np.abs(omega).max()
    return KernelHeads(omega * scale, mu / scale)


def rank_of(task: InContextRegression) -> int:
    """The rank of the matrix that says which task reads which coordinate."""
    return int(np.linalg.matrix_rank(task.support_mask))
