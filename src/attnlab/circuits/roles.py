"""What each head is for: positive, negative, dummy, or mixed.

Source: Section 3 of he2025; Appendix C.3 for several tasks; `docs/theory/multi-head-attention`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .circuits import Circuits

Role = Literal["positive", "negative", "dummy", "mixed"]


class Roles(NamedTuple):
    """Roles of the heads.

    - `serves`: which tasks a head takes part in, `(H, N)`
    - `active`: whether it serves any, `(H,)`
    - `by_task`: its role in each task, `(H, N)`
    - `overall`: one word per head: that of all tasks which it serves, or else "mixed"
    """

    serves: Bool[np.ndarray, "heads outputs"]
    active: Bool[np.ndarray, " heads"]
    by_task: tuple[tuple[Role, ...], ...]
    overall: tuple[Role, ...]


def find_roles(
    circuits: Circuits, support: Float[np.ndarray, "outputs dim"], dummy: float
) -> Roles:
    """The roles, on the coordinates that each task reads (`support`, 1 or 0).

    A head is a dummy for a task when its read-out `|μ|`, and its part `|μ| |KQ|` in the effective
    step, are both below `dummy` times the largest among the heads. It is positive when `ω` (the
    mean of its diagonal on the support) and `μ` are positive, negative when both are negative, and
    mixed when their signs differ, or `ω` is below `dummy` times the size of the head's own diagonal
    on the support.
    """
    mu = circuits.mu
    size = np.sqrt(np.mean(circuits.kq_covariates**2, axis=(1, 2)) * circuits.dim)
    part = np.abs(mu) * size[:, None]
    serves = ~((np.abs(mu) < dummy * np.abs(mu).max(0)) & (part < dummy * part.max(0)))
    serves &= np.abs(mu) > 0
    diagonal = circuits.omega_diagonal
    by_task = tuple(
        tuple(
            _role(diagonal[h], support[n], mu[h, n], bool(serves[h, n]), dummy)
            for n in range(circuits.n_outputs)
        )
        for h in range(circuits.n_heads)
    )
    return Roles(serves, serves.any(1), by_task, tuple(_common(row) for row in by_task))


def _role(diagonal: np.ndarray, support: np.ndarray, mu: float, serves: bool, dummy: float) -> Role:
    if not serves:
        return "dummy"
    read = diagonal[support > 0]
    omega, size = read.mean(), np.sqrt(np.mean(read**2))
    if size == 0 or abs(omega) < dummy * size or omega * mu < 0:
        return "mixed"
    return "positive" if mu > 0 else "negative"


def _common(roles: tuple[Role, ...]) -> Role:
    served = {role for role in roles if role != "dummy"}
    if not served:
        return "dummy"
    return served.pop() if len(served) == 1 else "mixed"
