"""Exact risks of unnormalised attention in context, their minimisers, and training of P and Q."""

from __future__ import annotations

import jax
import numpy as np
import optax
import pytest

import attnlab as al
from attnlab._core.precision import float64, to_float64
from attnlab.students import MergedAttention
from attnlab.theory import minimise_attention, optimal_attention

D, N = 5, 20
TASK = al.InContextRegression(D, N, noise_std=0.0, prior=np.eye(D))


@pytest.mark.parametrize("name", ["relu", "exp", "tanh", "gelu"])
def bench_value_and_gradient(benchmark, name):
    layer = MergedAttention.sparse(0.2 * np.eye(D) + 0.01, normalization=name)
    risk = al.population_risk(TASK, layer)
    with float64():
        exact, P, Q = to_float64((risk, layer.P, layer.Q))
        both = jax.jit(jax.value_and_grad(exact.value_of, argnums=(0, 1)))
        jax.block_until_ready(both(P, Q))
        benchmark.pedantic(lambda: jax.block_until_ready(both(P, Q)), rounds=20)
    print(f"\n{name} ({risk.method}): {benchmark.stats.stats.min * 1e3:.3f} ms, value and gradient")


def bench_descents_over_all_weights(benchmark):
    risk = al.population_risk(TASK, optimal_attention(TASK, normalization="relu"))
    rng = np.random.default_rng(0)
    starts = [
        MergedAttention(*rng.normal(size=(2, D + 1, D + 1)), normalization="relu")
        for _ in range(64)
    ]
    minimise_attention(risk, starts, free="all")  # compiles
    benchmark.pedantic(lambda: minimise_attention(risk, starts, free="all"), rounds=3)
    print(f"\n64 descents over P and Q: {benchmark.stats.stats.min:.2f} s")


def bench_training_of_all_weights(benchmark):
    def run(steps):
        al.train(
            lambda key: MergedAttention.random(D, normalization="relu", scale=0.3, key=key),
            TASK,
            optimizer=optax.adam(0.01),
            steps=steps,
            batch_size=512,
            key=jax.random.key(0),
            runs=4,
            save_every=steps,
        )

    run(10)
    benchmark.pedantic(lambda: run(2000), rounds=3)
    print(
        f"\n4 runs: {benchmark.stats.stats.min / 2000 * 1e6:.0f} µs a step of all, with compiling"
    )
