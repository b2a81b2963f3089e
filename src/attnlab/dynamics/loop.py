"""Long loops in compiled chunks: saved states, progress, interruption, checkpoints.

A loop is an Equinox module with two methods, `step(carry, i)` and `snapshot(carry, i)`. One
compiled program advances it by any number of steps; Python sees a chunk of about half a second at
a time. Memory grows with the saved states, never with the steps. Several loops of equal shapes run
side by side, one to a core.
"""

from __future__ import annotations

import abc
import hashlib
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._core.checkpoint import Checkpoint, current_checkpoint
from .._core.interrupt import RunInterrupted
from .._core.precision import float64
from .._core.progress import current_progress

_CHUNK_SECONDS = 0.5
_CHECKPOINT_SECONDS = 10.0
_CAPACITY = 256  # snapshots per chunk


class Loop(eqx.Module):
    """What `run_loop` runs. Leaves are arguments of the compiled program, static fields are not."""

    @abc.abstractmethod
    def step(self, carry: Any, i: Any) -> Any:
        """The state after step `i` (counted from 0) from the state before it."""

    @abc.abstractmethod
    def snapshot(self, carry: Any, i: Any) -> dict[str, Any]:
        """What is saved of the state at step `i`, with the parameters of that same step."""


Schedule = Callable[[Any], Any]


class ScheduledLoop(Loop):
    """A loop whose scale follows a schedule, or stays the risk's and the student's own."""

    schedule: Schedule | None = eqx.field(static=True)

    def scale_at(self, i: Any, dtype: Any = jnp.float64) -> Any:
        """The scale in force at step `i`; None, the risk's and the student's own, where there is no
        schedule."""
        if self.schedule is None:
            return None
        return jnp.asarray(self.schedule(i)).astype(jnp.float64).astype(dtype)


def saved_steps(steps: int, save_every: int) -> np.ndarray:
    """Steps at which the state is saved: `0, save_every, ...`, and the last one."""
    grid = np.arange(0, steps + 1, save_every)
    return grid if grid[-1] == steps else np.append(grid, steps)


@eqx.filter_jit
def _advance(
    loop: Loop, carry: Any, first: Any, blocks: Any, block: Any, saves: Any, capacity: int
) -> tuple[Any, Any]:
    """`blocks` times `block` steps from step `first`, with a snapshot after each block if `saves`
    (a chunk that ends between saves must not pay for one: it may cost more than its steps)."""

    def one_block(index: Any, carried: Any) -> Any:
        carry, store = carried
        start = first + index * block
        carry = jax.lax.fori_loop(start, start + block, lambda i, c: loop.step(c, i), carry)

        def save(store: Any) -> Any:
            shot = loop.snapshot(carry, start + block)
            return jax.tree.map(lambda all_, new: all_.at[index].set(new), store, shot)

        return carry, jax.lax.cond(saves, save, lambda store: store, store)

    shapes = jax.eval_shape(loop.snapshot, carry, first)
    store = jax.tree.map(lambda s: jnp.zeros((capacity, *s.shape), s.dtype), shapes)
    return jax.lax.fori_loop(0, blocks, one_block, (carry, store))


def run_loop(
    loop: Loop | list[Loop],
    carry: Any,
    *,
    steps: int,
    save_every: int,
    label: str,
    finish: Callable[[np.ndarray, dict[str, np.ndarray]], Any],
    note: Callable[[dict[str, np.ndarray]], str] = lambda shot: "",
    keep_state: Callable[[Any], None] = lambda carry: None,
) -> Any:
    """Runs `loop` from `carry` for `steps` steps in float64 scope.

    A list of loops that differ in their numbers only, with a list of carries, shares one compiled
    program and the cores; its snapshots are stacked along a second axis.

    **Arguments:** `finish(steps, snapshots)` builds the result from the saved steps and the stacked
    snapshots (leading axis: saves); `note` the text beside the progress bar; `keep_state` is called
    with the last state, before `finish`.

    **Raises:** `RunInterrupted` on Ctrl-C, with `finish` of what was saved until then. The loop
    then goes on from there when it is run again under the same checkpoints.
    """
    targets = saved_steps(steps, save_every)
    checkpoint = current_checkpoint(f"{label}-{_identity(loop, carry, steps, save_every)}")
    with float64():
        now = _begin(checkpoint, loop, carry)
    progress = current_progress()
    progress.start(label, steps)
    pace, kept = 0.0, time.monotonic()  # seconds per step, once known
    first = kept
    try:
        progress.advance(now.done, note(now.last_shot()))
        while now.done < steps:
            block, blocks = _plan(now.done, targets, now.saved, pace, save_every)
            began = time.monotonic()
            with float64():
                saves = now.done + blocks * block >= targets[now.saved]
                carry, store = _call(loop, now.carry, now.done, blocks, block, saves)
            pace = (time.monotonic() - began) / (blocks * block)
            now = now.after(carry, store, blocks, block, targets)  # all at once, for Ctrl-C
            progress.advance(blocks * block, note(now.last_shot()))
            if checkpoint is not None and time.monotonic() - kept > _CHECKPOINT_SECONDS:
                now.keep(checkpoint)
                kept = time.monotonic()
        if checkpoint is not None and time.monotonic() - first > _CHECKPOINT_SECONDS:
            now.keep(checkpoint)  # until what comes of it is saved, it is all there is
    except KeyboardInterrupt:
        if checkpoint is not None:
            now.keep(checkpoint)
        keep_state(now.carry)
        partial = finish(targets[: now.saved], now.snapshots())
        text = f"{label} interrupted at step {now.done} of {steps}"
        raise RunInterrupted(partial, text) from None
    finally:
        progress.stop()
    keep_state(now.carry)
    return finish(targets, now.snapshots())


