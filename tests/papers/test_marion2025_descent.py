"""The four descents: layout, key numbers, figures, and the names of their ends."""

import numpy as np
import pytest

import attnlab as al
from attnlab.papers import find_experiment
from attnlab.papers.marion2025.end_states import (
    critical_scale,
    end_states,
    gradient_norm,
    swapped_minimum,
)

HALF = 0.5**0.5


def compute(name, **changes):
    experiment = find_experiment(f"marion2025/{name}")
    return experiment, experiment.compute(experiment.configure("quick", changes))


def test_from_the_manifold_every_run_finds_the_teacher():
    experiment, ds = compute("gd-manifold", runs=6)
    assert ds.sizes == {"run": 6, "step": 401}
    assert ds.step.values[-1] == 20_000
    assert (ds.distance == 0).all()
    last = ds.isel(step=-1)
    assert np.allclose(np.abs(last.nu), 1, atol=1e-4)
    assert (np.abs(last.kappa) > 0.95).all()
    assert set(ds.kind.values) <= {"teacher", "mirrored teacher"}
    assert float(last.excess_risk.max()) == pytest.approx(0.1137, abs=3e-4)
    assert float(ds.teacher_excess[-1]) == pytest.approx(0.113498, abs=1e-6)
    # no label noise, so the excess is the risk itself
    assert np.array_equal(ds.excess_risk, ds.risk)
    assert "exactly 0" in experiment.plot(ds).panels[3].note


def test_the_excess_leaves_the_label_noise_out():
    _, clean = compute("gd-manifold", runs=2, steps=40)
    _, noisy = compute("gd-manifold", runs=2, steps=40, noise_std=0.3)
    assert noisy.attrs["bayes_risk"] == pytest.approx(0.09)
    assert np.allclose(noisy.excess_risk, clean.excess_risk)
    assert np.allclose(noisy.risk - clean.risk, 0.09)


def test_small_scale_ends_are_teachers_or_swapped():
    _, ds = compute("gd-sphere-small-scale", runs=12)
    kinds = set(ds.kind.values)
    assert "swapped roles" in kinds
    assert kinds & {"teacher", "mirrored teacher"}
    swapped = ds.isel(step=-1, run=np.flatnonzero(ds.kind.values == "swapped roles"))
    assert np.allclose(np.abs(swapped.eta), 1, atol=1e-4)
    assert np.allclose(np.abs(swapped.theta), 0.62982, atol=1e-4)
    assert np.allclose(swapped.excess_risk, 0.115512, atol=1e-5)


def test_the_saved_scale_follows_the_schedule_and_gives_the_saved_risk():
    _, ds = compute("gd-sphere-schedule", runs=3, steps=4000)
    assert np.allclose(ds.scale.values, 1 / (1 + 1e-4 * ds.step.values))
    task = al.SingleLocation(400, 10)
    risk = al.population_risk(task, al.PointwiseAttention("erf", 1.0))
    names = ("kappa", "nu", "theta", "eta", "rho")
    states = al.Overlaps(*(ds[name].values for name in names))
    assert np.allclose(risk(states, ds.scale.values), ds.risk.values, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("gd-manifold", "λ = 0.1"),
        ("gd-sphere-large-scale", "λ = 0.9"),
        ("gd-sphere-small-scale", "λ = 0.1"),
        ("gd-sphere-schedule", "λ = 1/(1 + 0.0001·step)"),
    ],
)
def test_figures_say_which_scale_was_used_and_render(name, scale, tmp_path):
    from attnlab.plotting import to_html_div
    from attnlab.plotting.matplotlib_renderer import save_figure

    experiment, ds = compute(name, runs=3, steps=400)
    figure = experiment.plot(ds)
    assert scale in figure.title
    assert [panel.title for panel in figure.panels] == [
        "Excess risk",
        "Overlaps with the teacher",
        "Paths",
        "Distance to M",
    ]
    assert all(path.stat().st_size > 1000 for path in save_figure(figure, tmp_path / name))
    assert "Excess risk" in to_html_div(figure, "a-figure")


def test_presets_are_the_papers_settings():
    settings = {
        "gd-manifold": (0.1, 0.0, 4e-3, 20_000),
        "gd-sphere-small-scale": (0.1, 0.0, 4e-3, 20_000),
        "gd-sphere-large-scale": (0.9, 0.0, 1e-3, 120_000),
        "gd-sphere-schedule": (1.0, 1e-4, 4e-3, 120_000),
    }
    for name, expected in settings.items():
        config = find_experiment(f"marion2025/{name}").configure("paper")
        assert (config.scale, config.scale_decay, config.step_size, config.steps) == expected
        assert (config.dim, config.length, config.runs) == (400, 10, 30)
        assert config.token_std**2 == pytest.approx(0.5)


def risk_of(dim, length, scale):
    task = al.SingleLocation(dim, length)
    return al.population_risk(task, al.PointwiseAttention("erf", scale))


def test_end_states_are_named_by_where_they_are():
    risk = risk_of(400, 10, 0.1)
    swapped = np.asarray(swapped_minimum(risk).stack())
    states = np.array(
        [
            [0.98, 1, 0, 0, 0],
            [-0.98, -1, 0, 0, 0],
            swapped,
            -swapped,
            [0.5, 0.5, 0, 0, 0],
            [0.98, -1, 0, 0, 0],
        ]
    )
    named = end_states(risk, states)
    assert named.tolist() == [
        "teacher",
        "mirrored teacher",
        "swapped roles",
        "swapped roles",
        "moving",
        "moving",
    ]


def test_gradient_norm_is_that_of_the_vectors():
    risk = risk_of(50, 10, 0.3)
    import jax

    states = al.Overlaps.on_sphere(jax.random.key(3), 4, runs=5)
    k, v = states.to_vectors(50)
    g = risk.gradient(states)
    axes = np.eye(2, 50)
    g_k = np.outer(g.kappa, axes[0]) + np.outer(g.eta, axes[1]) + g.rho[:, None] * v
    g_v = np.outer(g.nu, axes[1]) + np.outer(g.theta, axes[0]) + g.rho[:, None] * k
    g_k = g_k - np.sum(g_k * k, 1, keepdims=True) * k
    g_v = g_v - np.sum(g_v * v, 1, keepdims=True) * v
    expected = np.sqrt(np.sum(g_k**2, 1) + np.sum(g_v**2, 1))
    assert np.allclose(gradient_norm(risk, np.asarray(states.stack())), expected, rtol=1e-9)


@pytest.mark.parametrize(("dim", "scale"), [(400, 0.1), (400, 0.02), (50, 0.3)])
def test_the_swapped_minimum_is_where_the_slope_vanishes_or_at_the_end(dim, scale):
    risk = risk_of(dim, 10, scale)
    point = swapped_minimum(risk)
    slope = float(np.asarray(risk.gradient(point).theta))
    if float(point.theta) < 1:
        assert abs(slope) < 1e-9
        small = np.sqrt(np.pi) / (2 * scale * HALF * dim**0.5)
        assert float(point.theta) == pytest.approx(small, rel=0.05)
    else:
        assert slope < 0


def test_critical_scale_tends_to_half_the_root_of_three():
    assert critical_scale(10**9, 10, HALF, HALF) == pytest.approx(np.sqrt(3) / 2, rel=1e-6)
    assert critical_scale(400, 10, HALF, HALF) == pytest.approx(0.89243, abs=1e-4)
    assert critical_scale(4, 100, HALF, HALF) == np.inf
