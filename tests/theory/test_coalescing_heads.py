"""Heads beside a pair that has coalesced: against heads that nearly have, samples and closed forms."""

import numpy as np
import pytest

import attnlab as al
from attnlab.theory import coalescing_heads, population_risk, small_heads_risk_slope

TASK = al.InContextRegression(3, 8, noise_std=0.5)
OMEGA, AT = np.array([0.6]), 0.15
B = np.array([0.7, 0.3, 0.5])  # of p(ω), p(a), p'(a)


@pytest.fixture(scope="module")
def limit():
    return coalescing_heads(TASK, OMEGA, AT)


@pytest.fixture(scope="module")
def exact():
    return population_risk(TASK, al.KernelHeads(np.append(OMEGA, [0.1, 0.2]), np.ones(3)))


def test_heads_that_come_together_reach_it_to_second_order(limit, exact):
    gaps = np.array([0.04, 0.02, 0.01, 0.005])
    omega = np.stack([np.append(OMEGA, [AT + e, AT - e]) for e in gaps])
    pair = np.array([[B[1] / 2 + B[2] / (2 * e), B[1] / 2 - B[2] / (2 * e)] for e in gaps])
    mu = np.concatenate([np.full((4, 1), B[0]), pair], axis=1)
    apart = np.asarray(exact(al.KernelHeads(omega, mu))) - limit.risk(B)
    orders = np.log2(apart[:-1] / apart[1:])
    np.testing.assert_allclose(orders, 2.0, atol=0.02)
    # without the second and the fourth order nothing is left
    assert abs(64 * apart[-1] - 20 * apart[-2] + apart[-3]) / 45 < 1e-4 * abs(apart[-1])


def test_against_sampled_prompts(limit):
    rng = np.random.default_rng(5)
    n, (d, L) = 400_000, (TASK.dim, TASK.length)
    X, xq = rng.standard_normal((n, L, d)), rng.standard_normal((n, d))
    beta = rng.standard_normal((n, d)) / np.sqrt(d)
    y = np.einsum("nld,nd->nl", X, beta) + TASK.noise_std * rng.standard_normal((n, L))
    target = np.sum(xq * beta, 1) + TASK.noise_std * rng.standard_normal(n)
    scores = np.einsum("nld,nd->nl", X, xq)

    def softmax(omega):
        weights = np.exp(omega * scores - np.max(omega * scores, 1, keepdims=True))
        return weights / weights.sum(1, keepdims=True)

    last = softmax(AT)
    slope = last * (scores - np.sum(last * scores, 1, keepdims=True))
    functions = [softmax(OMEGA[0]), last, slope]
    squares = (sum(b * np.sum(f * y, 1) for b, f in zip(B, functions)) - target) ** 2
    z = (squares.mean() - limit.risk(B)) / (squares.std() / np.sqrt(n))
    assert abs(z) < 4
    # a wrong term would be seen: 5 % of the pair's derivative
    other = limit.risk(B * [1, 1, 1.05])
    assert abs(squares.mean() - other) > 4 * squares.std() / np.sqrt(n)


def test_at_zero_it_is_debiased_descent_and_what_steins_lemma_says(exact):
    d, L, share = TASK.dim, TASK.length, 1 + TASK.noise_std**2
    w, h = 0.6, 1e-3
    found = coalescing_heads(TASK, [w])
    one, size = (L - 1) / L, (L - 1) / L**2 * (L + d * share)
    np.testing.assert_allclose(found.cross[1:], [0, one], atol=1e-13)
    np.testing.assert_allclose(found.matrix[1:, 1:], [[share / L, 0], [0, size]], atol=1e-13)
    assert found.matrix[0, 1] == pytest.approx(share / L, abs=1e-13)

    def cross(omega):
        """Of one head, from the library's risk, which is quadratic in μ."""
        heads = np.zeros((2, 3))
        heads[:, 0] = omega
        mu = np.array([[1.0, 0, 0], [-1.0, 0, 0]])
        plus, minus = np.asarray(exact(al.KernelHeads(heads, mu)))
        return (minus - plus) / 4

    slope = (8 * (cross(w + h) - cross(w - h)) - cross(w + 2 * h) + cross(w - 2 * h)) / (12 * h)
    stated = (d * (share - 1 / d) + L) / L * cross(w) + w / L * slope
    assert found.cross[0] == pytest.approx(cross(w), abs=1e-9)
    assert found.matrix[0, 2] == pytest.approx(stated, abs=1e-8)
    alone = coalescing_heads(TASK)
    risk, b = alone.least()
    assert b[1] == pytest.approx(L / (L + d * share))
    assert risk == pytest.approx(share - (L - 1) / (L + d * share), abs=1e-13)


def test_the_best_coefficients_are_best(limit):
    risk, b = limit.least()
    rng = np.random.default_rng(0)
    assert risk == pytest.approx(limit.risk(b), abs=1e-12)
    for move in 0.01 * rng.standard_normal((20, 3)):
        assert limit.risk(b + move) > risk
    assert 0 <= limit.error < 1e-7


@pytest.mark.parametrize(
    ("task", "omega", "at"),
    [
        (al.InContextRegression(3, 1), [0.5], 0.0),
        (TASK, [0.5, 0.5], 0.0),
        (TASK, [0.5], 0.5),
        (TASK, [8.0], 0.0),
        (TASK, [np.nan], 0.0),
        (al.InContextRegression(3, 8, covariance=np.diag([1.0, 1.0, 2.0])), [0.5], 0.0),
    ],
)
def test_bad_input_is_told(task, omega, at):
    with pytest.raises(al.errors.InvalidArgument):
        coalescing_heads(task, omega, at)


def test_the_slope_of_small_heads_is_that_of_a_pair_that_opens():
    """`-m g[p''] - (ν/3) g[p''']` of docs/theory/coalescing-heads for a pair alone at 0."""
    from attnlab.papers.he2025.exact_heads import USUAL
    from attnlab.papers.he2025.least_heads import _pieces

    task = al.InContextRegression(5, 40)
    *_, opening = _pieces(task, np.array([0.0]), True, USUAL).look(np.array([0.0]))
    # six nodes leave the third derivative an error of 1e-5
    assert opening == pytest.approx(small_heads_risk_slope(task), rel=1e-4)
