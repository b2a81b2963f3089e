"""Two heads trained in context in full: Adam at 1e-3, batch 256, 500 000 steps, timed.

python benchmarks/full_in_context.py
"""

from __future__ import annotations

import time

import jax
import optax

import attnlab as al


def main() -> None:
    task = al.InContextRegression(5, 40)
    init, data = jax.random.split(jax.random.key(0))
    began = time.perf_counter()
    run = al.train(
        al.MultiHeadAttention(task.dim, 2, key=init),
        task,
        optimizer=optax.adam(1e-3),
        steps=500_000,
        batch_size=256,
        key=data,
        save_every=500,
    )
    seconds = time.perf_counter() - began
    end = al.dynamics.tail_average(run.history)
    step = float((end.omega * end.mu).sum())
    print(f"{seconds:.0f} s, compilation included: {500_000 / seconds:.0f} steps a second")
    print(f"omega {end.omega.values}, mu {end.mu.values}, effective step {step:.4f}")
    print(f"risk {float(end.risk):.4f} ± {float(end.risk_error):.4f} on the test prompts")


if __name__ == "__main__":
    main()
