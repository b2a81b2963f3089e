import itertools
import math
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

import attnlab as al
from attnlab.errors import InvalidArgument
from attnlab.tasks import Link
from attnlab.theory import gaussian_links, pointwise_quadrature

sys.path.insert(0, str(Path(__file__).parent))
from settings import random_setting


def test_closed_form_equals_quadrature_over_500_settings():
    worst = 0.0
    for index in range(500):
        task, student, overlaps = random_setting(index)
        closed, numeric = al.population_risk(task, student), pointwise_quadrature(task, student)
        assert (closed.method, numeric.method) == ("closed form", "quadrature")
        one, other = closed(overlaps), numeric(overlaps)
        worst = max(worst, np.max(np.abs(one - other) / one))
        if index % 5 == 0:
            gap = np.abs(one - other)
            assert (gap <= closed.error(overlaps) + numeric.error(overlaps)).all()
    assert worst < 1e-10


def test_monte_carlo_scores_are_standard_normal():
    z = []
    for index in range(240):
        # few shapes, since each is a program of its own; every other number is drawn afresh
        task, student, overlaps = random_setting(
            1000 + index, dims=(2, 30, 3000), lengths=(1, 2, 5, 12)
        )
        one = al.Overlaps(
            *(getattr(overlaps, name)[0] for name in ("kappa", "nu", "theta", "eta", "rho"))
        )
        key = jax.random.key(index)
        mean, error = al.monte_carlo_risk(task, student, one, key=key, samples=20_000)
        z.append(float((mean - al.population_risk(task, student)(one)) / error))
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs(np.mean(z)) < 4 / math.sqrt(len(z))
    assert 0.75 < np.std(z) < 1.3


def test_the_monte_carlo_test_would_catch_a_wrong_formula():
    task, student = al.SingleLocation(30, 6), al.PointwiseAttention("erf", 0.5)
    overlaps = al.Overlaps.on_sphere(jax.random.key(0), 6, runs=4)
    mean, error = al.monte_carlo_risk(
        task, student, overlaps, key=jax.random.key(1), samples=40_000
    )
    parts = al.population_risk(task, student).components(overlaps)
    wrong = parts.total - 0.5 * parts.bulk_variance
    assert np.abs((mean - wrong.values) / error).max() > 20


def test_prompts_and_reduced_sampling_agree():
    """The risk of the student called on prompts in `R^d`, against the exact one."""
    task = al.SingleLocation(9, 4, noise_std=0.2)
    student = al.PointwiseAttention("erf", 0.6)
    overlaps = al.Overlaps.on_sphere(jax.random.key(5), 9)
    k, v = overlaps.to_vectors(9)
    prompts = task.sample(jax.random.key(6), 200_000)
    losses = np.asarray((student(prompts.X, k, v) - prompts.y) ** 2, float)
    z = (
        (losses.mean() - al.population_risk(task, student)(overlaps))
        / losses.std()
        * math.sqrt(200_000)
    )
    assert abs(z) < 3.5


FUNCTIONS = {
    "erf": special.erf,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "linear": lambda x: x,
    "quadratic": lambda x: x**2,
    "hard-tanh": lambda x: np.clip(x, -1, 1),
    "sign": np.sign,
}


def brute_force(task, student, overlaps):
    """The risk from its definition: three-dimensional sums on a dense grid, nothing shared."""
    kappa, nu, theta, eta, rho = np.array(overlaps.stack())
    z = np.linspace(-8, 8, 161)
    w = stats.norm.pdf(z) * (z[1] - z[0])
    a, s, y = (FUNCTIONS[n] for n in (student.activation.name, student.link.name, task.link.name))
    c, g, n = task.signal * math.sqrt(task.dim), task.token_std, task.length - 1
    root = np.linalg.cholesky(np.array([[1, rho, eta], [rho, 1, nu], [eta, nu, 1]]))
    grid = np.stack(np.meshgrid(z, z, z, indexing="ij"))
    x, v, u = np.tensordot(root, grid, 1)
    weight = w[:, None, None] * w[None, :, None] * w[None, None, :]
    product = a(student.scale * (c * kappa + g * x)) * s(c * theta + g * v)
    label = y(g * u)
    signal, bias = np.sum((product - label) ** 2 * weight), np.sum((product - label) * weight)
    bulk = a(student.scale * x[..., 0]) * s(v[..., 0])
    flat = w[:, None] * w[None, :]
    m0, q0 = np.sum(bulk * flat), np.sum(bulk**2 * flat)
    return signal + n * (q0 - m0**2) + n**2 * m0**2 + 2 * n * m0 * bias + task.noise_std**2


