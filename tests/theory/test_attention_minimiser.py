"""Descents of the exact risk of unnormalised attention: over A, its value, over all of P and Q."""

import jax
import numpy as np
import pytest

import attnlab as al
from attnlab.circuits import block_pattern
from attnlab.errors import InvalidArgument
from attnlab.students import MergedAttention
from attnlab.theory import minimise_attention, optimal_attention

D, N = 3, 8


def task_of(rng, noise=0.4):
    roots = rng.normal(size=(2, D, D))
    sigma, prior = (root @ root.T / D + 0.3 * np.eye(D) for root in roots)
    return al.InContextRegression(D, N, noise_std=noise, covariance=sigma, prior=prior)


@pytest.mark.parametrize("name", ["linear", "relu-sum"])
def test_over_A_it_ends_in_the_closed_form_from_any_start(name):
    rng = np.random.default_rng(0)
    task = task_of(rng)
    best = optimal_attention(task, normalization=name)
    starts = [MergedAttention.sparse(A, normalization=name) for A in rng.normal(size=(4, D, D))]
    found = minimise_attention(al.population_risk(task, best), starts)
    assert found.converged.all()
    for layer in found.layers:
        np.testing.assert_allclose(layer.A, best.A, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["linear-sum", "relu"])
def test_over_all_entries_no_end_is_lower_than_the_pattern(name):
    rng = np.random.default_rng(1)
    task = task_of(rng)
    risk = al.population_risk(task, optimal_attention(task, normalization=name))
    starts = [
        MergedAttention(*rng.normal(size=(2, D + 1, D + 1)), normalization=name) for _ in range(24)
    ]
    found = minimise_attention(risk, starts, free="all", max_steps=2000)
    np.testing.assert_allclose(found.value.min(), risk.value, rtol=1e-10)
    pattern = block_pattern(found.best)
    assert pattern.off_pattern < 1e-4
    np.testing.assert_allclose(pattern.effective, risk.layer.A, rtol=1e-3, atol=1e-5)
    # what it says of an end is true of that end
    for layer, value in zip(found.layers[:3], found.value[:3], strict=True):
        np.testing.assert_allclose(risk(layer), value, rtol=1e-9)


def test_no_random_layer_is_better_than_the_pattern_with_the_same_matrix():
    """The inequality behind the proof that the pattern is the global minimum."""
    rng = np.random.default_rng(2)
    for _ in range(40):
        task = task_of(rng, noise=float(rng.choice([0.0, 1.0])))
        for name in ("linear-sum", "relu-sum"):
            P, Q = rng.normal(size=(2, D + 1, D + 1))
            risk = al.population_risk(task, MergedAttention(P, Q, normalization=name))
            merged = P[D, D] * Q[:D, :D].T + np.outer(Q[D, :D], P[D, :D])
            assert risk(MergedAttention.sparse(merged, normalization=name)) <= risk.value


