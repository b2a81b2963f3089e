"""Random settings for tests of risks."""

import jax
import numpy as np

import attnlab as al


def random_setting(index, *, dims=None, lengths=None, links=("linear", "linear"), activation="erf"):
    """A task, a student and eight overlaps, spread over the whole range that is promised."""
    rng = np.random.default_rng(index)
    dim = (
        int(np.exp(rng.uniform(np.log(2), np.log(3000)))) if dims is None else int(rng.choice(dims))
    )
    length = int(np.exp(rng.uniform(0, 9))) if lengths is None else int(rng.choice(lengths))
    token_std = float(np.exp(rng.uniform(np.log(1e-3), np.log(10))))
    scale = float(np.exp(rng.uniform(np.log(1e-4), np.log(1e2))))
    task = al.SingleLocation(
        dim,
        length,
        token_std=token_std,
        signal=float(rng.uniform(0, 2)),
        noise_std=float(rng.choice([0.0, 0.3])),
        link=links[1],
    )
    student = al.PointwiseAttention(activation, scale, links[0])
    overlaps = al.Overlaps.on_sphere(jax.random.key(index), int(rng.integers(2, 8)), runs=8)
    return task, student, overlaps
