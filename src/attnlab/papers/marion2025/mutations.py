"""Formulas of this paper broken on purpose; see `attnlab.claims.mutate`."""

from ...claims.perturbations import argument, constant, factor, offset, power, sign, wrap
from .._mutations import Breaker

_HERE = "attnlab.papers.marion2025"

_broken = Breaker("marion2025")

_BY_HAND = (
    _broken("risk-formula", "checks_risk:exact_risk", wrap(f"{_HERE}.wrong:risk_too_large"), "the closed form 5 % too large"),
    _broken("bayes-optimal", "oracle:best_scale", power(0.9, of=1), "exponent of the oracle's excess: 0.9 of it"),
    _broken("bayes-optimal", "oracle:oracle_risk", offset(1e-3), "the oracle's risk plus 1e-3"),
    _broken("linear-fails", "attnlab.estimators:best_linear_predictor_risk", factor(1.1), "the best linear risk times 1.1"),
    _broken("linear-fails", "attnlab.estimators:zero_predictor_risk", factor(2.0), "the risk of predicting 0 doubled"),
    _broken("clt-magnitude", "checks_risk:_through_risk", factor(1.1), "variance of the noise tokens' sum times 1.1"),
    _broken("clt-magnitude", "checks_risk:_through_risk", power(1.1), "exponent of that variance: 1.1 of it"),
    _broken("manifold-invariant", "checks_manifold:risk_at", wrap(f"{_HERE}.wrong:risk_without_symmetry"), "a term 1e-6 ρ added to the risk"),
    _broken("converges-on-manifold", "portrait:flow_on", sign(), "sign of the gradient flow"),
    _broken("converges-on-manifold", "checks_manifold:signature", offset(1, of="n_negative"), "one negative curvature more"),
    _broken("off-manifold", "checks_sphere:critical_scale", factor(1.1), "the critical scale times 1.1"),
    _broken("open-attractors", "checks_sphere:swapped_minimum", wrap(f"{_HERE}.wrong:swapped_beside"), "θ of the swapped minimum 1 % smaller"),
    _broken("open-rates", "checks_manifold:_saturated_rate", factor(1.01), "rate at the teacher times 1.01"),
    _broken("open-rates", "attnlab.dynamics:convergence_rates", factor(1.05, of="smallest_eigenvalue"), "curvature at the origin times 1.05"),
    _broken("open-stability", "checks_manifold:critical_scale", factor(1.01), "the critical scale times 1.01"),
    _broken("open-stability", "checks_manifold:critical_scale", argument(1, offset(1)), "L in place of L - 1 in the critical scale"),
    _broken("sgd", "checks_variants:_population_run", argument(2, factor(2.0)), "step of the population descent doubled"),
    _broken("sgd", "checks_variants:_noise_ratio", constant((1.0, 0.1)), "noise that does not shrink with the step"),
    _broken("activation-not-special", "activations:run", factor(1.1, of="teacher"), "the teacher's risk times 1.1"),
    _broken("softmax-variant", "full_layer:train_variant", wrap(f"{_HERE}.wrong:barely_trained"), "a tenth of the training steps"),
    _broken("full-layer", "full_layer:train_variant", wrap(f"{_HERE}.wrong:barely_trained"), "a tenth of the training steps"),
    _broken("several-tokens", "several_tokens:train_case", factor(0.9, of="coverage"), "coverage of the directions times 0.9"),
    _broken("parameters-vs-mlp", "attnlab.students:parameter_count", offset(1), "one parameter more"),
    _broken("parameters-vs-mlp", "checks_prompts:_STD", power(0.5), "exponent of γ in γ²/L: 1 in place of 2"),
    _broken("multi-index", "checks_prompts:_wrong_place", factor(1.5, of=0), "probability of the wrong place times 1.5"),
    _broken("multi-index", "checks_prompts:_argmax_read", sign(), "sign of what is read at the argmax"),
    _broken("bert-probing", "linear_probing:probed", wrap(f"{_HERE}.wrong:cls_at_chance"), "probes of [CLS] at chance"),
    _broken("bert-probing", "linear_probing:probed", wrap(f"{_HERE}.wrong:control_is_trained"), "the trained network as its own control"),
    _broken("bert-probing", "linear_probing:exchange", factor(0.5, of="followed"), "half as many follow the exchanged word"),
    _broken("bert-probing", "attnlab.probing.embeddings:_weights", wrap(f"{_HERE}.wrong:next_token"), "the first word in place of [CLS]"),
    _broken("open-heads", "head_attention:others", offset(0.25), "length of the theory 28 % larger"),
)  # fmt: skip

# the formulas that stand alone, each in the same three ways
_THRICE = (
    *_broken.thrice("linear-fails", "attnlab.estimators:best_linear_predictor_risk", "best linear risk"),
    *_broken.thrice("clt-magnitude", "checks_risk:_through_risk", "variance of the sum", without=("other sign",)),
    *_broken.thrice("off-manifold", "checks_sphere:critical_scale", "critical scale"),
    *_broken.thrice("open-rates", "checks_manifold:_saturated_rate", "rate at the teacher"),
    *_broken.thrice("open-rates", "attnlab.dynamics:convergence_rates", "curvature at the origin", "smallest_eigenvalue"),
    *_broken.thrice("open-stability", "checks_manifold:critical_scale", "critical scale"),
    *_broken.thrice("parameters-vs-mlp", "attnlab.students:parameter_count", "number of parameters"),
    *_broken.thrice("open-heads", "head_attention:predicted_mass", "predicted weight", without=("other sign",)),
    *_broken.thrice("multi-index", "checks_prompts:_wrong_place", "probability of the wrong place", 0, without=("other sign",)),
)  # fmt: skip

MUTATIONS = (*_BY_HAND, *_THRICE)