# every way in which an average of two links is computed, from both sides
PAIRS = [
    ("linear", "tanh"),
    ("tanh", "linear"),
    ("linear", "relu"),
    ("relu", "quadratic"),
    ("quadratic", "erf"),
    ("quadratic", "quadratic"),
    ("tanh", "tanh"),
    ("relu", "tanh"),
    ("relu", "relu"),
]


@pytest.mark.parametrize("links", PAIRS)
def test_every_pair_of_links_against_brute_force(links):
    task = al.SingleLocation(8, 3, token_std=0.8, signal=0.7, noise_std=0.1, link=links[1])
    student = al.PointwiseAttention("tanh", 0.4, links[0])
    overlaps = al.Overlaps(0.3, 0.5, -0.2, 0.1, 0.25)
    rough = 2e-4 if "relu" in links else 1e-9  # the grid does not resolve a kink
    risk = al.population_risk(task, student)
    assert risk(overlaps) == pytest.approx(brute_force(task, student, overlaps), rel=rough)
    assert risk.error(overlaps) < 1e-8


@pytest.mark.parametrize("activation", ["erf", "relu", "hard-tanh", "linear"])
def test_every_kind_of_activation_against_brute_force(activation):
    task = al.SingleLocation(8, 3, token_std=0.8, signal=0.7, noise_std=0.1)
    student = al.PointwiseAttention(activation, 0.9)
    overlaps = al.Overlaps(0.3, 0.5, -0.2, 0.1, 0.25)
    rough = 1e-9 if activation in ("erf", "linear") else 1e-3
    value = al.population_risk(task, student)(overlaps)
    assert value == pytest.approx(brute_force(task, student, overlaps), rel=rough)


@pytest.mark.parametrize("activation", ["sign", "hard-tanh", "relu", "tanh"])
@pytest.mark.parametrize("scale", [1e-4, 0.3, 100.0])
def test_kinks_and_scales_by_adaptive_integration(activation, scale):
    """One-dimensional moments, integrated adaptively with the break points given."""
    task = al.SingleLocation(50, 4, token_std=0.5)
    student = al.PointwiseAttention(activation, scale)
    overlaps = al.Overlaps(0.4, 0.6, 0.2, -0.1, 0.3)
    c, g = task.signal * math.sqrt(50), 0.5
    a = FUNCTIONS[activation]
    kappa, nu, theta, eta, rho = 0.4, 0.6, 0.2, -0.1, 0.3

    def expect(function, mean, std):
        cuts = [(kink / scale - mean) / std for kink in (-10, -1, -0.1, 0, 0.1, 1, 10)]
        cuts = sorted({-10.0, 10.0, *(cut for cut in cuts if abs(cut) < 10)})
        parts = [
            integrate.quad(lambda z: function(z) * stats.norm.pdf(z), low, high, epsabs=1e-13)[0]
            for low, high in itertools.pairwise(cuts)
        ]
        return sum(parts)

    def signal(z):
        x = c * kappa + g * z
        w, u = c * theta + g * rho * z, g * eta * z
        vw, vu, cwu = g**2 * (1 - rho**2), g**2 * (1 - eta**2), g**2 * (nu - rho * eta)
        f = a(scale * x)
        return f**2 * (w**2 + vw) - 2 * f * (w * u + cwu) + u**2 + vu

    def bias(z):
        return a(scale * (c * kappa + g * z)) * (c * theta + g * rho * z)

    error, tilt = expect(signal, c * kappa, g), expect(bias, c * kappa, g)
    m0 = expect(lambda z: a(scale * z) * rho * z, 0, 1)
    q0 = expect(lambda z: a(scale * z) ** 2 * (rho**2 * z**2 + 1 - rho**2), 0, 1)
    expected = error + 3 * (q0 - m0**2) + 9 * m0**2 + 6 * m0 * tilt
    assert al.population_risk(task, student)(overlaps) == pytest.approx(expected, rel=1e-9)


