"""The exact in-context risk against sampling, closed forms, limits and invariances."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import attnlab as al
from attnlab._core.precision import float64, to_float64
from attnlab.errors import InvalidArgument
from attnlab.students import KernelHeads, MultiHeadAttention
from attnlab.tasks import InContextRegression
from attnlab.theory import monte_carlo_risk, population_risk

TASK = InContextRegression(5, 40)
TWO = KernelHeads([0.13, -0.13], [3.5, -3.5])


@pytest.fixture(scope="module")
def two():
    return population_risk(TASK, TWO)


@pytest.mark.parametrize(
    "heads",
    [
        KernelHeads([0.3], [1.42]),
        TWO,
        KernelHeads([0.3, -0.2, 0.1, 0.0], [1.0, -2.0, 1.5, 0.5]),
    ],
    ids=["one", "two", "four"],
)
def test_sampling_and_a_finer_resolution_agree(heads):
    risk = population_risk(TASK, heads)
    assert risk.method == "quadrature"
    assert float(risk.error) <= 1e-8 * risk.value
    finer = risk.at_rung(risk.rung + 1).checked(heads)[0]
    assert abs(finer - risk.value) <= risk.error
    mean, error = monte_carlo_risk(TASK, heads, None, key=jax.random.key(5), samples=30_000)
    assert abs(mean - risk.value) < 4 * error
    assert error < 3e-3


def test_a_full_layer_with_these_circuits_has_the_risk(two):
    layer = MultiHeadAttention.from_heads(TWO, 5)
    mean, error = monte_carlo_risk(TASK, layer, None, key=jax.random.key(1), samples=20_000)
    assert abs(mean - two.value) < 4 * error


def test_small_heads_are_debiased_gradient_descent(two):
    """`ω = ±γ`, `μ = ±η/2γ`: the risk tends to that of debiased gradient descent like `γ²`, and
    keeps its digits while `Σ μ μ' Q` cancels 22 of them."""
    d, length, noise = 5, 40, 0.1
    for step in (1.0, 0.8):
        m = length - 1
        limit = noise + 1 - 2 * step * m / length
        limit += step**2 * m * (m + d + 1 + d * noise) / length**2
        gaps = []
        for gamma in (1e-3, 1e-6, 1e-10):
            heads = KernelHeads([gamma, -gamma], [step / 2 / gamma, -step / 2 / gamma])
            gaps.append(abs(two(heads) - limit))
            assert two.error(heads) < 1e-10
            assert gaps[-1] <= 2 * gamma**2 + two.error(heads)
        assert gaps[0] > 1e-8  # so that the rate was seen


def test_zero_heads_average_the_labels(two):
    heads = KernelHeads([0.0, 0.0], [1.0, -0.3])
    assert abs(two(heads) - (1.1 + 1.1 * 0.7**2 / 40)) <= two.error(heads)
    dummy = KernelHeads([0.25, 0.0], [1.0, 0.0])
    one = population_risk(TASK, KernelHeads([0.25], [1.0])).value
    np.testing.assert_allclose(two(dummy), one, rtol=1e-12)


def test_equal_heads_add_up(two):
    """The double integral of two equal heads against the single one of one head."""
    for omega in (0.1, 0.4):
        halves = two(KernelHeads([omega, omega], [0.3, 0.9]))
        whole = population_risk(TASK, KernelHeads([omega], [1.2])).value
        np.testing.assert_allclose(halves, whole, rtol=1e-11)


def test_invariances_and_batches(two):
    omega, mu = np.array([[0.2, -0.1], [-0.1, 0.2], [-0.2, 0.1]]), np.array([1.5, -2.0])
    heads = KernelHeads(omega, np.stack([mu, mu[::-1], -mu]))
    batch = two(heads)
    assert batch.shape == (3,)
    assert batch.dtype == np.float64
    np.testing.assert_allclose(batch, two(KernelHeads(omega[0], mu)), rtol=1e-12)
    parts = two.components(heads)
    assert parts["total"].dims == ("run",)
    np.testing.assert_allclose(parts["total"], batch, rtol=1e-13)
    np.testing.assert_allclose(parts["label_noise"], 0.1, rtol=1e-13)


def test_one_example(two):
    risk = population_risk(InContextRegression(5, 1), TWO)
    heads = KernelHeads([0.7, -0.4], [0.5, 0.2])
    np.testing.assert_allclose(risk(heads), 1.1 + 1.1 * 0.7**2, rtol=1e-13)
    np.testing.assert_allclose(risk.gradient(heads).omega, 0, atol=1e-13)


@pytest.mark.parametrize("length", [10**6, 10**9])
def test_large_lengths(two, length):
    """`L (R - R_∞)` tends to the `1/L` coefficient, `R_∞ = (1 - μ·ω)² + σ²`."""
    omega, mu, d = np.array([0.3, -0.2]), np.array([1.5, -1.0]), 5
    risk = population_risk(InContextRegression(d, length), KernelHeads(omega, mu))
    product, pairs = np.outer(omega, omega), np.outer(mu, mu)
    f, g = ((1 - 2 * product) ** -(d / 2 + k) for k in (0, 1))
    aligned = mu @ omega
    slope = np.sum(pairs * (1.1 * f + product * g))
    slope += 2 * (1 - aligned) * np.sum(mu * omega * np.diag(g))
    limit = (1 - aligned) ** 2 + 0.1
    assert abs(risk.value - limit - slope / length) < 3e-10 * (1e6 / length)
    # the gap itself is far above the error: rounding of the leading terms is all there is
    assert slope / length > 30 * 1e-15


def test_gradient_is_that_of_the_value(two):
    omega, mu = np.array([0.3, -0.2]), np.array([1.5, -1.0])
    gradient = two.gradient(KernelHeads(omega, mu))
    h = 1e-3
    shifts = h * np.concatenate([np.eye(4), -np.eye(4), 2 * np.eye(4), -2 * np.eye(4)])
    points = np.concatenate([omega, mu]) + shifts
    values = np.array([two(KernelHeads(p[:2], p[2:])) for p in points]).reshape(4, 4)
    slopes = (8 * (values[0] - values[1]) - (values[2] - values[3])) / (12 * h)
    np.testing.assert_allclose(np.concatenate([gradient.omega, gradient.mu]), slopes, atol=1e-9)


def test_inside_jax(two):
    """Traceable and twice differentiable: the Hessian in `μ` is the Gram matrix of the heads."""
    with float64():
        risk, w, m = to_float64((two, TWO.omega, TWO.mu))

        @jax.jit
        def expansion(w, m):
            slope = jax.grad(lambda m: risk.value_of(w, m))
            return slope(0 * m), jax.jacfwd(slope)(m)

        aligned, hessian = expansion(w, m)
        value = 1.1 + aligned @ m + m @ hessian @ m / 2
    np.testing.assert_allclose(value, two.value, rtol=1e-11)
    assert np.linalg.eigvalsh(hessian).min() > 0


def test_several_tasks_on_isotropic_covariates():
    task = InContextRegression(6, 20, supports=[(0, 1, 2, 3), (2, 3, 4)])
    heads = KernelHeads([0.13, -0.1], [[1.0, 2.0], [-1.0, -1.5]])
    risk = population_risk(task, heads)
    mean, error = monte_carlo_risk(task, heads, None, key=jax.random.key(3), samples=30_000)
    assert abs(mean - risk.value) < 4 * error
    assert float(risk.error) < 1e-9
    # two tasks that read everything are one task twice
    everything = InContextRegression(6, 40, supports=[range(6), range(6)])
    twice = KernelHeads(TWO.omega, np.stack([TWO.mu, TWO.mu], -1))
    single = population_risk(InContextRegression(6, 40), TWO).value
    np.testing.assert_allclose(population_risk(everything, twice).value, 2 * single, rtol=1e-12)


def test_refusals(two):
    with pytest.raises(InvalidArgument, match="it must be an attnlab.KernelHeads"):
        population_risk(TASK, al.PointwiseAttention("erf", 0.3))
    with pytest.raises(InvalidArgument, match="normalization = 'relu'"):
        population_risk(TASK, KernelHeads([0.1], [1.0], normalization="relu"))
    with pytest.raises(InvalidArgument, match="mu = "):
        two(KernelHeads([0.1, 0.2], [[1.0, 2.0], [1.0, 1.0]]))
    with pytest.raises(InvalidArgument, match="samples = 1"):
        monte_carlo_risk(TASK, TWO, None, key=jax.random.key(0), samples=1)
    layer = MultiHeadAttention(5, 1, key=jax.random.key(0))
    blank = eqx.tree_at(lambda x: x.W_Q, layer, jnp.full_like(layer.W_Q, jnp.nan))
    two_tasks = KernelHeads([0.1], [[1.0, 2.0]])
    for student in (
        blank,
        lambda X, y, xq: xq,
        MultiHeadAttention(4, 1, key=jax.random.key(0)),
        KernelHeads([[0.1] * 4], [1.0]),
        two_tasks,
        KernelHeads([0.1], [1e200]),
    ):
        with pytest.raises(InvalidArgument, match="^student = "):
            monte_carlo_risk(TASK, student, None, key=jax.random.key(0), samples=4)
    assert jnp.asarray(two.value).dtype == jnp.float32  # outside of the scope; two.value is NumPy


def test_shapes_of_two_meanings_are_refused():
    """As many tasks as coordinates: (heads, dim) with (heads, tasks), or a batch."""
    task = al.InContextRegression(2, 4, supports=[(0, 1), (1,)])
    both = al.KernelHeads(np.full((3, 2), 0.1), np.full((3, 2), 0.5))
    with pytest.raises(InvalidArgument, match="of one meaning"):
        al.population_risk(task, both)
    with pytest.raises(InvalidArgument, match="of one meaning"):
        al.monte_carlo_risk(task, both, None, key=jax.random.key(0), samples=10)


def test_rare_radii_do_not_spoil_a_small_length():
    """Two examples in one dimension: the weights are a sigmoid, and the rest is a plane integral."""
    omega, mu, noise = 1.0, 0.9, 0.1
    task = al.InContextRegression(1, 2, noise_std=math.sqrt(noise))
    risk = al.population_risk(task, al.KernelHeads([omega], [mu]))
    z, w = np.polynomial.hermite_e.hermegauss(100)
    w = w / w.sum()
    xq, x1, x2 = z[:, None, None], z[None, :, None], z[None, None, :]
    p = scipy.special.expit(omega * xq * (x1 - x2))
    read = mu * (p * x1 + (1 - p) * x2)
    losses = (read - xq) ** 2 + noise * (1 + mu**2 * (p**2 + (1 - p) ** 2))
    np.testing.assert_allclose(risk.value, np.einsum("ijk,i,j,k", losses, w, w, w), rtol=1e-6)


def test_traced_values_far_beyond_their_rung_are_nan_and_gradients_keep_single_precision_callers():
    task = al.InContextRegression(3, 6)
    risk = al.population_risk(task, al.KernelHeads([0.3], [1.0]))
    value = jax.jit(jax.value_and_grad(lambda w: risk(al.KernelHeads(w, jnp.ones(1)))))
    assert np.isnan(value(jnp.array([3.0]))[0])
    exact = risk.gradient(al.KernelHeads([0.5], [1.0])).omega
    np.testing.assert_allclose(value(jnp.array([0.5]))[1], exact, rtol=1e-5)


@pytest.mark.parametrize("length", [3, 6])
def test_a_risk_made_inside_a_transformation_has_derivatives(length):
    task = al.InContextRegression(3, length)
    mu = jnp.array([0.5])

    def made_inside(omega):
        return al.population_risk(task, al.KernelHeads(omega, mu)).value

    exact = al.population_risk(task, al.KernelHeads([0.4], [0.5]))
    slope = exact.gradient(exact.heads).omega
    for gradient in (jax.grad(made_inside), jax.jit(jax.grad(made_inside))):
        np.testing.assert_allclose(gradient(jnp.array([0.4])), slope, rtol=1e-5)


@pytest.mark.parametrize("length", [2, 6])
@pytest.mark.filterwarnings("error")
def test_heads_whose_squares_are_no_numbers_are_refused(length):
    task = al.InContextRegression(3, length)
    with pytest.raises(InvalidArgument, match="^omega = .* at least 1e-100"):
        al.population_risk(task, al.KernelHeads([1e-150, -1e-150], [1e150, -1e150]))
    with pytest.raises(InvalidArgument, match=r"^mu = .* at most 1e\+100"):
        al.population_risk(task, al.KernelHeads([0.1], [1e160]))
