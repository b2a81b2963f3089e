"""Claims on the approximate loss and its minimisers, and the open question about the exact one."""

from attnlab.claims import Claim

_LOSS = "attnlab.papers.he2025.checks_loss"
_MINIMISER = "attnlab.papers.he2025.checks_minimiser"

CLAIMS = (
    Claim(
        id="approximate-loss",
        paper="he2025",
        title="The approximate loss is near the exact one",
        statement=(
            "If |ω_h| <= 0.1 √(log L/max(d, log L)) and |μ_h| <= L^(1/5), then L̃ = 1 + σ² - 2μᵀω + μᵀ(ωωᵀ + "
            "((1+σ²)/L) exp(dωωᵀ))μ differs from the population loss by O(d H² L^(-1/5))."
        ),
        source="paper, Proposition 4.1 (λ = 1/5 in Proposition E.1), eq. (4.1), and Figure 5",
        explanation=(
            "The theory of training in the paper rests on replacing the loss by an elementary function. The "
            "exact loss at any d and L shows how far off it is, at what rate, and which step of the "
            "approximation costs how much."
        ),
        check=f"{_LOSS}:approximate_loss",
        expected="confirmed",
    ),
    Claim(
        id="optimal-mu",
        paper="he2025",
        title="The best read-outs and the solution manifold",
        statement=(
            "At fixed ω, L̃ is least at μ* = (ωωᵀ + ((1+σ²)/L) exp(dωωᵀ))⁻¹ω. For |ω_h| = γ these are all μ whose "
            "sums over positive and negative heads are ±μ_γ, 2γμ_γ = (1 + (1+σ²) sinh(dγ²)/(Lγ²))⁻¹, "
            "dummy heads 0."
        ),
        source="paper, section 4.2, eq. (4.5)",
        explanation=(
            "Once the key-query scales are given, the best read-outs are a linear problem, and only their "
            "sums by sign matter. The check tests members of the manifold and sets the exact optimum beside them."
        ),
        check=f"{_LOSS}:optimal_mu",
        expected="confirmed",
    ),
    Claim(
        id="single-head",
        paper="he2025",
        title="The best single head",
        statement="For H = 1, L̃ is least at ω = 1/√d, μ = √d/(1 + e(1+σ²)d/L), up to a common sign.",
        source="paper, section 4.3 (single head), after Chen et al. (2024a)",
        explanation=(
            "A lone head has to use scores large enough to be informative and small enough not to pick one "
            "example. The minimiser of the exact loss is another one, nearer to what training finds."
        ),
        check=f"{_LOSS}:single_head",
        expected="confirmed",
    ),
    Claim(
        id="open-true-minimiser",
        paper="he2025",
        title="Is γ → 0 optimal, and why does training stop near 0.13?",
        statement=(
            "Is the exact loss at finite L least as γ → 0, as L̃ is? If not, where, and by how much; do unequal "
            "or more heads do better; and why does training end with |ω| near 0.13 (d = 5, L = 40)?"
        ),
        source="paper, sections 4.2 and 4.3: stated for the approximate loss, left open for the exact one",
        explanation=(
            "The paper finds the optimum in a limit that training does not approach, and names edge of stability "
            "as the reason. The exact loss gives the true minimum of two heads, and infima of more, which no heads "
            "reach. The noise of Adam's batches gives the place where training rests."
        ),
        check=f"{_MINIMISER}:open_true_minimiser",
        expected="confirmed",
    ),
)
