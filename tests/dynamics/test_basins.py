"""Attractors and their shares, and landscapes on which there is nothing to arrive at."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab.dynamics import basins, binomial_error, transverse_stability
from attnlab.theory import Components, SingleLocationRisk


class Cliff(SingleLocationRisk):
    """`1 - p(κ) ν + θ² + tilt θ`, with a `p` that is exponentially small at random starts."""

    method: ClassVar[str] = "closed form"
    scale: Any
    tilt: Any

    def components_of(self, state, scale=None):
        steepness = self.scale if scale is None else scale
        kappa, nu, theta = state[..., 0], state[..., 1], state[..., 2]
        p = jax.nn.sigmoid(steepness * (kappa - 0.95))
        zero = jnp.zeros_like(kappa)
        return Components(1 - p * nu, theta * (theta + self.tilt), zero, zero, zero)

    def error_of(self, state, scale=None):
        return jnp.zeros(state.shape[:-1])

    def with_scale(self, scale):
        return Cliff(scale, self.tilt)


@pytest.fixture(scope="module")
def risk():
    return al.population_risk(al.SingleLocation(30, 5), al.PointwiseAttention("erf", 0.1))


def test_four_attractors_share_the_starts_at_a_small_scale(risk):
    out = basins(risk, 30, key=jax.random.key(0), runs=64, steps=2000, step_size=0.05)
    assert out.sizes["attractor"] == 4
    assert (out.kind == "minimum").all()
    assert int(out["count"].sum()) == 64
    assert (out.end_kind == "minimum").all()
    state = np.stack([out[name].values for name in ("kappa", "nu", "theta", "eta", "rho")], -1)
    known = [(1, 1, 0, 0, 0), (-1, -1, 0, 0, 0)]
    assert all(np.abs(state - place).max(-1).min() < 1e-6 for place in np.array(known, float))
    swapped = state[np.abs(state[:, 3]) > 0.999]
    assert len(swapped) == 2
    np.testing.assert_allclose(np.abs(swapped[:, 2]), 1, atol=0.05)
    # each run is assigned to where it ended, and arrives there in the order of the levels
    own = state[out.attractor_of.values]
    assert np.abs(out.end.values - own).max() < 0.02
    assert (np.diff(out.arrival.values, axis=1) >= 0).all()
    np.testing.assert_allclose(out.share_error, binomial_error(out["count"].values, 64))
    np.testing.assert_allclose(out.excess, out.risk - risk.teacher)
    again = basins(
        risk, 30, key=jax.random.key(0), steps=5, step_size=0.05, on_manifold=True, runs=64
    )
    assert (again.end_kind == "moving").all()
    assert again.sizes["attractor"] == 0
    assert np.isnan(again.arrival.values).all()


def test_runs_on_a_plateau_have_not_arrived():
    # gradients of e^-60 are below any tolerance, and no stationary point is near
    out = basins(Cliff(90.0, 0.0), 40, key=jax.random.key(0), runs=64, steps=50, step_size=0.4)
    assert float(out.end_gradient.max()) < 1e-12
    assert (out.end_kind == "flat").all()
    assert out.sizes["attractor"] == 0
    assert (out.attractor_of == -1).all()


def test_no_transverse_stability_where_the_risk_leaves_the_manifold():
    with pytest.raises(al.InvalidArgument, match="leaves M invariant"):
        start = al.Overlaps(0.3, 0.2, 0.0, 0.0, 0.0)
        transverse_stability(Cliff(1.0, 0.3), start, step_size=0.1, steps=1)


def test_shares_of_nothing_and_of_everything_are_not_certain():
    np.testing.assert_allclose(binomial_error([0, 50, 100], 100), [0.00995, 0.05, 0.00995], 1e-3)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("levels", (0.5, 1.5)), ("radius", 0.0), ("runs", 0), ("steps", 0), ("dim", 1)],
)
def test_bad_arguments_are_named(risk, argument, value):
    settings = {"dim": 30, "key": jax.random.key(0)} | {argument: value}
    with pytest.raises(al.InvalidArgument, match=argument):
        basins(risk, **settings)
