import jax
import numpy as np
import pytest

import attnlab as al
from attnlab.dynamics.dataset import overlaps_of
from attnlab.errors import InvalidArgument


@pytest.fixture(scope="module")
def risk():
    return al.population_risk(al.SingleLocation(30, 6), al.PointwiseAttention("erf", 0.4))


def test_descent_converges_to_the_flow_at_first_order(risk):
    overlaps = al.Overlaps.on_sphere(jax.random.key(3), 30, runs=6)
    flow = al.dynamics.gradient_flow(risk, overlaps, times=np.array([0.0, 1.0, 5.0]))
    gaps = []
    for step in (1e-2, 5e-3, 2.5e-3):
        run = al.dynamics.projected_gradient_descent(
            risk, overlaps, step_size=step, steps=round(5 / step), save_every=round(5 / step)
        )
        gaps.append(np.abs(run.risk[:, -1].values - flow.risk[:, -1].values).max())
    ratios = np.array(gaps[:-1]) / np.array(gaps[1:])
    assert (np.abs(ratios - 2) < 0.3).all()
    np.testing.assert_array_equal(flow.risk[:, 0], risk(overlaps))


def test_risk_along_the_flow_is_that_of_its_state(risk):
    overlaps = al.Overlaps.on_sphere(jax.random.key(3), 30, runs=3)
    flow = al.dynamics.gradient_flow(risk, overlaps, times=np.linspace(0.5, 20, 5))
    assert flow.risk.dims == ("run", "time")
    np.testing.assert_allclose(flow.risk, risk(overlaps_of(flow)), rtol=1e-13)
    assert (flow.status == "ok").all()
    assert (np.diff(flow.risk, axis=1) < 1e-9).all()


def test_both_solvers_agree_over_long_times(risk):
    overlaps = al.Overlaps(0.1, -0.2)
    times = np.array([10.0, 1e4])
    runs = [
        al.dynamics.gradient_flow(risk, overlaps, times=times, solver=name)
        for name in ("explicit", "implicit")
    ]
    np.testing.assert_allclose(runs[0].kappa, runs[1].kappa, atol=1e-6)
    assert abs(runs[1].kappa[0, -1].item()) == pytest.approx(1, abs=1e-6)


def test_a_flow_that_runs_out_of_steps_says_so(risk):
    flow = al.dynamics.gradient_flow(
        risk, al.Overlaps([0.1, 1.0], [0.2, 1.0]), times=np.array([100.0]), max_steps=3
    )
    assert flow.status.values[0] == "diverged"
    assert np.isnan(flow.risk.values[0]).all()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"times": [1.0, 0.5]}, "times"),
        ({"times": [-1.0]}, "times"),
        ({"times": []}, "times"),
        ({"times": [np.nan]}, "times"),
        ({"solver": "euler"}, "solver"),
        ({"tolerance": 1.0}, "tolerance"),
    ],
)
def test_bad_arguments(risk, change, named):
    with pytest.raises(InvalidArgument, match=named):
        al.dynamics.gradient_flow(risk, al.Overlaps(0, 0), **({"times": [1.0]} | change))
