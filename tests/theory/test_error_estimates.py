"""The error of the exact in-context risk never understates: 1 000 random settings of the whole domain,
short prompts and large scores included, against quadrature written down from the definition."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

import attnlab as al
from attnlab.theory import in_context
from attnlab.theory.agreement import SAFETY, disagreement
from attnlab.theory.in_context_general import general_in_context_risk

sys.path.insert(0, str(Path(__file__).parent))
from in_context_oracle import MOST, one_head, three_examples, two_examples

NOISE = (0.0, 0.1, 3.0)
_ORACLE = {2: 1e-13, 3: 3e-13, "table": 1e-11}  # relative to what is added up


def log_uniform(rng, low, high, size):
    return np.exp(rng.uniform(math.log(low), math.log(high), size))


def engine(dim, length, noise, heads):
    """The risk by the softmax engine, also at lengths where another rule would be taken."""
    some = al.KernelHeads(np.full(heads, 0.1), np.ones(heads))
    return in_context.EngineRisk(
        heads=some,
        noise_variance=noise,
        shares=np.ones(1),
        dim=float(dim),
        log_length=math.log(length),
        rules=in_context._rules(dim, 1),
        rung=1,
    )


def understated(risk, omega, mu, truth, oracle, rungs):
    """How many of the settings have a larger error than claimed, on each rung."""
    batch = al.KernelHeads(omega[:, None], mu[:, None])
    slack = oracle * (1 + np.sum(np.abs(mu), axis=-1)) ** 2
    counts = []
    for rung in rungs:
        parts, error, _ = risk.at_rung(rung).compared(batch)
        value = np.ravel(sum(parts))
        assert np.isfinite(value).all()
        counts.append(int(np.sum(np.abs(value - truth) > np.ravel(error) + slack)))
    return counts


def two(rng, count, most, heads=2):
    """Random heads of two-example prompts at four dimensions."""
    for dim in (1, 2, 5, 40):
        noise = float(rng.choice(NOISE))
        sizes = log_uniform(rng, 1e-3, most, (count // 4, 1)) / math.sqrt(dim)
        omega = np.clip(rng.normal(size=(count // 4, heads)), -1, 1) * sizes
        mu = 3 * rng.normal(size=omega.shape)
        yield dim, noise, omega, mu


def table(rng, count, length):
    """Random single heads, whose scores stay within the oracle's table."""
    for dim in (1, 8):
        omega = log_uniform(rng, 0.01, 1.0, count // 2) * rng.choice([-1, 1], count // 2)
        omega = omega * MOST / (math.sqrt(dim) + 8)
        mu = 3 * rng.normal(size=omega.shape)
        yield dim, 0.1, omega, mu, one_head(dim, length, 0.1, omega, mu)


@pytest.fixture(scope="module")
def short_settings():
    rng = np.random.default_rng(1)
    return [(*case, two_examples(*case)) for case in two(rng, 300, 1e4, heads=3)]


@pytest.fixture(scope="module")
def engine_settings():
    rng = np.random.default_rng(2)
    return [(*case, two_examples(*case)) for case in two(rng, 300, 4.0)]


def test_one_thousand_random_settings(short_settings, engine_settings):
    rng, count, wrong = np.random.default_rng(3), 0, 0
    for dim, noise, omega, mu, truth in short_settings:
        task = al.InContextRegression(dim, 2, noise_std=math.sqrt(noise))
        risk = al.population_risk(task, al.KernelHeads(omega[0], mu[0]))
        wrong += sum(understated(risk, omega, mu, truth, _ORACLE[2], (0, 1)))
        count += len(omega)
    for dim, noise, omega, mu, truth in engine_settings:
        wrong += sum(understated(engine(dim, 2, noise, 2), omega, mu, truth, _ORACLE[2], (1, 2)))
        count += len(omega)
    for length in (3, 5, 40):
        for dim, noise, omega, mu, truth in table(rng, 134, length):
            risk = engine(dim, length, noise, 1)
            case = omega[:, None], mu[:, None], truth, _ORACLE["table"]
            wrong += sum(understated(risk, *case, (1, 2)))
            count += len(omega)
            if length == 3:
                task = al.InContextRegression(dim, 3, noise_std=math.sqrt(noise))
                short = al.population_risk(task, al.KernelHeads([0.1], [1.0]))
                wrong += sum(understated(short, *case, (0, 1)))
    print(f"\nunderstated errors: {wrong} in {count} settings")
    assert count >= 1000
    assert wrong == 0


@pytest.mark.parametrize("dim", [3])
def test_three_examples_and_two_heads(dim):
    rng = np.random.default_rng(dim)
    omega = rng.normal(size=(2, 2)) * log_uniform(rng, 0.3, 300, (2, 1))
    mu = 2 * rng.normal(size=(2, 2))
    truth = three_examples(dim, 0.3, omega, mu)
    task = al.InContextRegression(dim, 3, noise_std=math.sqrt(0.3))
    risk = al.population_risk(task, al.KernelHeads(omega[0], mu[0]))
    assert understated(risk, omega, mu, truth, _ORACLE[3], (0, 1)) == [0, 0]
    assert np.max(risk.error(al.KernelHeads(omega, mu))) < 1e-10


def test_a_broken_formula_is_noticed(engine_settings, monkeypatch):
    """The count is not 0 by construction: a moment wrong by a part in 10⁵ makes it large."""
    dim, noise, omega, mu, truth = engine_settings[1]
    plain = in_context.own_terms
    monkeypatch.setattr(in_context, "own_terms", lambda w, own: plain(w * (1 + 1e-5), own))
    # another batch size, so that no program compiled for the right formula serves
    few = [part[:40] for part in (omega, mu, truth)]
    assert understated(engine(dim, 2, noise, 2), *few, _ORACLE[2], (2,))[0] > 15


def test_the_estimate_inside_a_transformation_is_the_same(short_settings):
    dim, noise, omega, mu, _ = short_settings[2]
    heads = al.KernelHeads(omega[:3], mu[:3])
    task = al.InContextRegression(dim, 2, noise_std=math.sqrt(noise))
    risk = al.population_risk(task, heads).at_rung(0)
    np.testing.assert_allclose(risk._apply("error_of", heads), risk.compared(heads)[1], rtol=1e-6)


def test_scores_without_bound():
    """At two and three examples the largest score takes all as `ω → ∞`; corrections are of the order
    `1/ω`, since ties that close are that rare."""
    d, noise, mu = 4, 0.2, 1.3
    # E of the largest of two and of three standard normals, and of its square
    for length, first, second in (
        (2, 1 / math.sqrt(math.pi), 1.0),
        (3, 1.5 / math.sqrt(math.pi), 1 + math.sqrt(3) / (2 * math.pi)),
    ):
        task = al.InContextRegression(d, length, noise_std=math.sqrt(noise))
        risk = al.population_risk(task, al.KernelHeads([1.0], [mu]))
        radius = math.sqrt(2) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))
        limit = 1 + noise - 2 * mu * radius * first / d
        limit += mu**2 * ((second + d - 1) / d + noise)
        gaps = [abs(risk(al.KernelHeads([w], [mu])) - limit) for w in (1e3, 1e6, 1e12)]
        assert gaps[0] < 1e-2
        assert gaps[1] < 1.1e-3 * gaps[0]
        assert gaps[2] < 1e-11
        assert np.isfinite(risk.gradient(al.KernelHeads([1e60], [mu])).omega).all()


