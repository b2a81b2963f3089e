"""The SGD experiment at paper settings in full: 30 runs of 200 000 steps, timed.

python benchmarks/full_sgd.py
"""

from __future__ import annotations

import time

import jax

import attnlab as al


def main() -> None:
    task = al.SingleLocation(80, 10, noise_std=0.1)
    student = al.PointwiseAttention("erf", 2.0)
    starts = al.Overlaps.on_sphere(jax.random.key(0), 80, runs=30)
    began = time.perf_counter()
    runs = al.dynamics.stochastic_gradient_descent(
        task,
        student,
        starts,
        step_size=1e-3,
        steps=200_000,
        batch_size=5,
        key=jax.random.key(1),
        save_every=2_000,
        scale_schedule=lambda step: 2.0 / (1.0 + 1e-4 * step),
    )
    seconds = time.perf_counter() - began
    last = runs.isel(step=-1)
    print(f"{seconds:.1f} s, compilation included")
    print(f"mean risk {float(last.risk.mean()):.5f}, |kappa| {float(abs(last.kappa).mean()):.4f}")


if __name__ == "__main__":
    main()
