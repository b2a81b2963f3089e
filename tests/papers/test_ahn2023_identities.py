"""The note on ReLU attention: its identities give the verdicts on record, and break when they should."""

import numpy as np
import pytest

from attnlab import claims
from attnlab._core.interrupt import RunInterrupted
from attnlab.claims import Verdict
from attnlab.claims.mutation import broken
from attnlab.papers import find_experiment
from attnlab.papers.ahn2023 import checks_diagonal, checks_identities, relu_lemma, symbolic
from attnlab.papers.ahn2023.identity_samples import cantor, cantor_average, relu
from attnlab.papers.ahn2023.mutations import MUTATIONS
from attnlab.plotting.prepare import prepare

IDS = (
    "stein-relu",
    "half-derivative",
    "pair-term",
    "cross-term",
    "diagonal-term",
    "quadratic-loss",
)
MODULES = dict.fromkeys(IDS, checks_identities) | dict.fromkeys(IDS[-2:], checks_diagonal)


def claim(name):
    (found,) = claims.find(f"ahn2023/{name}")
    return found


def verdict(monkeypatch, name, **changes):
    """The verdict of a small check in which some formulas are replaced, and what failed."""
    module = MODULES[name]
    monkeypatch.setattr(module, "sizes", lambda preset: (32, 2500))
    if name == "quadratic-loss":
        monkeypatch.setattr(module, "loss_sizes", lambda preset: (16, 3000))
    for formula, wrong in changes.items():
        monkeypatch.setattr(module, formula, wrong)
    outcome = getattr(module, name.replace("-", "_"))("quick", 0)
    found = Verdict.from_outcome(claim(name), outcome)
    failed = [c.name for c in found.checks if found.status(c) == "fail"]
    return found, failed


@pytest.mark.parametrize("name", IDS)
def test_quick_check_gives_the_verdict_on_record(name):
    (found,) = claims.verify(f"ahn2023/{name}", seed=1)
    assert found.failed is None, found.details
    assert found.verdict == claim(name).expected, [c for c in found.checks if c.status != "pass"]
    assert found.notes
    assert found.correction_holds is not False, [c for c in found.evidence if c.status != "pass"]
    if name == "diagonal-term":
        assert found.corrected == "E[g(xᵀAx_i)² |x_i|²] = (d + 2)/2 |A|²."
    if name == "quadratic-loss":
        assert "α = n (1/4 n + 1/2 d + 3/4)" in found.answer


BROKEN = {mutation.claim.partition("/")[2]: mutation for mutation in MUTATIONS}


@pytest.mark.parametrize("name", IDS[:4])
def test_a_wrong_formula_is_refuted_by_symbols_and_by_samples(monkeypatch, name):
    with broken(BROKEN[name]):
        found, failed = verdict(monkeypatch, name)
    assert found.verdict == "refuted as stated"
    assert any(text.startswith("SymPy") for text in failed)
    assert any(not text.startswith("SymPy") for text in failed)


def test_samples_of_another_activation_refute_what_symbols_confirm(monkeypatch):
    for name in ("pair-term", "cross-term"):
        found, failed = verdict(monkeypatch, name, relu=lambda a: relu(a) ** 1.5)
        assert found.verdict == "refuted as stated"
        assert failed
        assert not any(text.startswith("SymPy") for text in failed)


def test_the_diagonal_term_would_be_confirmed_with_the_half_that_it_lost(monkeypatch):
    halved = {"diagonal_side": lambda dim, square: (dim + 2) * square / 2}
    found, _ = verdict(monkeypatch, "diagonal-term", **halved)
    assert found.verdict == "confirmed"
    assert found.correction_holds


def test_the_printed_term_and_no_correction_fit_the_modulus(monkeypatch):
    found, failed = verdict(monkeypatch, "diagonal-term", relu=np.abs)  # |a|² is a², not half of it
    assert failed == ["SymPy: it is as printed for any d"]
    assert found.correction_holds is False


def test_a_loss_that_is_not_of_the_form_is_refuted(monkeypatch):
    exact = checks_diagonal.library_losses

    def tilted(matrices, length):
        squares = np.array([np.trace(A @ A) for A in matrices])
        return exact(matrices, length) + 0.01 * squares

    _, failed = verdict(monkeypatch, "quadratic-loss", library_losses=tilted)
    assert {text.partition(":")[2] for text in failed if text.startswith("exact")} >= {
        " factors of tr A², (tr A)², the nuclear norm squared"
    }
    assert not any(text.startswith(("SymPy", "sampled")) for text in failed)


