"""The mean-field risk: its statement, its finite-size version against the exact risk, orders in d."""

import dataclasses

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy.special import digamma, expit, gammaln, softmax
from scipy.stats import norm

import attnlab as al
from attnlab._core.precision import float64, to_float64
from attnlab.errors import InvalidArgument

ROWS = al.Overlaps.unstack(
    np.concatenate(
        [
            al.Overlaps.on_sphere(jax.random.key(1), 6, runs=3).stack(),
            [
                [1, 1, 0, 0, 0],
                [0.2, 0.3, 0.4, 0.1, 0.5],
                [0, 1, 0, 1, 1],
                [0.6, 0.8, 0.6, 0.8, 1.0],
            ],
        ]
    )
)


NODES = 256  # one number of nodes: one program for all settings


def risks(dim, log_length, beta, **task):
    """The plain and the refined risk for linear links."""
    task = al.SingleLocation(dim, log_length=log_length, **task)
    student = al.SoftmaxAttention(beta)
    plain, refined = (al.mean_field_risk(task, student, refined=flag) for flag in (False, True))
    assert refined.nodes <= NODES
    return plain, dataclasses.replace(refined, nodes=NODES)


@eqx.filter_jit
def _evaluated(risk, state, scales):
    error = risk.error_of(state, scales) if risk.refined else 0 * scales
    return risk.components_of(state, scales), risk.gradient_of(state, scales), error


def evaluated(risk, overlaps=ROWS, scales=None):
    """Components, gradient and error (of a refined risk) by one program."""
    state = np.zeros((len(ROWS.stack()), 5))
    state[: len(overlaps.stack())] = overlaps.stack()
    scales = np.broadcast_to(risk.scale if scales is None else scales, len(state))
    with float64():
        parts = _evaluated(*to_float64((risk, state, scales)))
        return jax.tree.map(lambda part: np.asarray(part)[: len(overlaps.stack())], parts)


def exact_linear(dim, log_others, beta, signal, token_std, rows, step=0.25):
    """The exact components for linear links, `(4, rows)`, by sums over plain grids."""
    b = beta * np.sqrt(dim)
    fine = 0.25 / max(b, 1)
    slope = min(1.0, np.sqrt(2 * log_others) / b)
    centre = log_others + b**2 / 2 if slope == 1 else b * np.sqrt(2 * log_others)
    tau = np.arange(centre - 10 * b - 9, centre + 34 / slope, step)
    g = np.arange(-9, max(min(2 * b, tau[-1] / b), np.sqrt(2 * log_others)) + 8, fine)
    s = b * g - tau[:, None]
    a = np.exp(np.minimum(s, 300.0))
    law = norm.pdf(g) * fine
    log_rest = np.log1p(-np.minimum(-np.expm1(-a) @ law, 1 - 1e-15))
    number = np.exp(log_others)
    one, two = (np.exp(k * s - a + np.log(law) + log_others) for k in (1, 2))
    rest = step * np.exp(number * log_rest - log_rest)
    single, level = rest * one.sum(1), rest * (one @ g)
    pairs = rest * np.exp(-log_rest) * (1 - 1 / number) * (one @ g) ** 2
    z = np.linspace(-9, 9, int(70 * b * token_std) + 81)
    weights = norm.pdf(z) * (z[1] - z[0])
    out = []
    for kappa, nu, theta, eta, rho in rows:
        logit = b * (signal * np.sqrt(dim) * kappa + token_std * z)
        odds = np.exp(np.minimum(logit[:, None] - tau, 500.0))
        kept = np.exp(-odds)
        q, split = kept @ single, (odds * kept) @ single
        p, p2 = 1 - q, 1 - q - split
        bulk = rho * (kept @ level), rho * ((odds * kept) @ level)
        square = rho**2 * (two @ g**2) + (1 - rho**2) * two.sum(1)
        square = kept @ (rest * square + rho**2 * pairs)
        w, y = signal * np.sqrt(dim) * theta + token_std * rho * z, token_std * eta * z
        v = token_std**2 * np.array([1 - rho**2, nu - rho * eta, 1 - eta**2])
        own = np.sum(weights * (p2 * (w**2 + v[0]) - 2 * p * (w * y + v[1]) + y**2 + v[2]))
        mean, cross = np.sum(weights * bulk[0]), 2 * np.sum(weights * (bulk[1] * w - bulk[0] * y))
        out.append([own, np.sum(weights * square) - mean**2, mean**2, cross])
    return np.array(out).T