def test_in_one_dimension_the_pattern_has_an_equal():
    """Reading the covariate and scoring by the response is as good there, and not beyond."""
    task = al.InContextRegression(1, 6, noise_std=0.3, prior=np.eye(1))
    best = optimal_attention(task, normalization="relu-sum")
    risk = al.population_risk(task, best)
    swapped = MergedAttention(
        [[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [float(best.A[0, 0]), 0.0]], normalization="relu-sum"
    )
    np.testing.assert_allclose(risk(swapped), risk.value, rtol=1e-12)


def test_another_activation_with_its_value_free():
    """exp: stationary in A and v, the best v to the A it found, and lower than with v = 1."""
    task = al.InContextRegression(2, 6, noise_std=0.0, prior=np.eye(2))
    start = MergedAttention.sparse([[0.1, 0.05], [-0.05, 0.1]], normalization="exp")
    risk = al.population_risk(task, start)
    found = minimise_attention(risk, free="A and value")
    assert found.converged.all()
    layer = found.best
    slope = risk.gradient(layer)
    assert max(abs(slope.P[2, 2]), np.abs(slope.Q[:2, :2]).max()) < 1e-5
    np.testing.assert_allclose(layer.A, layer.A[0, 0] * np.eye(2), atol=1e-6)
    assert risk(layer) < risk(MergedAttention.sparse(layer.A, normalization="exp"))


def test_pattern_numbers_by_hand():
    P = np.array([[9.0, 9.0, 9.0], [9.0, 9.0, 9.0], [3.0, 0.0, 4.0]])
    Q = np.array([[0.0, 2.0, 7.0], [1.0, 0.0, 7.0], [2.0, 0.0, 7.0]])
    found = block_pattern(MergedAttention(np.stack([P, P])[0], Q))
    np.testing.assert_allclose(found.effective, [[0.0, 4.0], [8.0, 0.0]])
    assert found.read_covariates == pytest.approx(0.6)
    assert found.scored_responses == pytest.approx(2 / 3)
    assert found.off_pattern == pytest.approx(np.sqrt(1 - 0.64 * 5 / 9))
    assert (found.scale, found.off_identity) == (0.0, 1.0)
    assert found.distance([[0.0, 1.0], [2.0, 0.0]]) == pytest.approx(0.0, abs=1e-7)
    assert found.distance(np.eye(2)) == pytest.approx(1.0)


def test_patterns_of_tiny_huge_and_undefined_weights():
    rng = np.random.default_rng(3)
    P, Q = rng.normal(size=(2, 4, 4))
    usual = block_pattern(MergedAttention(P, Q))
    for size in (1e-200, 1e150):
        other = block_pattern(MergedAttention(size * P, size * Q))
        assert other.off_pattern == pytest.approx(float(usual.off_pattern))
    layer = MergedAttention(P, Q)
    object.__setattr__(layer, "P", np.full((4, 4), np.nan))  # a training that diverged
    assert np.isnan(block_pattern(layer).off_pattern)


def test_starts_without_a_slope_stay_and_do_not_spoil_the_others():
    task = al.InContextRegression(2, 6, noise_std=0.0, prior=np.eye(2))
    best = optimal_attention(task, normalization="relu")
    risk = al.population_risk(task, best)
    zero = MergedAttention(np.zeros((3, 3)), np.zeros((3, 3)), normalization="relu")
    found = minimise_attention(risk, [zero, best], free="all")
    assert list(found.converged) == [False, True]
    assert found.value[0] == pytest.approx(2.0)
    assert found.best is found.layers[1]
    with pytest.raises(InvalidArgument, match="^layer"):
        minimise_attention(
            risk, MergedAttention(1e100 * zero.P + 1e200, best.Q, normalization="relu")
        )


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda risk: minimise_attention("risk"), "risk"),
        (lambda risk: minimise_attention(risk, free="P"), "free"),
        (lambda risk: minimise_attention(risk, []), "layers"),
        (lambda risk: minimise_attention(risk, 3), "layers"),
        (lambda risk: block_pattern(risk.layer).distance("a"), "matrix"),
        (lambda risk: MergedAttention.random(10**6, key=jax.random.key(0)), "dim"),
        (lambda risk: MergedAttention([[10**400, 0], [0, 1]], np.eye(2)), "P"),
        (lambda risk: al.students.elementwise(np.zeros(3)), "activation"),
        (lambda risk: minimise_attention(risk, tolerance=0.0), "tolerance"),
        (lambda risk: minimise_attention(risk, max_steps=0), "max_steps"),
        (lambda risk: minimise_attention(risk, [MergedAttention.sparse(np.eye(3))]), "layer"),
        (lambda risk: minimise_attention(risk, free="all"), "free"),
        (lambda risk: block_pattern("layer"), "layer"),
        (lambda risk: block_pattern(risk.layer).distance(np.zeros((2, 2))), "matrix"),
        (lambda risk: block_pattern(risk.layer).distance(np.eye(3)), "matrix"),
    ],
)
def test_bad_arguments_are_named(call, named):
    task = al.InContextRegression(2, 6, noise_std=0.0, prior=np.eye(2))
    risk = al.population_risk(task, MergedAttention.sparse(0.1 * np.eye(2), normalization="exp"))
    with pytest.raises(InvalidArgument, match=f"^{named}"):
        call(risk)
