"""dohmatob2025 in motion: the table of the risk, where descents end, experiments, claims."""

import jax
import numpy as np
import pytest

import attnlab as al
from attnlab import claims, dynamics
from attnlab.claims import Verdict
from attnlab.dynamics.dataset import trajectory_dataset
from attnlab.errors import InvalidArgument
from attnlab.papers import find_experiment
from attnlab.papers.dohmatob2025 import checks_descent, checks_links
from attnlab.papers.dohmatob2025.checks_links import teacher_hessian
from attnlab.papers.dohmatob2025.exact import Sizes
from attnlab.papers.dohmatob2025.manifold import edges, escape_times, manifold_functions
from attnlab.papers.dohmatob2025.tabulated import tables
from attnlab.plotting.prepare import prepare

# those that compile least; the others run in the audit
FAST = ("retraction-bound", "descent-lemma")


def claim(name):
    (found,) = claims.find(f"dohmatob2025/{name}")
    return found


def verdict(name, outcome):
    return Verdict.from_outcome(claim(name), outcome)


def compute(name, **changes):
    experiment = find_experiment(f"dohmatob2025/{name}")
    dataset = experiment.compute(experiment.configure("quick", changes))
    assert prepare(experiment.plot(dataset)).panels
    return dataset


@pytest.fixture(scope="module")
def table():
    return tables(Sizes(20, np.log(20) / 20, 2 / np.sqrt(20)))[0]


@pytest.mark.parametrize("name", FAST)
def test_quick_check_gives_the_verdict_on_record(name):
    (found,) = claims.verify(f"dohmatob2025/{name}", seed=1)
    assert found.failed is None, found.details
    assert found.verdict == claim(name).expected, [c for c in found.checks if c.status != "pass"]
    assert found.notes
    if found.verdict == "refuted as stated":
        assert found.corrected
        assert found.correction_holds


def test_table_is_the_exact_risk(table):
    exact = al.population_risk(al.SingleLocation(20, 20), al.SoftmaxAttention(2 / np.sqrt(20)))
    for dim in (4, 20):
        students = al.Overlaps.on_sphere(jax.random.key(dim), dim, runs=40)
        assert np.allclose(table(students), exact(students), rtol=1e-12, atol=1e-13)
        slopes = [np.asarray(risk.gradient(students).stack()) for risk in (table, exact)]
        assert np.allclose(*slopes, atol=1e-10)
    ends = al.Overlaps(np.array([-1.0, 1.0]), 1.0)
    assert np.allclose(table(ends), exact(ends), atol=1e-13)


def test_functions_on_m_are_the_slopes_of_the_risk(table):
    kappa = np.array([-1.0, -0.3, 0.2, 0.9])
    size = Sizes(20, np.log(20) / 20, np.array([2.0]) / np.sqrt(20))
    found = manifold_functions(size, kappa)
    for nu, slope in ((1.0, found.upper_slope), (-1.0, found.lower_slope)):
        gradient = table.gradient(al.Overlaps(kappa, nu))
        assert np.allclose(slope[0], gradient.kappa, atol=1e-9)
        assert np.allclose(found.rise[0] * 0.5, gradient.nu, atol=1e-9)
    upper, lower = edges(size, kappa)
    assert np.allclose((upper - lower) / 2, found.rise * 0.5, atol=1e-12)


def test_escape_time_is_that_of_the_flow(table):
    kappa = np.linspace(-1, 1, 201)
    size = Sizes(20, np.log(20) / 20, np.array([2.0]) / np.sqrt(20))
    (time,) = escape_times(manifold_functions(size, kappa), kappa)
    step = 0.02
    run = dynamics.projected_gradient_descent(
        table, al.Overlaps(np.zeros(1), 0.0), step_size=step, steps=int(2 * time / step)
    )
    crossed = np.argmax(run.nu.values[0] >= 0.5) * step
    assert crossed == pytest.approx(time, rel=0.01)


def test_hessian_at_the_teacher_from_values():
    def risk(overlaps):
        kappa, nu, theta, eta, rho = np.moveaxis(np.asarray(overlaps.stack()), -1, 0)
        return 0.7 * (1 - kappa) + 2 * (1 - nu) + 0.15 * rho**2 - 0.05 * rho + 0.02 * eta * theta

    lowest, slope = teacher_hessian(risk)
    # k along v* with v along k*, and both along a third direction, where rho is their product
    blocks = [[0.7 + 0.3, 0.3 + 0.02], [0.3 + 0.02, 2 + 0.3]], [[0.7, -0.05], [-0.05, 2.0]]
    assert lowest == pytest.approx(np.linalg.eigvalsh(blocks).min(), abs=1e-4)
    assert slope == pytest.approx(0.05 * np.sqrt(2), rel=1e-4)