def by_hand(task, student, overlaps):
    """The statement at leading order, by Gauss-Hermite in two variables."""
    kappa, nu, theta, _, rho = np.moveaxis(overlaps.stack(), -1, 0)[..., None, None]
    beta, root = student.inverse_temperature, np.sqrt(task.dim)
    alpha, c, s = task.log_length / task.dim, task.signal, task.token_std
    critical = np.sqrt(2 * alpha)
    cold = beta >= critical
    psi = critical if cold else alpha / beta + beta / 2
    p = expit((c * kappa - psi) * beta * task.dim)
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = np.outer(weight, weight) / weight.sum() ** 2
    sigma = [lambda x, f=link.function: np.asarray(f(x)) for link in (student.link, task.link)]
    w = c * root * theta + s * z[:, None]
    y = sigma[1](s * (nu * z[:, None] + np.sqrt(1 - nu**2) * z))
    spread = np.sqrt(1 - rho**2) if cold else 1.0
    bulk = sigma[0](rho * min(beta, critical) * root + spread * z[:, None] + 0 * y)
    mean = np.sum(weight * bulk, axis=(-2, -1), keepdims=True)
    variance = np.sum(weight * (bulk - mean) ** 2, axis=(-2, -1))
    participation = 1 - critical / beta if cold else 0.0
    error = np.sum(weight * (p * sigma[0](w) - y + (1 - p) * mean) ** 2, axis=(-2, -1))
    return error + (1 - p[..., 0, 0]) ** 2 * participation * variance + task.noise_std**2


@pytest.mark.parametrize("beta", [0.4, 1.3])  # β_c = 0.775
def test_leading_order_is_the_statement(beta):
    task = al.SingleLocation(10, log_length=3.0, token_std=0.6, noise_std=0.1, link="quadratic")
    student = al.SoftmaxAttention(beta, "tanh")
    risk = al.mean_field_risk(task, student)
    assert risk(ROWS) == pytest.approx(by_hand(task, student, ROWS), rel=1e-6)
    assert risk.method == "mean field"


def test_linear_link_in_both_phases():
    dim, alpha, theta, rho, nu, kappa = 50, 0.1, 0.3, -0.4, 0.5, 0.6
    for beta in (0.3, 0.8):
        task = al.SingleLocation(dim, log_length=alpha * dim)
        risk = al.mean_field_risk(task, al.SoftmaxAttention(beta))
        r, critical = min(beta, np.sqrt(2 * alpha)), np.sqrt(2 * alpha)
        psi = critical if beta > critical else alpha / beta + beta / 2
        p = expit((task.signal * kappa - psi) * beta * dim)
        wanted = dim * (p * task.signal * theta + (1 - p) * r * rho) ** 2
        wanted += 0.5 * (p**2 - 2 * p * nu + 1)
        wanted += (1 - p) ** 2 * max(1 - critical / beta, 0) * (1 - rho**2)
        assert risk(al.Overlaps(kappa, nu, theta, 0.0, rho)) == pytest.approx(wanted)


SETTINGS = [  # d, log(L - 1), β, what is reached relative to the risk
    (10, 5.0, 1.0, 3e-5),
    (100, 30.0, 1.0, 1e-7),  # condensed
    (100, 30.0, 0.5, 2e-7),  # uncondensed
    (60, 9.0, 0.5477, 3e-6),  # on the condensation line
    (200, 0.7, 0.1, 1e-5),  # three tokens
    (40, 6.0, 0.05, 1e-6),  # hot: β√d < 3
]


def test_refined_risk_against_the_exact_one():
    for dim, log_others, beta, reached in SETTINGS:
        log_length = float(np.logaddexp(log_others, 0.0))
        plain, refined = risks(dim, log_length, beta, token_std=0.6, noise_std=0.1)
        wanted = exact_linear(dim, log_others, beta, 0.8, 0.6, ROWS.stack())
        true = wanted.sum(axis=0) + 0.01
        parts, _, error = evaluated(refined)
        assert sum(parts) == pytest.approx(true, rel=reached)
        assert np.all(np.abs(sum(parts) - true) <= error + 1e-12)
        assert np.abs(np.stack(parts[:4]) - wanted).max() <= 100 * reached * np.abs(wanted).max()
        assert parts.label_noise == pytest.approx(0.01)
        assert np.max(np.abs(sum(evaluated(plain)[0]) / true - 1)) > 30 * reached


def sampled(task, student, row, prompts=100_000):
    """The risk's mean and standard error from drawn projections."""
    _, nu, theta, eta, rho = row
    rng = np.random.default_rng(4)
    factor = np.linalg.cholesky(np.array([[1, rho, eta], [rho, 1, nu], [eta, nu, 1]]))
    own = task.token_std * factor @ rng.standard_normal((3, prompts))
    own[:2] += task.signal * np.sqrt(task.dim) * np.array([[row[0]], [theta]])
    scores, rest = rng.standard_normal((2, prompts, task.length))
    values = rho * scores + np.sqrt(1 - rho**2) * rest
    scores[:, 0], values[:, 0] = own[:2]
    weights = softmax(student.inverse_temperature * np.sqrt(task.dim) * scores, axis=1)
    losses = (np.sum(weights * np.tanh(values), axis=1) - own[2]) ** 2
    return losses.mean(), losses.std() / np.sqrt(prompts)


