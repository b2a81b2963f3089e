"""Claims on minimisers and on what training finds; the open questions of the note."""

from __future__ import annotations

from attnlab.claims import Claim

_MINIMISER = "attnlab.papers.ahn2023.checks_minimiser"
_PATTERNS = "attnlab.papers.ahn2023.checks_patterns"

CLAIMS = (
    Claim(
        id="relu-minimiser",
        paper="ahn2023",
        title="ReLU attention: the minimiser is a multiple of the identity",
        statement=(
            "For x, w ~ N(0, I), no label noise, P the last entry alone and Q = blockdiag(A, 0), the "
            "in-context loss f(A) of ReLU attention has the only minimiser cI, with c = 2/(n+2d+3) "
            "where weights are not divided by n; training of all P and Q from random starts ends there."
        ),
        source="note on ReLU attention, Lemma; the constant is not printed",
        explanation=(
            "A layer with ReLU in place of softmax is best when it compares covariates by their plain "
            "inner product, as a step of gradient descent does. The audit adds the size of the step "
            "and trains layers that are free to do otherwise."
        ),
        check=f"{_MINIMISER}:relu_minimiser",
        expected="confirmed",
    ),
    Claim(
        id="theorem-1-linear",
        paper="ahn2023",
        title="Linear attention learns one step of preconditioned gradient descent",
        statement=(
            "For x ~ N(0, Σ), w ~ N(0, I), no label noise, the global minimum of the risk of one layer "
            "of linear attention over all P and Q is at P the last entry alone and Q = blockdiag(A, 0) "
            "with A = ((n+1)/n Σ + tr(Σ)/n I)⁻¹, up to a scale that moves from P to Q."
        ),
        source="Theorem 1 of the paper (signs and scales in the convention of the library)",
        explanation=(
            "The best single layer of linear attention does one step of gradient descent, with a "
            "preconditioner between the inverse covariance and the identity. It is compared with "
            "descents of the exact risk over all weights, and with trained layers."
        ),
        check=f"{_MINIMISER}:theorem_1_linear",
        expected="confirmed",
    ),
    Claim(
        id="sparsity-nonlinear",
        paper="ahn2023",
        title="The sparse pattern does not depend on the activation",
        statement=(
            "On isotropic data, all P and Q trained from random starts end with P reading the response "
            "alone and Q comparing covariates alone by a multiple of I, for ReLU, tanh, GELU, "
            "exponential and softmax attention (within 5 % of the norm)."
        ),
        source="note on ReLU attention, empirical observation (three activations, not named)",
        explanation=(
            "Theory finds the pattern for linear attention; training finds it for others too. What is "
            "measured is the share of the weights that do not fit, over several starts."
        ),
        check=f"{_PATTERNS}:sparsity_nonlinear",
        expected="confirmed",
    ),
    Claim(
        id="open-anisotropic",
        paper="ahn2023",
        title="Open: ReLU attention on anisotropic data",
        statement=(
            "What is the minimiser over A of the loss of ReLU attention for x ~ N(0, Σ), w ~ N(0, W) and "
            "label noise?"
        ),
        source="note on ReLU attention, third remark",
        explanation=(
            "The note believes that its proof extends to inputs with a covariance. It does, in closed "
            "form, and gives the preconditioner of linear attention with about half as many examples."
        ),
        check=f"{_MINIMISER}:open_anisotropic",
        expected="confirmed",
    ),
    Claim(
        id="open-joint",
        paper="ahn2023",
        title="Open: P and Q together, for ReLU attention",
        statement="What minimises the risk of ReLU attention over all of P and Q, and is it reached?",
        source="note on ReLU attention, first remark",
        explanation=(
            "The note fixes P. Free as it is, the sparse pattern stays the global minimum, but on data "
            "with a dominant direction there is a second minimum that catches many starts."
        ),
        check=f"{_PATTERNS}:open_joint",
        expected="confirmed",
    ),
    Claim(
        id="open-activations",
        paper="ahn2023",
        title="Open: which other activations keep A = cI",
        statement=(
            "On isotropic data, for which activations besides ReLU is the minimiser over A a multiple of "
            "the identity, and which multiple?"
        ),
        source="note on ReLU attention, second remark",
        explanation=(
            "The same proof technique may extend to more functions, says the note. Exact risks by "
            "quadrature show that the tested activations keep the identity, each with its own scale."
        ),
        check=f"{_PATTERNS}:open_activations",
        expected="confirmed",
    ),
)
