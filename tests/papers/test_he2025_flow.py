"""Gradient flows of he2025: two heads on both losses, four heads beside a trained layer."""

import numpy as np
import pytest

from attnlab._core.errors import InvalidArgument
from attnlab.papers import find_experiment
from attnlab.papers.he2025 import four_heads
from attnlab.papers.he2025.exact_heads import heads_quadratic
from attnlab.plotting.prepare import prepare
from attnlab.students import KernelHeads
from attnlab.tasks import InContextRegression
from attnlab.theory import approximate_risk


@pytest.mark.parametrize(
    ("name", "peaks", "limit", "minimum"),
    [("fig21", (0.57, 0.625), 0.8791, 0.07125), ("fig22", (0.45, 0.545), 0.7843, 0.04351)],
)
def test_phases_of_the_flow_of_two_heads(name, peaks, limit, minimum):
    experiment = find_experiment(f"he2025/{name}")
    ds = experiment.compute(experiment.configure("quick", {"end_time": 3e8, "points": 100}))
    assert len(prepare(experiment.plot(ds)).panels) == 6
    assert ds.peak.values == pytest.approx(peaks, abs=0.007)
    assert (np.diff(ds.risk.values, axis=1) <= 1e-12).all()
    flow = ds.sel(loss="approximate")
    early = flow.sel(time=slice(0, 2))
    growth = np.diff(np.log(early.rho.values)) / np.diff(early.time.values)
    np.testing.assert_allclose(growth, 1, atol=2e-3)
    np.testing.assert_allclose(early.phi.values / early.rho.values, 1, atol=1e-6)
    assert float(2 * flow.phi[-1] * flow.rho[-1]) == pytest.approx(limit, abs=2e-4)
    assert float(flow.exponent[-1]) == pytest.approx(-1 / 6, abs=1e-3)
    assert float(flow.rho[-1] / ds.slow_decay[-1]) == pytest.approx(1, abs=2e-3)
    # under the exact loss ω stays
    assert ds.attrs["minimum"] == pytest.approx(minimum, abs=1e-5)
    assert float(ds.rho.sel(loss="exact")[-1]) == pytest.approx(minimum, rel=2e-3)
    prepare(experiment.plot(ds.isel(loss=[0])))  # interrupted before the second


def test_the_flow_of_two_heads_descends_the_risk_of_each_head():
    experiment = find_experiment("he2025/fig21")
    ds = experiment.compute(experiment.configure("quick", {"end_time": 100.0, "points": 400}))
    task = InContextRegression(5, 40, noise_std=0.1**0.5)
    for time in (3.0, 7.0, 12.0):
        at = int(np.argmin(np.abs(ds.time.values - time)))
        step = float(ds.time[at + 1] - ds.time[at - 1])
        for loss in ("approximate", "exact") if time == 7.0 else ("approximate",):
            row = ds.sel(loss=loss)
            speed = [float(row[name][at + 1] - row[name][at - 1]) / step for name in ("rho", "phi")]
            rho, phi = float(row.rho[at]), float(row.phi[at])
            omega, mu = np.array([rho, -rho]), np.array([phi, -phi])
            if loss == "approximate":
                heads = KernelHeads(omega, mu)
                found = approximate_risk(task, heads).gradient(heads)
                slope = [float(found.omega[0]), float(found.mu[0])]
            else:
                slope = [derivative(task, omega, mu, move) for move in (0, 1)]
            # on half the risk
            assert speed == pytest.approx([-s / 2 for s in slope], rel=2e-3, abs=1e-5)


def derivative(task, omega, mu, which):
    h = np.array([1e-4, 0.0])
    up, down = (
        heads_quadratic(task, omega + sign * h * (which == 0)).risk(
            mu + sign * h * (which == 1), 0.1
        )
        for sign in (1, -1)
    )
    return (up - down) / 2e-4


TINY = {"steps": 20, "batch_size": 4, "runs": 1, "saves": 4, "test_prompts": 8, "end_time": 1e4}


def test_four_heads_take_sides_on_both_losses():
    experiment = find_experiment("he2025/fig20")
    ds = experiment.compute(experiment.configure("quick", TINY))
    assert len(prepare(experiment.plot(ds)).panels) == 6
    without = ds[["omega", "mu", "risk"]]  # interrupted before the training
    assert len(prepare(experiment.plot(without)).panels) == 4
    assert ds.layer_omega.sizes == {"step": 5, "head": 4}
    assert (np.diff(ds.risk.values, axis=1) < 0).all()
    assert ds.risk.values[:, -1] == pytest.approx([0.2431, 0.2212], abs=3e-4)
    end = ds.isel(time=-1)
    assert (np.sign(end.omega) == np.sign(end.mu)).all()
    assert (np.sign(end.omega).sum("head") == 0).all()
    size = np.abs(end.omega.values)
    np.testing.assert_allclose(size, np.broadcast_to(size[:, :1], size.shape), rtol=5e-3)
    assert (np.abs(end.mu.sum("head")) < 1e-2).all()
    assert end.omega[0].values == pytest.approx(end.omega[1].values, rel=0.1)
    # the polynomials against the risk itself, where the flow passed and where it ended
    task = InContextRegression(5, 40, noise_std=0.1**0.5)
    for at in (50, 159):
        row = ds.sel(loss="exact").isel(time=at)
        exact = heads_quadratic(task, row.omega.values).risk(row.mu.values, 0.1)
        assert float(row.risk) == pytest.approx(exact, abs=1e-5)


def test_slopes_are_derivatives_and_the_reach_is_watched():
    task = InContextRegression(3, 10, noise_std=0.4)
    rng = np.random.default_rng(0)
    table = four_heads.PairPolynomials(0.8, rng.standard_normal(5), np.eye(5) + 0.1, 1.16)
    omega, mu = rng.uniform(-0.5, 0.5, (2, 3))
    for slope_of in (
        table.risk_and_slope,
        lambda w, m: four_heads.approximate_slope(task, w, m),
    ):
        _, slope = slope_of(omega, mu)
        for k in range(6):
            h = 1e-5 * np.eye(6)[k]
            up = slope_of(omega + h[:3], mu + h[3:])[0]
            down = slope_of(omega - h[:3], mu - h[3:])[0]
            assert slope[k] == pytest.approx((up - down) / 4e-5, abs=1e-7)
    heads = KernelHeads(omega, mu)
    value, _ = four_heads.approximate_slope(task, omega, mu)
    assert value == pytest.approx(float(approximate_risk(task, heads).value), rel=1e-6)
    start, times = np.full(4, 0.05) * [1, -1, 1, -1], np.array([1.0, 100.0])
    with pytest.raises(InvalidArgument, match="reach"):
        four_heads.follow(lambda w, m: four_heads.approximate_slope(task, w, m), start, times, 0.2)


def test_the_flow_is_that_of_the_dynamics_room():
    from attnlab.dynamics import gradient_flow

    task = InContextRegression(5, 40, noise_std=0.1**0.5)
    start = 0.05 * np.random.default_rng(0).standard_normal(8)
    times = np.array([1.0, 8.0, 100.0])
    states, risks = four_heads.follow(
        lambda w, m: four_heads.approximate_slope(task, w, m), start, times
    )
    heads = KernelHeads(start[:4], start[4:])
    flow = gradient_flow(approximate_risk(task, heads), heads, times=times, rate=0.5)
    np.testing.assert_allclose(flow.omega[0].values, states[:, :4], atol=1e-7)
    np.testing.assert_allclose(flow.mu[0].values, states[:, 4:], atol=1e-7)
    np.testing.assert_allclose(flow.risk[0].values, risks, atol=1e-9)
