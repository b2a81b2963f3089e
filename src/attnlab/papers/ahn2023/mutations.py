"""Formulas of this paper broken on purpose; see `attnlab.claims.mutate`."""

from ...claims.perturbations import argument, factor, power, sign, swap, wrap
from .._mutations import Breaker

_HERE = "attnlab.papers.ahn2023"

_broken = Breaker("ahn2023")

_BY_HAND = (
    _broken("deep-linear", "checks_deep:descent", factor(1.001), "predictions of the steps times 1.001"),
    _broken("deep-linear", "checks_deep:preconditioned", swap(f"{_HERE}.wrong:multiples_of_identity"), "multiples of I in place of multiples of Σ⁻¹"),
    _broken("stein-relu", "checks_identities:stein_side", factor(1.1), "the stated mean times 1.1"),
    _broken("half-derivative", "checks_identities:half", factor(1.04), "0.52 in place of a half"),
    _broken("pair-term", "checks_identities:pair_side", factor(1.1), "the pair term times 1.1"),
    _broken("pair-term", "checks_identities:relu", power(1.5), "exponent of ReLU: 3/2"),
    _broken("cross-term", "checks_identities:cross_side", factor(1.1), "the cross term times 1.1"),
    _broken("diagonal-term", "checks_diagonal:diagonal_side", factor(0.5), "the half that was lost put back", "confirmed"),
    _broken("diagonal-term", "checks_diagonal:relu", swap("numpy:abs"), "the modulus in place of ReLU"),
    _broken("quadratic-loss", "checks_diagonal:loss_constants", factor(1.02, of=0), "α times 1.02"),
    _broken("quadratic-loss", "checks_diagonal:loss_constants", factor(1.02, of=1), "β times 1.02"),
    _broken("relu-minimiser", "checks_minimiser:relu_scale", factor(1.02), "the scale times 1.02"),
    _broken("relu-minimiser", "checks_minimiser:relu_scale", argument(1, factor(0)), "without the term 2d"),
    _broken("theorem-1-linear", "checks_minimiser:preconditioner", factor(1.001), "the preconditioner times 1.001"),
    _broken("theorem-1-linear", "checks_minimiser:linear_scale", factor(0.98), "the scale times 0.98"),
    _broken("open-anisotropic", "checks_minimiser:relu_preconditioner", factor(1.001), "the preconditioner times 1.001"),
    _broken("sparsity-nonlinear", "checks_patterns:training_of", wrap(f"{_HERE}.wrong:barely_trained"), "a hundredth of the training steps"),
    _broken("open-joint", "attnlab.theory:optimal_attention", wrap(f"{_HERE}.wrong:layer_too_large"), "A* times 1.01"),
    _broken("open-joint", "checks_patterns:least_curvature", sign(), "sign of the curvature off the pattern"),
    _broken("open-activations", "checks_patterns:least", factor(1.02, of=0), "c of least risk times 1.02"),
)  # fmt: skip

# the formulas that stand alone, each in the same three ways
_THRICE = (
    *_broken.thrice("stein-relu", "checks_identities:stein_side", "stated mean"),
    *_broken.thrice("half-derivative", "checks_identities:half", "mean slope", without=("doubled", "other sign")),
    *_broken.thrice("pair-term", "checks_identities:pair_side", "pair term"),
    *_broken.thrice("cross-term", "checks_identities:cross_side", "cross term"),
    *_broken.thrice("quadratic-loss", "checks_diagonal:loss_constants", "α", 0),
    *_broken.thrice("quadratic-loss", "checks_diagonal:loss_constants", "β", 1),
    *_broken.thrice("quadratic-loss", "checks_diagonal:loss_constants", "constant of the loss", 2),
    *_broken.thrice("relu-minimiser", "checks_minimiser:relu_scale", "2/(n+2d+3)"),
    *_broken.thrice("theorem-1-linear", "checks_minimiser:preconditioner", "best preconditioner"),
    *_broken.thrice("theorem-1-linear", "checks_minimiser:linear_scale", "1/(n+d+1)"),
    *_broken.thrice("open-anisotropic", "checks_minimiser:relu_preconditioner", "best preconditioner"),
)  # fmt: skip

MUTATIONS = (*_BY_HAND, *_THRICE)