def test_error_at_leading_order_and_other_links():
    task, student = al.SingleLocation(12, 24, token_std=0.6), al.SoftmaxAttention(0.8, "tanh")
    risk = al.mean_field_risk(task, student)
    value, error = risk(ROWS), risk.error(ROWS)
    assert np.all(np.isfinite(error))
    for i in (0, 1, 4):
        mean, noise = sampled(task, student, ROWS.stack()[i])
        distance = abs(value[i] - mean)
        assert distance > 5 * noise
        assert distance - 4 * noise < error[i] < distance + 4 * noise + 0.05  # made by the refined


def test_order_in_dimension_of_the_leading_order():
    alpha, beta, dims = 0.2, 1.0, (150, 300)
    m = critical = np.sqrt(2 * alpha)
    at = al.Overlaps(0.2, 0.5, 0.0, 0.0, np.array([0.0, 0.4]))  # dark: 0.2 c < β_c
    constant = -gammaln(1 - m) - np.euler_gamma - m * digamma(1 - m)
    for dim in dims:
        gaps = []
        for cold in (beta, critical):
            plain, refined = (sum(evaluated(risk, at)[0]) for risk in risks(dim, alpha * dim, cold))
            gaps.append(plain - refined)
        level = 0.5 * np.log(2 * np.pi * critical**2 * dim) + constant
        wanted = 2 * at.rho**2 * level - (1 - at.rho**2) * level / (beta * critical * dim)
        assert gaps[0] == pytest.approx(wanted, rel=0.09)
        # on the condensation line
        width = np.sqrt(2 / np.pi) / (critical * np.sqrt(dim))
        assert gaps[1][0] == pytest.approx(-width, rel=0.07)
        assert gaps[1][1] == pytest.approx(2 * 0.16 * critical**2 * dim * width, rel=0.06)


def test_gradients_against_differences():
    step = 1e-5
    for risk in risks(100, 30.0, 1.0, token_std=0.6):
        slopes = evaluated(risk)[1]
        assert np.all(np.isfinite(slopes))
        for i in range(5):
            ends = [ROWS.stack()[:3] + sign * step * np.eye(5)[i] for sign in (1, -1)]
            up, down = (sum(evaluated(risk, al.Overlaps.unstack(end))[0]) for end in ends)
            wanted = (up - down) / (2 * step)
            assert slopes[:3, i] == pytest.approx(wanted, rel=1e-5, abs=1e-7 * np.abs(slopes).max())


def test_where_it_applies():
    plain, refined = risks(100, 5.0, 0.8)
    where = plain.applies(al.Overlaps([1.0, 0.45, 0.0], 0.5))
    assert where.retrieval.tolist() == [True, True, False]
    assert where.condensed.all()
    assert where.applies.tolist() == [True, False, True]  # κ = 0.45 is near p = 1/2
    assert where.condensation_distance == pytest.approx(10 * (0.8 - np.sqrt(0.1)))
    gap = 0.45 * np.sqrt(0.5) - np.sqrt(0.1)
    assert where.retrieval_distance[1] == pytest.approx(abs(gap) * 10 / np.sqrt(0.5))
    assert refined.applies(al.Overlaps([1.0, 0.45], 0.5)).applies.all()
    with pytest.raises(InvalidArgument):
        plain.applies((1.0, 0.5))


def test_temperatures_of_a_schedule():
    betas = np.linspace(0.5, 1.1, len(ROWS.stack()))
    for risk in risks(100, 30.0, 1.0, token_std=0.6):
        batch = sum(evaluated(risk, ROWS, betas)[0])
        for i in (0, -1):
            other = dataclasses.replace(risk.at_scale(betas[i]), nodes=risk.nodes)
            assert batch[i] == pytest.approx(sum(evaluated(other)[0])[i], rel=1e-9)
    assert risk.resolving(np.array([0.1, 4.0])).nodes >= risk.nodes


TASK, STUDENT = al.SingleLocation(10, 100), al.SoftmaxAttention(1.0)
HEAVY = al.Link("heavy", lambda x: np.exp(0.3 * x * x))  # E σ² is infinite


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: al.mean_field_risk("task", STUDENT), "task"),
        (lambda: al.mean_field_risk(TASK, al.PointwiseAttention()), "student"),
        (lambda: al.mean_field_risk(TASK, STUDENT, refined=1), "refined"),
        (lambda: al.mean_field_risk(al.SingleLocation(10, 1), STUDENT), "log_length"),
        (lambda: al.mean_field_risk(al.SingleLocation(10, log_length=601), STUDENT), "log_length"),
        (lambda: al.mean_field_risk(TASK, STUDENT).at_scale(0.0), "scale"),
        (lambda: al.mean_field_risk(TASK, STUDENT)((1, 1)), "overlaps"),
        (lambda: al.mean_field_risk(TASK, al.SoftmaxAttention(1.0, HEAVY)), "link"),
    ],
)
def test_bad_input_is_refused(call, name):
    with pytest.raises(InvalidArgument) as error:
        call()
    assert error.value.name == name
