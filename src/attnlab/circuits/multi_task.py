"""How heads share out several tasks: the conditions on `(ω, μ)`, and the modes they amount to.

Source: Appendix C.3 of he2025 (modes I to IV, conditions (C.5) and (C.6));
`docs/theory/multi-head-attention`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ..tasks import InContextRegression
from .circuits import Circuits
from .patterns import LayerPatterns, first_order
from .roles import Roles

Mode = Literal["I", "II", "III", "IV", "mixing", "none"]
MODES: dict[Mode, str] = {
    "I": "one weighted kernel regressor for all tasks",
    "II": "one weighted debiased gradient step for all tasks",
    "III": "a debiased gradient step for each task, with heads of its own",
    "IV": "a debiased gradient step for each task, in superposition",
    "mixing": "tasks use each other's labels",
    "none": "none of the four modes",
}


class TaskPatterns(NamedTuple):
    """How several tasks are solved; step `(n, i)` is `C Σ_h μ_n^h ω_i^h`, coordinate `i`.

    - `mode`: `"I"` to `"IV"`, `"mixing"` or `"none"` (see `MODES`)
    - `step`: the matrix of steps, `(N, d)`
    - `label_step`: `C Σ_h M_nm^h ω_i^h`, how output `n` uses label `m`, `(N, N, d)`; `step` is its
      diagonal `n = m`
    - `cross`: root mean square of the steps on other labels than the own, over that of `step` on
      the support, `(N,)`
    - `inside`: mean step of a task on its support (`η`), `(N,)`
    - `inside_spread`: standard deviation of the step within it, over `|inside|`, `(N,)`
    - `leak`: root mean square of the steps outside of the support over that inside, `(N,)`; 0 when
      nothing lies outside
    - `groups`: for each coordinate the number of its group: those that the same tasks read, `(d,)`
    - `group_spread`: per head, its diagonal around the means over the groups, a share of its norm
    - `parallel`: share of the squared diagonals of the active heads that one common vector explains
    - `support`: which coordinates each head looks at, `(H, d)`
    """

    mode: Mode
    step: Float[np.ndarray, "outputs dim"]
    label_step: Float[np.ndarray, "outputs outputs dim"]
    cross: Float[np.ndarray, " outputs"]
    inside: Float[np.ndarray, " outputs"]
    inside_spread: Float[np.ndarray, " outputs"]
    leak: Float[np.ndarray, " outputs"]
    groups: np.ndarray
    group_spread: Float[np.ndarray, " heads"]
    parallel: float
    support: Bool[np.ndarray, "heads dim"]


def task_patterns(
    circuits: Circuits,
    task: InContextRegression,
    roles: Roles,
    layer: LayerPatterns,
    *,
    dummy: float,
    zero_sum: float,
    leak: float,
    parallel: float,
) -> TaskPatterns:
    """The conditions as numbers, and the mode that they say by the given thresholds."""
    mask = task.support_mask > 0
    diagonal = circuits.omega_diagonal
    step = np.diagonal(layer.effective_matrix, axis1=1, axis2=2).copy()
    slope = first_order(circuits.normalization)
    by_label = slope * np.einsum("hnm,hi->nmi", circuits.ov_labels, diagonal)
    inside, spread, out, cross = [], [], [], []
    for n, (row, reads) in enumerate(zip(step, mask)):
        inside.append(row[reads].mean())
        spread.append(_over(row[reads].std(), abs(inside[-1])))
        rest = _rms(row[~reads]) if not reads.all() else 0.0
        out.append(_over(rest, _rms(row[reads])))
        cross.append(_over(_rms(np.delete(by_label[n], n, axis=0)), _rms(row[reads])))
    _, groups = np.unique(mask, axis=1, return_inverse=True)
    groups = np.ravel(groups)
    means = np.stack([diagonal[:, groups == g].mean(1) for g in groups], axis=1)
    group_spread = _over(np.linalg.norm(diagonal - means, axis=1), np.linalg.norm(diagonal, axis=1))
    values = np.linalg.svd(diagonal[roles.active], compute_uv=False)
    common = float(_over(values[:1] ** 2, np.sum(values**2)).sum())
    largest = np.abs(diagonal).max(1, keepdims=True)
    found = TaskPatterns(
        "none",
        step,
        by_label,
        np.array(cross),
        np.array(inside),
        np.array(spread),
        np.array(out),
        groups,
        group_spread,
        common,
        (np.abs(diagonal) >= dummy * largest) & (largest > 0),
    )
    summed = bool(np.all(layer.zero_sum < zero_sum))
    if np.any(found.cross >= leak):
        return found._replace(mode="mixing")
    mode = _mode(roles, summed, bool(np.all(found.leak < leak)), common > 1 - parallel)
    return found._replace(mode=mode)


def _mode(roles: Roles, summed: bool, confined: bool, parallel: bool) -> Mode:
    if not roles.serves.any(0).all():  # a task that no head serves
        return "none"
    served = roles.serves[roles.active].sum(1)
    if summed and confined and np.all(served == 1):
        return "III"
    if parallel:
        return "II" if summed else "I"
    return "IV" if summed and confined else "none"


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _over(part: np.ndarray | float, whole: np.ndarray | float) -> np.ndarray:
    whole = np.asarray(whole)
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), 0.0)
