"""Start-up times in fresh processes, and the memory of saved states."""

from __future__ import annotations

import subprocess
import sys

import jax
import pytest

import attnlab as al

COMMANDS = {
    "import attnlab": [sys.executable, "-c", "import attnlab"],
    "attnlab --help": [sys.executable, "-m", "attnlab", "--help"],
    "attnlab list": [sys.executable, "-m", "attnlab", "list"],
}


@pytest.mark.parametrize("name", COMMANDS)
def bench_start(benchmark, name):
    benchmark.pedantic(
        lambda: subprocess.run(COMMANDS[name], check=True, capture_output=True), rounds=7
    )
    print(f"\n{name}: {benchmark.stats.stats.min:.2f} s")


@pytest.mark.parametrize("steps", [1_000, 10_000])
def bench_saved_states(benchmark, steps):
    """Bytes of 100 saved states of 1000 runs: they do not depend on the number of steps."""
    risk = al.population_risk(al.SingleLocation(400, 10), al.PointwiseAttention("erf", 0.1))
    starts = al.Overlaps.on_sphere(jax.random.key(0), 400, runs=1000)

    def descend():
        return al.dynamics.projected_gradient_descent(
            risk, starts, step_size=4e-3, steps=steps, save_every=steps // 100
        )

    dataset = benchmark.pedantic(descend, rounds=1)
    benchmark.extra_info["bytes"] = dataset.nbytes
    each = dataset.nbytes / (1000 * dataset.sizes["step"])
    print(
        f"\n{steps} steps: {dataset.nbytes / 1e6:.2f} MB, {each:.1f} bytes per run and saved step"
    )
