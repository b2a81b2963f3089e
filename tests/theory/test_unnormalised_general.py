"""Unnormalised attention of any activation: against sampled tokens, closed forms and plain integrals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

import attnlab as al
from attnlab.errors import InvalidArgument
from attnlab.students import Activation, MergedAttention, elementwise
from attnlab.theory.unnormalised_general import quadrature_risk

RNG = np.random.default_rng(11)
D = 3


def covariance(d):
    root = RNG.normal(size=(d, d))
    return root @ root.T / d + 0.2 * np.eye(d)


def block_layer(size, name):
    """A layer whose value row reads covariates too."""
    layer = MergedAttention.sparse(size * RNG.normal(size=(D, D)), value=0.8, normalization=name)
    P = np.array(layer.P)
    P[D, :D] = 0.3 * RNG.normal(size=D)
    return MergedAttention(P, layer.Q, normalization=name)


FUNCTIONS = {
    "tanh": (np.tanh, 0.6),
    "exp": (np.exp, 0.06),
}


@pytest.mark.parametrize("name", ["tanh", "exp"])
def test_against_sampled_tokens_and_derivatives_by_differences(name):
    function, size = FUNCTIONS[name]
    samples, zs = 20_000, []
    for n in (1, 2, 5, 9):
        task = al.InContextRegression(
            D, n, noise_std=0.3, covariance=covariance(D), prior=covariance(D)
        )
        layer = block_layer(size, f"{name}-sum")
        x = RNG.normal(size=(samples, n + 1, D)) @ np.linalg.cholesky(task.covariance).T
        beta = RNG.normal(size=(samples, D)) @ np.linalg.cholesky(task.prior).T
        y = np.einsum("sld,sd->sl", x, beta) + 0.3 * RNG.normal(size=(samples, n + 1))
        weights = function(np.einsum("sd,de,sle->sl", x[:, n], layer.A, x[:, :n]))
        values = x[:, :n] @ layer.P[D, :D] + layer.P[D, D] * y[:, :n]
        loss = (np.sum(weights * values, -1) - y[:, n]) ** 2
        risk = al.population_risk(task, layer)
        zs.append((loss.mean() - risk.value) / (loss.std() / np.sqrt(samples)))
    assert np.abs(zs).max() < 4
    assert risk.method == ("closed form" if name == "exp" else "quadrature")
    assert risk.error < 1e-11 * risk.value
    slope = risk.gradient(layer)
    along = np.zeros((2, D + 1, D + 1))
    along[0, D], along[1, :D, :D] = RNG.normal(size=D + 1), RNG.normal(size=(D, D))
    sides = [
        risk(
            MergedAttention(
                layer.P + s * along[0], layer.Q + s * along[1], normalization=layer.normalization
            )
        )
        for s in (1e-4, -1e-4, 2e-4, -2e-4)
    ]
    wanted = (8 * (sides[0] - sides[1]) - (sides[2] - sides[3])) / 12e-4
    found = np.sum(slope.P * along[0]) + np.sum(slope.Q * along[1])
    assert found == pytest.approx(wanted, rel=1e-7)


def test_in_one_dimension_against_a_plain_double_integral():
    """gelu at d = 1: two integrals by Gauss-Legendre on plain intervals, at twice the nodes too."""
    n, a, scale, noise = 4, 0.9, 0.4, 0.25
    task = al.InContextRegression(1, n, noise_std=0.5, prior=[[1.0]])
    layer = MergedAttention.sparse([[a]], value=scale, normalization="gelu-sum")
    risk = al.population_risk(task, layer)

    def plain(count):
        unit, weight = np.polynomial.legendre.leggauss(count)
        t = np.concatenate([4.5 * (unit - 1), 4.5 * (unit + 1)])  # -9 to 0, 0 to 9
        w = np.tile(4.5 * weight, 2) * stats.norm.pdf(t)
        score = a * t[:, None] * t  # query, example
        g = score * special.ndtr(score)
        first, second = (g * t) @ w, (g**2 * (t**2 + noise)) @ w
        squares = n * (n - 1) * first**2 + n * second
        return float(w @ (scale**2 * squares - 2 * scale * n * first * t + t**2 + noise))

    assert plain(60) == pytest.approx(plain(120), rel=1e-13)
    assert abs(risk.value - plain(120)) < risk.error + 1e-13
    assert risk.error < 1e-11


def test_an_activation_of_ones_own_agrees_with_the_closed_form():
    task = al.InContextRegression(D, 5, covariance=covariance(D), prior=covariance(D))
    layer = block_layer(1.0, "relu")
    own = elementwise(Activation("mine", lambda s: jnp.maximum(s, 0.0), (0.0,)))
    mine = MergedAttention(layer.P, layer.Q, normalization=own)
    risk = al.population_risk(task, mine)
    assert risk.method == "quadrature"
    closed = al.population_risk(task, layer)
    assert abs(risk.value - closed.value) <= risk.error < 1e-9
    slope = closed.gradient(layer)
    np.testing.assert_allclose(risk.gradient(mine).Q[:D, :D], slope.Q[:D, :D], rtol=1e-10)


def test_no_score_at_all():
    task = al.InContextRegression(D, 5, noise_std=0.5)
    # exp: the sum of all responses, each of variance 1 + σ²
    for name, added in (("tanh", 0.0), ("exp-sum", 5 * 1.25)):
        layer = MergedAttention.sparse(np.zeros((D, D)), normalization=name)
        risk = al.population_risk(task, layer)
        assert risk.value == pytest.approx(1.25 + added, rel=1e-13)
        assert np.isfinite(risk.gradient(layer).Q).all()


def test_inside_transformations():
    task = al.InContextRegression(D, 5)
    layer = block_layer(0.5, "tanh")
    risk = al.population_risk(task, layer)
    inside = jax.grad(lambda p: risk(MergedAttention(p, layer.Q, normalization="tanh")))(
        jnp.asarray(layer.P)
    )
    np.testing.assert_allclose(inside, risk.gradient(layer).P, rtol=1e-4, atol=1e-5)


def test_bad_arguments_are_named():
    task = al.InContextRegression(2, 4)
    with pytest.raises(InvalidArgument, match="responses of examples"):
        al.population_risk(task, MergedAttention(np.eye(3), np.ones((3, 3)), normalization="tanh"))
    with pytest.raises(InvalidArgument, match="below 1/2"):
        al.population_risk(task, MergedAttention.sparse(np.eye(2), normalization="exp"))
    with pytest.raises(InvalidArgument, match="standard deviation"):
        al.population_risk(task, MergedAttention.sparse(1e5 * np.eye(2), normalization="tanh"))
    with pytest.raises(InvalidArgument, match="softmax"):
        quadrature_risk(task, MergedAttention(np.eye(3), np.eye(3), normalization="softmax"))


def test_the_exponential_up_to_the_border_of_its_range():
    """Against the average over |x_q|² by SciPy's quadrature, where the second moment diverges."""
    d, n, c = 3, 7, 0.495
    task = al.InContextRegression(d, n, noise_std=0.0, prior=np.eye(d))
    layer = MergedAttention.sparse(c * np.eye(d), normalization="exp-sum")
    chi = stats.chi2(d)

    def integrand(r):
        q, density = c**2 * r, chi.logpdf(r)  # the density falls only a little faster than e^{2q}
        one, two = np.exp(q + density), np.exp(2 * q + density)
        kk = c**2 * r  # |k|² on average over w, and k·w = c r
        square = n * d * two + (n * (n - 1) * one + 4 * n * two) * kk
        return square - 2 * n * np.exp(q / 2 + density) * c * r

    wanted = d + integrate.quad(integrand, 0, 4000, limit=500, epsabs=0, epsrel=1e-10)[0]
    risk = al.population_risk(task, layer)
    assert risk.value == pytest.approx(wanted, rel=1e-8)
    assert risk.error < 1e-9 * risk.value


