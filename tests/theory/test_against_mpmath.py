"""`risk.error` never understates the true error, over the whole range that is promised.

The truth is a 40-digit evaluation of independently written formulas (closed form), or adaptive
integration of the definition (quadrature).
"""

import math
import sys
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

import attnlab as al
from attnlab.theory import pointwise_quadrature

sys.path.insert(0, str(Path(__file__).parent))
import mpmath_oracle as oracle
from nested_oracle import nested_risk

_SMALLEST = 1e-300  # below, float64 itself has lost its digits


def random_overlaps(rng, smallest=-12):
    """Realisable overlaps, many of them at or near the boundary of what is realisable."""
    kind = rng.choice(["sphere", "plane", "teacher", "near teacher", "aligned", "axes", "M"])
    dim = 2 if kind == "plane" else 4
    k, v = rng.normal(size=(2, dim))
    tiny = 10.0 ** rng.uniform(smallest, -0.5)
    if kind == "teacher":
        k, v = np.eye(4)[0], np.eye(4)[1]
    elif kind == "near teacher":
        k, v = np.eye(4)[0] + tiny * k, np.eye(4)[1] + tiny * v
    elif kind == "aligned":
        v = rng.choice([-1, 1]) * k + tiny * v
    elif kind == "axes":
        k, v = (rng.choice([-1, 1]) * np.eye(4)[rng.integers(4)] for _ in range(2))
    elif kind == "M":
        k[[1, 3]], v[[0, 2]] = 0.0, 0.0
    k, v = k / np.linalg.norm(k), v / np.linalg.norm(v)
    return [float(x) for x in (k[0], v[1], v[0], k[1], k @ v)]


def random_case(rng):
    """`d` in [2, 2e6], `L` in [1, 1e7], `λ` in [1e-4, 1e2], `γ` in [1e-4, 10]."""
    token_std = 10 ** rng.uniform(-4, 1)
    default = token_std < 1 and rng.random() < 0.7
    signal = math.sqrt(1 - token_std**2) if default else rng.choice([0.0, rng.uniform(0, 2)])
    return oracle.Case(
        round(2 * 10 ** rng.uniform(0, 6)),
        int(rng.choice([1, 1, 2, int(10 ** rng.uniform(0, 7))])),
        float(signal),
        float(token_std),
        float(rng.choice([0.0, 0.0, 0.3])),
        float(10 ** rng.uniform(-4, 2)),
        *random_overlaps(rng),
    )


def risk_of(case, build=al.population_risk, activation="erf", links=("linear", "linear")):
    task = al.SingleLocation(
        case.dim,
        case.length,
        signal=case.signal,
        token_std=case.token_std,
        noise_std=case.noise_std,
        link=links[1],
    )
    return build(task, al.PointwiseAttention(activation, case.scale, links[0]))


def test_the_oracle_agrees_with_its_definition():
    rng = np.random.default_rng(7)
    for _ in range(12):
        case = random_case(rng)._replace(length=int(rng.integers(1, 50)))
        closed, integrated = oracle.risk(case), oracle.by_integration(case)
        assert abs(closed - integrated) <= mp.mpf(10) ** -18 * max(abs(integrated), mp.mpf(1)), case


def test_closed_form_error_never_understates_over_1000_settings():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(1000):
        case = random_case(rng)
        risk, overlaps = risk_of(case), al.Overlaps(*case[6:])
        value, claimed = float(risk(overlaps)), float(risk.error(overlaps))
        off = abs(mp.mpf(value) - oracle.risk(case))
        assert off <= claimed + _SMALLEST, (case, value, float(off), claimed)
        ratios.append(float(off) / claimed if claimed > 0 else 0.0)
    # an estimate that nothing comes near would say little: some cases use a good part of it
    assert max(ratios) > 1e-3


@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1.0, 1e2])
def test_closed_form_where_the_oracle_is_nearly_perfect(scale):
    """The tail `exp(-t²)` of a single-token prompt, from order one down to underflow."""
    for dim in (2, 30, 400, 10_000, 1_000_000):
        case = oracle.Case(dim, 1, 0.8, 0.6, 0.0, scale, 1.0, 1.0, 0.0, 0.0, 0.0)
        risk, overlaps = risk_of(case), al.Overlaps.teacher()
        off = abs(mp.mpf(float(risk(overlaps))) - oracle.risk(case))
        assert off <= float(risk.error(overlaps)) + _SMALLEST


# one program for each row: tasks of one size, overlaps in a batch
COMBINATIONS = [
    ("tanh", ("linear", "linear")),
    ("tanh", ("tanh", "tanh")),
    ("relu", ("linear", "quadratic")),
    ("hard-tanh", ("erf", "linear")),
    ("hard-tanh", ("relu", "linear")),
    ("sign", ("linear", "linear")),
    ("sign", ("linear", "relu")),
]


@pytest.mark.parametrize(("activation", "links"), COMBINATIONS)
def test_quadrature_error_never_understates(activation, links):
    rng = np.random.default_rng(sum(map(ord, activation + links[0])))
    case = random_case(rng)
    case = case._replace(
        dim=min(case.dim, 2000), length=min(case.length, 1000), token_std=min(case.token_std, 1.0)
    )
    # nearer to the boundary than 1e-3 the overlaps' own rounding moves the risk
    rows = [random_overlaps(rng, smallest=-3) for _ in range(8)]
    risk, overlaps = (
        risk_of(case, activation=activation, links=links),
        al.Overlaps(*np.array(rows).T),
    )
    assert risk.method == "quadrature"
    for row, value, claimed in zip(rows, risk(overlaps), risk.error(overlaps), strict=True):
        true, slack = nested_risk(oracle.Case(*case[:6], *row), activation, links)
        assert abs(value - true) <= claimed + slack, (case, links, row)


def test_quadrature_error_never_understates_for_erf_and_linear_links():
    """The quadrature against the 40-digit closed form, where its own error is all there is."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        case = random_case(rng)
        risk, overlaps = risk_of(case, build=pointwise_quadrature), al.Overlaps(*case[6:])
        off = abs(mp.mpf(float(risk(overlaps))) - oracle.risk(case))
        assert off <= float(risk.error(overlaps)) + _SMALLEST, case
