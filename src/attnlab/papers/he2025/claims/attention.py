"""Claims on the weights of one or two heads: identities, kernels, concentration."""

from attnlab.claims import Claim

_ATTENTION = "attnlab.papers.he2025.checks_attention"
_CONCENTRATION = "attnlab.papers.he2025.checks_concentration"
_RISKS = "attnlab.papers.he2025.checks_risks"

CLAIMS = (
    Claim(
        id="stein-attention",
        paper="he2025",
        title="The mean of what a head reads",
        statement=(
            "For covariates x_ℓ ~ N(0, I_d), p = softmax(ω X x_q) and any ω, d, L: "
            "E[Xᵀp | x_q] = ω (1 - E[|p|² | x_q]) x_q."
        ),
        source="paper, Appendix E.2, eq. (E.9) (the equation is derived again here)",
        explanation=(
            "On average a head returns a multiple of the query, smaller than ω by how much its attention "
            "is concentrated. Samples in all dimensions, exact quadrature and two tokens to rounding agree."
        ),
        check=f"{_ATTENTION}:stein_attention",
        expected="confirmed",
    ),
    Claim(
        id="lemma-e2",
        paper="he2025",
        title="The mean product of what two heads read",
        statement=(
            "For x_ℓ ~ N(0, I_d), p = softmax(ωXυ), p̃ = softmax(ω̃Xυ): E[p̃ᵀXXᵀp] = d E[pᵀp̃] + |υ|² "
            "E[ωω̃ {(1-|p|²)(1-|p̃|²) + pᵀp̃ - Σp²p̃ - Σpp̃² + (pᵀp̃)²} - 2ω² {Σp²p̃ - |p|² pᵀp̃} "
            "- 2ω̃² {Σpp̃² - |p̃|² pᵀp̃}]."
        ),
        source="paper, Lemma E.2 and Appendix G.1 (the equation is derived again here)",
        explanation=(
            "Stein's lemma, applied twice, turns the correlation of two heads' outputs into moments of "
            "their weights alone. It is what makes the loss of several heads computable."
        ),
        check=f"{_ATTENTION}:lemma_e2",
        expected="confirmed",
    ),
    Claim(
        id="nadaraya-watson",
        paper="he2025",
        title="On a sphere, one head is Gaussian kernel regression",
        statement=(
            "If the covariates lie on a sphere, a head with ω > 0 is the Nadaraya-Watson estimator with the "
            "kernel exp(-|x-x'|²/(2h²)), h = ω^(-1/2), so that ω = 1/√d is the bandwidth d^(1/4)."
        ),
        source="paper, section 4.3 (single head) and Appendix E.1",
        explanation=(
            "On a sphere the inner product and the distance say the same, so softmax weights are those of "
            "a Gaussian kernel. The check fixes the convention of the bandwidth and shows where the "
            "equivalence ends."
        ),
        check=f"{_ATTENTION}:nadaraya_watson",
        expected="confirmed",
    ),
    Claim(
        id="norm-concentration",
        paper="he2025",
        title="When attention is spread evenly",
        statement=(
            "At fixed d and ω, |p|² concentrates at 0 as L grows. In proportion, d/L fixed, it does not "
            "at fixed ω, but does for ω² of the order log(L)/d with a small enough factor."
        ),
        source="paper, Appendix C.4 and Figure 19",
        explanation=(
            "A head averages over many examples only if no single score dominates, which long queries in "
            "high dimension make harder. The exact mean of |p|² shows the three regimes and their rates."
        ),
        check=f"{_CONCENTRATION}:norm_concentration",
        expected="confirmed",
    ),
    Claim(
        id="concentration-lemmas",
        paper="he2025",
        title="The concentration lemmas",
        statement=(
            "G.1: P(|x|² >= d + 2√(dt) + 2t) <= e^(-t), the lower tail alike, P(|x|² >= d(1+t)²) <= "
            "e^(-dt²/2). G.2: P(|X-np| >= tnp) <= 2e^(-npt²/3). G.3: with probability 1-δ, max |x_ℓᵀx_q| <= "
            "√(12d) log(8L/δ), |y|² is of order L log(1/δ), and the share of positive scores is within "
            "√(log(8/δ)/L) of ½."
        ),
        source="paper, Lemmas G.1-G.3 (equations restored from their use)",
        explanation=(
            "These inequalities carry the proof that small heads approximate gradient descent. All the "
            "probabilities are known functions, so that bounds are compared with exact values."
        ),
        check=f"{_CONCENTRATION}:concentration_lemmas",
        expected="confirmed",
    ),
    Claim(
        id="kms-tridiagonal",
        paper="he2025",
        title="The inverse of the Kac-Murdock-Szegő matrix",
        statement=(
            "For Σ_ij = ρ^|i-j|, |ρ| < 1, Σ⁻¹ is tridiagonal: (1-ρ²)⁻¹ times 1+ρ² on the diagonal (1 at its "
            "ends) and -ρ beside it."
        ),
        source="paper, Appendix B.3 and Figure 11",
        explanation=(
            "A trained layer that shows entries two off the diagonal therefore does not use Σ⁻¹ as its "
            "preconditioner. The best preconditioner at finite length does have such entries."
        ),
        check=f"{_RISKS}:kms_tridiagonal",
        expected="confirmed",
    ),
)
