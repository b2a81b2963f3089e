"""Experiments and checks beyond the population descent, at sizes that take moments."""

import json

import numpy as np
import pytest
import xarray
from scipy.integrate import quad
from scipy.stats import norm

from attnlab import claims, papers
from attnlab.errors import InvalidArgument
from attnlab.papers.marion2025 import (
    checks_prompts,
    checks_variants,
    full_layer,
    several_tokens,
)

NAMES = ("sgd-sphere-schedule", "activations", "several-tokens", "full-layer", "finite-sample")


@pytest.mark.parametrize("name", NAMES)
def test_presets_are_valid(name):
    experiment = papers.find_experiment(f"marion2025/{name}")
    for preset in ("quick", "paper"):
        assert json.loads(experiment.configure(preset).model_dump_json())["seed"] == 0


@pytest.mark.parametrize(
    ("name", "changes", "variables"),
    [
        # the first four are trained once, for the claims below too
        ("sgd-sphere-schedule", {"seed": 1}, {"excess_risk": 2, "distance": 2, "kind": 1}),
        ("activations", {"seed": 1, "activations": ("tanh", "2 erf")},
         {"kappa": 3, "risk": 3, "teacher": 1}),
        ("several-tokens", {"seed": 1}, {"risk": 3, "coverage": 3, "value": 3}),
        ("full-layer", {"seed": 1, "variants": ("two vectors", "with skip and RMS norm")},
         {"risk": 3, "key_alignment": 3, "value_alignment": 3}),
        ("finite-sample", {"runs": 2, "steps": 8, "dim": 6, "length": 3, "n_prompts": (5,)},
         {"risk": 3, "training_risk": 3, "kappa": 3}),
    ],
)  # fmt: skip
def test_experiments_run_and_draw(name, changes, variables):
    experiment = papers.find_experiment(f"marion2025/{name}")
    data = experiment.compute(experiment.configure("quick", changes))
    assert {v: data[v].ndim for v in variables} == variables
    for variable in data.data_vars.values():
        if variable.dtype.kind == "f":
            assert np.isfinite(variable).all()
    figure = experiment.plot(data)
    assert all(panel.marks for panel in figure.panels)
    assert figure.caption
    assert figure.alt


def test_half_of_erf_has_the_risk_of_half_the_prediction():
    experiment = papers.find_experiment("marion2025/activations")
    data = experiment.compute(
        experiment.configure(
            "quick", {"runs": 3, "steps": 0, "activations": ("erf", "half erf", "2 erf")}
        )
    )
    # R(A a) = γ² - 2 A t + A² q is a parabola in the height A: three heights fix it, a fourth is 0
    full, half, twice = (data.risk.sel(activation=n)[:, 0] for n in ("erf", "half erf", "2 erf"))
    t_and_q = np.linalg.solve([[-2, 1], [-1, 0.25]], np.stack([full - 0.5, half - 0.5]))
    np.testing.assert_allclose(twice, 0.5 - 4 * t_and_q[0] + 4 * t_and_q[1], rtol=1e-10)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("activations", "activations", ("erf", "cosine")),
        ("full-layer", "variants", ("with skip", "with skip")),
        ("finite-sample", "n_prompts", (10, 0)),
    ],
)
def test_bad_choices_are_named(name, key, value):
    with pytest.raises(InvalidArgument, match=key):
        papers.find_experiment(f"marion2025/{name}").configure("quick", {key: value})


def test_probability_of_the_wrong_place_by_another_integral():
    exact, bound = checks_prompts._wrong_place(9, 4)
    shift, std = 0.5**0.5 * 3, 0.5**0.5
    right = quad(lambda x: norm.pdf(x, shift, std) * norm.cdf(x) ** 3, -10, 15)[0]
    assert exact == pytest.approx(1 - right, rel=1e-8)
    assert exact < bound


def test_norms_save_nothing_when_the_variances_are_equal(monkeypatch):
    monkeypatch.setattr(checks_prompts, "_STD", 1.0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3, 5))
    X[:, 0, 0] += 1.0
    gain, _ = checks_prompts._gain_of_norms(X, X[:, 0, 1], 1.0)
    assert abs(gain) < 1e-12
    monkeypatch.undo()
    X[:, 0] = X[:, 0] * 0.5**0.5
    gain, error = checks_prompts._gain_of_norms(X, X[:, 0, 1], 0.5**0.5)
    assert gain > 2 * error


CLAIMS = (
    "sgd",
    "activation-not-special",
    "parameters-vs-mlp",
    "multi-index",
    "softmax-variant",
    "several-tokens",
    "full-layer",
)


@pytest.mark.parametrize("name", CLAIMS)
def test_quick_check_gives_the_verdict_on_record(name):
    (found,) = claims.verify(f"marion2025/{name}", seed=1)
    assert found.failed is None, found.details
    assert found.verdict == found.claim.expected, [c for c in found.checks if c.status != "pass"]
    if found.verdict == "refuted as stated":
        assert found.correction_holds, [c for c in found.evidence if c.status != "pass"]


def unlearned(runs, **values):
    """A history of runs that all ended with these values."""
    data = {"risk": 0.5, "risk_error": 0.01, **values}
    return xarray.Dataset({k: (("run", "step"), np.full((runs, 1), v)) for k, v in data.items()})


@pytest.mark.parametrize("name", ["softmax_variant", "full_layer"])
def test_layers_that_do_not_learn_refute_their_claim(name, monkeypatch):
    history = unlearned(20, key_alignment=0.1, value_alignment=0.1)
    monkeypatch.setattr(full_layer, "train_variant", lambda *_, **__: history)
    outcome = getattr(checks_variants, name)("quick", 0)
    assert {check.status for check in outcome.checks} == {"fail"}


def test_a_single_direction_for_all_heads_refutes_several_tokens(monkeypatch):
    history = unlearned(20, coverage=0.5**0.5)
    monkeypatch.setattr(several_tokens, "train_case", lambda *_, **__: history)
    outcome = checks_prompts.several_tokens("paper", 0)
    failed = [check.name for check in outcome.checks if check.status == "fail"]
    assert len(failed) == 2
    assert all("s heads" in name for name in failed)
