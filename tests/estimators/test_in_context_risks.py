"""Exact risks of the estimators: against sampling, each other, limits and optimality."""

import math

import jax
import numpy as np
import pytest

import attnlab as al
from attnlab import estimators as est
from attnlab.tasks import kac_murdock_szego

RNG = np.random.default_rng(1)
G = RNG.normal(size=(4, 4)) + 3 * np.eye(4)
ISOTROPIC = al.InContextRegression(4, 12)
CORRELATED = al.InContextRegression(4, 12, covariance=kac_murdock_szego(4))


def linear_maps(task, rng, prompts, debiased=False):
    """Sampled `XᵀX` and `Xᵀy`, queries and answers, by NumPy."""
    root = np.linalg.cholesky(task.covariance_matrix)
    X = rng.normal(size=(prompts, task.length, task.dim)) @ root.T
    xq = rng.normal(size=(prompts, task.dim)) @ root.T
    beta = rng.normal(size=(prompts, task.dim)) / math.sqrt(task.dim)
    noise = task.noise_std
    y = np.einsum("bld,bd->bl", X, beta) + noise * rng.normal(size=X.shape[:2])
    yq = np.sum(xq * beta, 1) + noise * rng.normal(size=prompts)
    X = X - X.mean(1, keepdims=True) if debiased else X
    return np.swapaxes(X, 1, 2) @ X, np.einsum("bld,bl->bd", X, y), xq, yq


def agrees(task, risk, estimator, debiased=False, prompts=40_000):
    """z-score of the sampled risk of `beta = estimator(W, Xᵀy)`."""
    W, Xy, xq, yq = linear_maps(task, np.random.default_rng(3), prompts, debiased)
    errors = (np.sum(estimator(W, Xy) * xq, 1) - yq) ** 2
    z = (errors.mean() - risk.value) / math.hypot(
        errors.std() / math.sqrt(prompts), risk.error if risk.method == "monte carlo" else 0.0
    )
    assert abs(z) < 4, (risk, errors.mean(), z)


def descend(step, steps, length, inverse):
    def estimator(W, Xy):
        beta = np.zeros_like(Xy)
        for _ in range(steps):
            beta = beta + step / length * (Xy - np.einsum("bde,be->bd", W, beta)) @ inverse.T
        return beta

    return estimator


@pytest.mark.parametrize("task", [ISOTROPIC, CORRELATED], ids=["isotropic", "correlated"])
@pytest.mark.parametrize("debiased", [False, True])
def test_gradient_steps(task, debiased):
    one = est.gradient_descent_risk(task, step=0.7, debiased=debiased, preconditioner=G)
    assert one.method == "closed form"
    agrees(task, one, descend(0.7, 1, 12, np.linalg.inv(G).T), debiased)
    sigma = task.covariance_matrix
    options = {"step": 0.5, "debiased": debiased, "preconditioner": 2 * sigma}
    three = est.gradient_descent_risk(task, steps=3, **options)
    assert three.method == "quadrature"
    agrees(task, three, descend(0.5, 3, 12, np.linalg.inv(2 * sigma)), debiased)
    key = jax.random.key(0)
    options = {"step": 0.5, "debiased": debiased, "preconditioner": G, "key": key}
    two = est.gradient_descent_risk(task, steps=2, **options)
    assert two.method == "monte carlo"
    agrees(task, two, descend(0.5, 2, 12, np.linalg.inv(G).T), debiased)


@pytest.mark.parametrize("penalty", [0.4, 5.0])
def test_ridge(penalty):
    def estimator(W, Xy):
        return np.linalg.solve(W + penalty * np.eye(4), Xy[..., None])[..., 0]

    exact = est.ridge_risk(ISOTROPIC, penalty=penalty)
    assert exact.method == "quadrature"
    assert exact.error < 1e-13
    agrees(ISOTROPIC, exact, estimator)
    agrees(
        CORRELATED, est.ridge_risk(CORRELATED, penalty=penalty, key=jax.random.key(1)), estimator
    )


