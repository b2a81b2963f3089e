"""Claims on the landscape and on where gradient descent goes."""

from attnlab.claims import Claim

_LINKS = "attnlab.papers.dohmatob2025.checks_links"
_ENDS = "attnlab.papers.dohmatob2025.checks_convergence"
_STEPS = "attnlab.papers.dohmatob2025.checks_descent"

CLAIMS = (
    Claim(
        id="realisable",
        paper="dohmatob2025",
        title="The teacher is the best student",
        statement=(
            "Among all pairs of unit vectors (u, v) the teacher's (u*, v*) has the smallest population "
            "risk, for every link, at any d, L and β."
        ),
        source="rebuttal, answer to reviewer CnGc, step 2 (R_min), and to t3fK (teacher parameters)",
        explanation=(
            "A student with the same form as the teacher should do best by copying it. But attention is "
            "never quite complete, and with some links it pays to lean away from noise tokens."
        ),
        check=f"{_LINKS}:realisable",
        expected="refuted as stated",
    ),
    Claim(
        id="manifold-invariant",
        paper="dohmatob2025",
        title="Descent started on the manifold stays on it",
        statement=(
            "If (u_0, v_0) lies on M (v·u* = u·v* = u·v = 0), then so do all iterates of projected "
            "gradient descent on the population risk, for general links."
        ),
        source="rebuttal, answer to reviewer CnGc, step 2: Proposition 3",
        explanation=(
            "A symmetry keeps the dynamics on a small set of parameters where it is easy to follow. The "
            "symmetry needs a link that is odd or even, which ReLU is not."
        ),
        check=f"{_LINKS}:manifold_invariant",
        expected="refuted as stated",
    ),
    Claim(
        id="stationary-points",
        paper="dohmatob2025",
        title="The stationary points on M for the linear link",
        statement=(
            "On M, where stationary points solve (1-μ²)T₁ = 0 = (1-ν²)T₂ (μ = u·u*), the linear link has "
            "the four corners (±1, ±1) alone: (1, 1) is the minimiser, (1, -1) the maximum, the other "
            "two are saddles. (The list follows from the printed p and risk at finite d.)"
        ),
        source="rebuttal, answer to reviewer CnGc, step 2: Proposition 7 and its characterisation",
        explanation=(
            "Where the gradient vanishes, descent may stop. The mean-field risk allows only four such "
            "places on M; the exact risk adds one, or exchanges two, when little noise sits on the "
            "informative token."
        ),
        check=f"{_ENDS}:stationary_points",
        expected="refuted as stated",
    ),
    Claim(
        id="global-convergence",
        paper="dohmatob2025",
        title="From M, the flow finds the teacher",
        statement=(
            "For the linear link the gradient flow of the population risk takes every start on M, but "
            "for a set of measure zero, to the teacher, at any d, L, β: exact risk and mean field."
        ),
        source="rebuttal, answer to reviewer t3fK (global convergence); CnGc, Proposition 4",
        explanation=(
            "On M the risk always falls towards the teacher, so nothing can trap the flow. It can be "
            "slow beyond all patience: the time grows like a power of the prompt's length."
        ),
        check=f"{_ENDS}:global_convergence",
        expected="confirmed",
    ),
    Claim(
        id="local-convergence",
        paper="dohmatob2025",
        title="Near the teacher, descent finds it, for general links",
        statement=(
            "For odd or even links there is a neighbourhood of the teacher from which projected gradient "
            "descent converges to it (d = 20, L = 20, β = 1)."
        ),
        source="rebuttal, answer to reviewer CnGc: Proposition 7 and the assumption on σ",
        explanation=(
            "A minimum with positive curvature in all directions attracts whatever starts close enough. "
            "The check computes the curvature for several links and follows descents."
        ),
        check=f"{_LINKS}:local_convergence",
        expected="confirmed",
    ),
    Claim(
        id="any-initialisation",
        paper="dohmatob2025",
        title="Convergence irrespective of the initialisation",
        statement=(
            "Gradient descent on the population risk (linear link) converges to the teacher's "
            "parameters from any start, off M too, but for a set of measure zero, at any β, d and L."
        ),
        source="rebuttal, answers to t3fK (global convergence) and Mp31 (robustness of initialisation)",
        explanation=(
            "Starts in practice lie anywhere, not on the special set M. Hundreds of descents show a second "
            "kind of minimum, where the two vectors have exchanged roles, and plateaus."
        ),
        check=f"{_ENDS}:any_initialisation",
        expected="refuted as stated",
    ),
    Claim(
        id="retraction-bound",
        paper="dohmatob2025",
        title="How far normalisation moves a step",
        statement=(
            "With ũ = u - s a, |u| = 1, a ⟂ u: 1 <= |ũ| <= 1 + s²|a|²/2, and for s|a| <= 1 the "
            "normalised step obeys |u⁺ - u| <= (3/2) s|a|."
        ),
        source="rebuttal, answer to reviewer CnGc, steps 1 and 2",
        explanation=(
            "After each step the vectors are brought back to length one. These inequalities bound what "
            "that does; random steps of all sizes confirm them, with room to spare."
        ),
        check=f"{_STEPS}:retraction_bound",
        expected="confirmed",
    ),
    Claim(
        id="descent-lemma",
        paper="dohmatob2025",
        title="The descent lemma with its printed constants",
        statement=(
            "If 0 < s < min(1/(2L_δ), M_δ), with L_δ the smoothness of the risk and M_δ a bound of its "
            "gradient, then R_{k+1} <= R_k - (sL_δ/4)|g_k|²."
        ),
        source="rebuttal, answer to reviewer CnGc, step 1: Descent Lemma",
        explanation=(
            "Each step is said to lower the risk by an amount that grows with the risk's curvature. That "
            "cannot be, since small steps lower it by s|g|² whatever the curvature; the check measures "
            "every step."
        ),
        check=f"{_STEPS}:descent_lemma",
        expected="refuted as stated",
    ),
    Claim(
        id="cauchy-argument",
        paper="dohmatob2025",
        title="Steps that tend to zero make a Cauchy sequence",
        statement=(
            "From |u_{k+1} - u_k|² + |v_{k+1} - v_k|² <= (9/4)s²|g_k|² → 0 (and summable) it follows "
            "that the iterates form a Cauchy sequence."
        ),
        source="rebuttal, answer to reviewer CnGc, step 2",
        explanation=(
            "Ever smaller steps need not lead anywhere: 1 + 1/2 + 1/3 + ... grows without bound. A descent "
            "on a smooth function does just that, while those on the risk of linear links do converge, "
            "for another reason."
        ),
        check=f"{_STEPS}:cauchy_argument",
        expected="refuted as stated",
    ),
)
