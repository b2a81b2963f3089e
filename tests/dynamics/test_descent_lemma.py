"""The descent lemma that holds and the one that is printed; paths that end, and one that does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab.dynamics import descent_check, smoothness, winding_descent
from attnlab.dynamics.dataset import overlaps_of
from attnlab.dynamics.landscape import pictures

DIM = 5
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def risk():
    return al.population_risk(al.SingleLocation(DIM, 3), al.PointwiseAttention("erf", 0.6))


@pytest.fixture(scope="module")
def constants(risk):
    return smoothness(risk, DIM, key=KEY)


def test_smoothness_is_the_largest_hessian_of_the_retracted_risk(risk, constants):
    def retracted(pair):
        k, v = pair.reshape(2, DIM)
        k, v = k / jnp.linalg.norm(k), v / jnp.linalg.norm(v)
        return risk.value_of(jnp.stack([k[0], v[1], v[0], k[1], k @ v]))

    with jax.enable_x64(True):
        norm = jax.jit(jax.vmap(lambda p: jnp.linalg.norm(jax.hessian(retracted)(p), ord=2)))
        random = al.Overlaps.on_sphere(jax.random.key(1), DIM, runs=199)
        there = np.concatenate([constants.overlaps.stack()[None], random.stack()])
        pairs = np.stack(al.Overlaps.unstack(there).to_vectors(DIM), axis=1)
        sizes = np.asarray(norm(jnp.asarray(pairs.reshape(200, -1))))
    seen = pictures(risk, np.stack(al.Overlaps.unstack(there).to_vectors(4), axis=1))
    np.testing.assert_allclose(seen.retracted, sizes, rtol=1e-8)
    np.testing.assert_allclose(sizes[0], constants.found, rtol=1e-9)
    assert sizes.max() <= constants.bound
    assert constants.gradient <= np.pi / 2 * constants.hessian
    assert constants.hessian <= constants.bound <= (1 + np.pi / 2) * constants.hessian
    within = smoothness(risk, DIM, key=KEY, on_manifold=True)
    assert within.bound < constants.bound
    with pytest.raises(al.InvalidArgument, match="dim"):
        smoothness(risk, 3, key=KEY, on_manifold=True)


def test_every_step_obeys_the_lemma_and_none_the_printed_one(risk, constants):
    assert constants.bound > 5
    starts = al.Overlaps.on_sphere(KEY, DIM, runs=12)
    factors = np.repeat([1e-3, 0.5, 1.0, 1.9], 3)
    out = descent_check(
        risk, starts, constants, step_size=factors / constants.bound, steps=400, save_every=4
    )
    seen = out.resolved.values
    assert seen.mean() > 0.3
    assert out.holds.values[seen].all()
    ratio, s = out.ratio.values, out.step_size.values[:, None]
    far = np.abs(ratio - 1) / (s * constants.bound / 2)
    assert far[seen].max() < 1 + 1e-4  # both sides of the lemma
    small = seen & (factors <= 0.5)[:, None]
    assert out.half.values[small].all()
    assert not out.printed.values[small].any()
    assert not out.printed_middle.values[small].any()
    # the retraction
    turned = np.arctan(s * out.gradient_k.values)
    np.testing.assert_allclose(out.move_k, 2 * np.sin(turned / 2), rtol=1e-9, atol=1e-15)
    assert (out.norm_k.values >= 1).all()
    assert (out.norm_k.values <= 1 + (s * out.gradient_k.values) ** 2 / 2 + 1e-15).all()
    # lengths of paths: finite, no shorter than the way, and dominated by the linear rate at the end
    moved = np.diff(overlaps_of(out).stack(), axis=1)
    assert (out.path_length.diff("step").values >= np.abs(moved).max(-1) / 2 - 1e-12).all()
    assert float(out.path_length[:, -1].max()) < 10
    assert float(out.attrs["step_bound_derived"]) <= out.attrs["largest_step"] / 4
    with pytest.raises(al.InvalidArgument, match="constants"):
        descent_check(risk, starts, 3.0, step_size=0.1, steps=1)


def test_a_smooth_descent_can_go_round_for_ever():
    out = winding_descent(steps=100_000, save_every=1000)
    risk = out.risk.values
    assert (np.diff(risk) < 0).all()
    decade = float(out.longitude[100] - out.longitude[10]) / np.log(10)
    assert 0.93 < decade < 1.0  # tends to 1: as the harmonic series
    late = out.path_squares.values[10:]
    assert late[-1] - late[0] < 1e-3 < float(out.path_length[100] - out.path_length[10])
    assert (np.abs(out.longitude.values[10:] - 1 / out.z.values[10:] - 1.272) < 0.08).all()
