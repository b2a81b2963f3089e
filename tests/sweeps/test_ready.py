"""The sweeps that papers bring: well formed, and right at single points."""

import numpy as np
import pytest

import attnlab as al
from attnlab import sweeps
from attnlab.sweeps.specification import specify


def test_ready_sweeps_are_well_formed():
    names = sweeps.ready()
    assert {"dohmatob2025/phase-diagram", "marion2025/basins"} <= set(names)
    for name in names:
        full, quick = (specify(**sweeps.read(name, quick=q)) for q in (False, True))
        assert full.plan.size > 10 * quick.plan.size
        assert full.about["expected"]
    assert specify(**sweeps.read("dohmatob2025/phase-diagram")).plan.shape == (3, 200, 200)


def test_points_of_the_phase_diagram_are_exact_risks():
    two = np.log(2) / 10  # α of two tokens, rounded down
    alphas, betas, short = [0.1, 0.5], [0.5, 2.0], 0.05
    diagram = al.sweep(
        "attnlab.papers.dohmatob2025.phase_points:attention",
        batching="arrays",
        static=["dim"],
        grid={"dim": [10], "alpha": [short, two, *alphas], "beta": [0.2, *betas]},
        workers=0,
    )
    assert np.isnan(diagram.risk.sel(alpha=short)).all()  # less than two tokens
    assert np.isfinite(diagram.risk.sel(alpha=two, beta=betas)).all()
    assert np.isnan(diagram.risk.sel(beta=0.2)).all()  # too narrow to be resolved
    assert (diagram.status == 0).all()
    risk = al.sweep(
        "risk",
        task={"kind": "SingleLocation", "dim": 10, "log_length": 1.0},
        student={"kind": "SoftmaxAttention"},
        quantities=["risk"],
        grid={
            "task.log_length": [10 * alpha for alpha in alphas],
            "student.inverse_temperature": betas,
        },
        workers=0,
    )
    found = diagram.risk.sel(dim=10, alpha=alphas, beta=betas) / 2
    np.testing.assert_allclose(found, risk.risk, rtol=1e-9)


def test_least_risks_of_heads():
    from attnlab.papers.he2025.heads_sweep import least_risk

    one, two, three = (least_risk(heads, 20, 3) for heads in (1, 2, 3))
    assert one["risk"] > two["risk"] > two["bayes"]
    # a third far out beside two that coalesce; in the middle of the two it would add nothing
    assert three["risk"] == pytest.approx(0.2810072, abs=1e-7)
    assert three["gamma"] == pytest.approx(1.798, abs=2e-3)
    assert [each["attained"] for each in (one, two, three)] == [1, 1, 0]
    # of the way from predicting 0, whose risk is 1.1
    assert two["closed"] == pytest.approx((1.1 - two["risk"]) / (1.1 - two["bayes"]))
    assert (one["closed"], two["closed"]) == pytest.approx((0.666386, 0.831178), abs=1e-6)


def test_ends_of_descents():
    from attnlab.papers.marion2025.basins_sweep import ends

    angles = np.array([0.0, np.pi, np.pi / 2]), np.array([0.0, np.pi, np.pi / 2])
    found = ends(0.1, *angles)
    assert found["kind"].tolist() == ["teacher", "mirrored teacher", "swapped roles"]
    np.testing.assert_allclose(found["kappa"][:2], [1, -1], atol=0.05)
    assert abs(found["eta"][2]) > 0.999
