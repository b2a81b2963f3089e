"""Claims on layers trained on correlated covariates and on several tasks."""

from attnlab.claims import Claim

_CHECKS = "attnlab.papers.he2025.checks_trained_tasks"

CLAIMS = (
    Claim(
        id="anisotropic",
        paper="he2025",
        title="On correlated covariates the heads learn the best preconditioner",
        statement=(
            "With Σ_ij = 0.5^|i-j| two trained heads are opposite, KQ = ±γΩ with Ω closer to Γ̃⁻¹ "
            "than to Σ⁻¹, where Γ̃ = ((L+1)/L) Σ + ((tr Σ + dσ²)/L) I is the preconditioner with "
            "the least risk; the inverse of KQ is close to a multiple of Γ̃ (d = 5, L = 40)."
        ),
        source="Appendix B.3 with eq. (B.5), (B.6); Appendix C.2, Figures 11 and 14",
        explanation=(
            "A gradient step does better when it undoes the correlations, and best when it also "
            "allows for how few examples there are. The check measures the angle between the "
            "learned matrix and both candidates."
        ),
        check=f"{_CHECKS}:anisotropic",
        expected="confirmed",
    ),
    Claim(
        id="multi-task",
        paper="he2025",
        title="The number of heads decides how several tasks are solved",
        statement=(
            "For two tasks on {1,2,3,4} and {3,4,5,6} (d = 6, L = 40, σ² = 0.1), which share β, "
            "trained layers have diagonal KQ and OV = diag(μ^h) on the labels, and are: a weighted "
            "kernel regressor (H = 1, mode I); one weighted debiased gradient step for both tasks "
            "(H = 2, II); independent debiased steps on the true supports in superposition "
            "(H = 3, IV), and with heads of one task each (H = 4 = 2N, III)."
        ),
        source="Definitions B.1, B.2 and eq. (B.8) in Appendix B.4; Appendix C.3, Figures 15 to 18",
        explanation=(
            "Few heads have to serve all tasks at once, many could serve one each. The check "
            "measures, start by start, which steps each task takes on which coordinates and labels."
        ),
        check=f"{_CHECKS}:multi_task",
        expected="refuted as stated",
    ),
    Claim(
        id="open-superposition",
        paper="he2025",
        title="How many heads do N tasks need?",
        statement=(
            "For N tasks with supports S_n in general: which numbers H of heads, and which "
            "allocations (ω^h, μ^h), reach the risk of N independent debiased gradient steps on the "
            "true supports? (The paper has N = 2, H = 3, and H = 2N.)"
        ),
        source="Appendix C.3, end: superposition for 2 < H < 2N, left to future work",
        explanation=(
            "Heads that serve several tasks at once can do with fewer. The check counts what small "
            "heads can do by the rank of a matrix, builds such heads, and trains some."
        ),
        check="attnlab.papers.he2025.checks_superposition:open_superposition",
        expected="confirmed",
    ),
)