COMBINATIONS = [
    ("erf", "linear", "linear"),
    ("tanh", "linear", "linear"),
    ("sign", "linear", "linear"),
    ("relu", "relu", "relu"),
    ("hard-tanh", "erf", "tanh"),
    ("tanh", "quadratic", "relu"),
]


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_gradients_taken_jointly_match_finite_differences(combination):
    activation, own, asked = combination
    task = al.SingleLocation(20, 5, token_std=0.7, noise_std=0.1, link=asked)
    risk = al.population_risk(task, al.PointwiseAttention(activation, 0.8, own))
    point = np.array([0.3, 0.5, -0.2, 0.1, 0.25, 0.8])
    with jax.enable_x64(True):

        def value(p):
            return risk.value_of(p[:5], p[5])

        slopes = np.asarray(jax.jit(jax.grad(value))(point))
        compiled = jax.jit(value)
        expected = []
        for i in range(6):
            h = 2e-4
            shift = np.eye(6)[i] * h
            values = [float(compiled(point + m * shift)) for m in (-2, -1, 1, 2)]
            expected.append((values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h))
    np.testing.assert_allclose(slopes, expected, rtol=2e-7, atol=1e-9)


@pytest.mark.parametrize("links", [("tanh", "tanh"), ("relu", "relu"), ("quadratic", "tanh")])
def test_aligned_vectors_have_finite_gradients(links):
    """At the teacher and at k = ±v projections are perfectly correlated: nothing may blow up."""
    task = al.SingleLocation(10, 3, link=links[1])
    risk = al.population_risk(task, al.PointwiseAttention("tanh", 0.5, links[0]))
    overlaps = al.Overlaps([1, 0.6, -1], [1, 0.8, 1], [0, 0.6, 0], [0, 0.8, 0], [0, 1, 0])
    assert np.isfinite(risk(overlaps)).all()
    assert np.isfinite(risk.gradient(overlaps).stack()).all()
    # approaching the corner, the value is continuous
    near = risk(al.Overlaps(1 - 1e-9, 1 - 1e-9))
    assert near == pytest.approx(risk(al.Overlaps(1, 1)), rel=1e-6)


def test_components_add_up_and_say_where_risk_comes_from():
    task, student = al.SingleLocation(40, 8, noise_std=0.5), al.PointwiseAttention("erf", 0.3)
    risk = al.population_risk(task, student)
    overlaps = al.Overlaps.on_sphere(jax.random.key(0), 40, runs=5)
    parts = risk.components(overlaps)
    np.testing.assert_allclose(parts.total, risk(overlaps), rtol=1e-14)
    assert parts.informative.dims == ("run",)
    np.testing.assert_allclose(parts.label_noise, 0.25)
    on_manifold = risk.components(al.Overlaps(0.2, 0.3))
    assert float(on_manifold.bulk_mean) == 0 == float(on_manifold.cross)


