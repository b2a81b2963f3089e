"""In-context regression: the laws of its samples, in standard errors, and what it refuses."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab.errors import InvalidArgument
from attnlab.tasks import kac_murdock_szego
from attnlab.testing.in_context import check_in_context_laws
from attnlab.testing.invariants import Invariants

KEY = jax.random.key(4)
SUPPORTS = ((0, 1, 2, 3), (2, 3, 4, 5))


def z_scores(samples, mean, variance, fourth=None):
    """Mean and second moment of a sample of a centred variable, in standard errors."""
    samples = np.asarray(samples, float)
    count = len(samples)
    spread = (3 * variance**2 if fourth is None else fourth) - variance**2
    return np.concatenate(
        [
            np.atleast_1d((samples.mean(0) - mean) / np.sqrt(variance / count)),
            np.atleast_1d((np.mean(samples**2, 0) - variance) / np.sqrt(spread / count)),
        ]
    )


@pytest.mark.parametrize("covariance", [None, kac_murdock_szego(4, -0.6)], ids=["id", "kms"])
def test_one_task_has_the_stated_law(covariance):
    task = al.InContextRegression(4, 3, noise_std=0.4, covariance=covariance)
    n = 40_000
    X, y, xq, yq, beta = (np.asarray(part, float) for part in task.sample(KEY, n))
    assert X.shape == (n, 3, 4)
    assert (y.shape, xq.shape, yq.shape, beta.shape) == ((n, 3), (n, 4), (n,), (n, 4))
    sigma = np.eye(4) if covariance is None else covariance
    zs = [z_scores(beta, 0, 0.25)]
    zs += [z_scores(y[:, i] - np.sum(X[:, i] * beta, -1), 0, 0.16) for i in range(3)]
    zs += [z_scores(yq - np.sum(xq * beta, -1), 0, 0.16)]
    for x in (X[:, 0], X[:, 2], xq):
        second = np.einsum("bi,bj->ij", x, x) / n
        error = np.sqrt((np.outer(np.diag(sigma), np.diag(sigma)) + sigma**2) / n)
        zs.append(((second - sigma) / error)[np.tril_indices(4)])
    # independent: two examples, the query and the coefficients
    for a, b in ((X[:, 0], X[:, 1]), (X[:, 0], xq), (xq, beta)):
        scale = np.sqrt(np.outer(np.mean(a**2, 0), np.mean(b**2, 0)) / n)
        zs.append((np.einsum("bi,bj->ij", a, b) / n / scale).ravel())
    z = np.concatenate([np.ravel(x) for x in zs])
    assert np.abs(z).max() < 4.5
    assert 0.6 < np.mean(z**2) < 1.6


def test_a_prior_is_the_covariance_of_the_coefficients():
    prior = 3 * kac_murdock_szego(4, -0.6)
    n = 40_000
    task = al.InContextRegression(4, 3, prior=prior)
    prompts = task.sample(KEY, n)
    beta = np.asarray(prompts.beta, float)
    second = beta.T @ beta / n
    error = np.sqrt((np.outer(np.diag(prior), np.diag(prior)) + prior**2) / n)
    assert np.abs((second - prior) / error).max() < 4.5
    # the laws that users can check know it
    found = Invariants("task")
    check_in_context_laws(found, task, prompts)
    two = al.InContextRegression(4, 3, prior=prior, supports=[[0, 1], [1, 3]])
    check_in_context_laws(found, two, two.sample(KEY, n))
    assert not found.violations
    object.__setattr__(task, "prior", 1.1 * prior)
    check_in_context_laws(found, task, prompts)
    assert list(found.violations) == ["coefficients"]
    same = al.InContextRegression(4, 3, prior=np.eye(4) / 4).sample(KEY, 100)
    for left, right in zip(same, al.InContextRegression(4, 3).sample(KEY, 100)):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)


def test_theory_of_the_default_prior_refuses_others():
    task = al.InContextRegression(3, 4, prior=np.eye(3))
    for refused in (
        lambda: al.population_risk(task, al.KernelHeads([0.1], [1.0])),
        lambda: al.population_risk(task, al.KernelHeads(np.ones((1, 3)), [1.0])),
        lambda: al.theory.approximate_risk(task, al.KernelHeads([0.1], [1.0])),
        lambda: al.estimators.bayes_risk(task),
        lambda: al.estimators.gradient_descent_risk(task, step=0.1, steps=2),
        lambda: al.estimators.independent_tasks_risk(task),
    ):
        with pytest.raises(InvalidArgument, match="prior"):
            refused()


@pytest.mark.parametrize("coefficients", ["shared", "independent"])
def test_tasks_share_their_coefficients_or_none(coefficients):
    task = al.InContextRegression(6, 2, supports=SUPPORTS, coefficients=coefficients)
    n = 20_000
    prompts = task.sample(KEY, n)
    beta = np.asarray(prompts.beta, float)
    assert task.n_outputs == 2
    assert prompts.y.shape == (n, 2, 2)
    assert prompts.yq.shape == (n, 2)
    assert np.all(beta[:, 0, 4:] == 0)
    assert np.all(beta[:, 1, :2] == 0)
    assert np.abs(z_scores(beta[:, 0, :4], 0, 1 / 6)).max() < 4.5
    assert np.abs(z_scores(beta[:, 1, 2:], 0, 1 / 6)).max() < 4.5
    common = beta[:, :, 2:4]
    if coefficients == "shared":
        np.testing.assert_array_equal(common[:, 0], common[:, 1])
    else:
        z = np.mean(common[:, 0] * common[:, 1], 0) * 6 * math.sqrt(n)
        assert np.abs(z).max() < 4.5
    # the responses of each task come from its own coefficients, with noise of their own
    noise = np.asarray(prompts.y) - np.einsum("bld,bnd->bln", np.asarray(prompts.X), beta)
    assert np.abs(z_scores(noise[:, 0], 0, 0.1)).max() < 4.5
    z = np.mean(noise[:, 0, 0] * noise[:, 0, 1]) * math.sqrt(n) / 0.1
    assert abs(z) < 4.5
    # E y² = |S|/d + σ²
    square = np.asarray(prompts.yq, float)[:, 0] ** 2
    assert abs(square.mean() - (4 / 6 + 0.1)) < 4.5 * square.std() / math.sqrt(n)


def test_precision_and_length_and_jit():
    task = al.InContextRegression(3, 5, covariance=kac_murdock_szego(3))
    single = task.sample(KEY, 6)
    with jax.enable_x64(True):
        double = task.sample(KEY, 6, dtype=jnp.float64)
    assert single.X.dtype == single.yq.dtype == jnp.float32
    assert double.X.dtype == double.y.dtype == double.yq.dtype == jnp.float64
    for a, b in zip(single, double):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-6)
    assert task.sample(KEY, 6, length=9).X.shape == (6, 9, 3)
    longer = task.with_length(9)
    assert (task.length, longer.length) == (5, 9)
    for a, b in zip(task.sample(KEY, 6, length=9), longer.sample(KEY, 6)):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    np.testing.assert_array_equal(longer.covariance_matrix, task.covariance_matrix)


def test_tokens_are_examples_and_a_query_without_its_response():
    prompts = al.InContextRegression(3, 5).sample(KEY, 2)
    Z, zq = prompts.tokens()
    np.testing.assert_array_equal(Z[..., :3], prompts.X)
    np.testing.assert_array_equal(Z[..., 3], prompts.y)
    np.testing.assert_array_equal(zq, np.hstack([prompts.xq, np.zeros((2, 1))]))
    assert prompts.inputs == (prompts.X, prompts.y, prompts.xq)
    assert prompts.target is prompts.yq
    multi = al.InContextRegression(6, 5, supports=SUPPORTS).sample(KEY, 2)
    Z, zq = multi.tokens()
    assert (Z.shape, zq.shape) == ((2, 5, 8), (2, 8))
    np.testing.assert_array_equal(Z[..., 6:], multi.y)


def test_the_matrix_of_kac_murdock_and_szego():
    sigma = kac_murdock_szego(5, 0.5)
    np.testing.assert_allclose(sigma[0], 0.5 ** np.arange(5))
    inverse = np.linalg.inv(sigma)
    i = np.arange(5)
    far = np.abs(i[:, None] - i) > 1
    np.testing.assert_allclose(inverse[far], 0, atol=1e-14)
    np.testing.assert_allclose(np.diag(inverse)[1:-1], (1 + 0.25) / 0.75)
    np.testing.assert_array_equal(kac_murdock_szego(3, 0.0), np.eye(3))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"dim": 0}, "dim"),
        ({"dim": 2.5}, "dim"),
        ({"length": 0}, "length"),
        ({"length": True}, "length"),
        ({"noise_std": -0.1}, "noise_std"),
        ({"noise_std": math.nan}, "noise_std"),
        ({"covariance": np.eye(2)}, "covariance"),
        ({"covariance": [[1, 0.5, 0], [0.4, 1, 0], [0, 0, 1]]}, "not symmetric"),
        ({"covariance": np.diag([1.0, 1.0, 0.0])}, "smallest eigenvalue"),
        ({"covariance": np.diag([1.0, 1.0, -1.0])}, "smallest eigenvalue"),
        ({"covariance": -np.eye(3)}, "smallest eigenvalue"),
        ({"covariance": np.full((3, 3), math.nan)}, "covariance"),
        ({"covariance": "identity"}, "covariance"),
        ({"covariance": np.eye(3) * (1 + 0j)}, "covariance"),
        ({"covariance": np.eye(3, dtype=bool)}, "covariance"),
        ({"covariance": 1e101 * np.eye(3)}, "entries up to 1e.100"),
        ({"noise_std": 2e6}, "noise_std"),
        ({"prior": np.eye(2)}, "prior"),
        ({"prior": np.zeros((3, 3))}, "prior"),
        ({"supports": [[0, 3]]}, "supports"),
        ({"supports": [[-1]]}, "supports"),
        ({"supports": [[0], []]}, "supports"),
        ({"supports": [[1, 1]]}, "without repeats"),
        ({"supports": []}, "supports"),
        ({"supports": [0, 1]}, "supports"),
        ({"supports": 2}, "supports"),
        ({"coefficients": "common"}, "coefficients"),
    ],
)
def test_bad_arguments_are_named(change, named):
    with pytest.raises(InvalidArgument, match=named):
        al.InContextRegression(**{"dim": 3, "length": 4, **change})


def test_bad_samples_are_refused():
    task = al.InContextRegression(3, 4)
    with pytest.raises(InvalidArgument, match="batch"):
        task.sample(KEY, 0)
    with pytest.raises(InvalidArgument, match="GiB"):
        task.sample(KEY, 10**9)
    with pytest.raises(InvalidArgument, match="GiB"):
        task.sample(KEY, 2, length=10**10)
    with pytest.raises(InvalidArgument, match="length"):
        task.sample(KEY, 2, length=0)
    with pytest.raises(InvalidArgument, match="key"):
        task.sample(0, 2)
    for dtype in (jnp.int32, jnp.complex64, bool, None, "foo"):
        with pytest.raises(InvalidArgument, match="dtype"):
            task.sample(KEY, 2, dtype=dtype)
    with pytest.raises(InvalidArgument, match="length"):
        task.with_length(0)
    for arguments in ((0,), (3, 1.0), (3, -1.0)):
        with pytest.raises(InvalidArgument):
            kac_murdock_szego(*arguments)
    with pytest.raises(InvalidArgument, match="outside of jit"):
        jax.jit(lambda c: al.InContextRegression(2, 3, covariance=c).dim)(jnp.eye(2))
