import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import attnlab as al
from attnlab.errors import InvalidArgument


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((float("nan"), 0, 0, 0, 0), "kappa"),
        ((0, 1.1, 0, 0, 0), "nu"),
        ((0, 0, -2, 0, 0), "theta"),
        (("x", 0, 0, 0, 0), "kappa"),
        ((0.9, 0, 0, 0.9, 0), "overlaps"),
        ((0.9, 0.9, 0.9, 0, 0), "overlaps"),
        ((1, 0, 0, 0, 0.5), "overlaps"),
        ((np.zeros(2), np.zeros(3), 0, 0, 0), "overlaps"),
    ],
)
def test_impossible_overlaps_are_refused(values, named):
    with pytest.raises(InvalidArgument, match=named):
        al.Overlaps(*values)


def test_fields_broadcast_and_keep_float64():
    overlaps = al.Overlaps(np.linspace(0, 0.5, 3)[:, None], np.zeros(2), 0.1, 0, 0)
    assert overlaps.shape == (3, 2)
    assert overlaps.stack().shape == (3, 2, 5)
    assert al.Overlaps(0.1, 0.2).kappa == 0.1
    assert al.Overlaps(0.1, 0.2).kappa.dtype == np.float64


@pytest.mark.parametrize("dim", [2, 3, 4, 7, 400])
def test_uniform_vectors_give_the_right_overlaps(dim):
    runs = 4000
    overlaps = al.Overlaps.on_sphere(jax.random.key(dim), dim, runs=runs)
    al.Overlaps(*np.moveaxis(overlaps.stack(), -1, 0))  # realisable
    # one coordinate of a uniform unit vector: (1 + x)/2 is Beta((d-1)/2, (d-1)/2)
    law = stats.beta((dim - 1) / 2, (dim - 1) / 2, loc=-1, scale=2)
    for name in ("kappa", "nu", "theta", "eta", "rho"):
        assert stats.kstest(getattr(overlaps, name), law.cdf).pvalue > 1e-4, name
    k, v = overlaps.to_vectors(dim)
    axes = np.eye(dim)
    back = al.Overlaps.from_vectors(k, v, axes[0], axes[1])
    np.testing.assert_allclose(back.stack(), overlaps.stack(), atol=1e-8)


def test_sphere_law_matches_vectors_drawn_in_full():
    rng = np.random.default_rng(0)
    k, v = rng.standard_normal((2, 4000, 5))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    v /= np.linalg.norm(v, axis=-1, keepdims=True)
    ours = al.Overlaps.on_sphere(jax.random.key(0), 5, runs=4000)

    # a joint statistic of all five overlaps, which their one-dimensional laws do not fix
    def joint(kappa, nu, theta, eta, rho):
        return rho - kappa * theta - eta * nu

    brute = joint(k[:, 0], v[:, 1], v[:, 0], k[:, 1], np.sum(k * v, -1))
    mine = joint(ours.kappa, ours.nu, ours.theta, ours.eta, ours.rho)
    assert stats.ks_2samp(brute, mine).pvalue > 1e-4


@pytest.mark.parametrize("dim", [2, 3, 4, 50])
def test_manifold_starts(dim):
    overlaps = al.Overlaps.on_manifold(jax.random.key(1), dim, runs=2000)
    assert np.abs(overlaps.distance_to_manifold).max() == 0
    for name, size in (("kappa", dim - 1), ("nu", max(dim - 2, 1))):
        values = getattr(overlaps, name)
        if size == 1:
            assert set(np.unique(values)) == {-1.0, 1.0}
        else:
            law = stats.beta((size - 1) / 2, (size - 1) / 2, loc=-1, scale=2)
            assert stats.kstest(values, law.cdf).pvalue > 1e-4


def test_more_runs_never_change_earlier_ones():
    few = al.Overlaps.on_sphere(jax.random.key(2), 9, runs=3).stack()
    many = al.Overlaps.on_sphere(jax.random.key(2), 9, runs=11).stack()
    np.testing.assert_array_equal(few, many[:3])
    with pytest.raises(InvalidArgument, match="dim"):
        al.Overlaps.on_sphere(jax.random.key(0), 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=8, max_size=8))
def test_vectors_have_the_overlaps_they_were_made_from(coordinates):
    vectors = np.array(coordinates).reshape(2, 4)
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if norms.min() < 1e-3:
        return
    k, v = vectors / norms
    axes = np.eye(4)
    overlaps = al.Overlaps.from_vectors(k, v, axes[0], axes[1])
    again = al.Overlaps.from_vectors(*overlaps.to_vectors(6), np.eye(6)[0], np.eye(6)[1])
    np.testing.assert_allclose(again.stack(), overlaps.stack(), atol=1e-7)


def test_too_small_a_space_is_refused():
    with pytest.raises(InvalidArgument, match="dim"):
        al.Overlaps(0.1, 0.2).to_vectors(2)


def test_overlaps_pass_through_transformations():
    def total(overlaps):
        return jnp.sum(overlaps.stack())

    overlaps = al.Overlaps(0.1, 0.2, 0.0, 0.3, 0.1)
    assert float(jax.jit(total)(overlaps)) == pytest.approx(0.7)
    assert float(jax.grad(total)(overlaps).eta) == 1.0
