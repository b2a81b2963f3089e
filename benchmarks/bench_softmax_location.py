"""The exact risk of softmax attention on single-location regression: set-up, value and gradient,
a batch of 1000 overlaps, memory. Compiled beforehand, at the default resolution."""

from __future__ import annotations

import subprocess
import sys

import jax
import numpy as np
import pytest

import attnlab as al
from attnlab._core.precision import float64, to_float64

LINKS = ["linear", "quadratic", "tanh", "relu"]
DIM, LOG_LENGTH = 100, 20.0


def _risk(link, slope=10.0):
    task = al.SingleLocation(DIM, log_length=LOG_LENGTH, link=link)
    return al.population_risk(task, al.SoftmaxAttention(slope / DIM**0.5, link))


@pytest.mark.parametrize("slope", [1.0, 10.0, 40.0])
def bench_set_up(benchmark, slope):
    """Tables for a new `β` at `β√d` near `slope`, programs of the last one reused."""
    _risk("linear", slope)
    slopes = iter(slope * (1 - 1e-3 * np.arange(1, 7)))
    benchmark.pedantic(lambda: _risk("linear", next(slopes)), rounds=5)
    print(f"\nset-up at β√d = {slope:g}: {benchmark.stats.stats.min * 1e3:.1f} ms")


@pytest.mark.parametrize("link", LINKS)
def bench_value_and_gradient(benchmark, link):
    risk, state = _risk(link), al.Overlaps.on_sphere(jax.random.key(0), 5).stack()
    with float64():
        exact, at = to_float64((risk, state))
        both = jax.jit(lambda r, x: (r.value_of(x), r.gradient_of(x)))
        jax.block_until_ready(both(exact, at))
        benchmark.pedantic(lambda: jax.block_until_ready(both(exact, at)), rounds=20)
    print(f"\n{link}: {benchmark.stats.stats.min * 1e3:.2f} ms for value and gradient")


@pytest.mark.parametrize("link", LINKS)
def bench_batch_of_1000(benchmark, link):
    risk, overlaps = _risk(link), al.Overlaps.on_sphere(jax.random.key(0), 5, runs=1000)
    risk(overlaps)
    benchmark.pedantic(lambda: risk(overlaps), rounds=2)
    print(f"\n{link}: {benchmark.stats.stats.min:.2f} s for 1000 overlaps")


@pytest.mark.parametrize(("link", "gradients"), [("linear", 1000), ("relu", 1000)])
def bench_memory(benchmark, link, gradients):
    """Peak memory of a process that evaluates 1000 overlaps and gradients at `β√d = 40`, and above
    that of one that only imports JAX and evaluates a pointwise risk. Linux: the peak that `resource`
    tells is inherited from the parent."""
    lines = [
        "import re, jax, attnlab as al",
        "overlaps = al.Overlaps.on_sphere(jax.random.key(0), 5, runs=1000)",
        "al.population_risk(al.SingleLocation(5, 7), al.PointwiseAttention())(overlaps)",
        "told = lambda: open('/proc/self/status').read()",
        "peak = lambda: int(re.search(r'VmHWM:\\s*(\\d+)', told()).group(1)) / 1024",
        "before = peak()",
        f"task = al.SingleLocation({DIM}, log_length={LOG_LENGTH}, link={link!r})",
        f"risk = al.population_risk(task, al.SoftmaxAttention(4.0, {link!r}))",
        "risk(overlaps)",
        f"risk.gradient(al.Overlaps.unstack(overlaps.stack()[:{gradients}]))",
        "print(peak() - before, peak())",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    found = benchmark.pedantic(
        lambda: subprocess.run(command, check=True, capture_output=True, text=True).stdout,
        rounds=1,
    )
    more, total = (float(part) for part in found.split())
    benchmark.extra_info.update(MiB=more, total_MiB=total)
    told = f"1000 values and {gradients} gradients at β√d = 40"
    print(f"\n{link}: {more:.0f} MiB, {total:.0f} in all, {told}")