def test_other_links_lose_m_and_the_teacher():
    found = compute("links", links=("quadratic",), points=7, manifold_points=2)
    assert found.slope_off_manifold.values.max() < 1e-8
    assert found.smallest_eigenvalue.values[0] == pytest.approx(0.8655, abs=1e-3)


def test_flow_leads_to_the_teacher():
    found = compute("flow", links=("linear",), points=9, paths=4)
    assert np.allclose(found.path.values[:, :, :, -1], 1, atol=0.02)
    assert (found.velocity_nu.values[:, :, 1:-1] > 0).all()


def test_descents_end_at_teacher_and_swapped_minimum():
    found = compute(
        "global-convergence",
        runs=16,
        steps=3000,
        dim=10,
        spreads=(1.5,),
        dims=(10,),
        lengths=(100,),
    )
    share = found.share.sel(end="teacher").values
    assert (share[0] > 0.9).all()
    assert (share[1] < 1).all()
    assert found.swapped_excess.values == pytest.approx(0.0741, abs=1e-3)
    assert (found["count"].sum("end") == 16).all()


def test_softmax_outlasts_erf_on_long_prompts():
    found = compute("long-sequences", dims=(60,), points=3, longest=14.0, temperatures=12)
    assert (found.softmax_risk.values < found.erf_risk.values).all()
    assert found.erf_risk.values[0, -1] > 0.49
    assert found.softmax_risk.values[0, 1] < 0.05


def test_fixed_prompts():
    found = compute("finite-sample", dim=8, lengths=(3,), ratios=(4.0,), steps=20, runs=2)
    assert found.risk.dims == ("length", "ratio", "run", "step")
    assert (found.kappa.values[..., 0] >= 0).all()


def test_both_students_get_the_same_starts_and_prompts(monkeypatch):
    seen = []

    def trajectory(task, student, overlaps, *, step_size, steps, batch_size, key, save_every):
        seen.append((np.asarray(overlaps.stack()), np.asarray(jax.random.key_data(key))))
        states = np.broadcast_to(overlaps.stack(), (2, *overlaps.shape, 5))
        risk = np.full(states.shape[:2], 0.3)
        return trajectory_dataset("step", np.array([0, steps]), states, risk, np.array(0.5))

    monkeypatch.setattr(dynamics, "stochastic_gradient_descent", trajectory)
    found = compute("softmax-vs-pointwise", dim=20, lengths=(20,), runs=3)
    for one, other in zip(*seen, strict=True):
        assert np.array_equal(one, other)
    assert found.teacher_risk.values[0, 0] < found.teacher_risk.values[0, 1]


def test_configurations_are_checked():
    experiment = find_experiment("dohmatob2025/flow")
    with pytest.raises(InvalidArgument, match="links"):
        experiment.configure("quick", {"links": ("relu",)})  # does not keep M


def test_a_lemma_that_no_step_keeps_is_refuted(monkeypatch):
    right = dynamics.descent_check

    def steeper(risk, start, constants, **how):
        return right(risk, start, constants._replace(bound=constants.bound / 8), **how)

    monkeypatch.setattr(dynamics, "descent_check", steeper)
    found = verdict("descent-lemma", checks_descent.descent_lemma("quick", 0))
    assert found.correction_holds is False


def test_a_risk_without_symmetry_is_not_invariant(monkeypatch):
    class Leaning:
        def __init__(self, risk):
            self.risk = risk

        def __call__(self, overlaps):
            return self.risk(overlaps) + 1e-3 * np.asarray(overlaps.rho)

    right = checks_links.link_risk
    monkeypatch.setattr(checks_links, "_LINKS", ("linear", "linear"))
    monkeypatch.setattr(checks_links, "link_risk", lambda *a: Leaning(right(*a)))
    found = verdict("manifold-invariant", checks_links.manifold_invariant("quick", 0))
    assert found.verdict == "refuted as stated"
    assert found.checks[0].status == "fail"
