"""Claims on gradient descent in context: Theorem 4.2 and the risks it compares."""

from attnlab.claims import Claim

_THEOREM = "attnlab.papers.he2025.checks_theorem"
_RISKS = "attnlab.papers.he2025.checks_risks"

CLAIMS = (
    Claim(
        id="theorem-4.2-i",
        paper="he2025",
        title="Small opposite heads approximate debiased gradient descent",
        statement=(
            "For ω = ±γ, μ = ±η/(2γ), γ <= C/(√d log(L/δ)) and L >= 16 log(8/δ), with probability 1-δ the prediction "
            "is within Õ(γd), logarithms left out, of debiased gradient descent with step η."
        ),
        source="paper, Theorem 4.2 (i) and Appendix F.1 (the order restored from eq. F.14, F.15)",
        explanation=(
            "For small scores softmax is linear and the two heads subtract to a gradient step. The bound holds, "
            "but the distance is of second order in γ: what is even in γ cancels between the heads."
        ),
        check=f"{_THEOREM}:theorem_approximation",
        expected="confirmed",
    ),
    Claim(
        id="theorem-4.2-ii",
        paper="he2025",
        title="The best of the approximate loss is debiased gradient descent",
        statement=(
            "Over heads with |ω_h| = γ and dummies, min L̃ = 1 + σ² - 2γμ_γ increases with γ; as γ → 0 the "
            "prediction tends to debiased gradient descent with η* = (1+(1+σ²)d/L)⁻¹, which is also its "
            "exactly best step at every finite size."
        ),
        source="paper, Theorem 4.2 (ii) and Appendix F.2",
        explanation=(
            "Under the approximate loss, heads should be as small as possible, where they make a gradient step "
            "of optimal size. The exact loss disagrees at finite length, see open-true-minimiser."
        ),
        check=f"{_THEOREM}:theorem_optimality",
        expected="confirmed",
    ),
    Claim(
        id="theorem-4.2-iii",
        paper="he2025",
        title="Debiased gradient descent is Bayes optimal up to a factor",
        statement=(
            "As L → ∞, d/L → ξ with σ² > 0 and σ² + 1/ξ > 1, the risk of debiased gradient descent with η* is at "
            "most 1 + (1+σ²)ξ/(σ²(1+(1+σ²)ξ)) times Bayes' risk."
        ),
        source="paper, Theorem 4.2 (iii) and the end of Appendix F.3 (the bound restored from its last step)",
        explanation=(
            "One gradient step cannot match ridge regression, but it loses no more than a factor that depends "
            "on noise and dimension. The check compares it with the exact ratio, in the limit and at finite size."
        ),
        check=f"{_RISKS}:theorem_ratio",
        expected="confirmed",
    ),
    Claim(
        id="gd-risk",
        paper="he2025",
        title="Risks of vanilla and debiased gradient descent",
        statement=(
            "With m = L (vanilla) or L-1 (debiased), one step η has the risk σ² + 1 - 2ηm/L + η²m(m+1+d+dσ²)/L²; the "
            "best are η = L/(L+1+(1+σ²)d) and L/(L+(1+σ²)d); both risks have the same limit as L → ∞, d/L → ξ, "
            "uniformly for bounded η."
        ),
        source="paper, Appendix F.3, Steps 1 and 2, eq. (F.25)-(F.33)",
        explanation=(
            "Moments of Wishart matrices give both risks exactly at every size. Debiasing makes no difference in "
            "the limit and costs a little at every finite size."
        ),
        check=f"{_RISKS}:gd_risk",
        expected="confirmed",
    ),
    Claim(
        id="bayes-risk",
        paper="he2025",
        title="The limit of Bayes' risk",
        statement=(
            "Ridge regression with λ = dσ² is Bayes optimal; as L → ∞, d/L → ξ its risk tends to "
            "½[σ² + 1 - 1/ξ + √(4σ² + (σ² + 1/ξ - 1)²)]."
        ),
        source="paper, Appendix F.3, Step 3, eq. (F.34)-(F.36)",
        explanation=(
            "The Marchenko-Pastur law gives the limit of the best possible risk. The check compares it with the "
            "exact risk at growing sizes, and that with samples."
        ),
        check=f"{_RISKS}:bayes_risk",
        expected="confirmed",
    ),
)
