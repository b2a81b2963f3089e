"""Formulas of this paper broken on purpose; see `attnlab.claims.mutate`."""

from ...claims.perturbations import argument, constant, factor, power, sign, swap, wrap
from .._mutations import Breaker

_HERE = "attnlab.papers.dohmatob2025"

_broken = Breaker("dohmatob2025")

_BY_HAND = (
    _broken("realisable", "checks_links:link_risk", argument(0, constant("linear")), "the link left out of the ReLU risk"),
    _broken("realisable", "exact:risks_at", sign(), "sign of the exact risk"),
    _broken("manifold-invariant", "checks_links:link_risk", wrap(f"{_HERE}.wrong:risk_without_symmetry"), "a term 1e-3 ρ added to the risk"),
    _broken("stationary-points", "checks_convergence:manifold_functions", sign("lower_slope"), "sign of the slope along ν = -1"),
    _broken("stationary-points", "checks_convergence:manifold_functions", factor(0.1, of="share"), "participation of the bulk times 0.1"),
    _broken("global-convergence", "checks_convergence:manifold_functions", sign("rise"), "sign of the slope in ν"),
    _broken("global-convergence", "checks_convergence:edges", sign(), "sign of the mean-field risk"),
    _broken("local-convergence", "checks_links:teacher_hessian", sign(0), "sign of the Hessian at the teacher"),
    _broken("any-initialisation", "global_convergence:survey", sign("swapped_excess"), "sign of the swapped minimum's excess"),
    _broken("retraction-bound", "checks_descent:longest", argument(0, factor(0.7)), "half of the term s²|a|²/2"),
    _broken("retraction-bound", "checks_descent:turned", factor(1.01), "distance moved times 1.01"),
    _broken("descent-lemma", "attnlab.dynamics:descent_check", argument(2, factor(0.125, of="bound")), "the smoothness Λ divided by 8"),
    _broken("cauchy-argument", "attnlab.dynamics:winding_descent", factor(1.1, of="longitude"), "longitude of the winding descent times 1.1"),
    _broken("attention-mass", "checks_attention:corrected_mass", argument(2, factor(-1)), "the sign of cκ - ψ as printed"),
    _broken("attention-mass", "checks_attention:printed_mass", swap(f"{_HERE}.checks_attention:corrected_mass"), "the printed sign put right", "confirmed"),
    _broken("free-energy", "checks_bulk:limit_free_energy", factor(1.03), "the free energy times 1.03"),
    _broken("thermal-average", "checks_bulk:limit_thermal_average", factor(1.06), "the thermal average times 1.06"),
    _broken("condensation", "checks_bulk:limit_participation", factor(0.9), "the participation ratio times 0.9"),
    _broken("condensation", "checks_bulk:limit_participation", power(2.0), "exponent of the participation ratio: 2"),
    _broken("risk-linear", "checks_risk:_risks", wrap(f"{_HERE}.wrong:mean_field_too_large"), "the corrected risk times 1.2"),
    _broken("risk-linear", "checks_risk:printed_risk", swap(f"{_HERE}.wrong:whole_risk"), "the bulk's variance put back", "confirmed"),
    _broken("risk-general-link", "checks_risk:_risks", wrap(f"{_HERE}.wrong:mean_field_too_large"), "the corrected risk times 1.2"),
    _broken("learnability", "checks_attention:boundary", factor(1.02), "the boundary times 1.02"),
    _broken("mass-exponents", "attnlab.theory:mass_rate", factor(1.1), "rate of E p times 1.1"),
    _broken("mass-exponents", "attnlab.theory:missing_mass_rate", factor(1.1), "rate of E (1-p) times 1.1"),
    _broken("minimum-zero", "attnlab.theory:missing_mass_rate", factor(1.1), "rate of the teacher's risk times 1.1"),
    _broken("minimum-zero", "checks_attention:bayes_risk", factor(2.0, of=0), "least risk of any predictor doubled"),
    _broken("long-sequences", "checks_risk:limit_free_energy", factor(1.2), "the free energy times 1.2"),
    _broken("open-finite-sample", "finite_sample:run", wrap(f"{_HERE}.wrong:most_prompts_first"), "d/n in place of n/d"),
    _broken("open-relu-link", "exact:risks_at", argument("link", constant("linear")), "the link left out of the risk"),
)  # fmt: skip

# the formulas that stand alone, each in the same three ways
_THRICE = (
    *_broken.thrice("retraction-bound", "checks_descent:turned", "distance moved"),
    *_broken.thrice("attention-mass", "checks_attention:corrected_mass", "corrected mass", without=("exponent 3/2",)),
    *_broken.thrice("free-energy", "checks_bulk:limit_free_energy", "free energy"),
    *_broken.thrice("thermal-average", "checks_bulk:limit_thermal_average", "thermal average"),
    *_broken.thrice("condensation", "checks_bulk:limit_participation", "participation ratio"),
    *_broken.thrice("condensation", "attnlab.theory:participation_rate", "rate of the participation ratio", expects="correction fails"),
    *_broken.thrice("learnability", "checks_attention:boundary", "boundary", without=("doubled", "other sign")),
    *_broken.thrice("mass-exponents", "attnlab.theory:mass_rate", "rate of E p"),
    *_broken.thrice("mass-exponents", "attnlab.theory:missing_mass_rate", "rate of E (1-p)"),
    *_broken.thrice("minimum-zero", "attnlab.theory:missing_mass_rate", "rate of the teacher's risk"),
    *_broken.thrice("long-sequences", "checks_risk:limit_free_energy", "free energy"),
)  # fmt: skip

MUTATIONS = (*_BY_HAND, *_THRICE)
