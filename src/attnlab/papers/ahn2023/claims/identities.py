"""Claims on the note's proof for ReLU: its identities one by one, and the loss they add up to."""

from attnlab.claims import Claim

_IDENTITIES = "attnlab.papers.ahn2023.checks_identities"
_DIAGONAL = "attnlab.papers.ahn2023.checks_diagonal"
_SETTING = "For independent x, x_i, x_j ~ N(0, I_d), g = ReLU, g_i = g(xᵀA x_i) and any A"

CLAIMS = (
    Claim(
        id="stein-relu",
        paper="ahn2023",
        title="Stein's identity for ReLU",
        statement=(
            "For x ~ N(0, I_d) and any v: E[x h(x·v)] = E[h'(x·v)] v holds for h = ReLU although it is "
            "not smooth, and for any absolutely continuous h with E|h'(x·v)| finite."
        ),
        source="note on ReLU attention, Proof (the first display after the expansion of f)",
        explanation=(
            "Stein's identity is an integration by parts, which a kink does not disturb but a jump "
            "does. It is what reduces attention with ReLU to averages of scores."
        ),
        check=f"{_IDENTITIES}:stein_relu",
        expected="confirmed",
    ),
    Claim(
        id="half-derivative",
        paper="ahn2023",
        title="The mean slope of ReLU is one half",
        statement=f"{_SETTING} but 0: E g'(xᵀA x_i) = ½.",
        source="note on ReLU attention, Proof",
        explanation=(
            "A score is as likely positive as negative, whatever A is, so that ReLU passes half of the "
            "signal. All that it takes is a symmetric law of the examples."
        ),
        check=f"{_IDENTITIES}:half_derivative",
        expected="confirmed",
    ),
    Claim(
        id="pair-term",
        paper="ahn2023",
        title="Two examples together",
        statement=f"{_SETTING}: E[g_i g_j x_i·x_j] = ¼ |A|_F² for i ≠ j.",
        source="note on ReLU attention, Proof",
        explanation=(
            "What two examples contribute together is a quarter of what linear attention would have. "
            "The loss has n(n-1) such terms."
        ),
        check=f"{_IDENTITIES}:pair_term",
        expected="confirmed",
    ),
    Claim(
        id="cross-term",
        paper="ahn2023",
        title="An example against the query",
        statement=f"{_SETTING}: E[g_i x_i·x] = ½ tr A.",
        source="note on ReLU attention, Proof",
        explanation=(
            "How well an example's answer serves the query depends on the trace of A alone. This is the "
            "only term of the loss that rewards a particular A, and it rewards multiples of I."
        ),
        check=f"{_IDENTITIES}:cross_term",
        expected="confirmed",
    ),
    Claim(
        id="diagonal-term",
        paper="ahn2023",
        title="An example with itself",
        statement=f"{_SETTING}: E[g_i² |x_i|²] = (d + 2) |A|_F².",
        source="note on ReLU attention, Proof (the last display before the objective function)",
        explanation=(
            "This term is the variance of what a single example adds. The square of ReLU is half of the "
            "square of its argument on average, and that half is dropped in the last step."
        ),
        check=f"{_DIAGONAL}:diagonal_term",
        expected="refuted as stated",
    ),
    Claim(
        id="quadratic-loss",
        paper="ahn2023",
        title="The ReLU loss is quadratic in A",
        statement=(
            "For x, x_1, ..., x_n, w ~ N(0, I_d) and g = ReLU, the loss f(A) = E(Σ_i x_i·w g(xᵀA x_i) - "
            "x·w)² is α |A|_F² - β tr A + constant, with α > 0 and β that do not depend on A (and are "
            "left unspecified)."
        ),
        source="note on ReLU attention, Proof (the objective function at its end)",
        explanation=(
            "ReLU is not linear, and yet the loss is a paraboloid with the same curvature in all "
            "directions around a multiple of I. The check finds the constants that the note leaves out."
        ),
        check=f"{_DIAGONAL}:quadratic_loss",
        expected="confirmed",
    ),
)