def test_samples_alone_refute_another_loss(monkeypatch):
    _, failed = verdict(monkeypatch, "quadratic-loss", relu=lambda a: np.tanh(3 * relu(a)) / 3)
    assert failed
    assert all(text.startswith("sampled") for text in failed)


def test_printed_constants_are_refuted(monkeypatch):
    def printed(dim, length):
        return length * (length - 1) / 4 + length * (dim + 2), length, dim

    _, failed = verdict(monkeypatch, "quadratic-loss", loss_constants=printed)
    for start in ("SymPy", "exact losses: fitted", "sampled losses"):
        assert any(text.startswith(start) for text in failed)


def test_pairings_give_what_monomials_give():
    import sympy

    d, _, square, trace = symbolic.symbols()
    twice = [("A", "x", "x"), ("A", "x", "x")]
    other = sympy.Symbol("tr(AA)", real=True)
    assert symbolic.isserlis(twice) == trace**2 + square + other
    assert symbolic.isserlis([("A", "x", "y")]) == 0
    assert sympy.expand(symbolic.isserlis([("I", "x", "x")] * 3) - d * (d + 2) * (d + 4)) == 0
    A = symbolic.entries("A", 2)
    values = {square: (A * A.T).trace(), trace: A.trace(), other: (A * A).trace()}
    entries = symbolic.by_entries(twice, 2)
    assert sympy.expand(entries - symbolic.isserlis(twice).subs(values)) == 0


def test_the_staircase_is_cantors():
    places = np.array([-1.0, 0.0, 1 / 9, 0.25, 1 / 3, 0.5, 2 / 3, 0.75, 1.0, 2.0])
    np.testing.assert_allclose(
        cantor(places), [0, 0, 1 / 4, 1 / 3, 1 / 2, 1 / 2, 1 / 2, 2 / 3, 1, 1], atol=1e-8
    )
    assert cantor_average(lambda u: u) == pytest.approx(1 / 2)
    assert cantor_average(lambda u: (u - 0.5) ** 2) == pytest.approx(1 / 8, rel=1e-4)


SMALL = {"dim": 3, "length": 6, "steps": 150, "batch_size": 64, "runs": 2, "samples": 3000}
SMALL |= {"points": 4, "dims": (2, 4), "lengths": (3, 9), "noise_var": 0.3}


def test_the_losses_and_their_minimum(monkeypatch):
    experiment = find_experiment("ahn2023/relu-lemma")
    ds = experiment.compute(experiment.configure("quick", SMALL))
    at = ds.attrs
    # α with label noise: n(n+2d+3)/4 + nσ²/2
    alpha = 6 * (6 + 6 + 3) / 4 + 6 * 0.3 / 2
    assert at["best"] == pytest.approx(6 / (2 * alpha))
    curve = 3 * alpha * ds.c**2 - 6 * 3 * ds.c + 3.3
    np.testing.assert_allclose(ds.loss, curve, rtol=1e-12)
    assert float(ds.loss.min()) >= at["minimum"] > 0
    assert float(ds.printed.min()) > at["loss_at_printed_best"] > at["minimum"]
    assert float(ds.c[np.argmin(ds.printed.values)]) == pytest.approx(at["printed_best"], abs=0.01)
    np.testing.assert_allclose(ds.excess_exact, at["curvature"] * ds.t**2, atol=1e-12)
    z = (ds.excess - ds.excess_exact) / ds.excess_error
    assert float(np.abs(z).max()) < 4.5
    z = (ds.sampled - np.interp(ds.sampled_c, ds.c, ds.loss)) / ds.sampled_error
    assert float(np.abs(z).max()) < 4.5
    z = (ds.best_sampled - ds.best_exact) / ds.best_sampled_error
    assert float(np.abs(z).max()) < 4.5
    assert (ds.best_printed < ds.best_exact).all()
    assert (ds.trained_loss >= at["minimum"]).all()
    np.testing.assert_allclose(ds.training_c[:, -1], ds.trained_c, rtol=1e-5)
    assert len(prepare(experiment.plot(ds)).panels) == 4

    def interrupted(config):
        raise RunInterrupted(None)

    monkeypatch.setattr(relu_lemma, "trained", interrupted)
    with pytest.raises(RunInterrupted) as caught:
        experiment.compute(experiment.configure("quick", SMALL | {"dim": 1}))
    assert len(prepare(experiment.plot(caught.value.partial)).panels) == 3