def test_the_general_risk_on_isotropic_tasks():
    """Quadrature and quasi-Monte Carlo together, where another method gives the risk."""
    rng = np.random.default_rng(5)
    task = al.InContextRegression(2, 6, noise_std=math.sqrt(0.1))
    omega = rng.normal(size=(6, 2)) * log_uniform(rng, 0.05, 1.0, (6, 1)) / math.sqrt(2)
    mu = 2 * rng.normal(size=omega.shape)
    first = al.KernelHeads(omega[0], mu[0])
    exact = al.population_risk(task, first)(al.KernelHeads(omega, mu))
    general = general_in_context_risk(task, first)
    found = [
        general.checked(al.KernelHeads(one, read)) for one, read in zip(omega, mu, strict=True)
    ]
    wrong = sum(
        abs(value - truth) > error for (value, error, _), truth in zip(found, exact, strict=True)
    )
    print(f"\nunderstated errors: {wrong} in {len(found)} settings")
    assert wrong == 0


def test_a_chance_agreement_fools_no_estimate():
    """Two of three rules agree to all digits; the third tells."""
    fine, same, other = [1.0, 2.0], [1.0, 2.0], [1.0, 2.0 + 1e-3]
    assert disagreement(fine, same, other) == pytest.approx(SAFETY * 1e-3)
    assert disagreement(fine, other, same) == pytest.approx(SAFETY * 1e-3)
    # terms of opposite sign do not hide each other
    assert disagreement([1.0, 2.0], [1.1, 1.9], fine) == pytest.approx(SAFETY * 0.2)
    assert np.isnan(disagreement([1.0], [np.nan], [1.0]))
    arrays = disagreement([np.array([1.0, 2.0])], [np.array([1.5, 2.0])], [np.array([1.0, 2.25])])
    np.testing.assert_allclose(arrays, SAFETY * np.array([0.5, 0.25]))
