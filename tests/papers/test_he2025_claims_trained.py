"""Claims of he2025 on trained layers: verdicts on record, and what wrong layers make of them."""

from types import SimpleNamespace

import numpy as np
import pytest
import xarray

from attnlab import claims, estimators
from attnlab.claims import Verdict
from attnlab.papers.he2025 import (
    activations,
    checks_superposition,
    checks_trained,
    checks_trained_lengths,
    checks_trained_tasks,
    ends,
    superposition,
    training,
)
from attnlab.students import KernelHeads

CHECKS = {
    "two-heads": checks_trained.two_heads,
    "patterns": checks_trained.patterns,
    "same-predictor": checks_trained.same_predictor,
    "heads-beat-one": checks_trained_lengths.heads_beat_one,
    "length-generalisation": checks_trained_lengths.length_generalisation,
    "activations": checks_trained_lengths.activations,
    "anisotropic": checks_trained_tasks.anisotropic,
    "multi-task": checks_trained_tasks.multi_task,
    "open-superposition": checks_superposition.open_superposition,
}


def verdict(name, outcome):
    (claim,) = claims.find(f"he2025/{name}")
    return Verdict.from_outcome(claim, outcome)


def circuits_of(heads, dim, outputs):
    """`kq` and `ov` of kernel heads."""
    kq, ov = np.zeros((2, heads.n_heads, dim + outputs, dim + outputs))
    kq[:, :dim, :dim] = np.asarray(heads.kq(dim))
    mu = np.asarray(heads.mu).reshape(heads.n_heads, -1)
    ov[:, dim:, dim:] = mu[:, :, None] * np.eye(outputs)
    return kq, ov


def shared_out(values, heads, rng, dummy):
    """One pair of opposite heads shared out among several, one of them a dummy."""
    omega, mu = values
    signs = np.resize([1.0, -1.0], heads)
    sizes = rng.uniform(0.5, 1.5, heads)
    if dummy:
        sizes[-1] = 0
    for sign in (1, -1):
        sizes[signs == sign] /= sizes[signs == sign].sum()
    return KernelHeads(omega * signs * (sizes > 0), mu * signs * sizes)


def learned(config, run, rng):
    """Heads as training finds them."""
    task, count = training.task_of(config), config.n_heads
    if config.supports is not None:
        return several_tasks(task, count, run)
    if config.normalization == "linear":
        return KernelHeads(np.array([1.0]), np.array([0.86]))
    if count == 1:
        return KernelHeads(np.array([0.52]), np.array([1.48]))
    if config.rho:
        matrix = np.linalg.inv(estimators.optimal_preconditioner(task))
        return KernelHeads(np.stack([matrix, -matrix]) / 10, np.array([5.0, -5.0]))
    if count == 2 and run % 4 == 3:
        return KernelHeads(np.array([0.52, 0.52]), np.array([1.0, 0.48]))
    return shared_out((0.235, 1.88), count, rng, dummy=count > 3 and run % 2 == 0)


def several_tasks(task, count, run):
    risk = superposition.step_risk(task)
    if count == 1:
        omega = np.array([[0.44, 0.44, 0.55, 0.55, 0.44, 0.44]])
        return KernelHeads(omega, np.full((1, 2), 1.48))
    if count == 2 and run % 2:
        return KernelHeads(0.55 * task.support_mask, 1.5 * np.eye(2))
    if count < 4:
        return superposition.heads_of(superposition.least_of_rank(task, count - 1)[1], 0.2)
    return checks_trained_tasks._two_pairs(risk.best, 0.2)[run % 2]


