"""The claims of marion2025: each check gives the verdict on record, and breaks when it should."""

from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from attnlab import claims
from attnlab.claims import Verdict
from attnlab.papers.marion2025 import checks_manifold, checks_risk, checks_sphere

IDS = (
    "risk-formula",
    "bayes-optimal",
    "linear-fails",
    "clt-magnitude",
    "manifold-invariant",
    "converges-on-manifold",
    "off-manifold",
    "open-attractors",
    "open-rates",
    "open-stability",
)


def claim(name):
    (found,) = claims.find(f"marion2025/{name}")
    return found


def verdict(name, outcome):
    return Verdict.from_outcome(claim(name), outcome)


@pytest.mark.parametrize("name", IDS)
def test_quick_check_gives_the_verdict_on_record(name):
    (found,) = claims.verify(f"marion2025/{name}", seed=1)
    assert found.failed is None, found.details
    assert found.verdict == claim(name).expected, [c for c in found.checks if c.status != "pass"]
    assert found.notes
    if name.startswith("open-"):
        assert found.answer
    if found.verdict == "refuted as stated":
        assert found.corrected
        assert found.correction_holds


class _Wrong:
    """A risk that is off by a factor."""

    method = "closed form"

    def __init__(self, risk, factor):
        self.risk, self.factor = risk, factor

    def __call__(self, *arguments):
        return self.factor * np.asarray(self.risk(*arguments))

    def components(self, overlaps):
        return self.factor * self.risk.components(overlaps)


@pytest.mark.parametrize("factor", [1.05, 0.97])
def test_a_wrong_risk_refutes_the_formula(monkeypatch, factor):
    right = checks_risk.exact_risk
    monkeypatch.setattr(checks_risk, "exact_risk", lambda *a: _Wrong(right(*a), factor))
    found = verdict("risk-formula", checks_risk.risk_formula("quick", 1))
    assert found.verdict == "refuted as stated"


def test_a_wrong_noise_variance_refutes_the_magnitude(monkeypatch):
    right = checks_risk.exact_risk
    monkeypatch.setattr(checks_risk, "exact_risk", lambda *a: _Wrong(right(*a), 1.2))
    found = verdict("clt-magnitude", checks_risk.clt_magnitude("quick", 1))
    assert found.verdict == "refuted as stated"


def test_a_wrong_linear_risk_is_refuted_by_samples(monkeypatch):
    from attnlab import estimators

    right = estimators.best_linear_predictor_risk
    monkeypatch.setattr(estimators, "best_linear_predictor_risk", lambda task: 1.1 * right(task))
    found = verdict("linear-fails", checks_risk.linear_fails("quick", 1))
    assert found.verdict == "refuted as stated"


def test_an_oracle_that_stops_improving_is_refuted(monkeypatch):
    from attnlab.papers.marion2025 import oracle

    right = oracle.best_scale
    monkeypatch.setattr(oracle, "best_scale", lambda *a: (0.1, max(right(*a)[1], 1e-3)))
    found = verdict("bayes-optimal", checks_risk.bayes_optimal("quick", 0))
    assert found.verdict == "refuted as stated"


def test_a_wrong_formula_for_the_critical_scale_is_refuted(monkeypatch):
    right = checks_manifold.critical_scale
    monkeypatch.setattr(checks_manifold, "critical_scale", lambda *a: 1.01 * right(*a))
    found = verdict("open-stability", checks_manifold.open_stability("quick", 0))
    assert found.verdict == "refuted as stated"


def test_rates_that_descents_do_not_show_are_refuted(monkeypatch):
    from attnlab import dynamics

    right = dynamics.convergence_rates

    def doubled(*arguments, **options):
        out = right(*arguments, **options)
        return out.assign(smallest_eigenvalue=2 * out.smallest_eigenvalue)

    monkeypatch.setattr(dynamics, "convergence_rates", doubled)
    found = verdict("open-rates", checks_manifold.open_rates("quick", 0))
    assert found.verdict == "refuted as stated"


def _ends(runs, kinds, distance, risk=1.0):
    """A descent's dataset in which all runs end alike."""
    return xr.Dataset(
        {
            "distance": (("run", "step"), np.full((runs, 3), distance)),
            "kind": ("run", np.resize(kinds, runs)),
            "risk": (("run", "step"), np.full((runs, 3), risk)),
            "teacher_excess": ("step", np.ones(3)),
        }
    )


@pytest.mark.parametrize(
    ("on_m", "learned", "expected"),
    [
        (1e-6, "teacher", "confirmed"),
        (0.5, "teacher", "refuted as stated"),
        (1e-6, "swapped roles", "refuted as stated"),
    ],
)
def test_the_verdict_on_general_starts_follows_from_the_runs(monkeypatch, on_m, learned, expected):
    def fake(config):
        if config.scale == 0.1:
            return _ends(config.runs, ["teacher", "swapped roles"], 0.0)
        if config.scale_decay:
            return _ends(config.runs, [learned], 0.0)
        return _ends(config.runs, ["teacher"], on_m)

    monkeypatch.setattr(checks_sphere, "run_descent", fake)
    found = verdict("off-manifold", checks_sphere.off_manifold("quick", 0))
    assert found.verdict == expected


def test_an_unknown_attractor_is_refuted(monkeypatch):
    def elsewhere(task, risk, key, runs, horizon):
        states = np.tile([0.5, 0.5, 0.1, 0.1, 0.2], (runs, 1))
        return states, np.full(runs, risk.teacher)

    monkeypatch.setattr(checks_sphere, "random_ends", elsewhere)
    monkeypatch.setattr(
        checks_sphere,
        "signature",
        lambda risk, states, dim: SimpleNamespace(
            isel=lambda point: SimpleNamespace(n_negative=0, gradient_norm=0.0, risk=1.0)
        ),
    )
    found = verdict("open-attractors", checks_sphere.open_attractors("quick", 0))
    assert found.verdict == "refuted as stated"
