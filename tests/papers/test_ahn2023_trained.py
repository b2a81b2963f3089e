"""The claims of ahn2023 on minimisers and trained layers, and their experiments at small sizes."""

import numpy as np
import pytest

from attnlab import claims, papers
from attnlab._core.interrupt import RunInterrupted
from attnlab.claims import Verdict
from attnlab.claims.mutation import broken
from attnlab.errors import InvalidArgument
from attnlab.papers.ahn2023 import (
    activations,
    checks_minimiser,
    checks_patterns,
    joint,
    sparsity,
    trained,
)
from attnlab.papers.ahn2023.mutations import MUTATIONS
from attnlab.plotting.prepare import prepare
from attnlab.students import register_activation

FEW = {"steps": 40, "batch_size": 16, "runs": 2}


@pytest.fixture(autouse=True)
def fewer_activations(monkeypatch):
    """Each costs a compiled program."""
    monkeypatch.setattr(checks_patterns, "_NONLINEAR", ("tanh",))


def verdict_of(name):
    (claim,) = claims.find(f"ahn2023/{name}")
    module, _, function = claim.check.partition(":")
    check = getattr({"s": checks_patterns, "r": checks_minimiser}[module[-1]], function)
    return Verdict.from_outcome(claim, check("quick", 1))


NAMES = (
    "relu-minimiser", "theorem-1-linear", "sparsity-nonlinear", "open-anisotropic", "open-joint",
)  # fmt: skip


# one for each formula that costs no new program
BROKEN = {
    (m.claim, m.target): m
    for m in reversed(MUTATIONS)
    if m.claim.partition("/")[2] in NAMES[:2] + NAMES[3:4]
}


@pytest.mark.parametrize("name", NAMES)
def test_quick_check_gives_the_verdict_on_record_and_breaks_with_its_formula(name):
    found = verdict_of(name)
    assert found.verdict == found.claim.expected, [
        c for c in found.checks if found.status(c) != "pass"
    ]
    assert found.notes
    assert (found.answer is not None) == name.startswith("open-")
    for (key, _), mutation in BROKEN.items():
        if key == found.claim.key:
            with broken(mutation):
                assert verdict_of(name).verdict == "refuted as stated"


def test_without_training_there_is_no_pattern(monkeypatch):
    short = trained.TrainedConfig(normalization="tanh", **FEW)
    monkeypatch.setattr(checks_patterns, "training_of", lambda *arguments: short)
    assert verdict_of("sparsity-nonlinear").verdict == "refuted as stated"


def drawn(name, **changes):
    experiment = papers.find_experiment(f"ahn2023/{name}")
    dataset = experiment.compute(experiment.configure("quick", changes))
    figure = prepare(experiment.plot(dataset))
    assert all(panel.marks for panel in figure.panels)
    assert figure.caption
    assert figure.alt
    return dataset


def test_sparsity_with_an_activation_of_ones_own():
    register_activation("cube-of-a-test", lambda x: x**3, overwrite=True)
    dataset = drawn("sparsity", activations=("cube-of-a-test", "tanh"), dim=2, length=4, **FEW)
    assert dataset.P.shape == (2, 2, 3, 3)
    assert list(dataset.activation.values) == ["cube-of-a-test", "tanh"]


def test_preconditioner_without_a_start_that_reaches_the_pattern():
    sizes = {"dim": 2, "spectrum": (2.0, 0.5), "activations": ("linear",)}
    dataset = drawn("preconditioner", **sizes, **FEW)
    assert (dataset.off_pattern.values > 0.1).all()
    eigenvalue = dataset.eigenvalue.values
    np.testing.assert_allclose(dataset.predicted.values[0], 20 / (21 * eigenvalue + 2.5))
    # of the three kinds of preconditioners A* is the best
    assert (dataset.least.values[0, 1:] > dataset.least.values[0, 0]).all()


def test_joint_minima_of_two_dimensions():
    dataset = drawn(
        "joint-pq", dim=2, length=3, activations=("relu",), ratios=(1.0, 4.0), starts=24
    )
    np.testing.assert_allclose(dataset.value.min("start"), dataset.least, rtol=1e-9)
    there = dataset.other.values[0, 1]
    assert dataset.least.values[0, 1] * 1.05 < there < dataset.zero.values[0, 1]
    assert dataset.curvature.values[0, 1] > 1e-4


def test_activations_along_multiples_of_the_identity():
    dataset = drawn("activations", activations=("linear", "exp"), points=9)
    linear = dataset.best.sel(activation="linear").values
    np.testing.assert_allclose(linear, 30 / 26, rtol=1e-9)
    c, exp = dataset.c.values, dataset.sel(activation="exp")
    assert np.isnan(exp.fixed.values[c >= 0.5]).all()
    assert np.isfinite(exp.fixed.values[c < 0.5]).all()


@pytest.mark.parametrize(
    ("name", "key", "text"),
    [
        ("sparsity", "activations", "relu,relu"),
        ("sparsity", "activations", "sigmoid"),
        ("sparsity", "activations", "softmax-sum"),
        ("sparsity", "dim", "0"),
        ("preconditioner", "spectrum", "1,2,3,4,0"),
        ("preconditioner", "activations", "tanh"),
        ("joint-pq", "ratios", "2,1"),
        ("joint-pq", "activations", "tanh"),
        ("activations", "activations", "tanh-sum"),
    ],
)
def test_bad_settings_are_refused(name, key, text):
    with pytest.raises(InvalidArgument, match=f"^{key}"):
        papers.find_experiment(f"ahn2023/{name}").configure("quick", {key: text})


@pytest.mark.parametrize("name", ["sparsity", "activations", "joint-pq"])
def test_ctrl_c_keeps_what_is_finished(name, monkeypatch):
    """Also where it does not hit the training loop."""
    calls = []

    def stop_at_the_second(original):
        def wrapped(*arguments):
            calls.append(arguments)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return original(*arguments)

        return wrapped

    changes = {"activations": ("relu", "linear")}
    where = {
        "sparsity": (sparsity, "_described"),
        "activations": (activations, "curve"),
        "joint-pq": (joint, "_minima"),
    }[name]
    monkeypatch.setattr(*where, stop_at_the_second(getattr(*where)))
    changes |= {
        "sparsity": {"dim": 2, "length": 4, **FEW},
        "activations": {"points": 5},
        "joint-pq": {"dim": 2, "length": 3, "starts": 24, "ratios": (1.0, 2.0)},  # as above
    }[name]
    experiment = papers.find_experiment(f"ahn2023/{name}")
    with pytest.raises(RunInterrupted) as caught:
        experiment.compute(experiment.configure("quick", changes))
    assert caught.value.partial is not None
    assert all(panel.marks for panel in prepare(experiment.plot(caught.value.partial)).panels)


def test_as_many_eigenvalues_as_dimensions():
    with pytest.raises(InvalidArgument, match="^spectrum .*as many eigenvalues"):
        papers.find_experiment("ahn2023/preconditioner").configure("quick", {"dim": "3"})
