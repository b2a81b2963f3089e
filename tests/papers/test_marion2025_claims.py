"""The claims of marion2025: each check gives the verdict on record, and breaks when it should."""

from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from attnlab import claims
from attnlab.claims import Verdict
from attnlab.claims.mutation import run_broken
from attnlab.papers.marion2025 import checks_sphere
from attnlab.papers.marion2025.mutations import MUTATIONS

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


BROKEN = {mutation.claim.partition("/")[2]: mutation for mutation in reversed(MUTATIONS)}


@pytest.mark.parametrize(
    "name",
    [
        "risk-formula",
        "bayes-optimal",
        "linear-fails",
        "clt-magnitude",
        "converges-on-manifold",
        "open-rates",
        "open-stability",
    ],
)
def test_a_wrong_formula_is_noticed(name):
    found = run_broken(claim(name), BROKEN[name], "quick", 0)
    assert found.caught, found


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
