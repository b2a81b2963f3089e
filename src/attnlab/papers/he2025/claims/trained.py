"""Claims on trained layers: opposite heads, patterns, one predictor, other lengths, activations."""

from attnlab.claims import Claim

_LOOKS = "attnlab.papers.he2025.checks_trained"
_LOSSES = "attnlab.papers.he2025.checks_trained_lengths"

CLAIMS = (
    Claim(
        id="two-heads",
        paper="he2025",
        title="Two heads become an opposite pair with step η*",
        statement=(
            "Trained by Adam on fresh prompts from PyTorch's initialisation (d = 5, L = 40, σ² = "
            "0.1), two heads converge to ω_1 = -ω_2, μ_1 = -μ_2: there is always a positive and a "
            "negative head. Then 2ωμ_+ = η* = (1 + (1+σ²)d/L)⁻¹, and after 5·10⁵ steps (rate 10⁻³, "
            "batch 256) |ω| is about 0.13 and μ_+ about 3.5."
        ),
        source="Section 3, Observation 2 and Figure 1; Section 4.3; Appendix C.1 (ii) and Figure 12",
        explanation=(
            "A positive and a negative head together subtract what is constant in softmax and leave "
            "a linear predictor. The check counts the starts that end so, measures their step, and "
            "asks whether heads of one sign can be left downhill."
        ),
        check=f"{_LOOKS}:two_heads",
        expected="refuted as stated",
    ),
    Claim(
        id="patterns",
        paper="he2025",
        title="Diagonal KQ, OV that reads labels only, matching signs, sums of 0, equal sizes",
        statement=(
            "In trained layers with one, two and four heads KQ^h is ω_h I on the covariates and OV^h "
            "reads the label only, ω_h and μ_h have one sign, and where there are heads of both "
            "signs, Σ_h μ_h = 0 and the heads of effect have one |ω_h| (d = 5, L = 40, σ² = 0.1)."
        ),
        source="eq. (3.1) and Observations 1, 2 and 4 in Section 3; eq. (4.2) and (4.4)",
        explanation=(
            "Nothing in the layer's parameters asks for these patterns. The check gives each as a "
            "number, a share of the matrix that does not fit, over several starts."
        ),
        check=f"{_LOOKS}:patterns",
        expected="confirmed",
    ),
    Claim(
        id="same-predictor",
        paper="he2025",
        title="Two, three, four and eight heads learn one predictor",
        statement=(
            "Layers with H = 2, 3, 4, 8 heads that have positive and negative ones make nearly the "
            "same predictions, with the same |ω| and sums of μ, and other ones than a single head. "
            "Dummy heads (ω = μ = 0) occur from H = 3 on in some runs and not in others."
        ),
        source="Section 3 (Observation 3, Figures 1b to 3a); Appendix C.1 and Figures 12, 13",
        explanation=(
            "More heads add no more than ways to share out the same two. The check measures the "
            "distances between predictions and looks for heads without effect."
        ),
        check=f"{_LOOKS}:same_predictor",
        expected="confirmed",
    ),
    Claim(
        id="heads-beat-one",
        paper="he2025",
        title="Two heads and more beat one at every length",
        statement=(
            "The loss of layers with H = 2 and 4 heads (paper preset: also 8) of both signs is below that of a single head "
            "at every length of the test prompt, all trained at L = 40 (d = 5, σ² = 0.1)."
        ),
        source="Section 3, finding (a) on Figure 3a",
        explanation=(
            "One head is a kernel regressor, two are a gradient step, which suits linear data. The "
            "check compares exact risks from L = 5 to a million, and losses on common prompts at "
            "the shortest lengths and for more heads."
        ),
        check=f"{_LOSSES}:heads_beat_one",
        expected="confirmed",
    ),
    Claim(
        id="length-generalisation",
        paper="he2025",
        title="Softmax attention generalises in length, linear attention does not",
        statement=(
            "Trained at L = 40, the loss of softmax attention (one head or two) decreases as the "
            "test prompt gets longer, and follows debiased gradient descent (lengths from 5 up, the "
            "figure has 10 and more); linear attention with the fixed factor of its training gets "
            "worse on longer prompts."
        ),
        source="Section 3, finding (b) on Figure 3a; Section 4.3; Appendix B.1 and Figure 7",
        explanation=(
            "Softmax weights always add up to 1, sums without normalisation grow with the prompt. "
            "The check takes the exact risks of the trained heads at other lengths."
        ),
        check=f"{_LOSSES}:length_generalisation",
        expected="confirmed",
    ),
    Claim(
        id="activations",
        paper="he2025",
        title="Seven normalised activations learn the same gradient step",
        statement=(
            "With weights f(s)/Σf for f = 1 + Cx, (1 + Cx)² (C = 0.5, 0.8, 1) and 1 + tanh x, two "
            "heads become opposite as with softmax, η_eff = 2 C_f |ω||μ| is close to 1 for all, and "
            "all implement the debiased gradient step with η* (d = 5, L = 40, σ² = 0.1)."
        ),
        source="Appendix B.2: Table 1, Figures 8 to 10",
        explanation=(
            "What counts is the slope of the activation at 0. The check trains all of them side by "
            "side and fits to each the debiased gradient step that comes nearest."
        ),
        check=f"{_LOSSES}:activations",
        expected="confirmed",
    ),
)