def test_least_squares():
    def estimator(W, Xy):
        return np.einsum("bde,be->bd", np.linalg.pinv(W, rcond=1e-10, hermitian=True), Xy)

    for task in (ISOTROPIC, CORRELATED, al.InContextRegression(9, 4)):
        risk = est.ordinary_least_squares_risk(task)
        assert risk.method == "closed form"
        agrees(task, risk, estimator, prompts=20_000)
    few = al.InContextRegression(9, 4, covariance=kac_murdock_szego(9))
    agrees(
        few, est.ordinary_least_squares_risk(few, key=jax.random.key(2)), estimator, prompts=20_000
    )
    for length in (3, 4, 5):
        assert est.ordinary_least_squares_risk(al.InContextRegression(4, length)).value == math.inf
    quiet = al.InContextRegression(4, 3, noise_std=0.0)
    assert est.ordinary_least_squares_risk(quiet).value == pytest.approx(0.25)
    assert est.bayes_risk(quiet).value == pytest.approx(0.25)
    assert est.bayes_risk(quiet.with_length(4)).value == 0.0


@pytest.mark.parametrize(("d", "L"), [(1, 1), (5, 40), (30, 12)])
def test_the_printed_formulas_of_one_step(d, L):
    task, noise, eta = al.InContextRegression(d, L), 0.1, 0.6
    vanilla = noise + 1 - 2 * eta + eta**2 * (1 + (d + 1) / L + d * noise / L)
    assert est.gradient_descent_risk(task, step=eta).value == pytest.approx(vanilla, rel=1e-13)
    m = L - 1
    debiased = noise + 1 - 2 * eta * m / L + eta**2 * m * (m + d + 1 + d * noise) / L**2
    found = est.gradient_descent_risk(task, step=eta, debiased=True)
    assert found.value == pytest.approx(debiased, rel=1e-13)
    best = est.optimal_step(task)
    assert best == pytest.approx(L / (L + d + 1 + d * noise), rel=1e-13)
    least = est.gradient_descent_risk(task, step=best).value
    assert least == pytest.approx(noise + 1 - best, rel=1e-13)
    star = est.optimal_step(task, debiased=True)
    assert star == pytest.approx(1 / (1 + (1 + noise) * d / L), rel=1e-13)
    at_star = est.gradient_descent_risk(task, step=star, debiased=True).value
    assert at_star == pytest.approx(noise + 1 - star * m / L, rel=1e-13)
    assert least < at_star


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize(
    "task",
    [CORRELATED, al.InContextRegression(4, 9, supports=[(0, 1, 2), (2, 3)])],
    ids=["one", "two"],
)
def test_the_best_preconditioner_is_stationary_and_beats_its_neighbours(task, debiased):
    best = est.optimal_preconditioner(task, debiased=debiased)

    def risk(matrix):
        options = {"step": 1.0, "debiased": debiased, "preconditioner": matrix}
        return est.gradient_descent_risk(task, **options).value

    for direction in RNG.normal(size=(10, 4, 4)):
        up, down = risk(best + 1e-4 * direction), risk(best - 1e-4 * direction)
        assert min(up, down) > risk(best)
        assert abs(up - down) < 1e-8
    assert est.optimal_step(task, debiased=debiased, preconditioner=best) == pytest.approx(1.0)


def test_independent_tasks():
    task = al.InContextRegression(6, 40, supports=[(0, 1, 2, 3), (2, 3, 4, 5)])
    found = est.independent_tasks_risk(task)
    # one task of four coordinates with prior variance 1/6, twice
    eta = 1 / (1 + (4 + 6 * 0.1) / 40)
    assert found.value == pytest.approx(2 * (0.1 + 4 / 6 * (1 - eta * 39 / 40)), rel=1e-13)
    shared = est.optimal_preconditioner(task, debiased=True)
    together = est.gradient_descent_risk(task, step=1.0, debiased=True, preconditioner=shared)
    assert found.value < together.value
    assert est.zero_prediction_risk(task) == pytest.approx(2 * (0.1 + 4 / 6))
    same = est.independent_tasks_risk(al.InContextRegression(6, 40), debiased=False)
    step = est.optimal_step(al.InContextRegression(6, 40))
    assert same.value == pytest.approx(1.1 - step, rel=1e-13)
    assert est.independent_tasks_risk(task, step=0.0).value == pytest.approx(
        est.zero_prediction_risk(task)
    )