def test_limits_known_by_hand():
    # nothing is attended to: the risk is that of predicting zero
    task = al.SingleLocation(30, 3, noise_std=0.2)
    small = al.population_risk(task, al.PointwiseAttention("erf", 1e-4))
    assert small(al.Overlaps(0.0, 0.0)) == pytest.approx(0.5 + 0.04, rel=1e-6)
    # one token and a strong signal: the oracle reads the label off
    strong = al.SingleLocation(400, 1, signal=30.0, noise_std=0.2)
    oracle = al.population_risk(strong, al.PointwiseAttention("erf", 1.0)).teacher
    assert oracle == pytest.approx(0.04, abs=1e-14)
    # linear attention on one token, all by hand: E (x·k x·v - y)² at the oracle
    linear = al.population_risk(al.SingleLocation(4, 1), al.PointwiseAttention("linear", 1.0))
    assert linear.teacher == pytest.approx(0.5 * ((math.sqrt(2) - 1) ** 2 + 0.5), rel=1e-12)


def test_float64_inside_a_float32_caller():
    assert jnp.zeros(1).dtype == jnp.float32
    risk = al.population_risk(al.SingleLocation(20, 5), al.PointwiseAttention("erf", 0.4))
    exact = risk(al.Overlaps(0.25, 0.5))
    assert isinstance(exact, np.ndarray)
    assert exact.dtype == np.float64

    def of_kappa(kappa):
        return risk(al.Overlaps(kappa, 0.5))

    traced = jax.jit(of_kappa)(0.25)
    assert traced.dtype == jnp.float64
    assert float(traced) == pytest.approx(float(exact), rel=1e-15)
    slope = jax.grad(of_kappa)(0.25)
    assert float(slope) == pytest.approx(
        float(risk.gradient(al.Overlaps(0.25, 0.5)).kappa), rel=1e-6
    )
    batch = jax.jit(jax.vmap(jax.grad(of_kappa)))(jnp.array([0.25, 0.25]))
    np.testing.assert_allclose(batch, slope, rtol=1e-6)
    assert jnp.zeros(1).dtype == jnp.float32  # the caller's configuration is as it was


def test_a_branch_of_a_float32_caller_casts():
    risk = al.population_risk(al.SingleLocation(20, 5), al.PointwiseAttention("erf", 0.3))

    def branched(kappa):
        def at(kappa):
            return risk(al.Overlaps(kappa, 0.2, 0.0, 0.0, 0.0)).astype(jnp.float32)

        return jax.lax.cond(kappa > 0.5, at, lambda kappa: 0 * kappa, kappa)

    value, slope = jax.value_and_grad(jax.jit(branched))(0.7)
    here = al.Overlaps(0.7, 0.2, 0.0, 0.0, 0.0)
    assert value.dtype == slope.dtype == jnp.float32
    np.testing.assert_allclose(value, risk(here), rtol=1e-6)
    np.testing.assert_allclose(slope, risk.gradient(here).kappa, rtol=1e-5)


def test_parameters_of_the_task_can_be_differentiated():
    def oracle(token_std):
        task = al.SingleLocation(20, 5, token_std=token_std, signal=0.7)
        return al.population_risk(task, al.PointwiseAttention("erf", 0.4))(al.Overlaps.teacher())

    with jax.enable_x64(True):
        slope = float(jax.grad(oracle)(0.6))
        h = 1e-5
        assert slope == pytest.approx(
            float((oracle(0.6 + h) - oracle(0.6 - h)) / (2 * h)), rel=1e-7
        )


def test_batches_do_not_depend_on_their_shape():
    task, student = (
        al.SingleLocation(10, 3, link="tanh"),
        al.PointwiseAttention("tanh", 0.5, "tanh"),
    )
    risk = al.population_risk(task, student)
    many = al.Overlaps.on_sphere(jax.random.key(0), 10, runs=40)
    one = al.Overlaps(*(getattr(many, n)[7] for n in ("kappa", "nu", "theta", "eta", "rho")))
    assert risk(many)[7] == pytest.approx(float(risk(one)), rel=1e-13)
    square = al.Overlaps.unstack(many.stack().reshape(4, 10, 5))
    np.testing.assert_allclose(risk(square), risk(many).reshape(4, 10), rtol=1e-14)


