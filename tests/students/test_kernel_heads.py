"""Kernel heads against their formula, written as loops."""

import jax
import numpy as np
import pytest

import attnlab as al
from attnlab.errors import InvalidArgument

RNG = np.random.default_rng(3)
X, XQ = RNG.normal(size=(3, 7, 4)), RNG.normal(size=(3, 4))
Y, Y2 = RNG.normal(size=(3, 7)), RNG.normal(size=(3, 7, 2))
SCALAR, DIAGONAL = RNG.normal(size=2), RNG.normal(size=(2, 4))
FULL, MU = RNG.normal(size=(2, 4, 4)), RNG.normal(size=2)


def by_loops(matrices, mu, X, y, xq):
    out = []
    for prompt, labels, query in zip(X, y, xq):
        total = 0.0
        for KQ, weight in zip(matrices, mu):
            kernel = np.array([np.exp(x @ KQ @ query) for x in prompt])
            total = total + weight * (kernel @ labels) / kernel.sum()
        out.append(total)
    return np.array(out)


@pytest.mark.parametrize(
    ("omega", "matrices"),
    [
        (SCALAR, SCALAR[:, None, None] * np.eye(4)),
        (DIAGONAL, np.stack([np.diag(row) for row in DIAGONAL])),
        (FULL, FULL),
    ],
    ids=["scalar", "diagonal", "full"],
)
def test_predictions_are_the_formula(omega, matrices):
    with jax.enable_x64(True):
        heads = al.KernelHeads(omega, MU)
        assert heads.n_heads == 2
        np.testing.assert_allclose(heads.kq(4), matrices)
        np.testing.assert_allclose(heads(X, Y, XQ), by_loops(matrices, MU, X, Y, XQ), rtol=1e-12)
        one = heads(X[0], Y[0], XQ[0])
        assert one.shape == ()
        np.testing.assert_allclose(one, heads(X, Y, XQ)[0], rtol=1e-12)
        # several tasks: one mu for all, or one for each
        per_task = np.array([[1.0, 2.0], [-0.5, 3.0]])
        several = al.KernelHeads(omega, per_task)(X, Y2, XQ)
        np.testing.assert_allclose(several, by_loops(matrices, per_task, X, Y2, XQ), rtol=1e-12)
        np.testing.assert_allclose(heads(X, Y2, XQ), by_loops(matrices, MU, X, Y2, XQ), rtol=1e-12)
        column = al.KernelHeads(omega, MU[:, None])
        np.testing.assert_allclose(column(X, Y, XQ), heads(X, Y, XQ), rtol=1e-12)
        weights = np.asarray(heads.attention(X, XQ))
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-12)


def test_linear_heads_are_a_gradient_step():
    heads = al.KernelHeads([0.5, -0.25], [1.0, -2.0], normalization="linear")
    expected = np.einsum("bl,bld,bd->b", Y, X, XQ) / 7  # Σ_h μ_h ω_h = 1
    np.testing.assert_allclose(heads(X, Y, XQ), expected, rtol=1e-4, atol=1e-6)


def test_gradients_and_float64_numbers():
    heads = al.KernelHeads(SCALAR, MU)
    assert heads.omega.dtype == heads.mu.dtype == np.float64

    def loss(omega, mu):
        return al.KernelHeads(omega, mu)(X[0], Y[0], XQ[0])

    with jax.enable_x64(True):
        gradient = jax.grad(loss, argnums=(0, 1))(SCALAR, MU)
        for place in range(2):
            for i in range(2):
                ends = []
                for sign in (1, -1):
                    moved = [SCALAR.copy(), MU.copy()]
                    moved[place][i] += sign * 1e-5
                    ends.append(float(loss(*moved)))
                assert gradient[place][i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-7)


@pytest.mark.parametrize(
    ("omega", "mu", "named"),
    [
        ([], [], "omega"),
        (0.1, [1.0], "omega"),
        ([0.1], 1.0, "mu"),
        ([0.1, np.nan], [1.0, 1.0], "omega"),
        ([0.1, 0.2], [1.0, np.inf], "mu"),
        ([0.1, 0.2], [1.0], "as many heads"),
        (np.zeros((2, 3, 4)), [1.0, 1.0], "square"),
        (np.zeros((2, 3, 3, 3)), [1.0, 1.0], "as many heads"),
        (["a"], [1.0], "omega"),
        (np.array([1j]), [1.0], "omega"),
        (None, [1.0], "omega"),
    ],
)
def test_bad_heads_are_refused(omega, mu, named):
    with pytest.raises(InvalidArgument, match=named):
        al.KernelHeads(omega, mu)


def test_prompts_that_do_not_fit_are_refused():
    heads = al.KernelHeads([0.1, 0.2], [[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(InvalidArgument, match="2 task"):
        heads(X, Y, XQ)
    with pytest.raises(InvalidArgument, match="y ="):
        heads(X, Y2[:, :5], XQ)
    with pytest.raises(InvalidArgument, match="xq ="):
        heads(X, Y2, XQ[:, :3])
    with pytest.raises(InvalidArgument, match="X ="):
        heads(X[:, :0], Y2[:, :0], XQ)
    with pytest.raises(InvalidArgument, match="omega"):
        al.KernelHeads(np.zeros((2, 5)), [1.0, 1.0])(X, Y, XQ)
    with pytest.raises(InvalidArgument, match="normalization"):
        al.KernelHeads([0.1], [1.0], normalization="max")
