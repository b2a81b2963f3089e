"""Descent and flow of kernel heads: against the reduced equations, closed forms, and each other."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import attnlab as al
from attnlab.errors import InvalidArgument
from attnlab.theory import approximate_risk

D, L, NOISE = 5, 40, 0.1
LAMBDA = (1 + NOISE) / L
TASK = al.InContextRegression(D, L)
OPPOSITE = al.KernelHeads([1e-3, -1e-3], [1e-3, -1e-3])


class Springs(eqx.Module):
    """`½ Σ a ω² + ½ Σ b μ²`: exponential decay; with `fall`, a quartic without bottom."""

    a: jnp.ndarray
    b: jnp.ndarray
    fall: float = 0.0

    def value_of(self, omega, mu):
        return jnp.sum(self.a * omega**2 + self.b * mu**2 - self.fall * omega**4, -1) / 2


@pytest.fixture(scope="module")
def flow():
    times = np.geomspace(1, 1e9, 91)
    return al.dynamics.gradient_flow(
        approximate_risk(TASK, OPPOSITE), OPPOSITE, times=times, rate=0.5
    )


def reduced(t, state):
    """Eq. (D.4) of he2025, written out."""
    phi, rho = state
    up, down = np.exp(D * rho**2), np.exp(-D * rho**2)
    return [
        rho - 2 * phi * rho**2 - LAMBDA * phi * (up - down),
        phi - 2 * phi**2 * rho - LAMBDA * D * phi**2 * rho * (up + down),
    ]


def test_opposite_heads_follow_the_reduced_equations(flow):
    assert flow.omega.dims == ("run", "time", "head")
    assert (flow.status == "ok").all()
    # the symmetry is kept by the equations, and by their integration
    assert abs(flow.omega.sum("head")).max() < 1e-12
    assert abs(flow.mu.sum("head")).max() < 1e-10
    solution = solve_ivp(
        reduced, (0, 1e9), [1e-3, 1e-3], method="LSODA", t_eval=flow.time, rtol=1e-9, atol=1e-13
    )
    np.testing.assert_allclose(flow.mu[0, :, 0], solution.y[0], rtol=1e-6)
    np.testing.assert_allclose(flow.omega[0, :, 0], solution.y[1], rtol=1e-6)
    risk = approximate_risk(TASK, OPPOSITE)
    heads = al.KernelHeads(flow.omega[0].values, flow.mu[0].values)
    np.testing.assert_allclose(flow.risk[0], risk(heads), rtol=1e-13)
    assert (np.diff(flow.risk[0]) < 1e-12).all()


def test_the_phases_of_the_flow(flow):
    t, omega, mu = flow.time.values, flow.omega[0, :, 0].values, flow.mu[0, :, 0].values
    early = t < 3
    np.testing.assert_allclose(omega[early], 1e-3 * np.exp(t[early]), rtol=1e-3)
    assert 0.56 < omega.max() < 0.58
    late = t > 1e7
    np.testing.assert_allclose(omega[late], (4 * LAMBDA * D**3 * t[late]) ** (-1 / 6), rtol=1e-4)
    assert 2 * omega[-1] * mu[-1] == pytest.approx(1 / (1 + LAMBDA * D), rel=1e-5)


def test_descent_is_the_plain_loop_and_converges_to_the_flow():
    starts = al.KernelHeads(
        [[0.1, -0.2], [0.3, 0.1], [-0.1, 0.2]], [[0.5, -0.4], [1.0, 0.2], [0.1, 0.3]]
    )
    risk = approximate_risk(TASK, starts)
    gaps = []
    goal = al.dynamics.gradient_flow(
        risk, starts, times=[2.0], tolerance=1e-11, solver="explicit"
    ).omega[:, 0]
    for step in (0.02, 0.01, 0.005):
        run = al.dynamics.gradient_descent(
            risk, starts, step_size=step, steps=round(2 / step), save_every=round(1 / step)
        )
        gaps.append(np.abs(run.omega[:, -1] - goal).max())
    assert run.step.values.tolist() == [0, 200, 400]
    np.testing.assert_allclose(np.array(gaps[:-1]) / gaps[1:], 2, atol=0.1)
    omega, mu = np.array(starts.omega), np.array(starts.mu)
    sizes = np.array([0.02, 0.01, 0.03])
    run = al.dynamics.gradient_descent(risk, starts, step_size=sizes, steps=3)
    for i in range(4):
        np.testing.assert_allclose(run.omega[:, i], omega, rtol=1e-12)
        np.testing.assert_allclose(run.mu[:, i], mu, rtol=1e-12)
        np.testing.assert_allclose(run.risk[:, i], risk(al.KernelHeads(omega, mu)), rtol=1e-13)
        slope = risk.gradient(al.KernelHeads(omega, mu))
        omega = omega - sizes[:, None] * np.asarray(slope.omega)
        mu = mu - sizes[:, None] * np.asarray(slope.mu)
    assert run.attrs["method"] == "approximation"


def test_a_risk_of_ones_own_and_the_clock():
    springs = Springs(np.array([1.0, 2.0]), np.array([3.0, 4000.0]))
    starts = al.KernelHeads([[1.0, 2.0]], [[3.0, 4.0]])
    times = np.array([0.0, 0.5, 3.0])
    runs = {
        solver: al.dynamics.gradient_flow(
            springs, starts, times=times, rate=2.0, solver=solver, tolerance=1e-10
        )
        for solver in ("implicit", "explicit")
    }
    for run in runs.values():
        for name, start, rates in (
            ("omega", starts.omega, springs.a),
            ("mu", starts.mu, springs.b),
        ):
            exact = np.asarray(start)[0] * np.exp(-2.0 * rates * times[:, None])
            np.testing.assert_allclose(run[name][0], exact, rtol=1e-7, atol=1e-9)


def test_a_run_that_fails_says_how_and_disturbs_no_other():
    falling = Springs(np.ones(1), np.ones(1), 1.0)
    starts = al.KernelHeads([[0.1], [2.0]], [[1.0], [1.0]])
    run = al.dynamics.gradient_flow(
        falling, starts, times=[0.05, 5.0], solver="explicit", max_steps=300
    )
    assert run.status.values.tolist() == ["ok", "max_steps"]
    assert np.isfinite(run.omega[:, 0]).all()  # what was reached stays
    assert np.isnan(run.omega[1, 1]).all()
    assert run.omega[0, 1, 0] == pytest.approx(0.1 * np.exp(-5), rel=0.02)
    down = al.dynamics.gradient_descent(falling, starts, step_size=0.5, steps=20, save_every=20)
    assert down.status.values.tolist() == ["ok", "diverged"]


def test_descent_on_the_exact_risk():
    start, step = al.KernelHeads([0.2], [1.0]), 1e-4
    risk = al.population_risk(al.InContextRegression(3, 10), start)
    run = al.dynamics.gradient_descent(risk, start, step_size=step, steps=2)
    assert float(run.risk[0, 0]) == pytest.approx(float(risk.value), rel=1e-9)
    moved = np.diff(np.stack([run.omega[0], run.mu[0]]), axis=1)
    # to first order the risk falls by the squared length of what was moved, over the step
    np.testing.assert_allclose(-np.diff(run.risk[0]), (moved**2).sum((0, 2)) / step, rtol=1e-3)
    assert (run.risk_error < 1e-7).all()
    assert run.attrs["method"] == "quadrature"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"risk": 3.0}, "risk"),
        ({"params": al.KernelHeads([1.0], [2.0, 3.0][:1], normalization="relu")}, "normalization"),
        ({"params": al.KernelHeads(np.eye(3)[None], [1.0])}, "omega|mu"),
        ({"params": al.KernelHeads([50.0], [1.0])}, "omega"),
        ({"times": [1.0, 0.5]}, "times"),
        ({"rate": 0.0}, "rate"),
        ({"tolerance": 1.0}, "tolerance"),
        ({"solver": "euler"}, "solver"),
        ({"max_steps": 0}, "max_steps"),
    ],
)
def test_bad_arguments_of_the_flow(change, named):
    how = {"risk": approximate_risk(TASK, OPPOSITE), "params": OPPOSITE, "times": [1.0]} | change
    with pytest.raises(InvalidArgument, match=named):
        al.dynamics.gradient_flow(how.pop("risk"), how.pop("params"), **how)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"heads": al.Overlaps(0, 0)}, "heads"),
        ({"step_size": -1.0}, "step_size"),
        ({"steps": -1}, "steps"),
        ({"save_every": 0}, "save_every"),
    ],
)
def test_bad_arguments_of_the_descent(change, named):
    how = {"heads": OPPOSITE, "step_size": 0.1, "steps": 1} | change
    with pytest.raises(InvalidArgument, match=named):
        al.dynamics.gradient_descent(approximate_risk(TASK, OPPOSITE), how.pop("heads"), **how)
