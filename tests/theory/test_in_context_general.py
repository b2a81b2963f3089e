"""The risk of heads with any circuits, covariance and tasks against sampling and the radial one."""

import jax
import numpy as np
import pytest

from attnlab.errors import InvalidArgument
from attnlab.students import KernelHeads
from attnlab.tasks import InContextRegression, kac_murdock_szego
from attnlab.theory import monte_carlo_risk, population_risk
from attnlab.theory.in_context_general import general_in_context_risk

INVERSE = np.linalg.inv(kac_murdock_szego(4))
CASES = [
    # covariance, supports, omega, mu
    (True, None, [0.12 * INVERSE, -0.12 * INVERSE], [3.0, -3.5]),
    (False, [(0, 1, 2), (1, 3)], [[0.3, 0.1, 0.0, -0.2], [-0.2, 0.2, 0.3, 0.1]], [[1, 2], [-1, 1]]),
]


def test_isotropic_scalar_heads_have_the_radial_risk():
    """Also the gradient, at a head that is exactly zero."""
    task, heads = InContextRegression(4, 30), KernelHeads([0.25, 0.0], [1.5, -1.0])
    general, radial = general_in_context_risk(task, heads), population_risk(task, heads)
    assert general.method == "quadrature and quasi-Monte Carlo"
    assert abs(general.value - radial.value) <= float(general.error) < 2e-3
    slopes, h = general.gradient(heads), 1e-4
    for k, step in enumerate(h * np.eye(4)):
        up, down = (
            radial(KernelHeads(heads.omega + s * step[:2], heads.mu + s * step[2:]))
            for s in (1, -1)
        )
        mine = np.concatenate([slopes.omega, slopes.mu])[k]
        assert abs(mine - (up - down) / (2 * h)) < 3e-3


@pytest.mark.parametrize(("covariance", "supports", "omega", "mu"), CASES)
def test_sampling(covariance, supports, omega, mu):
    sigma = kac_murdock_szego(4) if covariance else None
    task = InContextRegression(4, 30, covariance=sigma, supports=supports)
    heads = KernelHeads(np.array(omega), np.array(mu, float))
    risk = population_risk(task, heads)
    mean, error = monte_carlo_risk(task, heads, None, key=jax.random.key(2), samples=60_000)
    assert abs(mean - risk.value) < 4 * error + risk.error
    assert float(risk.error) < 0.01 * risk.value
    parts = risk.components()
    np.testing.assert_allclose(parts["total"], risk.value, rtol=1e-13)
    np.testing.assert_allclose(parts["label_noise"], 0.1 * task.n_outputs, rtol=1e-13)


def test_large_lengths_are_preconditioned_gradient_descent():
    """As `L → ∞` the heads compute `x_qᵀ W Σ β` with `W = Σ_h μ_h Ω_hᵀ`, exactly: no Monte Carlo is
    left, and both heads' circuits enter only through `W`."""
    sigma = kac_murdock_szego(4)
    task = InContextRegression(4, 10**12, covariance=sigma)
    rng = np.random.default_rng(0)
    omega, mu = rng.normal(size=(2, 4, 4)) * 0.1, np.array([1.3, -0.7])
    risk = population_risk(task, KernelHeads(omega, mu))
    gap = np.eye(4) - np.einsum("h,hij->ij", mu, omega).T @ sigma
    limit = np.trace(gap.T @ sigma @ gap) / 4 + 0.1
    np.testing.assert_allclose(risk.value, limit, rtol=1e-9)
    assert float(risk.error) < 1e-9


def test_one_example_and_refusals():
    task = InContextRegression(4, 1, covariance=kac_murdock_szego(4))
    heads = KernelHeads([0.3, 0.1], [0.5, 0.2])
    risk = population_risk(task, heads)
    assert abs(risk.value - 1.1 * (1 + 0.7**2)) < risk.error
    with pytest.raises(InvalidArgument, match="omega = "):
        population_risk(task, KernelHeads(np.ones((2, 3)), [1.0, 2.0]))
    with pytest.raises(InvalidArgument, match="mu = "):
        population_risk(task, KernelHeads([0.1, 0.2], np.ones((2, 3))))
