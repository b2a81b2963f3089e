"""What a layer learned: the patterns of its circuits, what each head is for, and the algorithm.

Source: Section 3 and Appendices B, C of he2025; `docs/theory/multi-head-attention`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import ArrayLike, Bool, Float, PRNGKeyArray

from .._core.errors import InvalidArgument, check_integer, check_real
from ..estimators import optimal_preconditioner
from ..students import KernelHeads
from ..tasks import InContextRegression
from ..tasks.in_context import check_in_context
from .circuits import Circuits, check_circuits
from .comparison import Comparison, compare
from .multi_task import TaskPatterns, task_patterns
from .patterns import (
    HeadPatterns,
    LayerPatterns,
    Reference,
    compare_with,
    head_patterns,
    layer_patterns,
)
from .reduction import Form, reduce
from .roles import Role, Roles, find_roles

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What `diagnose` found; `print` shows it as a table, `to_dataset` gives all numbers by name.

    - `circuits`: what was looked at; `heads`: its reduction to kernel heads
    - `roles`: of the heads, see `Roles`
    - `patterns`: numbers of each head; `layer`: numbers of the heads together
    - `references`: closeness to given matrices
    - `tasks`: how several tasks are shared out; None for one task, or without a `task`
    - `comparison`: distances in prediction; None without a `task`
    """

    circuits: Circuits
    heads: KernelHeads
    roles: Roles
    patterns: HeadPatterns
    layer: LayerPatterns
    references: tuple[Reference, ...]
    tasks: TaskPatterns | None
    comparison: Comparison | None

    @property
    def omega(self) -> Float[np.ndarray, " heads"]:
        """`ω_h`, the mean of the diagonal of `KQ^h`."""
        return self.circuits.omega

    @property
    def mu(self) -> Float[np.ndarray, heads * outputs]:
        """`μ_h`, `(H,)`, or `(H, N)` for several tasks."""
        mu = self.circuits.mu
        return mu[:, 0] if self.circuits.n_outputs == 1 else mu

    @property
    def role(self) -> tuple[Role, ...]:
        """One word for each head: positive, negative, dummy or mixed."""
        return self.roles.overall

    @property
    def active(self) -> Bool[np.ndarray, " heads"]:
        """Which heads are no dummies."""
        return self.roles.active

    @property
    def effective_step(self) -> float | Float[np.ndarray, " outputs"]:
        """`C Σ_h μ_h ω_h`, a float, or one for each of several tasks."""
        step = self.layer.effective_step
        return float(step[0]) if self.circuits.n_outputs == 1 else step

    @property
    def worst(self) -> dict[str, float]:
        """Each pattern of the heads at the active head that departs most from it."""
        if not self.active.any():
            return dict.fromkeys(HeadPatterns._fields, np.nan)
        return {
            name: float(values[self.active].max())
            for name, values in self.patterns._asdict().items()
        }

    def to_dataset(self) -> xarray.Dataset:
        """All numbers, with names, on the dimensions `head`, `output`, `coordinate`, ..."""
        from .table import as_dataset

        return as_dataset(self)

    def __str__(self) -> str:
        from .table import as_text

        return as_text(self)


def diagnose(
    circuits: Circuits,
    *,
    task: InContextRegression | None = None,
    key: PRNGKeyArray | None = None,
    prompts: int = 2000,
    references: Mapping[str, Float[ArrayLike, "dim dim"]] | None = None,
    form: Form | None = None,
    dummy: float = 0.1,
    zero_sum: float = 0.2,
    leak: float = 0.25,
    parallel: float = 0.1,
) -> Diagnosis:
    """Measures the patterns of circuits, names the heads' roles and the nearest algorithm.

    **Arguments:**

    - `circuits`: from `extract`, or built from arrays.
    - `task`, with a `key` and the number of `prompts` to draw: adds the distances in prediction,
      and for several tasks their mode. Without it, only the matrices are looked at.
    - `references`: matrices by name to compare the covariate blocks of `KQ` with; the identity is
      always among them, and with a task's covariance its inverse and that of the optimal
      preconditioner.
    - `form` of the reduction `heads` (see `reduce`).

    Thresholds, each between 0 and 1, decide words only, never numbers: `dummy`, the share of the
    largest head below which one is a dummy (see `find_roles`), and below which a coordinate counts
    as not looked at; `zero_sum`, up to which the outputs count as cancelling; `leak`, up to which a
    task's steps count as confined to its support, and to its own label; `parallel`, what one common vector may leave
    unexplained of the heads' diagonals when they count as parallel.

    Raises `InvalidArgument`.
    """
    check_circuits(circuits)
    limits = {"dummy": dummy, "zero_sum": zero_sum, "leak": leak, "parallel": parallel}
    for name, value in limits.items():
        limits[name] = check_real(name, value, low=0.0, high=1.0, low_open=True, high_open=True)
    if (task is None) != (key is None):
        raise InvalidArgument("key", key, "given exactly when a task is, to draw its prompts")
    check_integer("prompts", prompts, minimum=10)
    matrices = _references(references, circuits.dim)
    reduced = reduce(circuits, form)
    comparison = None
    support = np.ones((circuits.n_outputs, circuits.dim))
    if task is not None and key is not None:
        comparison = compare(circuits, check_in_context(task), key=key, prompts=prompts)
        support = task.support_mask
        if task.covariance is not None:
            matrices = {
                "Σ⁻¹": np.linalg.inv(task.covariance_matrix),
                "Γ̃⁻¹": np.linalg.inv(optimal_preconditioner(task)),
            } | matrices
    roles = find_roles(circuits, support, limits["dummy"])
    layer = layer_patterns(circuits, roles.serves, support)
    several = None
    if task is not None and circuits.n_outputs > 1:
        several = task_patterns(circuits, task, roles, layer, **limits)
    return Diagnosis(
        circuits,
        reduced,
        roles,
        head_patterns(circuits),
        layer,
        tuple(
            compare_with(name, matrix, circuits, layer.effective_matrix)
            for name, matrix in ({"I": np.eye(circuits.dim)} | matrices).items()
        ),
        several,
        comparison,
    )


def _references(given: Any, dim: int) -> dict[str, np.ndarray]:
    allowed = f"names with matrices of shape ({dim}, {dim}), finite and not zero"
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidArgument("references", given, allowed)
    found = {}
    for name, value in given.items():
        try:
            matrix = np.array(value, np.float64)
        except (TypeError, ValueError):
            raise InvalidArgument("references", {name: value}, allowed) from None
        if matrix.shape != (dim, dim) or not np.isfinite(matrix).all() or not matrix.any():
            raise InvalidArgument("references", {name: value}, allowed)
        found[str(name)] = matrix
    return found
