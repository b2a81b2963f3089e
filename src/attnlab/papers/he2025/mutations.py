"""Formulas of this paper broken on purpose; see `attnlab.claims.mutate`."""

from ...claims.perturbations import argument, factor, offset, power, sign, swap
from .._mutations import Breaker

_HERE = "attnlab.papers.he2025"

_broken = Breaker("he2025")

_THEORY = (
    _broken("stein-attention", "checks_attention:stein_side", argument(0, factor(0.5)), "|p|²/2 in place of |p|²"),
    _broken("stein-attention", "checks_attention:stein_side", argument(0, factor(0.0)), "without the term |p|²"),
    _broken("lemma-e2", "checks_attention:product_side", factor(1.02), "the expansion times 1.02"),
    _broken("lemma-e2", "checks_attention:product_side", argument(3, factor(-1)), "sign of the second ω"),
    _broken("nadaraya-watson", "checks_attention:bandwidth", power(2.0), "bandwidth 1/ω in place of ω^(-1/2)"),
    _broken("norm-concentration", "checks_concentration:mean_square", factor(1.05), "E|p|² times 1.05"),
    _broken("concentration-lemmas", "checks_concentration:chi_square_bound", factor(1.5), "exponent of the χ² bound times 1.5"),
    _broken("concentration-lemmas", "checks_concentration:binomial_bound", argument(2, factor(2.0)), "4t²/3 in place of t²/3 in the binomial bound"),
    _broken("concentration-lemmas", "checks_concentration:score_bound", power(0.5), "exponent of the bound on scores: a half"),
    _broken("kms-tridiagonal", "checks_risks:kms_inverse", factor(1.001), "the inverse times 1.001"),
    _broken("kms-tridiagonal", "checks_risks:kms_inverse", argument(1, factor(-1)), "sign of ρ"),
    _broken("flow-phases", "checks_flow:limit_of_product", factor(1.001), "the limit of 2φϱ times 1.001"),
    _broken("flow-decay", "two_head_flow:slow_decay", factor(1.01), "the law of decay times 1.01"),
    _broken("flow-decay", "checks_flow:exact_valley", swap(f"{_HERE}.two_head_flow:approximate_valley"), "L̃ in place of the exact loss"),
    _broken("symmetry-preserved", "exact_heads:heads_quadratic", offset(1e-6, of="cross"), "1e-6 added to each head's cross term"),
    _broken("approximate-loss", "checks_loss:approximation", factor(1.001, of="overlap"), "overlaps of L̃ times 1.001"),
    _broken("approximate-loss", "checks_loss:_largest_error", power(0.3), "exponent of the error: 0.3 of it"),
    _broken("optimal-mu", "checks_loss:manifold_step", factor(1.001), "2γμ on the manifold times 1.001"),
    _broken("single-head", "checks_loss:single_minimiser", factor(1.01, of=0), "ω of the minimiser times 1.01"),
    _broken("single-head", "checks_loss:single_minimiser", factor(1.01, of=1), "μ of the minimiser times 1.01"),
    _broken("open-true-minimiser", "checks_minimiser:slope_at_zero", factor(1.01), "the slope at γ = 0 times 1.01"),
    _broken("open-true-minimiser", "checks_heads:infimum", factor(1.0001, of="risk"), "infima of three and four heads times 1.0001"),
    _broken("theorem-4.2-i", "checks_theorem:printed_distance", argument(1, power(2.0)), "γ²d in place of γd"),
    _broken("theorem-4.2-ii", "checks_theorem:best_step", factor(1.01), "η* times 1.01"),
    _broken("theorem-4.2-iii", "checks_risks:ratio_bound", factor(0.9), "the bound on the ratio times 0.9"),
    _broken("gd-risk", "checks_risks:descent_risk", factor(1.1), "risks of descent times 1.1"),
    _broken("gd-risk", "checks_risks:descent_risk", argument(3, factor(-1)), "sign of the step"),
    _broken("bayes-risk", "checks_risks:limit_bayes_risk", factor(1.001), "the limit of Bayes' risk times 1.001"),
)  # fmt: skip

