"""Claims on the invariant manifold: invariance, convergence, rates, stability."""

from attnlab.claims import Claim

_CHECKS = "attnlab.papers.marion2025.checks_manifold"

CLAIMS = (
    Claim(
        id="manifold-invariant",
        paper="marion2025",
        title="Descent started on the manifold stays on it",
        statement=(
            "Projected gradient descent on the population risk maps M = {θ = η = ρ = 0} to itself, "
            "at any d, L, λ, γ and step size."
        ),
        source="paper, dynamics section: the invariant manifold",
        explanation=(
            "On M the student's vectors see only their own hidden directions, and the gradient "
            "keeps it so. The check looks at gradients, at the recursion and at vectors in R^d."
        ),
        check=f"{_CHECKS}:manifold_invariant",
        expected="confirmed",
    ),
    Claim(
        id="converges-on-manifold",
        paper="marion2025",
        title="From the manifold, descent finds the teacher",
        statement=(
            "From almost every start on M the descent converges to κ = ν = 1 or κ = ν = -1, which "
            "are minimisers; the other stationary points on M, (0, 0) and ±(1, -1), are saddles "
            "(d = 400, L = 10, λ = 0.1)."
        ),
        source="paper, main theorem on the dynamics; rebuttal, answer Q1",
        explanation=(
            "The problem is not convex, yet on M nothing but saddles stands between a random start "
            "and the teacher or its mirror image. Convergence may be very slow: the check reports "
            "the rate at which the last step is made."
        ),
        check=f"{_CHECKS}:converges_on_manifold",
        expected="confirmed",
    ),
    Claim(
        id="open-rates",
        paper="marion2025",
        title="How fast does descent converge, and leave saddles?",
        statement=(
            "What are the local convergence rates at the minimisers and the escape times at the "
            "saddles? (The proof by the center-stable manifold theorem gives none.)"
        ),
        source="rebuttal, answers Q1 and W4: left open",
        explanation=(
            "The eigenvalues of the Hessian in R^d give both. The check compares them with the rates "
            "of actual descents."
        ),
        check=f"{_CHECKS}:open_rates",
        expected="confirmed",
    ),
    Claim(
        id="open-stability",
        paper="marion2025",
        title="Is the manifold stable, as a function of λ?",
        statement=(
            "If the dynamics is close to M, does it stay close? What are the transverse exponents "
            "of M at the teacher and on the way there, as functions of λ?"
        ),
        source="rebuttal, answers Q3 and W5 (paper, lines 500-505): left open",
        explanation=(
            "A perturbation off M shrinks or grows at rates that the Jacobian of the flow gives. The "
            "check measures where the sign changes, against a formula."
        ),
        check=f"{_CHECKS}:open_stability",
        expected="confirmed",
    ),
)
