"""Moments of softmax weights against direct integrals, sampling, identities and limits."""

import itertools
import math
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlab._core.precision import float64
from attnlab.errors import InvalidArgument
from attnlab.theory.softmax_engine import LADDER, correlated_moments, moments, softmax_moments

sys.path.insert(0, str(Path(__file__).parent))
from softmax_oracle import one_head, signs, three_tokens, two_tokens

# one shape for all calls: each rung of the ladder is compiled once
PAIRS = [*signs((0.3, 0.8)), (1e-6, -1e-6), (0.0, 0.7), (1.2, -1.2), (0.5, 0.5 + 1e-9)]
A, B = (np.array(x) for x in zip(*PAIRS, strict=True))
LOG_LENGTHS = [math.log(2), math.log(3), math.log(40), 9 * math.log(10), 30 * math.log(10), 500.0]


@pytest.fixture(scope="module")
def known():
    return {length: softmax_moments(A, B, length) for length in LOG_LENGTHS}


def test_two_tokens_against_mpmath(known):
    got = known[LOG_LENGTHS[0]]
    excess, second = np.array([two_tokens(a, b) for a, b in PAIRS]).T
    np.testing.assert_allclose(got.excess, excess, rtol=1e-12, atol=1e-30)
    assert (np.abs(got.overlap - excess - 0.5) <= got.error.overlap).all()
    assert (np.abs(got.second - second) <= got.error.second).all()
    assert (got.error.overlap <= 1e-10 * got.overlap).all()


def test_three_tokens_and_all_moments_of_weights(known):
    got = known[LOG_LENGTHS[1]]
    truth = [three_tokens(a, b) for a, b in PAIRS]
    for name, mine in (("product", "overlap"), ("second", "second"), ("mean", "mean")):
        gap = np.abs(getattr(got, mine) - [t[name] for t in truth])
        assert (gap <= getattr(got.error, mine) + 1e-14).all(), name
    with float64():
        both = eqx.filter_jit(jax.vmap(lambda x: moments(x, jnp.asarray(math.log(3)), LADDER[3])))
        heads, pairs = both(jnp.stack([jnp.asarray(A), jnp.asarray(B)], -1))
        for name, value in pairs._asdict().items():
            exact = np.array([t["product" if name == "excess" else name] for t in truth])
            exact = exact - 1 / 3 if name == "excess" else exact
            np.testing.assert_allclose(value[:, 0], exact, rtol=0, atol=2e-14, err_msg=name)
        for name in ("cubic", "quartic"):
            exact = [t[name] for t in truth]
            np.testing.assert_allclose(getattr(heads, name)[:, 0], exact, rtol=0, atol=2e-14)


def test_estimated_errors_do_not_understate_on_any_rung():
    """Coarse rungs are far from converged at these scales, so there is something to understate."""
    scales = [0.7, 1.5, 2.5]
    pairs = [(a, b) for a, b in signs(scales) if a != b]
    truth = np.array([three_tokens(a, b, nodes=500)["product"] for a, b in pairs])
    with float64():
        rows = jnp.asarray(pairs)
        value = [
            np.asarray(
                eqx.filter_jit(jax.vmap(lambda x, r=r: moments(x, jnp.log(3.0), r)[1].product))(
                    rows
                )[:, 0]
            )
            for r in LADDER[:4]
        ]
    large = 0
    for below, above in itertools.pairwise(value):
        estimate, error = np.abs(above - below) + 1e-14, np.abs(above - truth)
        assert (error <= estimate).all()
        large += int((error > 1e-10).sum())
    assert large > 5


def test_steins_identities_and_symmetries(known):
    for log_length, got in known.items():
        same = np.flatnonzero(A == B)
        np.testing.assert_allclose(got.mean[same], A[same] * (1 - got.overlap[same]), rtol=1e-13)
        zero = np.flatnonzero(A == 0)
        np.testing.assert_allclose(got.overlap[zero], math.exp(-log_length), rtol=1e-13)
        np.testing.assert_allclose(got.excess[zero], 0, atol=1e-30)
        # Σ p(0) s is the mean score, so M11(0, b) = E s̄ Σ p s = 1/L by Stein's lemma
        np.testing.assert_allclose(got.second[zero], math.exp(-log_length), rtol=1e-13)
        for i, j in (((A == 0.3) & (B == 0.8), (A == 0.8) & (B == 0.3)),):
            np.testing.assert_allclose(got.overlap[i], got.overlap[j], rtol=1e-13)
            np.testing.assert_allclose(got.second[i], got.second[j], rtol=1e-13)


@pytest.mark.parametrize(("a", "log_length"), [(3.0, math.log(40)), (6.0, 69.0), (2.0, 13.8)])
def test_large_scores_of_one_head(a, log_length):
    """Also where tokens that hardly any prompt has carry the moment."""
    with float64():
        head, _ = eqx.filter_jit(moments)(jnp.array([a]), jnp.asarray(log_length), LADDER[5])
    np.testing.assert_allclose(head.square[0], one_head(a, log_length), rtol=2e-12)


