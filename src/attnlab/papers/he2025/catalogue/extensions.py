"""Linear attention, correlated covariates, and several tasks."""

from __future__ import annotations

from typing import Any

from ..._framework import Experiment
from ._presets import QUICK

_ROOT = "attnlab.papers.he2025"
# {1, 2, 3, 4} and {3, 4, 5, 6} in the paper, which counts from 1. With the one β that its Definition
# B.1 shares between tasks, four heads read each task's label for the other one too, which the modes
# do not know; with a β for each task that is of no use.
_TASKS: dict[str, Any] = {
    "dim": 6,
    "supports": ((0, 1, 2, 3), (2, 3, 4, 5)),
    "coefficients": "independent",
}


def _anisotropic(name: str, title: str, summary: str, figure: str, expected: str) -> Experiment:
    return Experiment(
        id=f"he2025/{name}",
        title=title,
        summary=summary,
        source=f"Figure {name[3:]}; Appendices B.3 and C.2",
        config=f"{_ROOT}.training:TrainedConfig",
        run=f"{_ROOT}.anisotropic:run",
        figure=f"{_ROOT}.anisotropic:{figure}",
        presets={"quick": {**QUICK, "rho": 0.5}, "paper": {"rho": 0.5}},
        expected=expected,
    )


def _tasks(name: str, heads: int, mode: str, summary: str, expected: str) -> Experiment:
    longer = {"runs": 6} if heads > 2 else {}
    return Experiment(
        id=f"he2025/{name}",
        title=f"Two tasks, {heads} head{'s' if heads > 1 else ''} (mode {mode})",
        summary=summary,
        source=f"Figure {name[3:]}; Appendix C.3",
        config=f"{_ROOT}.training:TrainedConfig",
        run=f"{_ROOT}.multitask:run",
        figure=f"{_ROOT}.multitask:figure",
        presets={
            "quick": {**QUICK, **_TASKS, "n_heads": heads, **longer},
            "paper": {**_TASKS, "n_heads": heads, **longer},
        },
        expected=expected,
    )


EXPERIMENTS = (
    Experiment(
        id="he2025/fig7",
        title="Softmax and linear attention at other lengths",
        summary=(
            "Trained at L = 40, softmax attention predicts better on longer prompts. Linear "
            "attention does so only if it divides by the length of the prompt that it is given; "
            "with the factor of its training its predictions grow with the prompt."
        ),
        source="Figure 7; Appendix B.1",
        config=f"{_ROOT}.lengths:LengthsConfig",
        run=f"{_ROOT}.linear_lengths:run",
        figure=f"{_ROOT}.linear_lengths:figure",
        presets={"quick": {**QUICK, "samples": 10_000}, "paper": {}},
        expected=(
            "At L = 100: 0.17 for softmax and for linear attention over the prompt's length, above "
            "1 for linear attention over the length of its training."
        ),
    ),
    _anisotropic(
        "fig11",
        "Circuits of two heads on correlated covariates",
        "KQ of both heads is a multiple of Γ̃⁻¹, the best preconditioner, not of Σ⁻¹.",
        "figure",
        "Distances of KQ from multiples of Γ̃⁻¹ below those from Σ⁻¹.",
    ),
    _anisotropic(
        "fig14",
        "Inverse KQ of two heads on correlated covariates",
        "The inverses of KQ look like the covariance, up to sign and scale.",
        "figure_inverse",
        "Four matrices alike; off the diagonal KQ⁻¹ is nearer to Γ̃ than to Σ.",
    ),
    _tasks(
        "fig15",
        1,
        "I",
        "One head is a kernel regressor for both tasks, wider on what only one of them reads.",
        "Diagonal of KQ near 0.44, and 0.54 on the shared coordinates 2 and 3 (paper: 0.42, 0.5).",
    ),
    _tasks(
        "fig16",
        2,
        "II",
        "Two opposite heads make one gradient step for both tasks, longer on shared coordinates.",
        (
            "|ω| near 0.21, and 0.23 on the shared coordinates (paper: 0.12 and 0.13), equal μ, risk "
            "0.43. Quick: only one run in four gets there; in the others each head is still a kernel "
            "regressor for a task of its own, at risk 0.58."
        ),
    ),
    _tasks(
        "fig17",
        4,
        "III",
        "Four heads suffice for a pair of opposite heads for each task on its own coordinates.",
        (
            "Steps near 0.9 on a task's own coordinates and near 0 on the others, as pairs of heads "
            "for each task would have; risk near 0.37, that of independent steps. Quick: all runs get "
            "there in superposition, some heads serving both tasks. With ten times the steps about "
            "half of the runs come close to the clean pairs that the paper shows."
        ),
    ),
    _tasks(
        "fig18",
        3,
        "IV",
        "Three heads serve both tasks at once, one of them with opposite signs for the two.",
        (
            "Steps near 0.9 on a task's own coordinates and below 0.1 on the others with three heads "
            "only; μ sums to 0 for each task. Which head does what differs between runs."
        ),
    ),
)
