"""Wrong formulas of this paper that are more than a changed number, for `mutations`."""

from __future__ import annotations

from typing import Any

import numpy as np


def multiples_of_identity(sigma: np.ndarray, numbers: Any) -> np.ndarray:
    """In place of multiples of `Σ⁻¹`: multiples of `I` of the same trace."""
    level = np.trace(np.linalg.inv(sigma)) / len(sigma)
    return np.multiply.outer(np.asarray(numbers), level * np.eye(len(sigma)))


def layer_too_large(right: Any) -> Any:
    """The best layer with an `A` that is 1 % too large."""

    def optimal_attention(task: Any, **options: Any) -> Any:
        from ...students import MergedAttention

        layer = right(task, **options)
        return MergedAttention.sparse(1.01 * layer.A, normalization=layer.normalization)

    return optimal_attention


def barely_trained(right: Any) -> Any:
    """Training that stops after a hundredth of its steps."""

    def training_of(*arguments: Any) -> Any:
        config = right(*arguments)
        return config.model_copy(update={"steps": config.steps // 100})

    return training_of
