"""Claims on general starts, off the manifold."""

from attnlab.claims import Claim

_CHECKS = "attnlab.papers.marion2025.checks_sphere"

CLAIMS = (
    Claim(
        id="off-manifold",
        paper="marion2025",
        title="General starts: large, small and decreasing scales",
        statement=(
            "From uniform starts on the spheres (d = 400, L = 10), descent with large λ = 0.9 "
            "reaches M, with small λ = 0.1 it may not, and with λ = 1/(1 + 10⁻⁴ step) it reaches "
            "the teacher."
        ),
        source="paper, experiments and lines 468-475; rebuttal, answers Q3 and W5",
        explanation=(
            "Theory covers starts on M; experiments suggest that a large scale pulls general starts "
            "to M and that decreasing it finishes the job. The check repeats the three experiments "
            "and counts."
        ),
        check=f"{_CHECKS}:off_manifold",
        expected="refuted as stated",
    ),
    Claim(
        id="open-attractors",
        paper="marion2025",
        title="Are the teacher and its mirror image the only attractors?",
        statement=(
            "Where do random starts off M end, with which risk against the teacher's and which "
            "share, as λ, d and L vary? (The checks test the list of attractors in the answer.)"
        ),
        source="paper, lines 500-505: left open",
        explanation=(
            "A descent may end at parameters that the theory on M never meets. Every end of "
            "hundreds of runs is classified, and each kind confirmed by its Hessian."
        ),
        check=f"{_CHECKS}:open_attractors",
        expected="confirmed",
    ),
)
