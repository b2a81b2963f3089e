"""Float64 inside the scope, whatever was compiled outside of it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import attnlab as al
from attnlab._core.precision import float64, to_float64, to_numpy


def test_arrays_that_compiled_functions_closed_over_keep_their_digits():
    rng = np.random.default_rng(0)
    X, y, xq = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5)), rng.normal(size=(2, 3))
    layer = al.MultiHeadAttention(3, 2, key=jax.random.key(0))
    eqx.filter_jit(lambda one: one(X, y, xq))(layer)  # float32, with X, y and xq as constants
    with float64():
        for array, wide in zip((X, y, xq), to_float64((X, y, xq))):
            assert wide.dtype == jnp.float64
            np.testing.assert_array_equal(np.asarray(wide), array)


def test_numbers_of_all_kinds_become_float64_and_leave_the_scope():
    tree = {"a": 0.1, "b": np.float32(0.5), "c": jnp.arange(3), "d": np.array(0.1)}
    with float64():
        wide = to_float64(tree)
        assert {leaf.dtype for leaf in jax.tree.leaves(wide)} == {np.dtype(np.float64)}
        out = to_numpy(wide)
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(out))
    assert out["a"] == out["d"] == 0.1
