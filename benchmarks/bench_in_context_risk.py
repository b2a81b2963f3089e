"""Exact in-context risk and its gradient for kernel heads, compiled, at the default resolution."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import attnlab as al
from attnlab._core.precision import float64, to_float64
from attnlab.tasks import kac_murdock_szego


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def bench_value_and_gradient(benchmark, heads):
    omega = np.linspace(-0.2, 0.21, heads) if heads > 1 else np.array([0.2])
    task = al.InContextRegression(5, 40)
    risk = al.population_risk(task, al.KernelHeads(omega, 10 * omega))
    with float64():
        exact, w, m = to_float64((risk, risk.heads.omega, risk.heads.mu))
        both = jax.jit(jax.value_and_grad(exact.value_of, argnums=(0, 1)))
        jax.block_until_ready(both(w, m))
        benchmark.pedantic(lambda: jax.block_until_ready(both(w, m)), rounds=20)
    print(f"\n{heads} heads: {benchmark.stats.stats.min * 1e3:.2f} ms for value and gradient")


def bench_any_covariance(benchmark):
    task = al.InContextRegression(5, 40, covariance=kac_murdock_szego(5))
    inverse = np.linalg.inv(task.covariance_matrix)
    heads = al.KernelHeads(np.stack([0.13 * inverse, -0.13 * inverse]), [3.5, -3.5])
    risk = al.population_risk(task, heads)
    benchmark.pedantic(lambda: risk(heads), rounds=5)
    print(f"\nvalue {risk.value:.6f}, error estimate {float(risk.error):.1e}")
