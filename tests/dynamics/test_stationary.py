import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab.dynamics.dataset import overlaps_of
from attnlab.errors import InvalidArgument

DIM = 7


@pytest.fixture(scope="module")
def risk():
    return al.population_risk(al.SingleLocation(DIM, 6), al.PointwiseAttention("erf", 0.4))


@pytest.fixture(scope="module")
def points(risk):
    return al.dynamics.stationary_points(risk, DIM, key=jax.random.key(0), starts=200)


def full_hessian(risk, overlaps):
    """Eigenvalues of the Hessian on the spheres of the whole `R^d`, by exponential coordinates."""
    k, v = (np.asarray(part) for part in overlaps.to_vectors(DIM))

    def tangent_basis(x):
        return np.linalg.svd(x[None])[2][1:]

    vectors, bases = np.stack([k, v]), np.stack([tangent_basis(k), tangent_basis(v)])
    with jax.enable_x64(True):
        slope, hessian = (np.asarray(x) for x in slope_and_hessian(risk, vectors, bases))
    return slope, np.linalg.eigvalsh(hessian)


@eqx.filter_jit
def slope_and_hessian(risk, vectors, bases):
    def value(t):
        moved = []
        for x, basis, part in zip(vectors, bases, (t[: DIM - 1], t[DIM - 1 :]), strict=True):
            step = part @ basis
            y = x + step
            moved.append(y / jnp.sqrt(y @ y))
        k2, v2 = moved
        return risk.value_of(jnp.stack([k2[0], v2[1], v2[0], k2[1], k2 @ v2]), risk.scale)

    zero = jnp.zeros(2 * (DIM - 1))
    return jax.grad(value)(zero), jax.hessian(value)(zero)


def test_gradients_vanish_and_signatures_match_the_whole_space(risk, points):
    assert float(points.gradient_norm.max()) < 1e-8
    assert len(points.point) >= 5
    for i in range(0, len(points.point), 3):
        row = points.isel(point=i)
        slope, eigenvalues = full_hessian(risk, overlaps_of(points, point=i))
        assert np.abs(slope).max() < 1e-6  # vectors rebuilt from overlaps lose half the digits
        floor = 1e-7 * np.abs(eigenvalues).max()
        assert int(row.n_negative) == np.sum(eigenvalues < -floor)
        assert int(row.n_positive) == np.sum(eigenvalues > floor)
        assert float(row.smallest_eigenvalue) == pytest.approx(eigenvalues.min(), abs=1e-6)
        assert float(row.largest_eigenvalue) == pytest.approx(eigenvalues.max(), abs=1e-6)


def test_the_teacher_and_its_mirror_are_minima(points):
    teacher = (np.abs(points.kappa - points.nu) < 1e-6) & (np.abs(np.abs(points.kappa) - 1) < 1e-6)
    assert int(teacher.sum()) == 2
    assert (points.kind[teacher] == "minimum").all()
    # in so few dimensions they are not the best minima: another pair, at eta = ±1, lies below
    best = points.isel(point=0)
    assert abs(float(best.eta)) == pytest.approx(1)
    assert float(best.risk) < float(points.risk[teacher][0]) - 1e-3


def test_images_of_points_are_points(points):
    stack = overlaps_of(points).stack()
    for signs in ([-1, -1, -1, -1, 1], [1, 1, -1, -1, -1]):
        for row in stack * signs:
            assert np.abs(stack - row).max(axis=1).min() < 1e-4


def test_minima_attract_the_descent_at_the_stated_rate(risk):
    rates = al.dynamics.convergence_rates(risk, al.Overlaps.teacher(), DIM, step_size=0.05)
    start = al.Overlaps(np.sqrt(1 - 1e-4), np.sqrt(1 - 1e-4), 0.0, 0.0, 0.0)
    run = al.dynamics.projected_gradient_descent(risk, start, step_size=0.05, steps=500)
    distance = np.sqrt(2 - run.kappa[0] - run.nu[0]).values
    measured = (distance[500] / distance[300]) ** (1 / 200)
    assert measured == pytest.approx(float(rates.contraction[0]), abs=2e-5)
    assert float(rates.halving_steps[0]) == pytest.approx(np.log(0.5) / np.log(measured), rel=1e-2)
    assert np.isinf(rates.escape_steps[0])


def test_saddles_are_left_at_the_stated_rate(risk):
    saddle = al.Overlaps(0.0, 0.0, 0.0, 0.0, 0.0)
    rates = al.dynamics.convergence_rates(risk, saddle, DIM, step_size=0.01)
    assert str(rates.kind.values[0]) == "saddle"
    off = al.Overlaps(1e-7, 1e-7)
    run = al.dynamics.projected_gradient_descent(risk, off, step_size=0.01, steps=2000)
    size = np.hypot(run.kappa[0], run.nu[0]).values
    late = np.argmax(size > 1e-3)
    assert late > 0
    measured = 1 / np.log(size[late] / size[late - 1])
    assert measured == pytest.approx(float(rates.escape_steps[0]), rel=1e-2)


def test_transverse_growth_is_that_of_an_actual_perturbation(risk):
    start = al.Overlaps.on_manifold(jax.random.key(2), DIM)
    watched = al.dynamics.transverse_stability(risk, start, step_size=0.01, steps=200)
    state = start.stack()
    size, directions = 1e-7, np.eye(3)
    base = al.dynamics.projected_gradient_descent(risk, start, step_size=0.01, steps=200)
    nudged = [al.Overlaps.unstack(state + np.r_[0, 0, size * d]) for d in directions]
    moved = [
        al.dynamics.projected_gradient_descent(risk, near, step_size=0.01, steps=200)
        for near in nudged
    ]
    columns = [(overlaps_of(run, step=-1).stack()[0, 2:]) / size for run in moved]
    growth = np.log(np.linalg.norm(np.stack(columns, -1), ord=2))
    assert float(watched.growth[0, -1]) == pytest.approx(growth, abs=1e-4)
    np.testing.assert_array_equal(watched.kappa, base.kappa)
    assert watched.exponent.dims == ("run", "step", "mode")
    assert (np.diff(watched.exponent, axis=-1) <= 0).all()


def test_bad_arguments(risk):
    with pytest.raises(InvalidArgument, match="on M"):
        al.dynamics.transverse_stability(risk, al.Overlaps(0.1, 0.1, 0.1), step_size=0.1, steps=1)
    with pytest.raises(InvalidArgument, match="stationary"):
        al.dynamics.convergence_rates(risk, al.Overlaps(0.1, 0.3), DIM, step_size=0.1)
    with pytest.raises(InvalidArgument, match="dim"):
        al.dynamics.stationary_points(risk, 1, key=jax.random.key(0))
