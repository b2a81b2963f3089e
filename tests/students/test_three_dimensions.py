"""Three dimensions hold every pair of vectors of which k lies in the plane of k* and v*."""

import jax
import numpy as np
import pytest

import attnlab as al


@pytest.mark.parametrize("start", [(1.0, 0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.6, 1.0, 0.0)])
def test_vectors_and_training_in_three_dimensions(start):
    overlaps = al.Overlaps(*start)
    k, v = overlaps.to_vectors(3)
    back = al.Overlaps.from_vectors(k, v, np.eye(3)[0], np.eye(3)[1])
    np.testing.assert_allclose(np.array(back.stack()), start, atol=1e-12)
    runs = al.dynamics.stochastic_gradient_descent(
        al.SingleLocation(3, 2),
        al.PointwiseAttention("erf", 0.3),
        overlaps,
        step_size=1e-6,
        steps=1,
        batch_size=4,
        key=jax.random.key(0),
    )
    moved = runs.isel(run=0, step=1)  # a tiny step: what was lost of v would show at once
    names = ("kappa", "nu", "theta", "eta", "rho")
    np.testing.assert_allclose([float(moved[n]) for n in names], start, atol=1e-4)
