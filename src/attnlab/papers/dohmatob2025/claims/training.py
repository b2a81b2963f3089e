"""Open questions on training: fixed prompts, and the link that the argument leaves out."""

from attnlab.claims import Claim

CLAIMS = (
    Claim(
        id="open-finite-sample",
        paper="dohmatob2025",
        title="What does training on n fixed prompts reach?",
        statement=(
            "How does the test risk of descent on n fixed prompts depend on n, L and d? (The checks test "
            "that few prompts are fitted without being learned and that many are learned.)"
        ),
        source="rebuttal, answer to reviewer mLDi: finite-sample effects, left to ongoing work",
        explanation=(
            "The theory follows the average over all prompts; practice has a fixed number. Descents on "
            "training sets of several sizes show how many prompts it takes."
        ),
        check="attnlab.papers.dohmatob2025.checks_prompts:open_finite_sample",
        expected="confirmed",
    ),
    Claim(
        id="open-relu-link",
        paper="dohmatob2025",
        title="What happens with the ReLU link?",
        statement=(
            "Is the teacher stationary for the ReLU link, and where does descent from it end? (The "
            "checks test that it is not, and that the distance shrinks as d grows.)"
        ),
        source="rebuttal, answer to reviewer CnGc, step 1: ReLU needs special treatment (not provided)",
        explanation=(
            "ReLU is neither smooth nor symmetric, and the source's argument leaves it out. Exact risks "
            "tell what its absence hides: the best student leans away from the teacher."
        ),
        check="attnlab.papers.dohmatob2025.checks_links:open_relu_link",
        expected="confirmed",
    ),
)