def test_order_of_the_estimators():
    """Bayes is best; more steps, each at its best rate, come closer to it."""
    task = al.InContextRegression(5, 20)
    bayes = est.bayes_risk(task).value
    risks = []
    for steps in (1, 2, 4, 8):
        eta = est.optimal_step(task, steps=steps)
        risks.append(est.gradient_descent_risk(task, step=eta, steps=steps).value)
        for near in (0.99 * eta, 1.01 * eta):
            assert est.gradient_descent_risk(task, step=near, steps=steps).value > risks[-1]
    assert np.all(np.diff(risks) < 0)
    assert bayes < risks[-1] < 1.1 * bayes
    for penalty in (0.45, 0.55):
        assert est.ridge_risk(task, penalty=penalty).value > bayes
    assert bayes < est.ordinary_least_squares_risk(task).value
    assert est.ridge_risk(task, penalty=1e12).value == pytest.approx(1.1)
    assert est.gradient_descent_risk(task, step=0.3, steps=0).value == pytest.approx(1.1)
    assert float(est.bayes_risk(task)) == bayes


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: est.ridge_risk(CORRELATED), "key"),
        (lambda: est.gradient_descent_risk(CORRELATED, step=0.1, steps=2), "key"),
        (lambda: est.ridge_risk(ISOTROPIC, penalty=-1.0), "penalty"),
        (lambda: est.gradient_descent_risk(ISOTROPIC, step=np.nan), "step"),
        (lambda: est.gradient_descent_risk(ISOTROPIC, step=1.0, steps=-1), "steps"),
        (lambda: est.gradient_descent_risk("task", step=1.0), "task"),
        (lambda: est.optimal_step(CORRELATED, steps=2), "steps"),
        (
            lambda: est.gradient_descent_risk(ISOTROPIC, step=1.0, preconditioner=np.ones((4, 4))),
            "preconditioner",
        ),
        (lambda: est.bayes_risk(al.InContextRegression(3, 5, supports=[(0, 1)])), "supports"),
        (lambda: est.gradient_descent_risk(ISOTROPIC, step=1e3, steps=200), "step"),
        (lambda: est.gradient_descent_risk(ISOTROPIC, step=1e200), "step"),
        (lambda: est.independent_tasks_risk(ISOTROPIC, step=[1.0, 2.0]), "step"),
        (lambda: est.independent_tasks_risk(ISOTROPIC, step="a"), "step"),
        (lambda: est.independent_tasks_risk(ISOTROPIC, step=math.nan), "step"),
        (lambda: est.independent_tasks_risk(ISOTROPIC, step=1e200), "step"),
        (
            lambda: est.optimal_preconditioner(al.InContextRegression(3, 5, supports=[(0, 1)])),
            "supports",
        ),
    ],
)
def test_bad_input_is_told(call, name):
    with pytest.raises(al.InvalidArgument) as caught:
        call()
    assert caught.value.name == name


@pytest.mark.parametrize(("dim", "length"), [(4, 6), (6, 4)])
@pytest.mark.filterwarnings("error")
def test_penalties_at_both_ends_of_floating_point(dim, length):
    """Ridge between least squares and the prediction 0, without a warning."""
    task = al.InContextRegression(dim, length, noise_std=0.3)
    least = est.ordinary_least_squares_risk(task)
    for penalty in (1e-300, 1e-200):
        risk = est.ridge_risk(task, penalty=penalty)
        assert abs(risk.value - least.value) <= risk.error + least.error
    for penalty in (1e200, 1e300, 1.7e308):
        risk = est.ridge_risk(task, penalty=penalty)
        assert abs(risk.value - est.zero_prediction_risk(task)) <= risk.error
