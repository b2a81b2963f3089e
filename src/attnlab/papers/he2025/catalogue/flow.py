"""Gradient flow of the heads' exact and approximate losses."""

from __future__ import annotations

from ..._framework import Experiment
from ._presets import QUICK

_ROOT = "attnlab.papers.he2025"

EXPERIMENTS = (
    Experiment(
        id="he2025/fig21",
        title="Gradient flow of two heads, d = 5: three phases, and the true decay",
        summary=(
            "ω and μ grow together, ω peaks, then μ grows on while ω shrinks along the river valley; "
            "on the approximate loss as in the paper, and on the exact one."
        ),
        source="Figure 21; Appendix D",
        config=f"{_ROOT}.flow_phases:FlowConfig",
        run=f"{_ROOT}.flow_phases:run",
        figure=f"{_ROOT}.flow_figure:figure",
        presets={"quick": {"end_time": 1e8, "points": 200}, "paper": {"end_time": 1e12}},
        expected=(
            "Peak of ϱ: 0.576 on the approximate loss (printed 0.57), 0.625 on the exact one. Under "
            "the approximate loss ϱ falls like (4λd³t)^(-1/6), local exponent -0.167 and not -0.5, and "
            "2φϱ tends to 0.879; under the exact one the flow ends at ϱ = 0.0712, φ = 6.18."
        ),
    ),
    Experiment(
        id="he2025/fig22",
        title="Gradient flow of two heads, d = 10",
        summary="The same phases in twice the dimension: a lower peak, reached later.",
        source="Figure 22; Appendix D",
        config=f"{_ROOT}.flow_phases:FlowConfig",
        run=f"{_ROOT}.flow_phases:run",
        figure=f"{_ROOT}.flow_figure:figure",
        presets={
            "quick": {"dim": 10, "end_time": 1e8, "points": 200},
            "paper": {"dim": 10, "end_time": 1e12},
        },
        expected=(
            "Peak of ϱ: 0.455 on the approximate loss (printed 0.45), 0.545 on the exact one; 2φϱ "
            "tends to 0.784, and the exact flow ends at ϱ = 0.0435."
        ),
    ),
    Experiment(
        id="he2025/fig20",
        title="Dynamics of four heads: exact risk, approximate loss, trained layer",
        summary=(
            "From a random small start the heads split into positive and negative ones, ω peaks and "
            "shrinks, μ grows: alike on the exact risk, on the approximate loss and in a layer."
        ),
        source="Figure 20; Appendix C.4",
        config=f"{_ROOT}.four_heads:FourHeadsConfig",
        run=f"{_ROOT}.four_heads:run",
        figure=f"{_ROOT}.four_heads:figure",
        presets={"quick": QUICK, "paper": {"end_time": 1e8, "times": 400}},
        expected=(
            "With seed 0: heads 3 and 4 positive, 1 and 2 negative on both losses, |ω| equal from "
            "t = 200 and 0.08 at t = 10⁵ with μ summing to 0; losses 0.2428 and 0.2209. The layer of "
            "the quick preset reaches |ω| = 0.2-0.25 with sampled risk 0.22 ± 0.01."
        ),
    ),
)