def history_of(config, make, noise=0.01):
    rng = np.random.default_rng(config.seed)
    outputs = 1 if config.supports is None else len(config.supports)
    found = [circuits_of(make(config, run, rng), config.dim, outputs) for run in range(config.runs)]
    data = {}
    for place, name in enumerate(("kq", "ov")):
        values = np.stack([one[place] for one in found])[:, None]
        size = np.abs(values).max(axis=(2, 3, 4), keepdims=True)
        values = values + noise * size * rng.standard_normal(values.shape)
        if name == "ov" and config.coefficients == "shared" and outputs > 1:
            values[..., -1, -2] += size[..., 0, 0] * np.resize([0.5, -0.5], config.n_heads)
        data[name] = (("run", "step", "head", "row", "column"), values)
    return xarray.Dataset(data | {"status": ("run", ["ok"] * config.runs)})


def random_heads(config, run, rng):
    outputs = 1 if config.supports is None else len(config.supports)
    omega = 0.3 * rng.standard_normal((config.n_heads, config.dim, config.dim))
    mu = rng.standard_normal((config.n_heads, outputs))
    if config.n_heads > 1:
        mu -= mu.mean(0)
    return KernelHeads(omega, mu[:, 0] if outputs == 1 else mu)


def use(monkeypatch, make):
    """Training gives the heads of `make`."""
    monkeypatch.setattr(
        training, "trained", lambda config: SimpleNamespace(history=history_of(config, make))
    )

    def family(config):
        own = config.training(n_heads=2)
        parts = []
        for name in config.activations:
            slope = training.normalization_of(name).slope

            def scaled(c, run, rng, slope=slope):
                heads = make(c, run, rng)
                return KernelHeads(np.asarray(heads.omega) / (4 * slope), 4 * np.asarray(heads.mu))

            parts.append(history_of(own, scaled))
        return (
            xarray.concat(parts, "activation")
            .transpose("run", "step", "activation", ...)
            .assign(status=parts[0].status)
        )

    monkeypatch.setattr(activations, "family_history", family)


@pytest.mark.parametrize("name", CHECKS)
def test_layers_as_trained_give_the_verdict_on_record(monkeypatch, name):
    use(monkeypatch, learned)
    found = verdict(name, CHECKS[name]("quick", 0))
    assert found.verdict == found.claim.expected, [
        c for c in found.checks if found.status(c) != "pass"
    ]
    assert found.notes
    assert bool(found.answer) == name.startswith("open-")
    if found.verdict == "refuted as stated":
        assert found.corrected
        assert found.correction_holds, [c for c in found.evidence if found.status(c) != "pass"]


@pytest.mark.parametrize("name", CHECKS)
def test_layers_at_random_are_refuted(monkeypatch, name):
    use(monkeypatch, random_heads)
    found = verdict(name, CHECKS[name]("quick", 0))
    assert found.verdict == "refuted as stated"
    if found.corrected:
        assert not found.correction_holds


def single_sign(config, run, rng):
    if config.n_heads == 1 or config.supports is not None:
        return learned(config, run, rng)
    share = rng.dirichlet(np.ones(config.n_heads))
    return KernelHeads(np.full(config.n_heads, 0.52), 1.48 * share)


@pytest.mark.parametrize("name", ["same-predictor", "heads-beat-one", "length-generalisation"])
def test_heads_of_one_sign_are_no_pair(monkeypatch, name):
    use(monkeypatch, single_sign)
    assert verdict(name, CHECKS[name]("quick", 0)).verdict == "refuted as stated"


def test_another_step_is_not_the_best_one(monkeypatch):
    def short(config, run, rng):
        heads = learned(config, run, rng)
        return KernelHeads(np.asarray(heads.omega), 0.9 * np.asarray(heads.mu))

    use(monkeypatch, short)
    found = verdict("two-heads", checks_trained.two_heads("quick", 0))
    assert found.correction_holds is False
    (step,) = (c for c in found.checks if c.name.startswith("2ωμ"))
    assert found.status(step) == "fail"


