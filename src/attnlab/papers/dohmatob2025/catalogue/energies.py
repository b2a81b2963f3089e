"""The bulk as a random energy model, and the exponents of attention."""

from __future__ import annotations

from ..._framework import Experiment

_ROOT = "attnlab.papers.dohmatob2025"

EXPERIMENTS = (
    Experiment(
        id="dohmatob2025/free-energy",
        title="Free energy and thermal average of the uninformative tokens",
        summary=(
            "E log Z and its derivative, exact from d = 10 to d = 1000, beside the two-phase limit "
            "ψ, r and beside a closed form of finite size."
        ),
        source="rebuttal, answer to reviewer CnGc (eq. (14), (15) and the intuition for them)",
        config=f"{_ROOT}.bulk_curves:BulkConfig",
        run=f"{_ROOT}.bulk_curves:run",
        figure=f"{_ROOT}.bulk_curves:figure_free_energy",
        presets={"quick": {"points": 20}, "paper": {"points": 200, "dims": (10, 20, 50, 100, 200, 500, 1000, 2000)}},
        expected=(
            "Error of ψ at α = 0.2, β = 1.5 β_c: 0.18, 0.027, 0.0044 for d = 10, 100, 1000; at β_c 0.13, "
            "0.011, 0.0011; below it is exponentially small. Error of r at 1.5 β_c: 0.26, 0.048, 0.007. "
            "r = β(1 − E Σq²) exactly, and the finite-size form of log Z is indistinguishable."
        ),
        cites=("derrida1981",),
    ),
    Experiment(
        id="dohmatob2025/condensation",
        title="Condensation: the number of tokens that share the attention",
        summary=(
            "The exact participation ratio of the bulk against temperature and d: exponentially "
            "small above the critical temperature, 1 − β_c/β below it, and the law in between."
        ),
        source="rebuttal, answer to reviewer CnGc (condensation phase transition, Section 4.1)",
        config=f"{_ROOT}.bulk_curves:BulkConfig",
        run=f"{_ROOT}.bulk_curves:run",
        figure=f"{_ROOT}.bulk_curves:figure_condensation",
        presets={"quick": {"points": 40}, "paper": {"points": 200, "dims": (10, 20, 50, 100, 200, 500, 1000, 2000)}},
        expected=(
            "E Σq² at β = 2 β_c: 0.693, 0.532, 0.505 for d = 10, 100, 1000, limit 0.5; at β_c 0.47, 0.135, "
            "0.041, falling as d^(-1/2). Below β_c the rate is α − β² up to β_c/√3 and that of one heavy "
            "token beyond, less than the median's."
        ),
        cites=("derrida1981", "bouchaud1997"),
    ),
    Experiment(
        id="dohmatob2025/mass-exponents",
        title="Exponential rates of the attention mass",
        summary=(
            "How fast E p vanishes in the dark phase and E (1 − p) in retrieval, exact, beside the "
            "rates of the printed sigmoid and of large deviations."
        ),
        source="rebuttal, answer to reviewer CnGc (the formula for p); extends it",
        config=f"{_ROOT}.mass_exponents:ExponentsConfig",
        run=f"{_ROOT}.mass_exponents:run",
        figure=f"{_ROOT}.mass_exponents:figure",
        presets={"quick": {"points": 16}, "paper": {"dims": (50, 200, 800, 1600), "points": 100}},
        expected=(
            "At α = 0.1, γ² = 1/2: E p at κ = 0, β = 1.2 β_c vanishes at the rate 0.168, printed 0.240; "
            "E (1 − p) at κ = 1 at 0.067 for every β >= β_c, printed 0.174 at 1.5 β_c and 0.349 at 3 β_c. "
            "Typical prompts have the printed rates."
        ),
    ),
)  # fmt: skip
