"""The risk against its mean-field theory."""

from __future__ import annotations

from ..._framework import Experiment

_ROOT = "attnlab.papers.dohmatob2025"

EXPERIMENTS = (
    Experiment(
        id="dohmatob2025/risk-vs-theory",
        title="The exact risk beside its mean-field theory and sampled prompts",
        summary=(
            "Along a path of students towards the marker, on both sides of the condensation, and "
            "along the inverse temperature; at two dimensions with the same α."
        ),
        source="rebuttal, answer to reviewer CnGc (Proposition 1 and Corollary 1)",
        config=f"{_ROOT}.risk_curves:CurvesConfig",
        run=f"{_ROOT}.risk_curves:run",
        figure=f"{_ROOT}.risk_curves:figure",
        presets={
            "quick": {"points": 16, "samples": 4000},
            "paper": {"length": 1000, "points": 100, "samples": 20_000, "sampled_points": 12},
        },
        expected=(
            "At κ = 0.4, β = 1.1 β_c the limit is 29 % above the exact risk at d = 26 and 12 % at d = 260; "
            "at β = 0.7 β_c 4 % and 0.01 %. With finite d kept: 1e-6 and 2e-9. Samples agree with the "
            "exact risk within their errors."
        ),
    ),
    Experiment(
        id="dohmatob2025/finite-size",
        title="How fast the mean-field risk nears the exact one",
        summary=(
            "The difference against d, in both phases, in retrieval and in the dark, and on the "
            "lines between them, with the predicted leading terms; and with the finite-size form."
        ),
        source="rebuttal, answer to reviewer CnGc (meaning of ≃ in Proposition 1); extends it",
        config=f"{_ROOT}.finite_size:FiniteSizeConfig",
        run=f"{_ROOT}.finite_size:run",
        figure=f"{_ROOT}.finite_size:figure",
        presets={"quick": {"points": 9}, "paper": {"points": 40}},
        expected=(
            "At d = 1000, α = 0.1, limit minus exact: -0.0099 in the condensed dark phase (predicted "
            "-0.0099), +0.62 with ρ = 0.3 (0.64), -0.058 at β_c (-0.056), -0.18 at cκ = ψ (-0.24 in the "
            "end); away from these exponentially small, 5e-10 at d = 562 and below. The finite-size form "
            "is within 3e-6 from d = 18 on, 2e-8 at d = 1000."
        ),
    ),
)
