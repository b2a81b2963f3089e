"""Descent in R^d against the overlap recursion, and fresh-batch training against its chain."""

import jax
import numpy as np
import pytest

import attnlab as al
from attnlab.dynamics.vectors import (
    projected_gradient_descent_vectors,
    stochastic_gradient_descent_vectors,
)

NAMES = ("kappa", "nu", "theta", "eta", "rho", "risk", "scale")
DIM, RUNS = 400, 30


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def starts(manifold):
    """Random hidden directions (not axes) and starts, on M or on the spheres."""
    rng = np.random.default_rng(int(manifold))
    k_star, v_star = np.linalg.qr(rng.normal(size=(DIM, 2)))[0].T
    k, v = rng.normal(size=(2, RUNS, DIM))
    if manifold:
        k = unit(k - np.outer(k @ v_star, v_star))
        for away in (np.broadcast_to(k_star, k.shape), unit(k - np.outer(k @ k_star, k_star))):
            v = v - np.sum(v * away, -1, keepdims=True) * away
    return unit(k), unit(v), k_star, v_star


@pytest.mark.parametrize("manifold", [True, False])
@pytest.mark.parametrize(
    ("scale", "step_size", "decay"),
    [(0.1, 4e-3, None), (1.0, 2e-3, 1e-4)],
    ids=["fixed", "schedule"],
)
def test_overlap_recursion_agrees_over_20000_steps(manifold, scale, step_size, decay):
    vectors = starts(manifold)
    risk = al.population_risk(al.SingleLocation(DIM, 10), al.PointwiseAttention("erf", scale))
    how = {
        "step_size": step_size,
        "steps": 20_000,
        "save_every": 500,
        "scale_schedule": None if decay is None else lambda step: scale / (1 + decay * step),
    }
    slow = projected_gradient_descent_vectors(risk, *vectors, **how)
    fast = al.dynamics.projected_gradient_descent(risk, al.Overlaps.from_vectors(*vectors), **how)
    for name in NAMES:
        np.testing.assert_allclose(slow[name], fast[name], rtol=0, atol=1e-9)
    # the comparison is of something that moves
    assert abs(slow.nu[:, -1] - slow.nu[:, 0]).median() > 0.3
    assert (slow.status == "ok").all()


def test_fresh_batches_have_the_law_of_the_overlap_chain():
    dim, runs = 12, 500
    task = al.SingleLocation(dim, 4, noise_std=0.2)
    student = al.PointwiseAttention("erf", 0.5)
    start = al.Overlaps(*(np.full(runs, x) for x in (0.3, 0.2, 0.1, -0.2, 0.15)))
    how = {"step_size": 0.03, "steps": 40, "batch_size": 3, "save_every": 40}
    plain = stochastic_gradient_descent_vectors(task, student, start, key=jax.random.key(1), **how)
    chain = al.dynamics.stochastic_gradient_descent(
        task, student, start, key=jax.random.key(2), **how
    )
    for name in NAMES[:5]:
        a, b = plain[name].values[:, -1], chain[name].values[:, -1]
        assert a.std() > 0.01
        mean_z = (a.mean() - b.mean()) / np.hypot(a.std(), b.std()) * np.sqrt(runs)
        spread_z = np.log(a.std() / b.std()) * np.sqrt(runs)  # its standard error is 1 for normals
        assert abs(mean_z) < 4.5
        assert abs(spread_z) < 4.5
    a, b = plain.rho.values[:, -1], plain.eta.values[:, -1]
    c, d = chain.rho.values[:, -1], chain.eta.values[:, -1]
    gap = np.arctanh(np.corrcoef(a, b)[0, 1]) - np.arctanh(np.corrcoef(c, d)[0, 1])
    assert abs(gap) * np.sqrt(runs / 2) < 4.5


def test_more_runs_leave_the_first_ones_as_they_were():
    task, student = al.SingleLocation(6, 3), al.PointwiseAttention("erf", 0.5)
    start = al.Overlaps.on_sphere(jax.random.key(0), 6, runs=3)
    how = {"step_size": 0.05, "steps": 7, "batch_size": 2, "key": jax.random.key(3)}
    three = stochastic_gradient_descent_vectors(task, student, start, **how)
    two = stochastic_gradient_descent_vectors(
        task, student, al.Overlaps.unstack(start.stack()[:2]), **how
    )
    np.testing.assert_allclose(two.kappa, three.kappa[:2], atol=1e-6)
    assert abs(three.kappa[0, -1] - three.kappa[1, -1]) > 1e-3


def test_bad_vectors_are_named():
    risk = al.population_risk(al.SingleLocation(4, 3), al.PointwiseAttention())
    k, v, k_star, v_star = np.eye(4)[[2]], np.eye(4)[[3]], np.eye(4)[0], np.eye(4)[1]
    how = {"step_size": 0.1, "steps": 1}
    for wrong, name in [
        ((2 * k, v, k_star, v_star), "k ="),
        ((k, v[0], k_star, v_star), "v ="),
        ((k, v, k_star, k_star), "k_star · v_star"),
        ((k, v * np.nan, k_star, v_star), "v ="),
        ((k, np.vstack([v, v]), k_star, v_star), "k, v, k_star, v_star"),
    ]:
        with pytest.raises(al.InvalidArgument, match=name):
            projected_gradient_descent_vectors(risk, *wrong, **how)


def test_batches_that_do_not_fit_are_refused_before_they_are_drawn():
    task = al.SingleLocation(10_000, 1000)
    start = al.Overlaps.on_sphere(jax.random.key(0), 10_000, runs=4)
    with pytest.raises(al.InvalidArgument, match="batch_size = 100 .*at most 13"):
        stochastic_gradient_descent_vectors(
            task, al.PointwiseAttention(), start, step_size=0.1, steps=1, batch_size=100,
            key=jax.random.key(0),
        )  # fmt: skip
