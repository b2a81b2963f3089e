"""The landscape off and on M: attractors, the flow field, and the stability of M."""

from __future__ import annotations

from ..._framework import Experiment

_HERE = "attnlab.papers.marion2025"

EXPERIMENTS = (
    Experiment(
        id="marion2025/attractors",
        title="Where random starts off the manifold end",
        summary=(
            "Hundreds of descents from uniform starts, every end state classified and confirmed by "
            "its Hessian: shares and risks against λ, d and L, and a map of the second minimum."
        ),
        source="experiments and discussion: general initialisation (left open)",
        config=f"{_HERE}.attractors:AttractorsConfig",
        run=f"{_HERE}.attractors:run",
        figure=f"{_HERE}.attractors_figure:figure",
        presets={
            "quick": {
                "runs": 64, "scales": (0.03, 0.1, 0.6, 0.9), "dims": (20, 400), "lengths": (2, 10),
                "horizon": 50.0, "map_points": 6,
            },
            "paper": {
                "runs": 400,
                "scales": (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.88, 0.9, 1.0, 1.2, 1.5),
                "dims": (10, 20, 50, 100, 200, 400, 1000),
                "lengths": (2, 5, 10, 30, 100),
                "horizon": 150.0, "search_starts": 256, "map_points": 25,
            },
        },
        expected=(
            "Two pairs of attractors for λ < 0.892: ±teacher, and the swapped roles k = ±v*, "
            "|v·k*| = 0.630 at λ = 0.1. The swapped share is 1/2 for λ <= 0.2 at every d and L, 0.24 "
            "at λ = 0.6, 0.06 at 0.8; its risk is 37 % below the teacher's at λ = 0.05, 1.8 % above "
            "at 0.1, 4 % at 0.8. For λ >= 1 all runs end tilted, 5 % (λ = 1) to 20 % (λ = 1.5) below "
            "the teacher's risk; at λ = 0.9 they are still on their way."
        ),
        cites=("rader2024",),
    ),
    Experiment(
        id="marion2025/phase-portrait",
        title="The flow on the invariant manifold, and on its twin",
        summary=(
            "Flow field, basins and stationary points in the (κ, ν) plane of M, and in the (θ, η) "
            "plane of M' = {κ = ν = ρ = 0}, the second manifold that a symmetry keeps invariant."
        ),
        source="dynamics on the invariant manifold: saddles and minimisers",
        config=f"{_HERE}.portrait:PortraitConfig",
        run=f"{_HERE}.portrait:run",
        figure=f"{_HERE}.portrait:figure",
        presets={"quick": {"points": 11}, "paper": {"points": 21, "basin_time": 60.0}},
        expected=(
            "On each plane two basins divided by a line through the saddle at the origin. On M at "
            "λ = 0.1 the minima are ±(1, 1), and at λ = 0.9, where κ hardly moves beyond 0.3, "
            "they are saddles in R^d. On M' the minima are ±(0.630, 1) and ±(0.090, 1)."
        ),
    ),
    Experiment(
        id="marion2025/stability",
        title="Transverse stability of the invariant manifold",
        summary=(
            "Whether perturbations off M shrink: at the teacher against λ and L, over all of M, and "
            "accumulated along trajectories."
        ),
        source="rebuttal and discussion: stability of the manifold in the sense of dynamical systems",
        config=f"{_HERE}.stability:StabilityConfig",
        run=f"{_HERE}.stability:run",
        figure=f"{_HERE}.stability:figure",
        presets={
            "quick": {},
            "paper": {"scale_points": 400, "steps": 40_000, "map_points": 61, "lengths": (2, 10, 50, 200)},
        },
        expected=(
            "At the teacher (d = 400) the largest transverse exponent is -0.21 per unit of time at "
            "λ = 0.1, L = 10, and changes sign at λ = 0.869, 0.892 and 1.024 for L = 2, 10, 50, as "
            "the formula says. Near the origin M repels at every λ, at about 0.77 for λ = 0.1."
        ),
    ),
)  # fmt: skip