class _Position(NamedTuple):
    """Where a loop is: the steps done, the number of saves, the state, the snapshots by chunk."""

    done: int
    saved: int
    carry: Any
    shots: tuple[dict[str, np.ndarray], ...]

    def after(
        self, carry: Any, store: Any, blocks: int, block: int, targets: np.ndarray
    ) -> _Position:
        done = self.done + blocks * block
        if done < targets[self.saved]:
            return self._replace(done=done, carry=carry)
        shot = {k: np.asarray(v[:blocks]) for k, v in store.items()}
        return _Position(done, self.saved + blocks, carry, (*self.shots, shot))

    def last_shot(self) -> dict[str, np.ndarray]:
        return {k: v[-1] for k, v in self.shots[-1].items()}

    def snapshots(self) -> dict[str, np.ndarray]:
        return {k: np.concatenate([shot[k] for shot in self.shots]) for k in self.shots[0]}

    def keep(self, checkpoint: Checkpoint) -> None:
        leaves = jax.tree.leaves(self.carry)
        state = {f"carry{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        snapshots = {f"shot.{k}": v for k, v in self.snapshots().items()}
        checkpoint.save({"done": np.asarray(self.done), **state, **snapshots})


def _call(
    loop: Loop | list[Loop], carry: Any, first: int, blocks: int, block: int, saves: bool
) -> tuple[Any, Any]:
    def one(part: Loop, state: Any) -> tuple[Any, Any]:
        with float64():  # a thread has a scope of its own
            at, times, long = (jnp.asarray(n, jnp.int64) for n in (first, blocks, block))
            flag = jnp.asarray(saves, bool)
            return jax.block_until_ready(_advance(part, state, at, times, long, flag, _CAPACITY))

    if isinstance(loop, Loop):
        return one(loop, carry)
    # XLA leaves most of a core idle on programs this small; the first call compiles, for all
    with ThreadPoolExecutor(1 if block == 0 else _cores()) as pool:
        done = list(pool.map(one, loop, carry))
    names = done[0][1]
    return [state for state, _ in done], {k: np.stack([d[1][k] for d in done], 1) for k in names}


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # absent on some systems
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _plan(
    done: int, targets: np.ndarray, saved: int, pace: float, save_every: int
) -> tuple[int, int]:
    """Steps per block and number of blocks of the next chunk, about half a second of work."""
    to_next = int(targets[saved]) - done
    budget = max(1, int(_CHUNK_SECONDS / pace)) if pace > 0 else 64
    if to_next != save_every or budget < save_every:
        return min(to_next, budget), 1
    regular = int(np.sum(np.diff(targets[saved - 1 :]) == save_every))
    return save_every, min(regular, budget // save_every, _CAPACITY)


def _identity(loop: Loop | list[Loop], carry: Any, steps: int, save_every: int) -> str:
    """A short digest of everything that the run depends on."""
    leaves, structure = jax.tree.flatten((loop, carry))
    # addresses of functions change from process to process; what a schedule does, does not
    text = re.sub(r" at 0x[0-9a-f]+", "", str(structure))
    digest = hashlib.sha256(f"{text}{steps}/{save_every}".encode())
    schedule = getattr(loop, "schedule", None)
    if schedule is not None:
        leaves += [schedule(i) for i in (0, steps // 3, steps)]
    for leaf in leaves:
        if jnp.issubdtype(getattr(leaf, "dtype", np.dtype(float)), jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()[:16]


def _begin(checkpoint: Checkpoint | None, loop: Loop | list[Loop], carry: Any) -> _Position:
    """Where to start from: a checkpoint's position, or step 0."""
    kept = None if checkpoint is None else checkpoint.load()
    # one block of no steps: a program of its own for the first snapshot would cost as much to compile
    same, store = _call(loop, carry, 0, 1, 0, True)
    if kept is not None:
        leaves, structure = jax.tree.flatten(carry)
        restored = [
            jnp.asarray(kept[f"carry{i}"]).astype(jnp.asarray(leaf).dtype)
            for i, leaf in enumerate(leaves)
        ]
        shots = {k.removeprefix("shot."): v for k, v in kept.items() if k.startswith("shot.")}
        saved = len(next(iter(shots.values())))
        state = jax.tree.unflatten(structure, restored)
        return _Position(int(kept["done"]), saved, state, (shots,))
    return _Position(0, 1, same, ({k: np.asarray(v[:1]) for k, v in store.items()},))
