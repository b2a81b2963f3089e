"""Training a layer on fresh prompts with any Optax optimiser: one compiled loop for all runs.

A layer is an Equinox module called on a batch of prompts, `layer(X) -> (batch,)`; its
floating-point arrays are trained by the gradient of the mean squared error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._core.errors import InvalidArgument, check_integer
from .loop import Loop, run_loop
from .vectors import check_memory, run_keys

if TYPE_CHECKING:
    import xarray

Measure = Callable[[Any], dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """What training gave: the trained `layer` (its arrays with a leading axis `run` when there are
    several runs) and the `history`."""

    layer: Any
    history: xarray.Dataset

    def layer_of(self, run: int) -> Any:
        """The layer of one of several runs."""
        return jax.tree.map(lambda leaf: leaf[run] if eqx.is_array(leaf) else leaf, self.layer)


class _Training(Loop):
    task: Any
    data_keys: PRNGKeyArray
    test_keys: PRNGKeyArray
    optimizer: Any = eqx.field(static=True)
    fixed: Any = eqx.field(static=True)  # the layer without its arrays
    measure: Measure | None = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    test_prompts: int = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)

    def step(self, carry: Any, i: Any) -> Any:
        return jax.vmap(lambda one, key: self._step(one, key, i))(carry, self.data_keys)

    def snapshot(self, carry: Any, i: Any) -> dict[str, Any]:
        return jax.vmap(self._snapshot)(carry, self.test_keys)

    def _step(self, carry: Any, key: PRNGKeyArray, i: Any) -> Any:
        weights, memory = carry
        prompts = self.task.sample(jax.random.fold_in(key, i), self.batch_size, dtype=self.dtype)
        gradient = jax.grad(lambda w: jnp.mean(self._losses(w, prompts)))(weights)
        updates, new = self.optimizer.update(gradient, memory, weights)
        # a schedule computed in float64 must not widen the state of the loop
        new = jax.tree.map(lambda old, value: jnp.asarray(value).astype(old.dtype), memory, new)
        moved = jax.tree.map(lambda w, u: (w + u).astype(w.dtype), weights, updates)
        return moved, new

    def _snapshot(self, carry: Any, key: PRNGKeyArray) -> dict[str, Any]:
        weights, _ = carry
        prompts = self.task.sample(key, self.test_prompts, dtype=self.dtype)
        losses = self._losses(weights, prompts).astype(jnp.float64)
        error = jnp.std(losses, ddof=1) / jnp.sqrt(float(self.test_prompts))
        measured = {} if self.measure is None else self.measure(eqx.combine(weights, self.fixed))
        return {"risk": jnp.mean(losses), "risk_error": error, **measured}

    def _losses(self, weights: Any, prompts: Any) -> Any:
        return (eqx.combine(weights, self.fixed)(prompts.X) - prompts.y) ** 2


def train(
    layer: Any,
    task: Any,
    *,
    optimizer: Any,
    steps: int,
    batch_size: int,
    key: PRNGKeyArray,
    save_every: int | None = None,
    runs: int | None = None,
    measure: Measure | None = None,
    test_prompts: int = 2000,
    dtype: Any = jnp.float32,
) -> Run:
    """Trains on fresh prompts: every step draws `batch_size` new ones.

    **Arguments:**

    - `layer`: an Equinox module; or, when `runs` is given, a function `key -> module`, called once
      per run. All runs train in one compiled loop.
    - `task`: anything with `sample(key, batch, dtype=)` that gives `.X` and `.y`.
    - `optimizer`: from Optax, e.g. `optax.adam(1e-3)`.
    - `save_every`: steps between records (default: a hundredth of `steps`).
    - `measure`: a function `layer -> {name: array}`, traceable by JAX, recorded at saved steps.
    - `test_prompts`: prompts on which the risk is estimated at saved steps, the same at all steps.
    - `dtype` of prompts and weights.

    Run `i` uses `fold_in(key, i)`, split into keys of initial weights, training and test prompts.

    **Returns:** a `Run`. Its history has, on `(run, step)` (`step` alone without `runs`), `risk`
    (mean squared error on the test prompts, label noise included) with the standard error
    `risk_error`, and what `measure` gave; `status` is `"ok"` or `"diverged"`.

    Raises `InvalidArgument` before any step is made; `RunInterrupted` on Ctrl-C, with the history
    until then.
    """
    steps = check_integer("steps", steps, minimum=0)
    batch_size = check_integer("batch_size", batch_size, minimum=1)
    test_prompts = check_integer("test_prompts", test_prompts, minimum=2)
    save_every = max(1, steps // 100) if save_every is None else save_every
    save_every = check_integer("save_every", save_every, minimum=1)
    count = 1 if runs is None else check_integer("runs", runs, minimum=1)
    if not callable(getattr(task, "sample", None)):
        raise InvalidArgument("task", task, "a task with a method sample(key, batch, dtype=)")
    if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        raise InvalidArgument("optimizer", optimizer, "an Optax gradient transformation")
    if runs is None and not isinstance(layer, eqx.Module):
        raise InvalidArgument("layer", layer, "an Equinox module (or give runs)")
    if runs is not None and (isinstance(layer, eqx.Module) or not callable(layer)):
        raise InvalidArgument("layer", layer, "a function key -> module when runs are given")
    sizes = [getattr(task, name, None) or 1 for name in ("length", "dim")]
    for name, prompts in (("batch_size", batch_size), ("test_prompts", test_prompts)):
        check_memory(name, prompts, count * int(np.prod(sizes)), dtype)

    keys = jax.vmap(lambda k: jax.random.split(k, 3), out_axes=1)(run_keys(key, count))
    if runs is None:
        stacked = jax.tree.map(lambda a: a[None] if eqx.is_array(a) else a, layer)
    else:
        stacked = eqx.filter_vmap(layer)(keys[0])
    weights, fixed = eqx.partition(stacked, eqx.is_inexact_array)
    if any(eqx.is_array(leaf) for leaf in jax.tree.leaves(fixed)):
        raise InvalidArgument("layer", layer, "a module whose arrays are all of floating point")
    weights = jax.tree.map(lambda leaf: leaf.astype(dtype), weights)
    loop = _Training(
        task=jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), task),
        data_keys=keys[1],
        test_keys=keys[2],
        optimizer=optimizer,
        fixed=fixed,
        measure=measure,
        batch_size=batch_size,
        test_prompts=test_prompts,
        dtype=jnp.dtype(dtype),
    )
    last: list[Any] = []
    single = runs is None
    history = run_loop(
        loop,
        (weights, jax.vmap(optimizer.init)(weights)),
        steps=steps,
        save_every=save_every,
        label="training",
        finish=lambda at, shots: _history(at, shots, single),
        note=lambda shot: f"risk {np.mean(shot['risk']):.4g}",
        keep_state=last.append,
    )
    trained = eqx.combine(last[-1][0], fixed)
    if single:
        trained = jax.tree.map(lambda a: a[0] if eqx.is_inexact_array(a) else a, trained)
    return Run(trained, history)


def sampled_risk(
    layer: Any, task: Any, *, key: PRNGKeyArray, samples: int, batch: int = 2000
) -> tuple[float, float]:
    """The risk of a layer on a task by sampling: `(mean, standard_error)`, label noise included.

    Prompts are drawn in batches of `batch`, which bounds the memory. Raises `InvalidArgument`.
    """
    samples = check_integer("samples", samples, minimum=2)
    batch = min(check_integer("batch", batch, minimum=1), samples)
    rounds = -(-samples // batch)
    weights, fixed = eqx.partition(layer, eqx.is_array)
    losses = np.asarray(_sampled_losses(weights, fixed, task, key, batch, rounds), np.float64)
    losses = losses.ravel()[:samples]
    return float(losses.mean()), float(losses.std(ddof=1) / np.sqrt(samples))


@eqx.filter_jit
def _sampled_losses(
    weights: Any, fixed: Any, task: Any, key: PRNGKeyArray, batch: int, rounds: int
) -> Any:
    def one(i: Any) -> Any:
        prompts = task.sample(jax.random.fold_in(key, i), batch)
        return (eqx.combine(weights, fixed)(prompts.X) - prompts.y) ** 2

    return jax.lax.map(one, jnp.arange(rounds))


def _history(at: np.ndarray, shots: dict[str, np.ndarray], single: bool) -> xarray.Dataset:
    import xarray

    data = {}
    for name, value in shots.items():
        extra = tuple(f"{name}_{n}" for n in range(value.ndim - 2))
        data[name] = ("run", "step", *extra), np.swapaxes(value, 0, 1)
    dataset = xarray.Dataset(data)
    dataset = dataset.assign_coords(run=np.arange(dataset.sizes["run"]), step=at)
    dataset["risk"].attrs["long_name"] = "risk on test prompts, label noise included"
    dataset["risk_error"].attrs["long_name"] = "standard error of the risk"
    finite = np.isfinite(shots["risk"]).all(axis=0)
    dataset["status"] = ("run", np.where(finite, "ok", "diverged"))
    return dataset.isel(run=0, drop=True) if single else dataset
