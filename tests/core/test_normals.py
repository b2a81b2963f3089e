"""The library's own normals: the generator's published vectors, the quantile, and 10^7 draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from attnlab._core.keys import fold_in
from attnlab._core.normals import _quantile, seed_words, standard_normals, threefry

COUNT = 10_000_000


@pytest.fixture(scope="module")
def draws():
    """Steps 0 and 1 of a training loop, as it would draw them."""
    key = jax.random.key(11)

    @jax.jit
    def draw(step):
        return standard_normals(fold_in(key, step), (COUNT // 250, 250))

    return [np.asarray(draw(step), np.float64) for step in range(2)]


@pytest.mark.parametrize(
    ("rounds", "key", "counter", "expected"),
    [  # Random123's table of known answers
        (13, (0, 0), (0, 0), (0x9D1C5EC6, 0x8BD50731)),
        (13, (0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0xFD36D048, 0x2D17272C)),
        (13, (0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xBA3E4725, 0xF27D669E)),
        (20, (0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        (20, (0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_has_its_published_answers(rounds, key, counter, expected):
    words = [jnp.asarray(word, jnp.uint32) for word in (*key, *counter)]
    assert tuple(int(x) for x in threefry(*words, rounds)) == expected


@pytest.mark.parametrize(
    "key", [jax.random.key(3), jax.random.PRNGKey(4), jax.random.key(1, impl="rbg")]
)
def test_fold_in_is_that_of_jax(key):
    ours, theirs = fold_in(key, 12345), jax.random.fold_in(key, 12345)
    assert ours.dtype == theirs.dtype
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    unwrap = jax.random.key_data if typed else np.asarray
    np.testing.assert_array_equal(unwrap(ours), unwrap(theirs))
    other = standard_normals(jax.random.fold_in(key, 1), (1000,))
    assert abs(np.corrcoef(standard_normals(ours, (1000,)), other)[0, 1]) < 0.2
    assert seed_words(key).shape == (2,)


def test_the_quantile_is_accurate_everywhere():
    edges = np.concatenate([np.arange(300), 2 ** np.arange(9, 31), 2**31 - 1 - np.arange(300)])
    spread = np.random.default_rng(0).integers(0, 2**31, 10_000)
    words = np.concatenate([edges, spread]).astype(np.uint32)
    tail = (words.astype(np.float64) + 0.5) / 2**32
    exact = -special.ndtri(tail)
    found = np.asarray(_quantile(jnp.asarray(words)), np.float64)
    # near the middle the word is rounded to float32, hence the absolute part
    np.testing.assert_allclose(found, exact, rtol=1.5e-6, atol=2e-7)
    mirrored = _quantile(jnp.asarray(words | np.uint32(2**31)))
    np.testing.assert_array_equal(np.asarray(mirrored, np.float64), -found)


def test_moments_distribution_and_tails(draws):
    z = draws[0].ravel()
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
        assert abs(np.mean(z**power) - mean) < 4 * np.sqrt(variance / COUNT), power
    assert stats.kstest(z, "norm").pvalue > 1e-3
    for bound in (3.0, 4.0, 4.5, 5.0):
        for side in (z > bound, z < -bound):
            expected = COUNT * stats.norm.sf(bound)
            assert abs(side.sum() - expected) < 4 * np.sqrt(expected) + 1, bound


def test_numbers_are_independent_along_every_axis_and_between_steps(draws):
    first, second = draws
    bound = 4.5 / np.sqrt(COUNT)
    pairs = {
        "along a row": (first[:, :-1], first[:, 1:]),
        "two along a row": (first[:, :-2], first[:, 2:]),
        "along a column": (first[:-1], first[1:]),
        "halves of the counter": (first[: len(first) // 2], first[len(first) // 2 :]),
        "steps": (first, second),
        "neighbours in steps": (first[:, :-1], second[:, 1:]),
    }
    for name, (a, b) in pairs.items():
        scale = np.sqrt(COUNT / a.size)
        assert abs(np.mean(a * b)) < bound * scale, name
        assert abs(np.mean((a**2 - 1) * (b**2 - 1))) / 2 < bound * scale, name
        assert abs(np.mean(np.sign(a) * (b**2 - 1))) / np.sqrt(2) < bound * scale, name


def test_a_number_depends_on_its_place_alone():
    key = jax.random.key(5)
    np.testing.assert_array_equal(standard_normals(key, (3, 7)), standard_normals(key, (9, 7))[:3])
    assert standard_normals(key, ()).shape == ()
    assert standard_normals(key, (0, 4)).shape == (0, 4)
    with jax.enable_x64(True):
        wide = standard_normals(key, (9, 7))
    assert wide.dtype == np.float32
    np.testing.assert_array_equal(wide, standard_normals(key, (9, 7)))
