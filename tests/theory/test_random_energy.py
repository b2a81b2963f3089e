"""The random energy model: limits, finite sizes against direct sums, rates against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gammaln, logsumexp
from scipy.stats import norm

from attnlab.errors import InvalidArgument
from attnlab.theory import random_energy as rem
from attnlab.theory import random_energy_rates as rates


def exact_sums(b, log_number, step=0.3):
    """`E log Z` and `E Σ q²` from `(1 - E[1 - e^{-A}])^N` on plain grids."""
    edge = np.sqrt(2 * log_number)
    slope = min(1.0, edge / b)
    centre = log_number + b**2 / 2 if edge > b else b * edge
    g = np.arange(-9, max(min(2 * b, edge + 4 + 40 / b), edge) + 8, 0.3 / b)
    tau = np.arange(centre - 8 * np.log(centre) / slope - 9, centre + 34 / slope, step)
    log_density = norm.logpdf(g) + np.log(0.3 / b)
    s = b * g - tau[:, None]
    a = np.exp(np.minimum(s, 300.0))
    missing = -np.expm1(-a) @ np.exp(log_density)
    if log_number < 30:
        log_rest = np.log1p(-np.minimum(missing, 1 - 1e-15))
    else:
        log_rest = -missing  # so many levels that they are independent of each other
    one, two = (np.exp(k * s - a + log_density + log_number).sum(axis=1) for k in (1, 2))
    weights = step * np.exp(np.exp(log_number) * log_rest - log_rest)
    return np.sum(weights * one * tau) - np.euler_gamma, np.sum(weights * two)


CASES = np.array(  # β, d, log N
    [
        (2.0, 10, 5.0),
        (1.0, 100, 50.0),  # the transition
        (0.9, 100, 50.0),
        (1.6, 50, 25.0),
        (0.5, 60, 40.0),
        (1.0, 30, 3.0),  # 20 levels
        (0.15, 100, 30.0),  # β√d < 3
        (0.3, 20, 2.0),
    ]
)


@pytest.fixture(scope="module")
def finite():
    """All finite models of these tests, by one program."""
    x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    window = [(0.5 + y / np.sqrt(4000.0), 4000.0, 500.0) for y in x]
    far = [(1.0, 2000.0, 200.0), (1.0, 4000.0, 400.0)]
    beta, dim, log_number = np.concatenate([CASES, window, far]).T
    model = rem.finite_random_energy(beta, dim, log_number)
    split = len(CASES), len(CASES) + len(x)
    return x, [rem.FiniteRandomEnergy(*part) for part in zip(*(np.split(y, split) for y in model))]


def test_finite_models_against_direct_sums(finite):
    model = finite[1][0]
    for i, (beta, dim, log_number) in enumerate(CASES):
        mean, participation = exact_sums(beta * np.sqrt(dim), log_number)
        few = 2e-3 * np.exp(-log_number) + 2e-4 / dim
        assert model.free_energy[i] * beta * dim == pytest.approx(mean, abs=10 * few, rel=1e-7)
        assert model.participation[i] == pytest.approx(participation, rel=few)
    assert np.allclose(model.thermal_average, CASES[:, 0] * (1 - model.participation))


def test_finite_model_against_drawn_levels(finite):
    beta, dim, log_number = CASES[5]
    rng = np.random.default_rng(3)
    number = round(np.exp(log_number))
    scores = beta * np.sqrt(dim) * rng.standard_normal((60_000, number))
    log_z = logsumexp(scores, axis=1)
    share = np.sum(np.exp(2 * (scores - log_z[:, None])), axis=1)
    model = finite[1][0]
    for sample, value in (
        (log_z, model.free_energy[5] * beta * dim),
        (share, model.participation[5]),
    ):
        # log 20 is not 3: a shift of 4e-3 in log N, and less in both averages
        assert abs(sample.mean() - value) < 4 * sample.std() / np.sqrt(len(sample)) + 5e-3


def test_window_of_the_transition(finite):
    x, (_, window, _) = finite
    scaled = (0.5 + x / np.sqrt(4000.0)) * np.sqrt(4000.0) * window.participation
    assert scaled == pytest.approx(norm.pdf(x) / norm.sf(x), rel=0.15)
    assert scaled[2] == pytest.approx(np.sqrt(2 / np.pi), rel=0.03)


def test_condensed_phase_approaches_its_limit_as_predicted(finite):
    far = finite[1][2]
    m = critical = rem.critical_inverse_temperature(0.1)
    for i, dim in enumerate((2000.0, 4000.0)):
        gap = far.participation[i] - rem.participation_ratio(1.0, 0.1)
        level = 0.5 * np.log(2 * np.pi * critical**2 * dim) - gammaln(1 - m)
        level -= np.euler_gamma + m * digamma(1 - m)
        assert gap == pytest.approx(level / (critical * dim), rel=0.02)
        assert far.free_energy[i] == pytest.approx(rem.free_energy(1.0, 0.1), rel=0.02)
        assert far.thermal_average[i] == pytest.approx(rem.thermal_average(1.0, 0.1), rel=0.02)


def test_limits_join_at_the_transition():
    beta = np.array([0.999999, 1.000001])
    assert np.ptp(rem.free_energy(beta, 0.5)) < 1e-10
    assert rem.free_energy(0.5, 0.5) == pytest.approx(1.25)
    assert rem.thermal_average(np.array([0.5, 2.0]), 0.5) == pytest.approx([0.5, 1.0])
    assert rem.participation_ratio(np.array([0.5, 2.0]), 0.5) == pytest.approx([0.0, 0.5])
    assert [rem.phase(b, 0.5) for b in beta] == ["uncondensed", "condensed"]
    assert rem.free_energy(1.0, 0.0) == 0  # one token: L = 1
    with jax.enable_x64(True):
        slope = jax.grad(lambda b: b * rem.free_energy(b, 0.5))(0.7)
    assert slope == pytest.approx(0.7)  # r is the derivative of βψ


def test_learnable_is_the_best_temperature():
    for signal, alpha in ((0.7, 0.2), (0.7, 0.25)):
        psi = rem.free_energy(np.geomspace(0.05, 5, 200), alpha)
        assert rem.learnable(signal, alpha) == bool(np.any(signal > psi))
    mass = rem.attention_mass(np.array([1.0, 0.2]), 1.0, 0.8, 0.1, 300.0)
    assert mass[0] > 1 - 1e-6
    assert mass[1] == pytest.approx(np.exp(-300 * rates.typical_rate(0.2, 1.0, 0.8, 0.1)))


def test_typical_maximum():
    log_number = np.array([0.0, 0.5, 10.0, 600.0])
    a = rem.typical_maximum(log_number)
    assert log_number + norm.logpdf(a) == pytest.approx(np.log(a), abs=1e-9)
    with jax.enable_x64(True):
        slope = jax.jit(jax.vmap(jax.grad(rem.typical_maximum)))(jnp.asarray(log_number))
    step = 1e-4
    ends = rem.typical_maximum(log_number + step), rem.typical_maximum(log_number + 2 * step)
    assert slope == pytest.approx((4 * ends[0] - ends[1] - 3 * a) / (2 * step), rel=1e-5)


def least_cost(kappa, beta, signal, token_std, alpha, power, *, missing):
    """The large-deviation problem on a grid of logits `t` and rare levels `u`."""
    psi = rem.free_energy(beta, alpha)
    t = psi + 4e-3 * np.arange(-1100, 400)[:, None]
    u = psi + 4e-3 * np.concatenate([[0], np.arange(350)])
    rare = np.concatenate([[0.0], u[1:] ** 2 / 2 - alpha])
    gap = (t - u) if missing else (u - t)
    cost = (t - signal * kappa) ** 2 / (2 * token_std**2) + rare
    return np.min(cost + power * beta * np.maximum(gap, 0))


def test_rates_solve_the_large_deviation_problem():
    rng = np.random.default_rng(0)
    kappa, power = 1 - rng.exponential(0.3, 25), rng.choice([1.0, 2.0], 25)
    beta, alpha = np.exp(rng.uniform(-2, 1.2, 25)), rng.uniform(0.01, 0.2, 25)
    signal, token_std = rng.uniform(0.3, 1.2, 25), rng.uniform(0.3, 1, 25)
    arguments = np.stack([kappa, beta, signal, token_std, alpha, power])
    for missing, rate in ((False, rates.mass_rate), (True, rates.missing_mass_rate)):
        wanted = [least_cost(*row, missing=missing) for row in arguments.T]
        assert rate(*arguments) == pytest.approx(np.array(wanted), abs=2e-4)
        assert np.sum(rate(*arguments) > 0) > 5
    cold = rates.missing_mass_rate(1.0, 50.0, 0.9, 0.4, np.array([0.05, 0.3]))
    assert cold == pytest.approx(rates.largest_missing_mass_rate(1.0, 0.9, 0.4, [0.05, 0.3]))


def log_mean_mass(dim, kappa, beta, signal, token_std, alpha):
    """`log E p` and `log E(1 - p)` by quadrature in logarithms."""
    b, step = beta * np.sqrt(dim), 0.6
    mean, std = beta * dim * signal * kappa, b * token_std
    middle = beta * dim * rem.free_energy(beta, alpha)
    edges = min(mean, middle) - 5 * b - 30, max(mean, middle) + 5 * b + 30
    tau = np.arange(*edges, step)
    g = np.arange(-6, max(2 * b, edges[1] / b) + 6, 0.6 / b)
    s = b * g - tau[:, None]
    a = np.exp(np.minimum(s, 300.0))
    weight = norm.logpdf(g) + np.log(0.6 / b) + alpha * dim
    levels = weight + np.where(s < -30, s, np.log(-np.expm1(-a) + 1e-300))
    count = np.exp(np.minimum(logsumexp(levels, axis=1), 50))
    logit = np.arange(mean - 25 * std, mean + 25 * std, step) - tau[:, None]
    law = norm.logpdf(logit + tau[:, None], mean, std) + np.log(step)
    odds = np.exp(np.minimum(logit, 300.0))
    found = logsumexp(law + logit - odds, axis=1) - count
    missed = logsumexp(law - odds, axis=1) + logsumexp(weight + s - a, axis=1) - count
    return np.array([logsumexp(found), logsumexp(missed)]) + np.log(step)


@pytest.mark.parametrize(
    "setting",
    [
        (0.2, 1.0, 0.7, 0.7, 0.1),  # dark, condensed: the logit reaches ψ
        (0.5, 0.3, 0.7, 0.7, 0.3),  # dark, uncondensed: the mean is tilted
        (1.0, 0.35, 0.95, 0.312, 0.02),  # retrieval, annealed
        (1.0, 1.3, 0.95, 0.6, 0.05),  # retrieval, a rare level: not the printed rate
    ],
)
def test_rates_against_growing_dimension(setting):
    dims = np.array([40.0, 80.0, 160.0])
    logs = np.array([log_mean_mass(dim, *setting) for dim in dims])
    basis = np.stack([-dims, np.log(dims), np.ones(3)], axis=1)
    fitted = np.linalg.solve(basis, logs)[0]
    wanted = np.array([rates.mass_rate(*setting), rates.missing_mass_rate(*setting)])
    assert fitted == pytest.approx(wanted, abs=2e-3)
    kappa, beta, signal, _, alpha = setting
    assert rates.typical_rate(kappa, beta, signal, alpha) > 1.05 * wanted.max()


def test_rates_of_the_participation():
    # E Σq² against the rate: the slope in d of two exact sums
    for beta, alpha in ((0.3, 0.5), (0.8, 0.5)):
        dims = np.array([30.0, 60.0, 120.0])
        logs = [np.log(exact_sums(beta * np.sqrt(d), alpha * d)[1]) for d in dims]
        basis = np.stack([-dims, np.log(dims), np.ones(3)], axis=1)
        fitted = np.linalg.solve(basis, logs)[0]
        assert fitted == pytest.approx(rem.participation_rate(beta, alpha), abs=4e-3)
        assert rem.typical_participation_rate(beta, alpha) >= rem.participation_rate(beta, alpha)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: rem.free_energy(0.0, 0.5), "inverse_temperature"),
        (lambda: rem.free_energy(1.0, [-0.1, 0.2]), "alpha"),
        (lambda: rem.free_energy([1.0, 2.0], [0.1, 0.2, 0.3]), "arguments"),
        (lambda: rem.free_energy("hot", 0.1), "inverse_temperature"),
        (lambda: rem.phase(float("nan"), 0.1), "inverse_temperature"),
        (lambda: rem.learnable(-1.0, 0.1), "signal"),
        (lambda: rem.typical_maximum(-1.0), "log_number"),
        (lambda: rem.finite_random_energy(1.0, 0.5, 10.0), "dim"),
        (lambda: rates.mass_rate(1.5, 1.0, 0.7, 0.7, 0.1), "kappa"),
        (lambda: rates.missing_mass_rate(1.0, 1.0, 0.7, 0.0, 0.1), "token_std"),
        (lambda: rates.missing_mass_rate(1.0, 1.0, 0.7, 0.7, 0.1, 0.0), "power"),
    ],
)
def test_bad_input_is_refused(call, name):
    with pytest.raises(InvalidArgument) as error:
        call()
    assert error.value.name == name
