"""dohmatob2025 at fixed parameters: many sizes in one program, experiments, claims and their limits."""

import numpy as np
import pytest

import attnlab as al
from attnlab import claims, theory
from attnlab.claims.mutation import run_broken
from attnlab.errors import InvalidArgument
from attnlab.papers import find_experiment
from attnlab.papers.dohmatob2025.checks_bulk import FAMILY
from attnlab.papers.dohmatob2025.exact import Sizes, risks_each
from attnlab.papers.dohmatob2025.masses import attention_at
from attnlab.papers.dohmatob2025.mutations import MUTATIONS
from attnlab.plotting.prepare import prepare

# those that compile least; the others run in the audit
FAST = (
    "attention-mass",
    "free-energy",
    "thermal-average",
    "condensation",
    "mass-exponents",
    "learnability",
    "minimum-zero",
    "risk-linear",
    "long-sequences",
)
BROKEN = (
    "attention-mass",
    "free-energy",
    "thermal-average",
    "condensation",
    "learnability",
    "risk-linear",
    "long-sequences",
)


def claim(name):
    (found,) = claims.find(f"dohmatob2025/{name}")
    return found


def compute(name, **changes):
    experiment = find_experiment(f"dohmatob2025/{name}")
    dataset = experiment.compute(experiment.configure("quick", changes))
    assert prepare(experiment.plot(dataset)).panels
    return dataset


def test_sizes_in_one_program_are_those_of_the_library_one_by_one():
    dim, log_length, beta, std = 37, 5.5, 0.8, 0.6
    task = al.SingleLocation(dim, log_length=log_length, token_std=std)
    risk = al.population_risk(task, al.SoftmaxAttention(beta))
    sizes = Sizes(np.array([900.0, dim]), log_length / dim, beta, std)
    students = al.Overlaps(0.4, np.array([1.0, 0.0, 0.3]), rho=np.array([0.0, 0.0, 0.2]))
    student = al.Overlaps(0.4, 0.3, rho=0.2)
    alone = risk.components(students)
    together = risks_each(sizes, student, family=FAMILY)
    assert together[1] == pytest.approx(float(alone.total[2]), rel=1e-11)
    each = risks_each(sizes, student, "mean field")
    limit = al.mean_field_risk(task, al.SoftmaxAttention(beta))
    assert each[1] == pytest.approx(float(limit(students)[2]), rel=1e-12)
    assert not np.isclose(each[0], each[1])
    kept = al.theory.AttentionMasses(*(part[1] for part in attention_at(sizes, 0.4, family=FAMILY)))
    # the informative token's part of the risk on M is γ² E(p² - 2νp + 1)
    found, lost = alone.informative.values[:2] / std**2
    assert kept.missing_square == pytest.approx(found, rel=1e-9)
    assert 1 + kept.mass_square == pytest.approx(lost, rel=1e-9)
    assert 2 * kept.mass == pytest.approx(lost - found, rel=1e-8)
    assert kept.missing == pytest.approx(1 - kept.mass, rel=1e-9)
    levels = log_length + np.log(-np.expm1(-log_length))
    closed = theory.finite_random_energy(beta, dim, levels)
    assert kept.participation == pytest.approx(float(closed.participation), abs=1e-5)
    assert kept.log_partition == pytest.approx(float(closed.free_energy) * beta * dim, abs=1e-4)


def test_bulk_experiments_show_both_phases():
    ds = compute("free-energy", dims=(20, 100, 1000), points=8)
    assert (ds.by_parts <= ds.limit_thermal_average + 1e-9).all()
    assert float(np.abs(ds.thermal_average - ds.by_parts).max()) < 1e-5
    far = np.abs(ds.free_energy - ds.limit_free_energy).max("cooling").values
    assert (np.diff(far) < 0).all()
    assert prepare(find_experiment("dohmatob2025/condensation").plot(ds)).panels
    assert float(ds.participation.sel(dim=1000, cooling=2.0)) == pytest.approx(0.5047, abs=2e-4)
    assert float(np.abs(ds.participation - ds.closed_participation).max()) < 1e-3


def test_exponents_are_those_of_rare_prompts():
    ds = compute("mass-exponents", dims=(60, 800), points=5)
    last = ds.sel(dim=800)
    assert np.allclose(last.mass, ds.mass_rate, atol=3e-3)
    assert np.allclose(last.missing, ds.missing_rate, atol=3e-3)
    assert (last.missing < 0.9 * ds.printed).all()
    assert np.allclose(last.typical, ds.printed, atol=0.01)


def test_phase_diagram_nears_its_boundary():
    ds = compute("phase-diagram", dims=(20, 100), points=7, temperatures=3)
    boundary = (1 - ds.noise.values) / 2
    inside = ds.alpha.values[:, None] < boundary - 0.12
    outside = ds.alpha.values[:, None] > boundary + 0.12
    large = ds.sel(dim=100)
    assert inside.any()
    assert outside.any()
    assert (large.mass.values[inside] > 0.9).all()
    assert (large.mass.values[outside] < 0.1).all()
    shift = ds.half_mass.values - boundary
    both = np.isfinite(shift).all(axis=0)
    assert both.any()
    assert (np.abs(shift[1, both]) < np.abs(shift[0, both])).all()


def test_short_prompts_prefer_the_likelihood_ratio_of_two_tokens():
    ds = compute("optimal-temperature", dims=(100,), noises=(0.5,), points=3)
    assert float(ds.best_beta[0, 0, 0]) == pytest.approx(float(ds.two_tokens[0]), rel=0.01)
    assert (ds.least_risk <= ds.risk_at_critical + 1e-12).all()


def test_finite_size_has_the_predicted_terms():
    ds = compute("finite-size", points=4)
    last = ds.isel(dim=-1)
    for name in ("condensed, dark, ρ = 0", "condensed, dark, ρ = 0.3", "β = β_c, dark, ρ = 0"):
        one = last.sel(place=name)
        assert float(one.plain) == pytest.approx(float(one.predicted), rel=0.05), name
    assert float(np.abs(ds.refined).max()) < 1e-4


def test_configurations_out_of_reach_are_refused():
    for name, changes in (
        ("free-energy", {"alpha": 0.6, "dims": (10, 2000)}),
        ("mass-exponents", {"alpha": 0.4, "dims": (2000,)}),
        ("finite-size", {"alpha": 0.15, "largest_dim": 6000}),
    ):
        with pytest.raises(InvalidArgument, match="log L <= 600"):
            find_experiment(f"dohmatob2025/{name}").configure("quick", changes)


@pytest.mark.parametrize("name", FAST)
def test_quick_check_gives_the_verdict_on_record(name):
    (found,) = claims.verify(f"dohmatob2025/{name}", seed=1)
    assert found.failed is None, found.details
    assert found.verdict == claim(name).expected, [c for c in found.checks if c.status != "pass"]
    assert found.notes
    assert found.correction_holds is not False, [c for c in found.evidence if c.status != "pass"]
    if found.verdict == "refuted as stated":
        assert found.corrected


@pytest.mark.parametrize(
    "mutation",
    [m for m in MUTATIONS if m.claim.partition("/")[2] in BROKEN],
    ids=lambda mutation: f"{mutation.claim}: {mutation.text}",
)
def test_a_wrong_formula_is_noticed(mutation):
    found = run_broken(claim(mutation.claim.partition("/")[2]), mutation, "quick", 0)
    assert found.caught, found