def test_another_activation_of_a_known_name_is_not_taken_for_it():
    own = elementwise(Activation("relu", lambda s: jnp.maximum(s, 0.0) + 0.1 * s, (0.0,)))
    task = al.InContextRegression(2, 4, prior=np.eye(2))
    risk = al.population_risk(task, MergedAttention.sparse(np.eye(2), normalization=own))
    assert risk.method == "quadrature"


def test_a_risk_made_inside_of_a_transformation_and_scores_with_responses():
    task = al.InContextRegression(2, 4, prior=np.eye(2))
    known = MergedAttention.sparse(0.3 * np.eye(2), normalization="relu")

    def value(P):
        return al.population_risk(task, MergedAttention(P, known.Q, normalization="relu")).value

    slope = jax.grad(value)(jnp.asarray(known.P))
    np.testing.assert_allclose(slope, al.population_risk(task, known).gradient(known).P, rtol=1e-5)
    Q = np.array(known.Q)
    Q[2, 0] = 0.5  # tanh: not known, and when traced not refused

    def other(Q):
        return al.population_risk(task, MergedAttention(known.P, Q, normalization="tanh")).value

    assert np.isnan(jax.jit(other)(jnp.asarray(Q)))
    assert np.isfinite(jax.jit(other)(jnp.asarray(known.Q)))


@pytest.mark.parametrize("name", ["relu", "tanh", "exp"])
def test_risks_beyond_floating_point_are_refused(name):
    task = al.InContextRegression(2, 4, prior=np.eye(2))
    layer = MergedAttention.sparse(1e200 * np.eye(2), normalization=name)
    with pytest.raises(InvalidArgument):
        assert al.population_risk(task, layer).value
