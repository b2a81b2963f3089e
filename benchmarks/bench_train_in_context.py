"""Training in context: steps per second against the same loop in PyTorch eager, and where time goes.

The comparison needs the extra `bert` (for torch); the other benchmarks do not.
"""

from __future__ import annotations

import math
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

import attnlab as al
from attnlab._core.keys import fold_in
from attnlab._core.normals import standard_normals
from attnlab.dynamics import train
from attnlab.dynamics.prompt_loss import squared_errors

DIM, LENGTH, BATCH, RATE = 5, 40, 256, 1e-3
TASK = al.InContextRegression(DIM, LENGTH)
NUMBERS = LENGTH * DIM + DIM + DIM + LENGTH + 1  # normals of one prompt


def layer_of(heads):
    return lambda key: al.MultiHeadAttention(DIM, heads, key=key)


def seconds_per_step(heads, runs=None, short=1_000, long=4_000):
    """Compilation and start-up drop out of the difference of two lengths."""
    layer = layer_of(heads) if runs else layer_of(heads)(jax.random.key(0))

    def seconds(steps):
        began = time.perf_counter()
        train(
            layer,
            TASK,
            optimizer=optax.adam(RATE),
            steps=steps,
            batch_size=BATCH,
            key=jax.random.key(1),
            save_every=steps,
            runs=runs,
        )
        return time.perf_counter() - began

    # compiled anew for each optimiser: once for all calls of one length is not enough
    return min((seconds(long) - seconds(short)) / (long - short) for _ in range(3))


def torch_seconds_per_step(heads, steps=300, repeats=5):
    """Batched einsums over heads, automatic differentiation, `torch.optim.Adam`."""
    import torch

    size = DIM + 1

    def weight():
        return torch.nn.Parameter((2 * torch.rand(heads, size, size) - 1) / math.sqrt(size))

    W_Q, W_K, W_V, W_O = weight(), weight(), weight(), weight()
    optimizer = torch.optim.Adam([W_Q, W_K, W_V, W_O], lr=RATE)
    noise = math.sqrt(0.1)

    def step():
        X, xq = torch.randn(BATCH, LENGTH, DIM), torch.randn(BATCH, DIM)
        beta = torch.randn(BATCH, DIM) / math.sqrt(DIM)
        y = torch.einsum("bld,bd->bl", X, beta) + noise * torch.randn(BATCH, LENGTH)
        yq = (xq * beta).sum(-1) + noise * torch.randn(BATCH)
        tokens = torch.cat([X, y[..., None]], -1)
        query = torch.cat([xq, torch.zeros(BATCH, 1)], -1)
        queries = torch.einsum("hij,bj->bhi", W_Q, query)
        keys = torch.einsum("hij,blj->bhli", W_K, tokens)
        values = torch.einsum("hij,blj->bhli", W_V, tokens)
        weights = torch.softmax(torch.einsum("bhli,bhi->bhl", keys, queries), -1)
        read = torch.einsum("bhl,bhli->bhi", weights, values)
        prediction = torch.einsum("hij,bhj->bi", W_O, read)[:, -1]
        loss = ((prediction - yq) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    best = math.inf
    for _ in range(repeats):
        began = time.perf_counter()
        for _ in range(steps):
            step()
        best = min(best, (time.perf_counter() - began) / steps)
    return best


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def bench_training_against_torch(benchmark, heads):
    pytest.importorskip("torch")
    ours = benchmark.pedantic(lambda: seconds_per_step(heads), rounds=1)
    theirs = torch_seconds_per_step(heads)
    benchmark.extra_info.update(ours=1 / ours, torch=1 / theirs, ratio=theirs / ours)
    print(
        f"\n{heads} heads: {1 / ours:.0f} steps a second, PyTorch eager {1 / theirs:.0f}: "
        f"ratio {theirs / ours:.1f}"
    )


def bench_four_runs(benchmark):
    one = seconds_per_step(2)
    four = benchmark.pedantic(lambda: seconds_per_step(2, runs=4), rounds=1)
    benchmark.extra_info.update(one=one, four=four, ratio=four / one)
    print(f"\nfour runs of two heads cost {four / one:.2f} times one ({four * 1e6:.0f} µs a step)")


def inner_loop(step, carry, steps=1_000):
    """Best time of one iteration inside a compiled loop."""
    loop = jax.jit(lambda c: jax.lax.fori_loop(0, steps, step, c))
    jax.block_until_ready(loop(carry))
    best = math.inf
    for _ in range(10):
        began = time.perf_counter()
        jax.block_until_ready(loop(carry))
        best = min(best, (time.perf_counter() - began) / steps)
    return best


def normals(draw):
    key, shape = jax.random.key(0), (NUMBERS, BATCH)
    return inner_loop(lambda i, c: c + draw(key, i, shape), jnp.zeros(shape, jnp.float32))


def bench_parts_of_a_step(benchmark):
    """Random numbers, gradient and optimiser apart; the whole step is less than their sum."""
    layer = layer_of(2)(jax.random.key(0))
    weights, fixed = eqx.partition(layer, eqx.is_inexact_array)
    optimizer = optax.adam(RATE)
    prompts = TASK.sample(jax.random.key(2), BATCH)

    def loss(w, X):
        drawn = prompts._replace(X=X)
        return jnp.mean(squared_errors(eqx.combine(w, fixed), drawn))

    def descend(i, carry):
        w, X = carry
        gradient = jax.grad(loss)(w, X)
        w = jax.tree.map(lambda a, g: a - 1e-6 * g, w, gradient)
        return w, X * 1.000001  # not the same prompts in every step, or XLA hoists what it can

    def adjust(i, carry):
        w, memory = carry
        updates, memory = optimizer.update(w, memory, w)
        return jax.tree.map(jnp.add, w, updates), memory

    parts = {
        "normals of the library": normals(lambda k, i, s: standard_normals(fold_in(k, i), s)),
        "jax.random.normal": normals(
            lambda k, i, s: jax.random.normal(jax.random.fold_in(k, i), s, jnp.float32)
        ),
        "gradient": inner_loop(descend, (weights, prompts.X)),
        "Adam": inner_loop(adjust, (weights, optimizer.init(weights))),
    }
    parts["whole step"] = benchmark.pedantic(lambda: seconds_per_step(2), rounds=1)
    benchmark.extra_info.update({name: 1e6 * value for name, value in parts.items()})
    print("\n" + ", ".join(f"{name} {1e6 * value:.0f} µs" for name, value in parts.items()))
