"""Claims on published numbers: printed by the notebooks of the paper, in its text and its captions."""

from attnlab.claims import Claim

_AVERAGES = "attnlab.papers.he2025.checks_published"
_LAYERS = "attnlab.papers.he2025.checks_published_layers"

CLAIMS = (
    Claim(
        id="published-estimators",
        paper="he2025",
        title="The printed averages of five estimators are their risks",
        statement=(
            "Quoted from the notebook: the averages over 50 000 prompts of the losses of two heads (0.13, 3.45), "
            "of plain and debiased descent, of one head and of ridge at L = 10 to 100 (d = 5, σ² = 0.1), those of "
            "descent and ridge at d = 20, L = 100, σ² = 3, and their limits 3.444 and 3.405, are the exact risks."
        ),
        source="repository of the authors, plots.ipynb, both released versions; curves of Figure 3b",
        explanation=(
            "Printed numbers are claims too, and these can be compared with exact ones. The check allows for the "
            "sampling error, takes into account that columns share prompts, and looks for a constant offset or factor."
        ),
        check=f"{_AVERAGES}:published_estimators",
        expected="confirmed",
    ),
    Claim(
        id="published-heads",
        paper="he2025",
        title="The printed losses of trained layers are those of the quoted weights",
        statement=(
            "Quoted from the notebook, last version: the losses printed for trained layers with H = 1, 2, 4 and 8 at "
            "L = 10 to 100 are losses (2.3) of heads with the weights of the text, |ω| = 0.52, |μ| = 1.42 for H = 1 and "
            "0.13, 3.5 for the others, to the digits given (d = 5, σ² = 0.1)."
        ),
        source="repository of the authors, plots.ipynb and icl_linear.ipynb; Section 3 and Figure 3a; Appendix C.1",
        explanation=(
            "The layers are not released, but the weights in the text fix their losses. The check asks whether one "
            "constant added to all, or one factor, makes both agree, and what the losses say when the weights are free."
        ),
        check=f"{_LAYERS}:published_heads",
        expected="refuted as stated",
    ),
    Claim(
        id="published-landscape",
        paper="he2025",
        title="The printed data of the loss landscape are (2.3) and (4.1)",
        statement=(
            "Quoted from the notebook, first version: the sampled and the approximate loss of two opposite heads at 400 "
            "pairs (ω, μ), L = 40, d = 5, σ² = 0.1, are the loss (2.3) and L̃ of (4.1)."
        ),
        source="repository of the authors, plots.ipynb, first version; setting of Figure 5",
        explanation=(
            "These 800 numbers lie behind the comparison of the loss with its approximation. The approximate ones have no "
            "sampling error, so that a constant difference shows to all their digits."
        ),
        check=f"{_AVERAGES}:published_landscape",
        expected="refuted as stated",
    ),
    Claim(
        id="published-digits",
        paper="he2025",
        title="The numbers of two digits in text and captions",
        statement=(
            "Quoted from text and captions: peaks 0.57 and 0.45 and scales 0.56 and 0.47 (Figures 21, 22), ε = 0.69 at "
            "κ = 0.1 (Appendix E.2), |ω| = 0.52 for one head and |μ| = 3.5 at |ω| = 0.13 for more (Section 3; compared with the "
            "minimisers of the exact loss): right up to one unit of the last digit."
        ),
        source="paper, Section 3, Appendices C.1 and E.2, captions of Figures 21 and 22",
        explanation=(
            "A number of two digits is checked to two digits. The check gives the distance in units of the last one, "
            "and tells which numbers are rounded and which cut off."
        ),
        check="attnlab.papers.he2025.checks_published_digits:published_digits",
        expected="confirmed",
    ),
    Claim(
        id="published-multi-task",
        paper="he2025",
        title="The released run on two tasks has coefficients of unit variance",
        statement=(
            "Ours, on a log printed in a notebook: the run on two tasks was made with β ~ N(0, I), where the text has "
            "β ~ N(0, I/d) (N = 2, d = 6, σ² = 0.1, supports of four). Its first losses, of untrained layers, say so, and the "
            "text's |ω| = 0.42 and 0.5 of a single head are best in that setting (L = 48, noise of an example 4σ²)."
        ),
        source="repository of the authors, icl_linear_multitask.ipynb; Appendix C.3",
        explanation=(
            "An untrained layer predicts next to nothing, so that its loss is the variance of the response. "
            "That tells at which scale the data were drawn. Patterns and modes do not depend on it."
        ),
        check="attnlab.papers.he2025.checks_published_tasks:published_multi_task",
        expected="confirmed",
    ),
)
