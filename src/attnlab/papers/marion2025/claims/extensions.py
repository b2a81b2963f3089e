"""Claims beyond the population descent: sampled training, variants, and the form of the task."""

from attnlab.claims import Claim

_VARIANTS = "attnlab.papers.marion2025.checks_variants"
_PROMPTS = "attnlab.papers.marion2025.checks_prompts"

CLAIMS = (
    Claim(
        id="sgd",
        paper="marion2025",
        title="Stochastic gradient descent goes the same way",
        statement=(
            "Projected SGD with fresh batches (d = 80, L = 10, ε = 0.1, decreasing λ) behaves like "
            "the descent on the population risk: from uniform starts on the spheres it ends at "
            "(k*, v*) or its mirror image, and the smaller its step the closer it is to that path."
        ),
        source="paper, experiments section: stochastic gradient descent, decreasing λ",
        explanation=(
            "Nobody can descend on a population risk; training uses batches of prompts. The check "
            "trains with fresh batches and compares ends and paths with the exact descent from the "
            "same starts."
        ),
        check=f"{_VARIANTS}:sgd",
        expected="confirmed",
    ),
    Claim(
        id="activation-not-special",
        paper="marion2025",
        title="Nothing is special about erf",
        statement=(
            "The behaviour remains similar for any nonlinear, bounded, increasing, differentiable "
            "activation that is 0 at 0 in place of erf: from M (d = 400, L = 10, λ = 0.1) the "
            "descent goes to ±(k*, v*)."
        ),
        source="rebuttal, answer Q1 on the choice of erf",
        explanation=(
            "The paper takes erf for its closed-form expectations. The check runs the descent with "
            "other activations and their exact risks, one of them of another height."
        ),
        check=f"{_VARIANTS}:activation_not_special",
        expected="refuted as stated",
    ),
    Claim(
        id="parameters-vs-mlp",
        paper="marion2025",
        title="Attention's parameters do not grow with the prompt, a dense network's do",
        statement=(
            "Attention solves the task with a number of parameters independent of L (2d here), "
            "while a standard MLP on the flattened prompt, without structure in the places, needs "
            "a number at least linear in L (and may train much more slowly)."
        ),
        source="rebuttal, answer Q2 on multi-layer perceptrons",
        explanation=(
            "Attention uses the same two vectors at every place. A dense network has weights of its "
            "own for each, and can spare none, as the answer may stand anywhere."
        ),
        check=f"{_PROMPTS}:parameters_vs_mlp",
        expected="confirmed",
    ),
    Claim(
        id="multi-index",
        paper="marion2025",
        title="The task as a multi-index model",
        statement=(
            "A token's marginal law is a mixture of N(0, I) and N(√(d/2) k*, γ² I); and with the "
            "tokens stacked into X ∈ R^{dL}, Y is a nonlinear function of the projections of X on "
            "the two vectors β = ((k*, …, k*), (v*, …, v*))."
        ),
        source="rebuttal, answer W1 (De Veaux; McCullagh & Nelder)",
        explanation=(
            "A multi-index model predicts from a few projections of its input. The check asks how "
            "much of Y the two printed projections determine, and how many would be enough."
        ),
        check=f"{_PROMPTS}:multi_index",
        expected="refuted as stated",
    ),
    Claim(
        id="softmax-variant",
        paper="marion2025",
        title="Softmax in place of erf learns too",
        statement=(
            "A softmax head Σ softmax(β√d x·k) x·v with unit k, v, trained on fresh prompts from "
            "random starts, learns k = ±k* up to noise and v = ±v* and predicts far better than 0."
        ),
        source="rebuttal, answers W2, W3 and Q1 on softmax (with the common answer)",
        explanation=(
            "The proofs do not extend to softmax, whose weights couple all tokens. The check trains "
            "it and measures the angles."
        ),
        check=f"{_VARIANTS}:softmax_variant",
        expected="confirmed",
    ),
    Claim(
        id="several-tokens",
        paper="marion2025",
        title="Several informative tokens and several heads",
        statement=(
            "With s = 2 informative tokens along one direction a single head learns (k*, v*); with "
            "a direction for each, s heads learn one each and predict better than a single head, "
            "which looks along the average direction."
        ),
        source="rebuttal, answer W1 on information shared across tokens (with the common answer)",
        explanation=(
            "Sparsity with s > 1 is the next case after the paper's. The check uses the exact risk "
            "where tokens share a direction and trains heads where they do not."
        ),
        check=f"{_PROMPTS}:several_tokens",
        expected="confirmed",
    ),
    Claim(
        id="full-layer",
        paper="marion2025",
        title="A fuller layer learns the same",
        statement=(
            "A layer with query, key, value and output matrices, a skip connection and RMS "
            "normalisation, trained on fresh prompts, still attends along k* (Kᵀq) and reads along "
            "v* (VᵀOᵀr)."
        ),
        source="rebuttal, answers W2 and W3 on simplifications (with the common answer)",
        explanation=(
            "The paper strips a transformer layer to two vectors. The check puts the parts back and "
            "measures where the trained layer looks and what it reads."
        ),
        check=f"{_VARIANTS}:full_layer",
        expected="confirmed",
    ),
)
