"""What a sweep adds to its points: per batch, and with a second worker."""

from __future__ import annotations

import time

import numpy as np
import pytest

import attnlab as al


def nothing(i):
    """A point that costs nothing, so that all that is left is the sweep."""
    return {"x": i + 0.0}


@pytest.mark.parametrize("workers", [0, 1, 2])
def bench_overhead_per_batch(benchmark, tmp_path, workers):
    """Two sweeps of one-point batches that differ in their number: start-up drops out."""

    def seconds(count, round_=[0]):  # noqa: B006
        round_[0] += 1
        start = time.perf_counter()
        al.sweep(
            "bench_sweeps:nothing",
            grid={"i": range(count)},
            batch=1,
            workers=workers,
            paths=[__file__.rpartition("/")[0]],
            out=tmp_path / f"{count}-{round_[0]}",
        )
        return time.perf_counter() - start

    few, many = 20, 420
    benchmark.pedantic(lambda: seconds(few), rounds=1)
    each = min((seconds(many) - seconds(few)) / (many - few) for _ in range(3))
    benchmark.extra_info["seconds per batch"] = each
    print(f"\n{workers} workers: {each * 1e3:.1f} ms per batch")


def bench_two_workers(benchmark, tmp_path):
    """40 000 points of the exact phase diagram at d = 100, on one worker and on two."""
    times = {}
    arguments = al.sweeps.read("dohmatob2025/phase-diagram")
    arguments["grid"]["dim"] = [100]
    for workers in (2, 1):
        start = time.perf_counter()
        dataset = al.sweep(**arguments, workers=workers, out=tmp_path / f"{workers}")
        times[workers] = time.perf_counter() - start
        assert dataset.status.size == 40_000
        assert np.all(dataset.status == 0)
    benchmark.pedantic(lambda: None, rounds=1)
    benchmark.extra_info["seconds"] = times
    print(f"\none worker {times[1]:.0f} s, two {times[2]:.0f} s: {times[1] / times[2]:.2f} times")