_TRAINED = (
    _broken("two-heads", "checks_trained:best_step", factor(0.9), "η* times 0.9"),
    _broken("two-heads", "checks_trained:_valley", sign(0), "sign of the curvature at heads of one sign"),
    _broken("patterns", "attnlab.circuits:Circuits.omega", sign(), "sign of ω"),
    _broken("same-predictor", "checks_trained:distance", factor(0.5), "distances halved"),
    _broken("heads-beat-one", "checks_trained_lengths:exact_risks", factor(0.5, of=0), "exact risk of one head halved"),
    _broken("length-generalisation", "attnlab.estimators:gradient_descent_risk", factor(1.2), "risk of a gradient step times 1.2"),
    _broken("activations", "checks_trained_lengths:best_multiple", factor(1.1), "step of the nearest descent times 1.1"),
    _broken("anisotropic", "attnlab.estimators:optimal_preconditioner", factor(1.1), "the best preconditioner times 1.1"),
    _broken("multi-task", "attnlab.circuits:Circuits.omega_diagonal", power(-1.0), "exponent of the diagonal ω: -1"),
    _broken("open-superposition", "checks_superposition:rank_of", offset(-1), "the rank minus 1"),
    _broken("open-superposition", "checks_superposition:rank_of", offset(1), "the rank plus 1"),
)  # fmt: skip

_PUBLISHED = (
    *(_broken("published-estimators", "checks_published:exact_risks", factor(1.02, k), f"risk of column {k + 1} times 1.02") for k in range(5)),
    _broken("published-estimators", "checks_published:squared_errors", factor(2.0, of=1), "covariance of the squared errors doubled"),
    _broken("published-estimators", "checks_published:limit_bayes_risk", factor(1.001), "limit of Bayes' risk times 1.001"),
    _broken("published-heads", "checks_published_layers:added", factor(0.9), "the noise that is added times 0.9"),
    _broken("published-heads", "checks_published_layers:added", factor(0.0), "no noise added"),
    _broken("published-landscape", "checks_published:left_out", factor(0.99), "the noise that is left out times 0.99"),
    _broken("published-landscape", "checks_published:landscape", factor(1.01, of=0), "the exact loss times 1.01"),
    _broken("published-digits", "checks_published_digits:peak", factor(1.05), "peaks of ϱ times 1.05"),
    _broken("published-digits", "checks_published_digits:peak_scale", factor(0.95), "√(log d/d) times 0.95"),
    _broken("published-digits", "checks_published_digits:moment_exponent", factor(1.05), "ε times 1.05"),
    _broken("published-digits", "checks_published_digits:opposite_heads", factor(1.1, of="square"), "square of the predictions of two heads times 1.1"),
    _broken("published-multi-task", "checks_published_tasks:zero_risk", factor(0.5), "half the variance of the response"),
    _broken("published-multi-task", "checks_published_tasks:best_head", factor(1.1, of=0), "|ω| on coordinates of one task times 1.1"),
    _broken("published-multi-task", "checks_published_tasks:best_gain", factor(1.2), "ratio of shared to other coordinates times 1.2"),
)  # fmt: skip

# the formulas that stand alone, each in the same three ways
_THRICE = (
    *_broken.thrice("stein-attention", "checks_attention:stein_side", "coefficient of x_q"),
    *_broken.thrice("lemma-e2", "checks_attention:product_side", "mean product"),
    *_broken.thrice("nadaraya-watson", "checks_attention:bandwidth", "bandwidth"),
    *_broken.thrice("norm-concentration", "checks_concentration:mean_square", "E|p|²", without=("other sign",)),
    *_broken.thrice("kms-tridiagonal", "checks_risks:kms_inverse", "inverse"),
    *_broken.thrice("flow-phases", "checks_flow:limit_of_product", "limit of 2φϱ"),
    *_broken.thrice("flow-decay", "two_head_flow:slow_decay", "law of decay"),
    *_broken.thrice("optimal-mu", "checks_loss:manifold_step", "2γμ on the manifold"),
    *_broken.thrice("single-head", "checks_loss:single_minimiser", "ω of the minimiser", 0),
    *_broken.thrice("single-head", "checks_loss:single_minimiser", "μ of the minimiser", 1),
    *_broken.thrice("theorem-4.2-ii", "checks_theorem:best_step", "η*"),
    *_broken.thrice("gd-risk", "checks_risks:descent_risk", "risks of descent"),
    *_broken.thrice("bayes-risk", "checks_risks:limit_bayes_risk", "limit of Bayes' risk"),
    *_broken.thrice("two-heads", "checks_trained:best_step", "η*"),
    *_broken.thrice("length-generalisation", "attnlab.estimators:gradient_descent_risk", "risk of a gradient step"),
    *_broken.thrice("activations", "checks_trained_lengths:best_multiple", "step of the nearest descent"),
    *_broken.thrice("anisotropic", "attnlab.estimators:optimal_preconditioner", "best preconditioner"),
)  # fmt: skip

MUTATIONS = (*_THEORY, *_TRAINED, *_PUBLISHED, *_THRICE)
