"""Normalised activations in place of softmax."""

from __future__ import annotations

from ..._framework import Experiment
from ._presets import QUICK

_ROOT = "attnlab.papers.he2025"


def _experiment(
    name: str, title: str, summary: str, source: str, figure: str, expected: str
) -> Experiment:
    """One figure of the training that all of them share."""
    return Experiment(
        id=f"he2025/{name}",
        title=title,
        summary=summary,
        source=f"{source}; Appendix B.2",
        config=f"{_ROOT}.activations:ActivationsConfig",
        run=f"{_ROOT}.activations:run",
        figure=f"{_ROOT}.activation_figures:{figure}",
        # Not in the paper: without a bound, single prompts on which the sum of 1 + Cx comes close
        # to 0 undo thousands of steps, in the first thousands at least.
        presets={
            "quick": {**QUICK, "runs": 2, "samples": 10_000, "clip": 0.1},
            "paper": {"runs": 2, "clip": 0.1},
        },
        expected=expected,
    )


EXPERIMENTS = (
    _experiment(
        "fig8",
        "Circuits of two heads with normalised activations",
        "Diagonal KQ, label-only OV and opposite heads for every activation f, at sizes of its own.",
        "Figure 8",
        "figure",
        "The pattern of softmax in every row.",
    ),
    _experiment(
        "fig9",
        "Training with normalised activations",
        "ω and μ of both heads: opposite heads form for every activation, on different ways.",
        "Figure 9",
        "figure_dynamics",
        "Opposite pairs at the end; with 1 + tanh, ω first rises far and then falls, as with softmax.",
    ),
    _experiment(
        "fig10",
        "Loss against test length with normalised activations",
        "All layers generalise in length about as (debiased) gradient descent with the same step.",
        "Figure 10",
        "figure_lengths",
        (
            "0.24 at L = 40 and 0.17 at L = 100 for all. 1 + Cx: large errors on prompts shorter "
            "than 25, where the sum of the weights comes close to 0."
        ),
    ),
    _experiment(
        "table1",
        "What two heads learn with normalised activations",
        "|ω| and |μ| differ between activations, the effective step 2 C_f |ω| |μ| hardly does.",
        "Table 1",
        "figure_table",
        (
            "Effective steps 0.84-0.89 for exp and 1 + Cx, 1.04-1.08 for (1 + Cx)² and 1 + tanh x "
            "(quick), where η* is 0.879 and the paper says close to one."
        ),
    ),
)
