"""Experiments that train layers, at sizes that take moments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import attnlab as al
from attnlab import estimators, papers
from attnlab._core.interrupt import RunInterrupted
from attnlab.errors import InvalidArgument
from attnlab.papers.he2025 import (
    activations,
    anisotropic,
    dynamics,
    lengths,
    linear_lengths,
    multitask,
    training,
)
from attnlab.papers.he2025.by_length import layers_of, losses_by_length
from attnlab.papers.he2025.family import blended, parameter_of
from attnlab.plotting.prepare import prepare

NAMES = (
    "fig1a", "fig1b", "fig2a", "fig2b", "fig3a", "fig3b", "fig4", "fig7", "fig8", "fig9", "fig10", "fig11",
    "fig12", "fig13", "fig14", "fig15", "fig16", "fig17", "fig18", "table1",
)  # fmt: skip
# From opposite heads the pair is learned within some hundred steps.
TINY = {
    "dim": 3, "length": 20, "steps": 600, "batch_size": 64, "learning_rate": 1e-2,
    "decay": "cosine", "init": "opposite-sign", "init_scale": 0.3, "runs": 2, "saves": 30,
    "test_prompts": 500,
}  # fmt: skip
SHORT = TINY | {"steps": 4, "saves": 2, "batch_size": 4, "test_prompts": 10, "lengths": (5, 20)}


@pytest.mark.parametrize(
    ("name", "key", "text"),
    [
        ("fig3a", "heads", "0"),
        ("fig3a", "heads", "1,1"),
        ("fig3a", "heads", "2000"),
        ("fig3a", "lengths", "0"),
        ("fig3a", "lengths", "10000000"),
        ("fig3a", "lengths", "5,5"),
        ("fig3a", "dim", "1000000000"),
        ("fig3a", "noise_var", "1e13"),
        ("fig1a", "n_heads", "1e9"),
    ],
)
def test_sizes_that_would_fail_late_are_refused_at_once(name, key, text):
    with pytest.raises(InvalidArgument, match=f"^{key} = "):
        papers.find_experiment(f"he2025/{name}").configure("quick", {key: text})


def compute(name, changes):
    experiment = papers.find_experiment(f"he2025/{name}")
    kind = experiment.config_class()
    known = {key: value for key, value in changes.items() if key in kind.model_fields}
    return experiment, experiment.compute(experiment.configure("quick", known))


def draws(experiment, dataset):
    figure = prepare(experiment.plot(dataset))
    assert all(panel.marks for panel in figure.panels)
    assert figure.caption
    assert figure.alt
    return figure


@pytest.mark.parametrize("name", NAMES)
def test_presets_are_valid_and_papers_sizes_are_the_defaults(name):
    experiment = papers.find_experiment(f"he2025/{name}")
    assert experiment.configure("quick").steps == 4000
    paper = experiment.configure("paper")
    assert (paper.batch_size, paper.learning_rate, paper.decay) == (256, 1e-3, "constant")
    assert paper.steps == (1_000_000 if name == "fig4" else 500_000)
    assert (paper.length, paper.noise_var, paper.init) == (40, 0.1, "pytorch")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"normalization": "affine-0"}, "normalization"),
        ({"normalization": "gelu"}, "normalization"),
        ({"supports": ((0, 1), (1, 9)), "dim": 6}, "from 0 to 5"),
        ({"supports": ((0, 0),)}, "different coordinates"),
        ({"rho": 1.0}, "rho"),
        ({"clip": 0.0}, "clip"),
        ({"steps": 0}, "steps"),
    ],
)
def test_bad_settings_are_refused(changes, named):
    experiment = papers.find_experiment("he2025/fig1a")
    with pytest.raises(InvalidArgument, match=named):
        experiment.configure("quick", changes)


def test_activations_refuse_linear_weights_and_repeats():
    experiment = papers.find_experiment("he2025/table1")
    for names in (("linear",), ("softmax", "softmax"), ("tanh",)):
        with pytest.raises(InvalidArgument):
            experiment.configure("quick", {"activations": names})


def history(mu, status=("ok",) * 3):
    mu = np.asarray(mu, np.float64)[:, None]
    axes = ("run", "step", "head", "output")[: mu.ndim]
    return xarray.Dataset({"mu": (axes, mu), "status": ("run", list(status))}, {"step": [0]})


def test_the_shown_run_is_the_first_whose_heads_cancel():
    one_sign, opposite = [1.0, 0.8], [2.0, -1.9]
    assert training.shown_run(history([one_sign, opposite, opposite])) == 1
    assert training.shown_run(history([opposite, opposite, opposite])) == 0
    assert training.shown_run(history([one_sign, one_sign, one_sign])) == 0
    assert training.shown_run(history([opposite] * 3, ("diverged", "diverged", "ok"))) == 2
    assert training.shown_run(history([[1.0], [2.0], [3.0]])) == 0
    # in every task: of the first run, task 1 has two heads of one sign
    two_tasks = [[[2.0, 1.0], [-2.0, 1.0]], [[2.0, -1.0], [-2.0, 1.0]]]
    assert training.shown_run(history(two_tasks, ("ok", "ok"))) == 1


@pytest.fixture(scope="module")
def two_heads():
    return compute("fig1b", TINY | {"n_heads": 2})


def test_two_heads_learn_the_best_debiased_step(two_heads):
    _, data = two_heads
    assert data.omega.dims == ("run", "step", "head")
    assert data.kq.shape == (2, 31, 2, 4, 4)
    best = estimators.optimal_step(
        al.InContextRegression(3, 20, noise_std=np.sqrt(0.1)), debiased=True
    )
    for run in range(2):
        omega, mu = data.omega_end.values[run], data.mu_end.values[run]
        np.testing.assert_allclose(omega @ mu, best, atol=0.12)  # ω is not small yet
        np.testing.assert_allclose(omega[0], -omega[1], atol=0.03)
        np.testing.assert_allclose(mu[0], -mu[1], atol=0.15)
    # it started off the step: 2 · 0.3 · 0.3
    np.testing.assert_allclose((data.omega * data.mu).sum("head")[:, 0], 0.18, rtol=1e-5)
    excess = data.risk_end.values - data.attrs["best_risk"]
    assert np.all(np.abs(excess) < 4 * data.risk_error_end.values + 0.02)


def test_figures_of_one_training_show_finished_and_interrupted_runs(two_heads):
    _, data = two_heads
    for name, panels in (("fig1a", 3), ("fig1b", 3), ("fig4", 8)):
        experiment, again = compute(name, TINY | {"n_heads": 2})
        np.testing.assert_array_equal(again.kq, data.kq)  # the same training
        assert len(draws(experiment, again).panels) == panels
        draws(experiment, again.isel(step=slice(0, 1)))


def test_one_training_serves_all_who_ask_for_it():
    config = training.TrainedConfig.model_validate(TINY)
    assert training.trained(config) is training.trained(config.training())
    assert config.training(n_heads=3) != config


def test_interruptions_carry_what_was_computed(two_heads, monkeypatch):
    _, data = two_heads
    started = data.isel(step=slice(0, 2))
    calls = []

    def interrupted(config):
        calls.append(config.n_heads)
        if len(calls) > 1:
            raise RunInterrupted(started)
        return training.trained(config)

    monkeypatch.setattr(dynamics, "trained", interrupted)
    config = dynamics.HeadCountsConfig.model_validate(TINY | {"heads": (2, 3)})
    with pytest.raises(RunInterrupted) as caught:
        dynamics.run_heads(config)
    partial = caught.value.partial
    assert partial.n_heads.values.tolist() == [2, 3]
    assert np.isnan(partial.omega.sel(n_heads=3).isel(step=-1)).all()
    draws(papers.find_experiment("he2025/fig12"), partial)
    monkeypatch.setattr(lengths, "trained", interrupted)
    for module, kind, name in (
        (lengths, lengths.HeadsByLengthConfig, "fig3a"),
        (linear_lengths, lengths.LengthsConfig, "fig7"),
    ):
        with pytest.raises(RunInterrupted) as caught:
            module.run(kind.model_validate(SHORT))
        draws(papers.find_experiment(f"he2025/{name}"), caught.value.partial)


def test_losses_by_length_are_those_of_shortened_prompts():
    """One batch, drawn again here; the layer itself on the beginnings of its prompts."""
    task, key = al.InContextRegression(3, 12), jax.random.key(3)
    heads = al.KernelHeads(np.array([0.4, -0.3]), np.array([1.0, -1.2]))
    layer = al.MultiHeadAttention.from_heads(heads, 3)
    kq, ov = np.asarray(layer.kq), np.asarray(layer.ov)
    stacked = layers_of([(kq, ov), (2 * kq, ov)], 3, heads=3)
    loss, error = losses_by_length(stacked, task, (4, 12), key=key, samples=500)
    prompts = task.sample(jax.random.fold_in(key, 0), 500)
    for place, length in enumerate((4, 12)):
        squares = (
            layer(prompts.X[:, :length], prompts.y[:, :length], prompts.xq) - prompts.yq
        ) ** 2
        np.testing.assert_allclose(loss[0, place], squares.mean(), rtol=1e-4)
        np.testing.assert_allclose(error[0, place], squares.std() / np.sqrt(500), rtol=1e-3)
    assert loss[1, 0] != loss[0, 0]


@pytest.mark.parametrize("name", activations.ALL)
def test_blended_activations_are_the_named_ones(name):
    scores = jax.random.normal(jax.random.key(0), (3, 5)) / 3
    weights = blended(parameter_of(name)).weights(scores, -1)
    expected = training.normalization_of(name).weights(scores, -1)
    np.testing.assert_allclose(weights, expected, rtol=2e-5)


def test_heads_by_length_agree_with_exact_risks():
    changes = SHORT | {"heads": (1, 2), "samples": 20_000, "lengths": (8, 20)}
    experiment, data = compute("fig3a", changes)
    assert data.loss.dims == ("n_heads", "length")
    # four steps leave heads that are (ω, μ) up to small entries: samples meet the exact risk
    z = (data.loss - data.exact) / data.loss_error
    assert np.all(np.abs(z) < 4.5)
    task = al.InContextRegression(3, 20)
    np.testing.assert_allclose(data.ridge[1], float(estimators.bayes_risk(task)), rtol=1e-12)
    draws(experiment, data)
    draws(papers.find_experiment("he2025/fig3b"), data)


def test_linear_attention_with_a_fixed_factor_is_a_longer_step():
    experiment, data = compute("fig7", SHORT | {"samples": 20_000, "lengths": (5, 20, 40)})
    own, fixed = (
        data.sel(predictor=linear_lengths.PREDICTORS[1]),
        data.sel(predictor=linear_lengths.FIXED),
    )
    # the same prompts, hence the same losses at the length of training
    np.testing.assert_allclose(own.loss[1], fixed.loss[1], rtol=1e-6)
    assert abs(float(own.loss[2] - fixed.loss[2])) > float(own.loss_error[2]) / 10
    z = (data.loss - data.exact) / data.loss_error
    assert np.all(np.abs(z[1:]) < 4.5)
    draws(experiment, data)


def test_activations_train_side_by_side_as_alone(monkeypatch):
    names = ("softmax", "squared-affine-0.5")
    changes = SHORT | {"activations": names, "clip": None, "samples": 500}
    _, data = compute("table1", changes)
    assert data.kq.sizes["activation"] == 2
    alone = {k: v for k, v in changes.items() if k in training.TrainedConfig.model_fields}
    config = training.TrainedConfig.model_validate(alone | {"saves": 2})
    history = training.trained(config).history
    np.testing.assert_allclose(data.omega.sel(activation="softmax"), history.omega, rtol=1e-4)
    one = data.sel(activation=names[1])
    last = one.isel(run=int(one.shown))
    step = 2 * 0.5 * float((last.omega * last.mu).isel(step=-1).sum())
    np.testing.assert_allclose(one.effective_step, step, rtol=1e-6)  # one saved step in the tail
    risk = estimators.gradient_descent_risk(
        al.InContextRegression(3, 20), step=float(one.effective_step), debiased=True
    )
    np.testing.assert_allclose(one.debiased_gd[1], float(risk), rtol=1e-12)
    partial = data.isel(step=slice(0, 1)).drop_vars(["loss", "loss_error"])
    for name in ("fig8", "fig9", "fig10", "table1"):
        drawn = papers.find_experiment(f"he2025/{name}")
        draws(drawn, data)
        draws(drawn, partial)


def test_distances_are_from_the_nearest_multiple():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(4, 4))
    blocks = np.stack([-3.0 * matrix, rng.normal(size=(4, 4))])
    off = anisotropic.distance(blocks, matrix)
    assert off[0] < 1e-7
    flat = blocks[1].ravel()
    multiple = np.linalg.lstsq(matrix.reshape(-1, 1), flat, rcond=None)[0]
    expected = np.linalg.norm(flat - matrix.ravel() * multiple) / np.linalg.norm(flat)
    np.testing.assert_allclose(off[1], expected)


def test_anisotropic_circuits_are_compared_with_the_preconditioners():
    experiment, data = compute("fig11", SHORT | {"rho": 0.5})
    np.testing.assert_allclose(data.sigma[0], [1, 0.5, 0.25])
    trace = 3 + 3 * 0.1
    np.testing.assert_allclose(data.gamma, 21 / 20 * data.sigma + trace / 20 * np.eye(3))
    assert data.distance.sizes["reference"] == 3
    for name in ("fig11", "fig14"):
        drawn = papers.find_experiment(f"he2025/{name}")
        draws(drawn, data)
        draws(drawn, data.isel(step=slice(0, 1)))
    assert experiment.paper == "he2025"


def test_tasks_are_shared_out():
    changes = SHORT | {"supports": ((0, 1), (1, 2)), "n_heads": 2}
    experiment, data = compute("fig16", changes)
    steps = np.einsum("rho,rhc->roc", data.mu.isel(step=-1), data.omega_end)
    np.testing.assert_allclose(data.step_size, steps, rtol=1e-5)
    outside, inside = (data.support == 0).values, (data.support == 1).values
    one = steps[0]
    leak = np.sqrt(np.mean([
        np.mean(one[n][outside[n]] ** 2) / np.mean(one[n][inside[n]] ** 2) for n in (0, 1)
    ]))  # fmt: skip
    np.testing.assert_allclose(data.leak[0], leak, rtol=1e-5)
    assert set(data.mode.values) <= set(multitask._WORDS)
    draws(experiment, data)
    draws(experiment, data.isel(step=slice(0, 1)))


def test_the_optimiser_falls_to_a_hundredth():
    config = training.TrainedConfig.model_validate(TINY | {"steps": 10, "clip": 0.5})
    optimizer = training.optimizer_of(config)
    weight = jnp.ones(())
    state = optimizer.init(weight)
    sizes = []
    for _ in range(11):
        update, state = optimizer.update(jnp.asarray(3.0), state, weight)
        sizes.append(-float(update))
    # of a constant gradient, Adam makes steps of the learning rate
    np.testing.assert_allclose(sizes[0], 1e-2, rtol=1e-4)
    np.testing.assert_allclose(sizes[10], 1e-4, rtol=1e-4)
