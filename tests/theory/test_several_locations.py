"""The exact risk for several informative tokens against sampling, quadrature and one token."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab.tasks import SeveralLocations
from attnlab.theory.several_locations import several_locations_quadrature

OVERLAPS = al.Overlaps.on_sphere(jax.random.key(3), 8, runs=6)


@pytest.mark.parametrize("aggregate", ["sum", "mean"])
@pytest.mark.parametrize(
    ("activation", "student_link", "task_link"),
    [("erf", "linear", "linear"), ("relu", "quadratic", "relu")],
)
def test_risk_is_what_sampling_gives(aggregate, activation, student_link, task_link):
    task = SeveralLocations(8, 7, 3, aggregate=aggregate, noise_std=0.3, link=task_link)
    student = al.PointwiseAttention(activation, 0.6, student_link)
    exact = al.population_risk(task, student)(OVERLAPS)
    k, v = OVERLAPS.to_vectors(8)
    z = []
    for run in range(6):
        prompts = task.sample(jax.random.fold_in(jax.random.key(0), run), 100_000)
        prediction = student(prompts.X, jnp.asarray(k[run]), jnp.asarray(v[run]))
        losses = np.asarray(prediction - prompts.y, float) ** 2
        z.append((losses.mean() - exact[run]) / (losses.std() / np.sqrt(len(losses))))
    assert np.max(np.abs(z)) < 4
    assert 0.05 < np.mean(np.square(z)) < 3.5


@pytest.mark.parametrize("aggregate", ["sum", "mean"])
def test_closed_form_is_the_quadrature(aggregate):
    task = SeveralLocations(30, 12, 4, aggregate=aggregate, noise_std=0.1, token_std=0.4)
    student = al.PointwiseAttention("erf", 0.35)
    closed, quadrature = (
        al.population_risk(task, student),
        several_locations_quadrature(task, student),
    )
    assert (closed.method, quadrature.method) == ("closed form", "quadrature")
    np.testing.assert_allclose(closed(OVERLAPS), quadrature(OVERLAPS), rtol=1e-11)
    gap = np.abs(closed(OVERLAPS) - quadrature(OVERLAPS))
    assert (gap <= closed.error(OVERLAPS) + quadrature.error(OVERLAPS)).all()
    np.testing.assert_allclose(
        closed.gradient(OVERLAPS).stack(), quadrature.gradient(OVERLAPS).stack(), atol=1e-9
    )
    np.testing.assert_allclose(closed.at_scale(0.2)(OVERLAPS), quadrature.at_scale(0.2)(OVERLAPS))


def test_one_informative_token_is_the_single_location_risk():
    student = al.PointwiseAttention("erf", 0.6)
    one = al.population_risk(SeveralLocations(8, 7, 1), student)
    single = al.population_risk(al.SingleLocation(8, 7), student)
    np.testing.assert_allclose(one(OVERLAPS), single(OVERLAPS), rtol=1e-13)


def test_components_add_up_and_descent_runs_on_it():
    task = SeveralLocations(100, 10, 2, aggregate="sum", noise_std=0.1)
    risk = al.population_risk(task, al.PointwiseAttention("erf", 0.2))
    parts = risk.components(OVERLAPS)
    fields = [parts[n].values for n in parts if n != "total"]
    np.testing.assert_allclose(np.sum(fields, axis=0), risk(OVERLAPS), rtol=1e-12)
    start = al.Overlaps.on_manifold(jax.random.key(0), 100, runs=4)
    out = al.dynamics.projected_gradient_descent(
        risk, start, step_size=0.02, steps=1500, save_every=1500
    )
    assert (abs(out.nu[:, -1]) > 0.99).all()
    assert (out.risk[:, -1] < risk.teacher + 0.05).all()


def test_own_directions_have_no_five_overlaps():
    task = SeveralLocations(8, 7, 2, own_directions=True)
    with pytest.raises(al.InvalidArgument, match="own_directions = True .*sampled_risk"):
        al.population_risk(task, al.PointwiseAttention())
