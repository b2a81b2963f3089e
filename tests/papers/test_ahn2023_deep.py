"""The room of ahn2023, several layers: the claim, formulas broken on purpose, and the experiment."""

import numpy as np
import pytest

from attnlab import claims, papers, plotting
from attnlab._core.interrupt import RunInterrupted
from attnlab.claims import Verdict
from attnlab.papers.ahn2023 import checks_deep, deep_linear, deep_stacks
from attnlab.tasks import InContextRegression

TINY = {
    "dim": 2,
    "length": 8,
    "spectrum": (1.0, 0.3),
    "layers": 2,
    "lengths": (4, 8),
    "length_layers": 2,
    "searched": 2,
    "samples": 300,
    "test_samples": 2000,
    "repeats": 2,
    "starts": 0,
    "trained_on": ("anisotropic",),
    "trained_layers": (1,),
    "steps": 20,
    "batch_size": 8,
    "runs": 2,
    "test_prompts": 50,
}


def claim():
    (found,) = claims.find("ahn2023/deep-linear")
    return found


def failed(outcome):
    found = Verdict.from_outcome(claim(), outcome)
    return {check.name for check in found.checks if found.status(check) == "fail"}


def test_quick_check_gives_the_verdict_on_record():
    (found,) = claims.verify("ahn2023/deep-linear", seed=1)
    assert found.failed is None, found.details
    assert found.verdict == claim().expected, [c for c in found.checks if c.status != "pass"]
    assert found.notes


@pytest.fixture
def slopes_alone(monkeypatch):
    """The check without its searches, which another formula does not touch."""
    still = checks_deep._Searches(
        np.zeros(3), np.zeros(3), np.tile(np.eye(5), (3, 2, 1, 1)), np.ones((3, 2))
    )
    monkeypatch.setattr(checks_deep, "_search", lambda *a: still)


def test_wrong_formulas_are_refuted(monkeypatch, slopes_alone):
    right = checks_deep.preconditioned

    def identity(sigma, numbers):
        return right(np.eye(len(sigma)), numbers)

    monkeypatch.setattr(checks_deep, "preconditioned", identity)
    monkeypatch.setattr(
        checks_deep, "descent", lambda X, y, xq, a: np.einsum("bnd,bn,bd->b", X, y, xq)
    )
    outcome = checks_deep.deep_linear("quick", 0)
    names = failed(outcome)
    for start in ("layers against steps", "prompts through", "derivatives in matrices"):
        assert any(name.startswith(start) for name in names), (start, names)
    assert Verdict.from_outcome(claim(), outcome).verdict == "refuted as stated"


def test_distances_do_not_depend_on_the_multiple():
    sigma = np.diag([2.0, 0.5])
    inverse = np.linalg.inv(sigma)
    beside = np.array([[1.0, 0.0], [0.0, -1.0]])  # traceless where covariates are isotropic
    root = np.sqrt(inverse)
    mixed = -3 * inverse + 4 * root @ beside @ root
    found = deep_linear.off_multiples(np.stack([-2 * inverse, mixed]), sigma)
    np.testing.assert_allclose(found, [0.0, 0.8], atol=1e-7)


def compute(changes):
    experiment = papers.find_experiment("ahn2023/deep-linear")
    return experiment, experiment.compute(experiment.configure("quick", TINY | changes))


def draws(experiment, data):
    figure = experiment.plot(data)
    assert len(figure.panels) == 4
    assert figure.caption
    assert figure.alt
    plotting.render(figure)
    return figure


def test_experiment_orders_its_risks_and_draws(monkeypatch):
    seen = []
    right = deep_stacks._trained

    def trained(*arguments):
        if seen:
            raise RunInterrupted(None, "stopped")
        seen.append(right(*arguments))
        return seen[0]

    monkeypatch.setattr(deep_stacks, "_trained", trained)
    experiment, data = compute({})
    assert np.all(data.moved <= data.best + 1e-9)
    assert np.all(data.best <= data.common + 1e-9)
    assert float(data.bayes) < float(data.moved[-1])
    np.testing.assert_allclose(data.best[-1], data.best_by_length[-1])
    assert float(data.plain_best[1]) > float(data.best[1])
    assert float(data.matrices[0, 1]) == pytest.approx(float(data.best[1]), rel=0.1)
    assert float(data.off.sel(prior="Σ⁻¹/d").max()) < 0.15
    np.testing.assert_array_equal(data.trained[0, 0], seen[0].history.risk[:, -1])
    assert data.trained_off.shape == (1, 1, 2, 1)
    draws(experiment, data)

    monkeypatch.setattr(deep_linear, "_exact", lambda config: data.drop_dims("data"))
    monkeypatch.setattr(deep_linear, "_plain", lambda config: {})
    monkeypatch.setattr(deep_linear, "_searched", lambda config: {})
    with pytest.raises(RunInterrupted) as caught:
        compute({})
    partial = caught.value.partial
    assert np.isnan(partial.trained).all()
    assert "Trained" not in experiment.plot(data.drop_dims("data")).caption
    assert len(experiment.plot(partial).panels) == 4


@pytest.mark.parametrize(
    "changes",
    [{"dim": 3}, {"spectrum": (1.0, -1.0)}, {"lengths": (0,)}, {"trained_layers": (1, 1)}],
)
def test_settings_that_do_not_fit_are_refused(changes):
    from attnlab import InvalidArgument

    experiment = papers.find_experiment("ahn2023/deep-linear")
    with pytest.raises(InvalidArgument):
        experiment.configure("quick", TINY | changes)


def test_task_has_the_prior_it_is_named_after():
    config = papers.find_experiment("ahn2023/deep-linear").configure("quick", TINY)
    task = deep_linear.task_of(config, "anisotropic")
    assert isinstance(task, InContextRegression)
    np.testing.assert_allclose(
        task.prior_matrix @ task.covariance_matrix, np.eye(2) / 2, atol=1e-12
    )
    other = deep_linear.task_of(config, "anisotropic", "I/d")
    np.testing.assert_allclose(other.prior_matrix, np.eye(2) / 2)
