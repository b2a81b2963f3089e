"""Baselines, attractors, portrait and stability at small sizes: numbers, layout, figures."""

import numpy as np
import pytest

from attnlab.papers import find_experiment
from attnlab.papers.marion2025.stability import measured_critical_scale


def compute(name, tmp_path, **changes):
    from attnlab.plotting.matplotlib_renderer import save_figure

    experiment = find_experiment(f"marion2025/{name}")
    dataset = experiment.compute(experiment.configure("quick", changes))
    paths = save_figure(experiment.plot(dataset), tmp_path / name)
    assert all(path.stat().st_size > 1000 for path in paths)
    return dataset


def test_oracle_risk_falls_at_the_best_scale_only(tmp_path):
    ds = compute("oracle-risk", tmp_path, points=6, lengths=(2, 10))
    assert ds.excess_risk.dims == ("length", "dim")
    assert (np.diff(ds.excess_risk, axis=1) < 0).all()
    assert (ds.excess_risk <= ds.excess_half + 1e-12).all()
    assert float(ds.excess_half[1, -1]) > 0.04
    assert float(ds.excess_fixed[1, -1]) > 0.1
    assert float(ds.exponent[1, -1]) == pytest.approx(-0.91, abs=0.03)
    assert float(ds.excess_risk[1, -1] / ds.leading_order[1, -1]) == pytest.approx(0.79, abs=0.02)


def test_linear_baseline_ignores_the_dimension(tmp_path):
    ds = compute("linear-baseline", tmp_path, points=5)
    assert float(ds.zero) == pytest.approx(0.5)
    expected = 0.5 - 0.25 / (ds.at_length.values - 0.5)
    assert np.allclose(ds.linear_by_dim, expected)
    assert np.allclose(ds.linear_by_length, 0.5 - 0.25 / (ds.length.values - 0.5))
    assert (np.diff(ds.attention_by_dim, axis=1) < 0).all()
    assert (ds.attention_by_dim < ds.linear_by_dim).all()


def test_attractors_are_the_teacher_and_the_swapped_pair(tmp_path):
    ds = compute(
        "attractors",
        tmp_path,
        runs=40,
        scales=(0.1,),
        dims=(50,),
        lengths=(5,),
        map_points=3,
        horizon=60.0,
    )
    assert ds.sizes["setting"] == 3
    assert (ds["count"].sum("kind") == 40).all()
    by_kind = ds.isel(setting=0).set_index(kind="kind")
    assert int(by_kind["count"].sel(kind=["tilted", "moving"]).sum()) == 0
    assert 5 <= int(by_kind["count"].sel(kind="swapped roles")) <= 35
    assert float(by_kind.risk.sel(kind="swapped roles")) == pytest.approx(0.115512, abs=1e-5)
    assert (ds.n_negative.values[np.isfinite(ds.n_negative.values)] == 0).all()
    assert float(np.nanmax(ds.residual)) < 1e-6
    small = ds.isel(setting=1).set_index(kind="kind")
    assert float(small.risk.sel(kind="swapped roles")) < float(small.teacher_risk)
    assert np.isnan(ds.other_minima).all()
    assert (ds.share_error > 0).all()


def test_beyond_the_critical_scale_the_teacher_is_no_end(tmp_path):
    ds = compute(
        "attractors",
        tmp_path,
        runs=10,
        scales=(1.0,),
        dims=(),
        lengths=(),
        map_points=2,
        horizon=60.0,
    )
    count = ds["count"].isel(setting=0).set_index(kind="kind")
    assert int(count.sel(kind=["teacher", "mirrored teacher"]).sum()) == 0


def test_phase_portrait_has_two_basins_on_each_plane(tmp_path):
    ds = compute("phase-portrait", tmp_path, points=4, scales=(0.1,))
    assert ds.u.dims == ("plane", "scale", "y", "x")
    basin = ds.basin.values
    assert set(np.unique(basin)) == {-1.0, 1.0}
    # the symmetry (x, y) -> (-x, -y) exchanges the basins
    assert np.array_equal(basin, -basin[..., ::-1, ::-1])
    minima = ds.isel(point=np.flatnonzero(ds.n_negative.values == 0))
    on_m = minima.point_plane.values == "M"
    assert np.allclose(np.abs(minima.point_x.values[on_m]), 1)
    assert np.allclose(np.abs(minima.point_x.values[~on_m]), 0.62982, atol=1e-4)
    assert float(ds.residual.max()) < 1e-6


def test_stability_changes_sign_at_the_critical_scale(tmp_path):
    ds = compute(
        "stability",
        tmp_path,
        scale_points=30,
        steps=300,
        map_points=5,
        lengths=(2, 10),
        scales=(0.1,),
    )
    for length in (2, 10):
        top = ds.teacher_exponent.sel(length=length).values
        critical = float(ds.critical_scale.sel(length=length))
        assert (top[ds["scale"].values < critical - 0.02] < 0).all()
        assert (top[ds["scale"].values > critical + 0.02] > 0).all()
    assert float(ds.map_exponent.sel(kappa_axis=0, nu_axis=0, map_scale=0.1)) > 0.5
    assert float(ds.path_growth[0, 0]) == pytest.approx(0, abs=1e-12)


def test_measured_critical_scale_at_other_sizes():
    assert measured_critical_scale(50, 2, 0.5**0.5) == pytest.approx(0.889, abs=1e-3)
