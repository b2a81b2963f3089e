"""Claims on attention, the bulk and the risk at fixed parameters."""

from attnlab.claims import Claim

_BULK = "attnlab.papers.dohmatob2025.checks_bulk"
_ATTENTION = "attnlab.papers.dohmatob2025.checks_attention"
_RISK = "attnlab.papers.dohmatob2025.checks_risk"

CLAIMS = (
    Claim(
        id="attention-mass",
        paper="dohmatob2025",
        title="The weight of the informative token, and the printed sign",
        statement=(
            "As d → ∞ with log L = αd, away from cκ = ψ(β), the informative token's weight is "
            "p = 1/(1 + e^{(cκ - ψ)βd}), κ = u·u*."
        ),
        source="rebuttal, answer to reviewer CnGc: the display after 'Lemma xyz'; again as p in R(u, v)",
        explanation=(
            "Attention finds the one useful token when its signal exceeds what the crowd of the others "
            "reaches by chance. The formula for this is printed with the sign of its exponent turned, "
            "so that attention would fail exactly where it succeeds."
        ),
        check=f"{_ATTENTION}:attention_mass",
        expected="refuted as stated",
    ),
    Claim(
        id="free-energy",
        paper="dohmatob2025",
        title="The free energy of the uninformative tokens",
        statement=(
            "With L = e^{αd} bulk tokens log Z/(βd) → ψ(β): α/β + β/2 for β <= β_c = √(2α), and √(2α) "
            "for β >= β_c, as d → ∞."
        ),
        source="rebuttal, answer to reviewer CnGc, eq. (14) (the equation is derived again here)",
        explanation=(
            "The softmax's normaliser is the partition function of a random energy model, which has a "
            "simple limit with two phases. Exact values up to d = 1000 show how far the limit is."
        ),
        check=f"{_BULK}:free_energy",
        expected="confirmed",
    ),
    Claim(
        id="thermal-average",
        paper="dohmatob2025",
        title="The level of the tokens that carry the weight",
        statement="(1/d) ∂ log Z/∂β → r = min(β, β_c), as d → ∞, for every β ≠ β_c.",
        source="rebuttal, answer to reviewer CnGc, eq. (15) and f_{2,1}",
        explanation=(
            "It says how far out the bulk tokens lie that attention picks. The exact derivative is "
            "compared with the limit, and with an identity that ties it to how many tokens share the "
            "weight."
        ),
        check=f"{_BULK}:thermal_average",
        expected="confirmed",
    ),
    Claim(
        id="condensation",
        paper="dohmatob2025",
        title="Very few or exponentially many tokens",
        statement=(
            "The bulk's weights condense on very few tokens for β > β_c, where E Σq² → 1 - β_c/β, and "
            "are spread over exponentially many for β < β_c, where E Σq² is exponentially small in d."
        ),
        source=(
            "rebuttal, answer to reviewer CnGc: 'very few or an exponential number of energy levels'; "
            "Section 4.1 (the numbers are derived again here)"
        ),
        explanation=(
            "The participation ratio is one over the number of tokens that share the attention. Its "
            "exact value shows both phases, and that the mean below the transition is made by rare "
            "prompts."
        ),
        check=f"{_BULK}:condensation",
        expected="confirmed",
    ),
    Claim(
        id="risk-linear",
        paper="dohmatob2025",
        title="The risk for the linear link",
        statement=(
            "For the linear link f ≃ p x·v + (1-p) r ρ √d, hence "
            "R ≃ (p c√d θ + (1-p) r ρ √d)² + γ²(p² - 2pν + 1), as d → ∞ (p with the corrected sign)."
        ),
        source="rebuttal, answer to reviewer CnGc: Proposition 1 for the linear link, Corollary 1",
        explanation=(
            "The formula keeps the mean of what the crowd of tokens contributes and drops its noise. "
            "When attention has condensed on a few wrong tokens, that noise is as large as the rest."
        ),
        check=f"{_RISK}:risk_linear",
        expected="refuted as stated",
    ),
    Claim(
        id="risk-general-link",
        paper="dohmatob2025",
        title="The risk for quadratic, ReLU, tanh and erf links",
        statement=(
            "For a general link R ≃ p² H1(1, θ, ρ) - 2p H2(ν, θ, ρ) + H1(1, 0, ρ), H1 and H2 the "
            "Gaussian second moments of the informative token's read-out and label, as d → ∞."
        ),
        source="rebuttal, answer to reviewer CnGc: R(u, v) in the proof of convergence, step 1",
        explanation=(
            "The printed risk knows the informative token alone. It is right where that token is found, "
            "and wrong where it is not: the other tokens then answer in its place."
        ),
        check=f"{_RISK}:risk_general_link",
        expected="refuted as stated",
    ),
    Claim(
        id="learnability",
        paper="dohmatob2025",
        title="The boundary of what can be learnt",
        statement=(
            "With c² = 1 - γ² and log L = αd the oracle attends to the informative token as d → ∞, at a "
            "suitable β, if and only if 1 - γ² > 2α."
        ),
        source="rebuttal, answer to reviewer CnGc (p and ψ, from which it follows)",
        explanation=(
            "Beyond a certain length some token looks more informative than the informative one, by "
            "chance. Exact attention at d up to 1000 has its step where the limit says."
        ),
        check=f"{_ATTENTION}:learnability",
        expected="confirmed",
    ),
    Claim(
        id="mass-exponents",
        paper="dohmatob2025",
        title="How fast attention is lost or completed",
        statement=(
            "E p (where cκ < ψ) and E (1-p) (where cκ > ψ) vanish as the sigmoid does, like "
            "e^{-β|cκ - ψ|d}."
        ),
        source="rebuttal, answer to reviewer CnGc: p ≃ 1/(1 + e^{(cμ-ψ)βd}), ≃ meaning ratio → 1",
        explanation=(
            "The sigmoid describes a typical prompt. The average over prompts, which the risk needs, is "
            "made by rare ones, so that it vanishes more slowly, at rates that exact values confirm."
        ),
        check=f"{_ATTENTION}:mass_exponents",
        expected="refuted as stated",
    ),
    Claim(
        id="minimum-zero",
        paper="dohmatob2025",
        title="The smallest risk",
        statement="Without label noise the smallest risk over unit vectors u, v is R_min = 0.",
        source="rebuttal, answer to reviewer CnGc, step 2: R_min := min R(u, v) = 0",
        explanation=(
            "At finite size now and then another token looks like the informative one, and no predictor "
            "can tell. So the smallest risk is positive, and falls to 0 exponentially as the dimension "
            "grows."
        ),
        check=f"{_ATTENTION}:minimum_zero",
        expected="refuted as stated",
    ),
    Claim(
        id="long-sequences",
        paper="dohmatob2025",
        title="Prompts of exponential length",
        statement=(
            "The theory holds for log L = O(d), where L is exponential in d and the theory and the "
            "student of short prompts (L/d → 0) fail."
        ),
        source="rebuttal, answer to reviewer t3fK, item 4 (Remark 4 of the paper)",
        explanation=(
            "Softmax compares tokens with each other, so that it can ignore astronomically many of "
            "them. Attention without that competition lets through noise from each token and is lost "
            "at these lengths."
        ),
        check=f"{_RISK}:long_sequences",
        expected="confirmed",
    ),
)
