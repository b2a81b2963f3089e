"""Gradient descent and SGD: the overlap recursion against a step in `R^d` called from Python."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab import papers
from attnlab._core.precision import float64, to_float64

DIM, LENGTH, SCALE, STEP = 400, 10, 0.1, 4e-3


def risk_and_starts(runs):
    risk = al.population_risk(al.SingleLocation(DIM, LENGTH), al.PointwiseAttention("erf", SCALE))
    return risk, al.Overlaps.on_sphere(jax.random.key(0), DIM, runs=runs)


def best_of(function, repeats=30):
    """Shortest of several timings: the machine is shared."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def baseline(runs, steps=500):
    """Seconds per step of one jitted update of `runs` pairs of vectors in `R^400`, called from a
    Python loop: automatic differentiation of the same closed-form risk through inner products."""
    risk, starts = risk_and_starts(runs)
    k_star, v_star = np.eye(2, DIM)
    with float64():
        exact, k, v, k_star, v_star = to_float64((risk, *starts.to_vectors(DIM), k_star, v_star))

        def total(k, v):
            state = jnp.stack(
                [k @ k_star, v @ v_star, v @ k_star, k @ v_star, jnp.sum(k * v, -1)], -1
            )
            return jnp.sum(exact.value_of(state, exact.scale))

        @jax.jit
        def update(k, v):
            g_k, g_v = jax.grad(total, argnums=(0, 1))(k, v)
            g_k -= jnp.sum(g_k * k, -1, keepdims=True) * k
            g_v -= jnp.sum(g_v * v, -1, keepdims=True) * v
            k, v = k - STEP * g_k, v - STEP * g_v
            return k / jnp.linalg.norm(k, axis=-1, keepdims=True), v / jnp.linalg.norm(
                v, axis=-1, keepdims=True
            )

        def loop():
            a, b = k, v
            for _ in range(steps):
                a, b = update(a, b)
            jax.block_until_ready((a, b))

        loop()
        return best_of(loop) / steps


@pytest.mark.parametrize("runs", [30, 1000])
def bench_overlap_descent(benchmark, runs):
    risk, starts = risk_and_starts(runs)
    steps = (
        2_000 if runs == 30 else 200
    )  # some ten milliseconds: short, so that the best of many is undisturbed

    def descend():
        al.dynamics.projected_gradient_descent(
            risk, starts, step_size=STEP, steps=steps, save_every=steps
        )

    descend()
    benchmark.pedantic(descend, rounds=50)
    ours = benchmark.stats.stats.min / (steps * runs)
    one, batch = baseline(1), baseline(30) / 30
    benchmark.extra_info.update(
        seconds_per_run_step=ours,
        baseline_one_run=one,
        baseline_batch_30=batch,
        ratio_one_run=one / ours,
        ratio_batch_30=batch / ours,
    )
    print(
        f"\nper run and step, {runs} runs: {ours * 1e9:.0f} ns; in R^400 from a Python loop: one run "
        f"{one * 1e6:.0f} µs (ratio {one / ours:.0f}), 30 runs at once {batch * 1e6:.1f} µs "
        f"(ratio {batch / ours:.0f})"
    )


def bench_four_descent_experiments(benchmark):
    """Paper settings, 30 repeats each, after compilation."""
    names = ("gd-manifold", "gd-sphere-large-scale", "gd-sphere-small-scale", "gd-sphere-schedule")
    experiments = [papers.find_experiment(f"marion2025/{name}") for name in names]

    def run(changes):
        for experiment in experiments:
            experiment.compute(experiment.configure("paper", changes))

    run({})
    benchmark.pedantic(run, args=({},), rounds=3)
    print(f"\nfour experiments at paper settings: {benchmark.stats.stats.min:.1f} s")


def bench_stochastic_descent(benchmark):
    """A stretch of the SGD experiment at paper settings: d=80, batch 5, L=10, 30 runs."""
    task = al.SingleLocation(80, LENGTH, noise_std=0.1)
    student = al.PointwiseAttention("erf", 2.0)
    starts = al.Overlaps.on_sphere(jax.random.key(0), 80, runs=30)
    steps = 2_000

    def descend():
        al.dynamics.stochastic_gradient_descent(
            task,
            student,
            starts,
            step_size=1e-3,
            steps=steps,
            batch_size=5,
            key=jax.random.key(1),
            save_every=steps,
            scale_schedule=_decaying,
        )

    descend()
    benchmark.pedantic(descend, rounds=3)
    per_step = benchmark.stats.stats.min / steps
    benchmark.extra_info["seconds_for_200000_steps"] = 200_000 * per_step
    print(
        f"\nSGD: {per_step * 1e6:.0f} µs a step of 30 runs, {200_000 * per_step:.0f} s for 200 000"
    )


def _decaying(step):
    return 2.0 / (1.0 + 1e-4 * step)
