"""Trained layers with one to eight heads: their dynamics, and their loss at other lengths."""

from __future__ import annotations

from ..._framework import Experiment
from ._presets import QUICK

_ROOT = "attnlab.papers.he2025"

EXPERIMENTS = (
    Experiment(
        id="he2025/fig1a",
        title="Circuits of two heads",
        summary=(
            "KQ is ±ω times the identity on the covariates, OV reads the label only, and the two "
            "heads are opposite."
        ),
        source="Figure 1a; Section 3",
        config=f"{_ROOT}.training:TrainedConfig",
        run=f"{_ROOT}.dynamics:run",
        figure=f"{_ROOT}.heatmaps:figure",
        presets={"quick": {**QUICK, "n_heads": 2}, "paper": {"n_heads": 2}},
        expected=(
            "ω = ±0.23 and μ = ±1.9 (quick), ±0.13 and ±3.5 in the paper; entries that do not fit "
            "the pattern are a few hundredths of the others."
        ),
    ),
    Experiment(
        id="he2025/fig2a",
        title="Circuits of one head",
        summary="A single head is a kernel regressor with a wide kernel.",
        source="Figure 2a; Section 3",
        config=f"{_ROOT}.training:TrainedConfig",
        run=f"{_ROOT}.dynamics:run",
        figure=f"{_ROOT}.heatmaps:figure",
        presets={"quick": {**QUICK, "n_heads": 1}, "paper": {"n_heads": 1}},
        expected=(
            "|ω| near 0.52 and |μ| near 1.48 in both presets (the paper prints 0.52 and 1.42); the "
            "sign of the pair is that of the start."
        ),
    ),
    Experiment(
        id="he2025/fig4",
        title="Circuits of two heads during training",
        summary="Diagonal KQ and label-only OV form early and stay while ω and μ go on.",
        source="Figure 4; Section 3",
        config=f"{_ROOT}.training:TrainedConfig",
        run=f"{_ROOT}.dynamics:run",
        figure=f"{_ROOT}.heatmaps:figure_evolution",
        presets={
            "quick": {**QUICK, "n_heads": 2},
            "paper": {"n_heads": 2, "steps": 1_000_000, "saves": 400},
        },
        expected="The pattern of the last row is there at a tenth of the training.",
    ),
    Experiment(
        id="he2025/fig13",
        title="Circuits of four heads during training",
        summary="Heads that will not matter stay without pattern and fade away.",
        source="Figure 13; Appendix C.1",
        config=f"{_ROOT}.training:TrainedConfig",
        run=f"{_ROOT}.dynamics:run",
        figure=f"{_ROOT}.heatmaps:figure_evolution",
        presets={"quick": {**QUICK, "n_heads": 4}, "paper": {"n_heads": 4}},
        expected=(
            "Positive and negative heads with diagonal KQ; a dummy head occurs in some runs only, "
            "and its KQ and OV fade."
        ),
    ),
    Experiment(
        id="he2025/fig1b",
        title="Training of two heads: ω and μ against steps",
        summary=(
            "One head becomes positive, the other negative, with the same |ω| and |μ|; |ω| rises "
            "first and falls slowly while |μ| grows, and 2ωμ stays near the best step."
        ),
        source="Figure 1b; Section 3",
        config=f"{_ROOT}.training:TrainedConfig",
        run=f"{_ROOT}.dynamics:run",
        figure=f"{_ROOT}.dynamics:figure",
        presets={"quick": {**QUICK, "n_heads": 2}, "paper": {"n_heads": 2}},
        expected=(
            "Σ ωμ near 0.88, the best step of debiased gradient descent. Paper: |ω| near 0.13 and "
            "|μ| near 3.5 after 500 000 steps; the shorter training of the quick preset, with a "
            "learning rate ten times as large at its start, ends at 0.23 and 1.9. One run in four "
            "is still stuck with two heads of one sign then, at the risk of a single head (0.39)."
        ),
    ),
    Experiment(
        id="he2025/fig2b",
        title="Training of four heads: ω and μ against steps",
        summary="Four heads split into positive, negative and, in some runs, dummy ones.",
        source="Figures 2b and 2c; Section 3",
        config=f"{_ROOT}.training:TrainedConfig",
        run=f"{_ROOT}.dynamics:run",
        figure=f"{_ROOT}.dynamics:figure",
        presets={"quick": {**QUICK, "n_heads": 4}, "paper": {"n_heads": 4}},
        expected=(
            "|ω| of the heads that matter equal, μ summing to 0, Σ ωμ near 0.88, the same sums of "
            "positive and of negative μ as with two heads."
        ),
    ),
    Experiment(
        id="he2025/fig12",
        title="Training with two, three and four heads",
        summary="Whatever the number of heads, the same |ω| and the same sums of μ are learned.",
        source="Figure 12; Appendix C.1",
        config=f"{_ROOT}.dynamics:HeadCountsConfig",
        run=f"{_ROOT}.dynamics:run_heads",
        figure=f"{_ROOT}.dynamics:figure_heads",
        presets={"quick": QUICK, "paper": {}},
        expected=(
            "Equal |ω| and equal sums of positive and of negative μ for H = 2, 3, 4: quick 0.23 and "
            "±1.9, paper 0.13 and ±3.5."
        ),
    ),
    Experiment(
        id="he2025/fig3a",
        title="Loss against test length: numbers of heads",
        summary=(
            "Layers trained at L = 40 and tested at other lengths: two heads and more are alike, "
            "and better than one head everywhere."
        ),
        source="Figure 3a; Section 3",
        config=f"{_ROOT}.lengths:HeadsByLengthConfig",
        run=f"{_ROOT}.lengths:run",
        figure=f"{_ROOT}.lengths:figure_heads",
        presets={"quick": {**QUICK, "heads": (1, 2, 4), "samples": 10_000}, "paper": {}},
        expected="At L = 40: 0.24 for two heads and more, 0.38 for one head.",
    ),
    Experiment(
        id="he2025/fig3b",
        title="Loss against test length: heads beside estimators",
        summary=(
            "One and two heads, trained at L = 40, beside gradient descent, debiased gradient "
            "descent, ridge and least squares at other lengths: two heads follow debiased "
            "gradient descent."
        ),
        source="Figure 3b; Section 3",
        config=f"{_ROOT}.lengths:HeadsByLengthConfig",
        run=f"{_ROOT}.lengths:run",
        figure=f"{_ROOT}.lengths:figure_estimators",
        presets={
            "quick": {**QUICK, "heads": (1, 2), "samples": 10_000},
            "paper": {"heads": (1, 2)},
        },
        expected=(
            "At L = 40: 0.24 for two heads, debiased gradient descent 0.243, ridge 0.113, 0.38 for "
            "one head."
        ),
    ),
)
