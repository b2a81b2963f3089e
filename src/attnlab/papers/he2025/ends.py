"""Where trained layers end, as the claims about them need it: circuits, and predictions compared.

Distances and risks are averaged over `β` and the noise in closed form, given the covariates of
common prompts: differences between layers are then known far better than their risks.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.precision import float64
from ...circuits import Circuits, reduce
from ...students import KernelHeads
from . import training
from .training import TrainedConfig, balanced, normalization_of, task_of

# What shows the patterns in seconds, as in the presets of the experiments; only the end is used.
QUICK: dict[str, Any] = {
    "steps": 3000, "batch_size": 64, "learning_rate": 1e-2, "decay": "cosine", "saves": 1,
    "test_prompts": 50,
}  # fmt: skip


@dataclass(frozen=True)
class Ends:
    """The layers of one training at its last step, those that diverged left out."""

    config: TrainedConfig
    circuits: tuple[Circuits, ...]

    @property
    def omega(self) -> np.ndarray:
        """`(run, head)`."""
        return np.stack([one.omega for one in self.circuits])

    @property
    def mu(self) -> np.ndarray:
        """`(run, head)`, with an axis of outputs if there are several."""
        values = np.stack([one.mu for one in self.circuits])
        return values[..., 0] if values.shape[-1] == 1 else values

    @property
    def opposite(self) -> np.ndarray:
        """Which runs ended with outputs that cancel, in all tasks."""
        mu = self.mu
        mu = mu[:, :, None] if mu.ndim == 2 else mu
        return np.asarray(balanced(np.swapaxes(mu, 1, 2)).all(-1))

    def heads(self, run: Any, form: Any = None) -> KernelHeads:
        """The reduction of one run to kernel heads."""
        return reduce(self.circuits[run], form)


def ends_of(preset: str, seed: int, **settings: Any) -> Ends:
    """Trains, with the sizes of the paper or the short course of the quick preset."""
    quick = {} if preset == "paper" else QUICK
    if preset == "paper":
        settings = {**settings, "runs": max(8, settings.get("runs", 8))}
    return ends(TrainedConfig.model_validate({"seed": seed, **quick, **settings}))


def ends(config: TrainedConfig) -> Ends:
    """The last step of `training.trained(config)`."""
    history = training.trained(config).history
    last = history.isel(step=-1)
    good = np.asarray(history.status.values == "ok")
    kq, ov = (np.asarray(last[name].values, np.float64)[good] for name in ("kq", "ov"))
    outputs = 1 if config.supports is None else len(config.supports)
    form = normalization_of(config.normalization)
    return Ends(
        config,
        tuple(
            Circuits(a, b, dim=config.dim, n_outputs=outputs, normalization=form)
            for a, b in zip(kq, ov)
        ),
    )


def course_of(config: TrainedConfig) -> str:
    """Start and optimiser in words, for notes."""
    return f"{config.runs} random starts, {training.course(config)}, {training.setting(config)}"


class Covariates:
    """Common prompts without their labels, `count` of them."""

    def __init__(self, config: TrainedConfig, seed: int, count: int, *, length: int | None = None):
        rng = np.random.default_rng([seed, 2025])
        task = task_of(config, length)
        root = np.linalg.cholesky(task.covariance_matrix)
        self.task = task
        self.noise = config.noise_var
        self.X = rng.standard_normal((count, task.length, config.dim)) @ root.T
        self.xq = rng.standard_normal((count, config.dim)) @ root.T

    def weights(self, heads: KernelHeads) -> np.ndarray:
        """What the prediction of each task gives to each label of that task, `(prompt, task, L)`."""
        matrices = np.asarray(heads.kq(self.task.dim), np.float64)
        # (prompt, head, L): one product of matrices for all heads
        directions = np.einsum("hij,bj->bih", matrices, self.xq)
        scores = np.swapaxes(self.X @ directions, 1, 2)
        with float64():
            shares = np.asarray(heads.normalization.weights(scores), np.float64)
        mu = np.asarray(heads.mu, np.float64)
        return np.swapaxes(mu.reshape(len(mu), -1), 0, 1) @ shares

    def descent(self, steps: np.ndarray, *, debiased: bool = True) -> np.ndarray:
        """The same of one gradient step, with steps `(task, coordinate)`."""
        X = self.X - self.X.mean(1, keepdims=True) if debiased else self.X
        directions = steps[None] * self.xq[:, None]
        return np.swapaxes(X @ np.swapaxes(directions, 1, 2), 1, 2) / self.X.shape[1]

    def matrix_descent(self, matrix: np.ndarray) -> np.ndarray:
        """The same of one debiased step of a single task, with a matrix."""
        X = self.X - self.X.mean(1, keepdims=True)
        return np.einsum("bli,ij,bj->bl", X, matrix, self.xq, optimize=True)[:, None] / X.shape[1]

    def mirrored(self) -> Covariates:
        """The prompts, and behind them the same ones with the query `-x_q`: what is even in the
        scores cancels between the two in a mean against a prediction that is odd."""
        other = copy.copy(self)
        other.X, other.xq = np.concatenate([self.X] * 2), np.concatenate([self.xq, -self.xq])
        return other

    def square(self, weights: np.ndarray) -> np.ndarray:
        """`E (Σ weights · y)²` of each prompt, summed over tasks."""
        return self._square(weights, 0.0)

    def losses(self, weights: np.ndarray) -> np.ndarray:
        """`E (prediction - y_q)²` of each prompt, summed over tasks."""
        return self._square(weights, self.xq[:, None]) + self.noise * weights.shape[1]

    def _square(self, weights: np.ndarray, query: Any) -> np.ndarray:
        gap = (weights @ self.X - query) * self.task.support_mask
        signal = np.sum(gap**2, (1, 2)) / self.task.dim
        return np.asarray(signal + self.noise * np.sum(weights**2, (1, 2)))


def best_multiple(weights: np.ndarray, base: np.ndarray, prompts: Covariates) -> float:
    """The factor with which the prediction `base` comes nearest to another one."""
    inner = prompts.square(weights + base).mean() - prompts.square(weights - base).mean()
    return float(inner / (4 * prompts.square(base).mean()))


def mean_error(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard error of independent values."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def distance(first: np.ndarray, second: np.ndarray, prompts: Covariates) -> float:
    """Root mean square difference of two predictions, as a share of the size of the second."""
    gap = prompts.square(first - second).mean()
    return float(np.sqrt(gap / prompts.square(second).mean()))
