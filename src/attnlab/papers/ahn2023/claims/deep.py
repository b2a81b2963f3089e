"""The claim on several layers of linear attention."""

from attnlab.claims import Claim

CLAIMS = (
    Claim(
        id="deep-linear",
        paper="ahn2023",
        title="Layers of linear attention are steps of preconditioned gradient descent",
        statement=(
            "Layers P_l = diag(B_l, 1), Q_l = -diag(A_l, 0) with B_l = 0 are the steps w <- w + A_lᵀXᵀ(y - Xw)/n from "
            "w = 0, for every prompt and all A_l. For x ~ N(0, Σ), w ~ N(0, ωΣ⁻¹) without label noise, A_l = a_lΣ⁻¹ with "
            "the best a_l is stationary in all matrices A_l, matrices nearby or found from other starts are no better, "
            "and the risk is below that of as many preconditioned steps of one size. With B_l free, A_l = a_lΣ⁻¹, "
            "B_l = b_l I (GD++) is stationary in all A_l and B_l, and from two layers on better still."
        ),
        source="paper, Lemma on preconditioned descent, Theorems 3 and 4, and the experiments beside them",
        explanation=(
            "A stack of attention layers repeats one step of an optimiser, with its own preconditioner in each. Where "
            "the prior is the inverse covariance everything can be computed exactly, so that the gain of "
            "each freedom (own step sizes, matrices, moving covariates) is a number."
        ),
        check="attnlab.papers.ahn2023.checks_deep:deep_linear",
        expected="confirmed",
    ),
)