def test_sampling(known):
    got = known[math.log(40)]
    rng = np.random.default_rng(1)
    rows = [PAIRS.index(pair) for pair in ((0.3, -0.8), (0.8, 0.8), (1.2, -1.2))]
    total = {i: [] for i in rows}
    for _ in range(10):
        s = rng.normal(size=(10_000, 40))
        for i in rows:
            p, q = (np.exp(c * s) / np.exp(c * s).sum(1, keepdims=True) for c in PAIRS[i])
            means = (p * s).sum(1), (q * s).sum(1)
            total[i].append([(p * q).sum(1), means[0], means[0] * means[1]])
    for i in rows:
        sample = np.concatenate(total[i], axis=1)
        exact = np.array([got.overlap[i], got.mean[i], got.second[i]])
        z = (sample.mean(1) - exact) / (sample.std(1) / np.sqrt(sample.shape[1]))
        assert np.abs(z).max() < 4


def test_large_lengths_are_the_ratio_of_means(known):
    """`L Q → e^{ab}`, `M1 → a` and `M11 → ab`; at `L = e^500` nothing else is left."""
    got = known[500.0]
    np.testing.assert_allclose(
        got.overlap * math.exp(250) * math.exp(250), np.exp(A * B), rtol=1e-11
    )
    np.testing.assert_allclose(got.mean, A, rtol=1e-13)
    np.testing.assert_allclose(got.second, A * B, rtol=1e-12, atol=1e-200)
    step = known[9 * math.log(10)]
    correction = np.abs(step.mean - A) * 1e9
    np.testing.assert_allclose(correction, np.abs(A) * np.exp(A**2), rtol=1e-4)


def test_small_scores_keep_the_digits_of_the_excess(known):
    i = PAIRS.index((1e-6, -1e-6))
    for log_length in (math.log(2), math.log(3), math.log(40)):
        length = math.exp(log_length)
        # second order: p = (1 + a (s - s̄))/L, so Q - 1/L = ab (L-1)/L²
        leading = -1e-12 * (length - 1) / length**2
        assert abs(known[log_length].excess[i] / leading - 1) < 1e-11


def test_correlated_scores():
    """Mehler's formula against the collinear engine at correlations ±1, and the law of `e^{ξ+η}`
    at any other as `L → ∞`."""
    scales = np.array([[0.3, 0.5], [0.9, 0.7]])
    with float64():
        plain = jax.jit(jax.vmap(lambda x: moments(x, jnp.log(40.0), LADDER[3])[1]))
        mehler = jax.jit(
            jax.vmap(
                lambda x, c, log_length: correlated_moments(
                    x,
                    jnp.array([[1.0, 0.0], [0.0, 1.0]]) + c * (1 - jnp.eye(2)),
                    log_length,
                    LADDER[2],
                )[1],
                in_axes=(0, 0, None),
            )
        )
        for sign in (1.0, -1.0):
            exact = plain(jnp.asarray(scales * [1.0, sign]))
            got = mehler(jnp.asarray(scales), jnp.full(2, sign), jnp.log(40.0))
            for x, y in zip(exact, got, strict=True):
                np.testing.assert_allclose(x, y, rtol=0, atol=1e-14)
        for c in (0.4, -0.7, 0.0):
            got = mehler(jnp.asarray(scales), jnp.full(2, c), jnp.asarray(69.0)).product[:, 0]
            limit = np.exp(c * scales.prod(axis=1) - 69)
            np.testing.assert_allclose(got, limit, rtol=1e-11)


def test_derivatives():
    """Reverse mode in both scales, jointly, against differences of sixth order."""

    @jax.jit
    def function(x, log_l):
        return jnp.stack([leaf[0] * jnp.exp(log_l) for leaf in moments(x, log_l, LADDER[2])[1]])

    h, start = 1e-2, np.array([0.4, -0.7])
    with float64():
        jacobian = jax.jit(jax.jacrev(function))
        for log_length in map(jnp.asarray, (math.log(2), math.log(40), 69.0)):
            exact = np.asarray(jacobian(jnp.asarray(start), log_length))
            size = np.abs(np.asarray(function(jnp.asarray(start), log_length)))
            for k, direction in enumerate(np.eye(2)):
                at = {
                    m: np.asarray(function(jnp.asarray(start + m * h * direction), log_length))
                    for m in (-3, -2, -1, 1, 2, 3)
                }
                slope = 45 * (at[1] - at[-1]) - 9 * (at[2] - at[-2]) + (at[3] - at[-3])
                assert (np.abs(slope / (60 * h) - exact[:, k]) <= 1e-8 * size).all()


def test_refusals_name_the_argument():
    with pytest.raises(InvalidArgument, match="log_length = 0.5 is not allowed"):
        softmax_moments(A, B, 0.5)
    with pytest.raises(InvalidArgument, match="a = .* is not allowed: it must be finite numbers"):
        softmax_moments([np.nan], B, 3.0)
    with pytest.raises(InvalidArgument, match="b = .*broadcasts"):
        softmax_moments(A, np.ones(5), 3.0)