def test_heads_that_follow_the_covariance_are_refuted(monkeypatch):
    def plain(config, run, rng):
        matrix = np.linalg.inv(training.task_of(config).covariance_matrix)
        return KernelHeads(np.stack([matrix, -matrix]) / 10, np.array([4.0, -4.0]))

    use(monkeypatch, plain)
    found = verdict("anisotropic", checks_trained_tasks.anisotropic("quick", 0))
    assert found.verdict == "refuted as stated"


def test_a_head_too_few_is_told_from_enough(monkeypatch):
    monkeypatch.setattr(superposition, "rank_of", lambda task: 1)
    monkeypatch.setattr(checks_superposition, "rank_of", lambda task: 1)
    use(monkeypatch, learned)
    found = verdict("open-superposition", checks_superposition.open_superposition("quick", 0))
    assert found.verdict == "refuted as stated"


def test_the_risk_of_steps_is_that_of_the_estimators():
    config = checks_superposition._config(((0, 1, 2), (2, 3), (5,)))
    task = training.task_of(config)
    risk = superposition.step_risk(task)
    assert risk(risk.best) == pytest.approx(
        float(estimators.independent_tasks_risk(task)), rel=1e-12
    )
    same = 0.7 * np.ones_like(risk.slope)
    wanted = float(estimators.gradient_descent_risk(task, step=0.7, debiased=True))
    assert risk(same) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_simplex_heads_make_the_steps_and_sum_to_zero(rank):
    rng = np.random.default_rng(rank)
    steps = rng.standard_normal((4, rank)) @ rng.standard_normal((rank, 6))
    heads = superposition.heads_of(steps, 0.05)
    omega, mu = np.asarray(heads.omega), np.asarray(heads.mu)
    assert omega.shape == (rank + 1, 6)
    np.testing.assert_allclose(mu.T @ omega, steps, atol=1e-4)
    np.testing.assert_allclose(mu.sum(0), 0, atol=1e-4)
    assert np.abs(omega).max() == pytest.approx(0.05, rel=1e-5)


def test_least_risk_of_lower_rank_is_no_better_than_a_search():
    from scipy.optimize import minimize

    task = training.task_of(checks_superposition._config(checks_superposition._RING))
    risk = superposition.step_risk(task)
    least, steps = superposition.least_of_rank(task, 2)
    assert np.linalg.matrix_rank(steps, tol=1e-9) == 2
    rng = np.random.default_rng(0)

    def value(flat):
        return risk(flat[:6].reshape(3, 2) @ flat[6:].reshape(2, 6))

    found = min(minimize(value, rng.standard_normal(18)).fun for _ in range(6))
    assert least == pytest.approx(found, rel=1e-6)


def test_losses_of_common_prompts_are_those_of_the_exact_theory():
    config = training.TrainedConfig.model_validate({})
    prompts = ends.Covariates(config, 0, 4000)
    heads = KernelHeads(np.array([0.3, -0.2]), np.array([1.5, -1.2]))
    from attnlab.papers.he2025.exact_heads import heads_quadratic

    exact = heads_quadratic(prompts.task, heads.omega).risk(np.asarray(heads.mu), 0.1)
    mean, error = ends.mean_error(prompts.losses(prompts.weights(heads)))
    assert abs(mean - exact) < 4 * error
    assert error < 0.01


def test_short_training_is_looked_at(monkeypatch):
    """The one test here that trains."""
    short = {**ends.QUICK, "steps": 800, "batch_size": 32, "init": "opposite-sign"}
    monkeypatch.setattr(ends, "QUICK", {**short, "init_scale": 0.3})
    found = ends.ends_of("quick", 1, n_heads=2, runs=3, dim=3, length=20)
    assert found.opposite.all()
    steps = np.sum(found.omega * found.mu, 1)
    np.testing.assert_allclose(steps, checks_trained.best_step(found), atol=0.1)
    again = ends.ends_of("quick", 1, n_heads=2, runs=3, dim=3, length=20)
    np.testing.assert_array_equal(again.omega, found.omega)
