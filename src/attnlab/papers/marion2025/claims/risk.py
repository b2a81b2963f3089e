"""Claims on the risk: its formula, the oracle, linear predictors, the size of the noise."""

from attnlab.claims import Claim

_CHECKS = "attnlab.papers.marion2025.checks_risk"

CLAIMS = (
    Claim(
        id="risk-formula",
        paper="marion2025",
        title="The closed form of the risk",
        statement=(
            "For any d, L, λ, γ, label noise and overlaps, the population risk of the erf student "
            "equals the closed form assembled from per-token moments of independent tokens."
        ),
        source="paper, Lemma 6 (risk) and Lemma 18 (expectations of erf)",
        explanation=(
            "The risk of the student depends on its two vectors through five inner products only. "
            "Plain sampling of prompts, at settings drawn at random, has to agree with the formula."
        ),
        check=f"{_CHECKS}:risk_formula",
        expected="confirmed",
    ),
    Claim(
        id="bayes-optimal",
        paper="marion2025",
        title="The oracle attention is asymptotically Bayes optimal",
        statement=(
            "At fixed L the excess risk of the parameters (k*, v*) over the Bayes risk ε² tends to 0 "
            "as d → ∞ if λ → 0 and λ√d → ∞; at the best λ it falls as log(d)/d."
        ),
        source="paper, risk section: Bayes optimality of the oracle predictor",
        explanation=(
            "λ has to be large enough to mark the informative token and small enough to silence the "
            "others, which is possible only as the dimension grows. The rate is a measurement of "
            "this library; the limit is the paper's."
        ),
        check=f"{_CHECKS}:bayes_optimal",
        expected="confirmed",
    ),
    Claim(
        id="linear-fails",
        paper="marion2025",
        title="Linear predictors fail",
        statement=(
            "The best affine function of the flattened prompt has, for every d, the risk "
            "γ² - γ⁴/(L - 1 + γ²) (γ² = 1/2): within 1/L of predicting 0, where attention's vanishes."
        ),
        source="paper, risk section: failure of linear predictors",
        explanation=(
            "A linear predictor cannot know which token to read, so it averages all of them. Its "
            "risk stays near that of always answering 0, however large the dimension."
        ),
        check=f"{_CHECKS}:linear_fails",
        expected="confirmed",
    ),
    Claim(
        id="clt-magnitude",
        paper="marion2025",
        title="The noise tokens add up to λ√L",
        statement=(
            "On M, for λ <= 0.1, the sum of the L - 1 noise tokens' contributions has a standard "
            "deviation proportional to λ√(L - 1), with the factor 2/√π up to 0.02."
        ),
        source="rebuttal, answer Q2 (paper, line 334)",
        explanation=(
            "Independent contributions of size λ and mean zero add up like a random walk. The check "
            "measures both exponents and the factor, and says where the statement ends."
        ),
        check=f"{_CHECKS}:clt_magnitude",
        expected="confirmed",
    ),
)
