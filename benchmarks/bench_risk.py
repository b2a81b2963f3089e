"""Risk and gradient of a batch of overlaps: closed form, and quadrature for several links."""

from __future__ import annotations

import jax
import pytest

import attnlab as al

CASES = [
    ("erf", ("linear", "linear"), 1000),
    ("tanh", ("linear", "linear"), 1000),
    ("hard-tanh", ("linear", "linear"), 1000),
    ("erf", ("tanh", "tanh"), 100),
    ("erf", ("erf", "quadratic"), 100),
    ("erf", ("relu", "linear"), 100),
]


@pytest.mark.parametrize(("activation", "links", "batch"), CASES)
def bench_risk_and_gradient(benchmark, activation, links, batch):
    task = al.SingleLocation(400, 10, link=links[1])
    risk = al.population_risk(task, al.PointwiseAttention(activation, 0.3, links[0]))
    overlaps = al.Overlaps.on_sphere(jax.random.key(0), 6, runs=batch)

    def both():
        return risk(overlaps), risk.gradient(overlaps)

    both()
    benchmark.pedantic(both, rounds=5)
    each = benchmark.stats.stats.min / batch
    benchmark.extra_info["seconds_per_overlap"] = each
    print(f"\n{risk.method}, {activation}, links {links}: {each * 1e6:.1f} µs per overlap")
