"""Claims on the gradient flow of two heads."""

from attnlab.claims import Claim

_FLOW = "attnlab.papers.he2025.checks_flow"

CLAIMS = (
    Claim(
        id="flow-phases",
        paper="he2025",
        title="Three phases of the two-head flow",
        statement=(
            "From ω = μ = (α, -α), α small, the flow on L̃/2 has three phases: φ = μ₁ and ϱ = ω₁ grow like e^t "
            "with φ/ϱ <= 1 + λ/4 until ϱ = 1/(2√d); ϱ peaks at the order √(log d/d) (0.57 at d = 5, 0.45 at "
            "d = 10; L = 40, σ² = 0.1); then 2φϱ → 1/(1+(1+σ²)d/L)."
        ),
        source="paper, Appendix D, Figures 21 and 22",
        explanation=(
            "Both parameters first grow together, then the key-query scale turns back while the read-out goes "
            "on growing, at a constant product. The check integrates the flow over 10⁹ units of time."
        ),
        check=f"{_FLOW}:flow_phases",
        expected="confirmed",
    ),
    Claim(
        id="flow-decay",
        paper="he2025",
        title="How fast the key-query scale decays",
        statement=(
            "In the last phase of the flow on L̃/2, ϱ decreases to 0 at the rate Θ((d√t)⁻¹) and φ increases as Θ(d√t)."
        ),
        source="paper, Appendix D, Phase III, after eq. (D.18)",
        explanation=(
            "The paper eliminates φ at fixed ϱ, but ϱ is the fast variable and φ the slow one. The flow "
            "itself decays much more slowly, and under the exact loss it does not decay to 0."
        ),
        check=f"{_FLOW}:flow_decay",
        expected="refuted as stated",
    ),
    Claim(
        id="symmetry-preserved",
        paper="he2025",
        title="Opposite heads stay opposite",
        statement=(
            "Started at ω₁ = -ω₂, μ₁ = -μ₂, the gradient flow on L̃ keeps these equalities at all times; so does that "
            "on the exact loss."
        ),
        source="paper, Appendix D, eq. (D.1)-(D.3); for the exact loss shown here",
        explanation=(
            "A symmetric start leaves two numbers to follow in place of four. The reason is a symmetry of the "
            "task, and it holds for every loss that has it."
        ),
        check=f"{_FLOW}:symmetry_preserved",
        expected="confirmed",
    ),
)
