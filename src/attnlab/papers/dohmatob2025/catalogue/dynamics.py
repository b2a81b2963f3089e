"""The flow on M, where descents end, and other links."""

from __future__ import annotations

from ..._framework import Experiment

_ROOT = "attnlab.papers.dohmatob2025"

EXPERIMENTS = (
    Experiment(
        id="dohmatob2025/flow",
        title="The gradient flow on M, exact and in mean field",
        summary=(
            "Directions, speed and orbits of the flow in the (κ, ν) square, for the linear link and "
            "others, on the exact risk and on its mean-field limit."
        ),
        source="rebuttal, answer to reviewer CnGc: the flow, eq. (30), Propositions 4 and 7",
        config=f"{_ROOT}.flow:FlowConfig",
        run=f"{_ROOT}.flow:run",
        figure=f"{_ROOT}.flow:figure",
        presets={
            "quick": {},
            "paper": {"links": ("linear", "quadratic", "tanh", "erf"), "points": 41, "paths": 24},
        },
        expected=(
            "At d = 20, L = 100, β = 1 every orbit of the linear link ends at (1, 1); an even link has two "
            "teachers, (1, ±1). Speeds span nine decades: κ < 0 is a plateau. The mean-field plateau is deeper "
            "(its p falls faster than the exact average)."
        ),
        cites=("absil2008",),
    ),
    Experiment(
        id="dohmatob2025/global-convergence",
        title="Where descents from M and from anywhere end",
        summary=(
            "Hundreds of descents on the exact risk from M and from the spheres: every attractor with "
            "its Hessian and risk, basin shares and escape times, against β, d and L."
        ),
        source="rebuttal, answers to t3fK (global convergence) and Mp31 (initialisation)",
        config=f"{_ROOT}.global_convergence:GlobalConfig",
        run=f"{_ROOT}.global_convergence:run",
        figure=f"{_ROOT}.global_figure:figure",
        presets={
            "quick": {
                "runs": 48, "steps": 5000, "spreads": (1.5, 2.0, 6.0), "dims": (5, 20, 50),
                "lengths": (5, 100, 10_000),
            },
            "paper": {
                "runs": 500, "steps": 100_000,
                "spreads": (1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 4.0, 6.0, 10.0),
                "dims": (5, 7, 10, 20, 30, 50, 100, 200),
                "lengths": (5, 10, 20, 50, 100, 300, 1000, 3000, 10_000, 100_000),
            },
        },
        expected=(
            "From M all runs reach the teacher, given time. From uniform starts at d = 20, L = 100, β√d = 1.5 "
            "0.69 ± 0.06 do and 0.28 end at the swapped pair κ = 0.508, ν = -0.580, θ = ±0.815, η = ±0.861, a "
            "minimum 0.167 above the teacher's risk (smallest eigenvalue 0.027); it is gone at β√d = 3. "
            "At L = 10⁴ nearly all are still on the plateau."
        ),
        cites=("absil2008",),
    ),
    Experiment(
        id="dohmatob2025/links",
        title="Other links: is M invariant, does the teacher attract?",
        summary=(
            "Profiles of the exact risk on M and around the teacher, slopes off M, and the teacher's "
            "gradient and Hessian, for linear, quadratic, tanh, erf and ReLU links."
        ),
        source="rebuttal, answer to reviewer CnGc: assumption on σ; ReLU left out",
        config=f"{_ROOT}.links:LinksConfig",
        run=f"{_ROOT}.links:run",
        figure=f"{_ROOT}.links:figure",
        presets={
            "quick": {"links": ("linear", "quadratic", "relu"), "manifold_points": 4, "points": 13},
            "paper": {"points": 101, "manifold_points": 200},
        },
        expected=(
            "At d = 20, L = 20, β = 1 slopes off M vanish for odd and even links and reach 0.69 (ρ) for ReLU. "
            "Smallest Hessian eigenvalue at the teacher: 0.481 linear, 0.866 quadratic, 0.219 tanh, 0.26 erf. "
            "ReLU's gradient there is 0.074: its minimum has k turned away from v."
        ),
    ),
)  # fmt: skip