def test_the_error_is_a_number_and_a_function():
    risk = al.population_risk(al.SingleLocation(10, 3), al.PointwiseAttention("erf", 0.5))
    assert 0 < float(risk.error) < 1e-10
    assert risk.error < 1e-10
    assert risk.error(al.Overlaps(0.1, 0.2)) < risk.error * 1.001
    assert "ErrorEstimate" in repr(risk.error)


def test_new_numbers_do_not_recompile():
    from attnlab.theory import risk as module

    overlaps = al.Overlaps(0.1, 0.2)
    al.population_risk(al.SingleLocation(11, 3), al.PointwiseAttention("erf", 0.5))(overlaps)
    before = module._evaluate._cached._cache_size()
    for dim, length, scale in ((12, 4, 0.6), (13, 9, 0.7), (900, 100, 2.0)):
        al.population_risk(al.SingleLocation(dim, length), al.PointwiseAttention("erf", scale))(
            overlaps
        )
    assert module._evaluate._cached._cache_size() == before


def test_bad_arguments():
    task, student = al.SingleLocation(10, 3), al.PointwiseAttention("erf", 0.5)
    with pytest.raises(InvalidArgument, match="task"):
        al.population_risk(student, task)
    with pytest.raises(InvalidArgument, match="student"):
        al.population_risk(task, "erf")
    with pytest.raises(InvalidArgument, match="overlaps"):
        al.population_risk(task, student)(0.3)
    with pytest.raises(InvalidArgument, match="scale"):
        al.population_risk(task, student)(al.Overlaps(0, 0), scale=-1.0)
    with pytest.raises(InvalidArgument, match="log_length"):
        al.population_risk(al.SingleLocation(10, log_length=301.0), student)
    with pytest.raises(InvalidArgument, match="samples"):
        al.monte_carlo_risk(task, student, al.Overlaps(0, 0), key=jax.random.key(0), samples=1)
    with pytest.raises(InvalidArgument, match="log_length"):
        endless = al.SingleLocation(10, log_length=50.0)
        al.monte_carlo_risk(endless, student, al.Overlaps(0, 0), key=jax.random.key(0), samples=9)


def test_a_registered_step_link_and_activation():
    al.register_activation("test-step", lambda x: (x > 0.5) * 1.0, kinks=(0.5,))
    al.register_link("test-sign", jnp.sign, kinks=(0.0,))
    task = al.SingleLocation(6, 3, link="test-sign")
    risk = al.population_risk(task, al.PointwiseAttention("test-step", 0.9, "test-sign"))
    overlaps = al.Overlaps([0.3, 0.6], [0.5, 0.2], [-0.2, 0.1], [0.1, 0.3], [0.25, 0.1])
    key = jax.random.key(3)
    mean, error = al.monte_carlo_risk(
        task,
        al.PointwiseAttention("test-step", 0.9, "test-sign"),
        overlaps,
        key=key,
        samples=100_000,
    )
    assert np.abs((risk(overlaps) - mean) / error).max() < 3.5


def test_derivatives_of_an_average_of_two_step_links():
    """No function that steps is ever differentiated: all slopes are those of the density."""
    link = Link("test-sign", jnp.sign, kinks=(0.0,))
    point = np.array([0.3, -0.2, 0.8, 1.1, 0.5])  # two means, two variances, the covariance
    h = 1e-4
    shifts = h * np.eye(5)
    by_hand = np.array([0, 0, 0.8, 1.1, 0.5])

    def average(p):
        return gaussian_links.product(link, link, *jnp.moveaxis(p, -1, 0), spacing=0.3)

    with jax.enable_x64(True):
        values = np.asarray(
            jax.jit(average)(np.stack([*(point + shifts), *(point - shifts), by_hand]))
        )
        slopes = np.asarray(jax.jit(jax.grad(average))(point))
    np.testing.assert_allclose(slopes, (values[:5] - values[5:10]) / (2 * h), rtol=1e-7)
    arcsine = 2 / math.pi * math.asin(0.5 / math.sqrt(0.8 * 1.1))
    assert values[10] == pytest.approx(arcsine, rel=1e-12)
