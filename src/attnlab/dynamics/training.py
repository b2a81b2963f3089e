"""Training a layer on fresh prompts with any Optax optimiser: one compiled loop for all runs.

A layer is an Equinox module called on a batch of prompts, `layer(X) -> (batch,)` for single-location
tasks and `layer(X, y, xq) -> (batch,)` or `(batch, outputs)` in context; its floating-point arrays
are trained by the gradient of the mean squared error, summed over outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._core.errors import InvalidArgument, check_integer
from .._core.keys import fold_in
from .._core.precision import check_dtype, float64
from .arguments import check_length
from .circuit_history import LONG_NAMES, default_measure
from .loop import Loop, run_loop
from .prompt_loss import (
    check_fits,
    prompt_numbers,
    squared_errors,
    with_jax_arrays,
)
from .prompt_loss import sampled_risk as sampled_risk
from .vectors import check_memory, run_keys

if TYPE_CHECKING:
    import xarray

Measure = Callable[[Any], dict[str, Any]]

_SMALL_STEP = 2**14  # numbers in the prompts of one step

_MEASURES = "a function from a layer to a dictionary of arrays with their names as keys"
_ALWAYS = {
    "risk": "risk on test prompts, label noise included",
    "risk_error": "standard error of the risk",
}
_LONG_NAMES = _ALWAYS | LONG_NAMES


@dataclass(frozen=True)
class Run:
    """What training gave: the trained `layer` (its arrays with a leading axis `run` when there are
    several runs) and the `history`."""

    layer: Any
    history: xarray.Dataset

    def layer_of(self, run: int) -> Any:
        """The layer of one of several runs."""
        return _run(self.layer, run)


class _Training(Loop):
    """One run; or, when `stacked`, several along the leading axis of keys and states."""

    task: Any
    data_key: PRNGKeyArray
    test_key: PRNGKeyArray
    optimizer: Any = eqx.field(static=True)
    fixed: Any = eqx.field(static=True)  # the layer without its arrays
    measures: tuple[Measure, ...] = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    test_prompts: int = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)
    stacked: bool = eqx.field(static=True)

    def step(self, carry: Any, i: Any) -> Any:
        if not self.stacked:
            return self._step(carry, self.data_key, i)
        return jax.vmap(lambda one, key: self._step(one, key, i))(carry, self.data_key)

    def snapshot(self, carry: Any, i: Any) -> dict[str, Any]:
        take = jax.vmap(self._snapshot) if self.stacked else self._snapshot
        return take(carry, self.test_key)

    def _step(self, carry: Any, key: PRNGKeyArray, i: Any) -> Any:
        weights, memory = carry
        prompts = self.task.sample(fold_in(key, i), self.batch_size, dtype=self.dtype)
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
        shot = {"risk": jnp.mean(losses), "risk_error": error}
        for measure in self.measures:
            shot |= measure(eqx.combine(weights, self.fixed))
        return shot

    def _losses(self, weights: Any, prompts: Any) -> Any:
        return squared_errors(eqx.combine(weights, self.fixed), prompts)


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
      per run. Runs share one compiled program: small ones (or those on an accelerator) run in it
      together, large ones one to a core.
    - `task`: anything with `sample(key, batch, dtype=)` that gives `.inputs` and `.target`, or `.X`
      and `.y`.
    - `optimizer`: from Optax, e.g. `optax.adam(1e-3)`.
    - `save_every`: steps between records (default: a hundredth of `steps`).
    - `measure`: a function `layer -> {name: array}`, traceable by JAX, recorded at saved steps; its
      attribute `dims`, if any, names the axes. The circuits of `MultiHeadAttention` and
      `KernelHeads` are recorded unasked (`CircuitMeasure`, which can add the whole matrices).
    - `test_prompts`: prompts on which the risk is estimated at saved steps, the same at all steps.
    - `dtype` of prompts and weights.

    Run `i` uses `fold_in(key, i)`, split into keys of initial weights, training and test prompts.

    **Returns:** a `Run`. Its history has, on `(run, step)` (`step` alone without `runs`), `risk`
    (mean squared error on the test prompts, label noise included) with the standard error
    `risk_error`, and what was measured; `status` is `"ok"` or `"diverged"`. Its attributes say
    how random numbers were made.

    Raises `InvalidArgument` before any step is made; `RunInterrupted` on Ctrl-C, with the history
    until then.
    """
    check_dtype(dtype)
    if measure is not None and not callable(measure):
        raise InvalidArgument("measure", measure, _MEASURES)
    steps = check_integer("steps", steps, minimum=0)
    batch_size = check_integer("batch_size", batch_size, minimum=1)
    test_prompts = check_integer("test_prompts", test_prompts, minimum=2)
    save_every = max(1, steps // 100) if save_every is None else save_every
    save_every = check_integer("save_every", save_every, minimum=1)
    count = 1 if runs is None else check_integer("runs", runs, minimum=1)
    check_length(steps, save_every, count, seconds=1e-4)
    if not callable(getattr(task, "sample", None)):
        raise InvalidArgument("task", task, "a task with a method sample(key, batch, dtype=)")
    if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        raise InvalidArgument("optimizer", optimizer, "an Optax gradient transformation")
    if runs is None and not isinstance(layer, eqx.Module):
        raise InvalidArgument("layer", layer, "an Equinox module (or give runs)")
    if runs is None:
        layer = with_jax_arrays(layer)
        _check_finite(layer)
    if runs is not None and (isinstance(layer, eqx.Module) or not callable(layer)):
        raise InvalidArgument("layer", layer, "a function key -> module when runs are given")
    for name, prompts in (("batch_size", batch_size), ("test_prompts", test_prompts)):
        check_memory(name, prompts, count * prompt_numbers(task), dtype)

    keys = jax.vmap(lambda k: jax.random.split(k, 3), out_axes=1)(run_keys(key, count))
    if runs is None:
        stacked = jax.tree.map(lambda a: a[None] if eqx.is_array(a) else a, layer)
    else:
        stacked = eqx.filter_vmap(lambda k: with_jax_arrays(layer(k)))(keys[0])
    weights, fixed = eqx.partition(stacked, eqx.is_inexact_array)
    if any(eqx.is_array(leaf) for leaf in jax.tree.leaves(fixed)):
        raise InvalidArgument("layer", layer, "a module whose arrays are all of floating point")
    check_fits(_run(stacked, 0), task)
    measures = [m for m in (default_measure(stacked), measure) if m is not None]
    with float64():  # so that float64 is kept where it is asked for
        weights = jax.tree.map(lambda leaf: leaf.astype(dtype), weights)
        task = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), task)
        if measure is not None:
            _check_measure(measure, eqx.combine(weights, fixed))
        memory = jax.vmap(optimizer.init)(weights)
    whole = _Training(
        task=task,
        data_key=keys[1],
        test_key=keys[2],
        optimizer=optimizer,
        fixed=fixed,
        measures=tuple(measures),
        batch_size=batch_size,
        test_prompts=test_prompts,
        dtype=jnp.dtype(dtype),
        stacked=True,
    )
    loop, state = _arranged(whole, (weights, memory), count)
    last: list[Any] = []
    single = runs is None
    attrs = {
        "key_implementation": str(jax.random.key_impl(key)),
        "generator": getattr(task, "generator", "jax.random"),
    }
    dims: dict[str, tuple[str, ...]] = {}
    for each in measures:
        dims |= getattr(each, "dims", {})
    history = run_loop(
        loop,
        state,
        steps=steps,
        save_every=save_every,
        label="training",
        finish=lambda at, shots: _history(at, shots, dims, single).assign_attrs(attrs),
        note=lambda shot: f"risk {np.mean(shot['risk']):.4g}",
        keep_state=last.append,
    )
    states = last[-1]
    if isinstance(states, list):
        states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    trained = eqx.combine(states[0], fixed)
    return Run(_run(trained, 0) if single else trained, history)


def _arranged(whole: _Training, state: Any, runs: int) -> tuple[Any, Any]:
    """Large steps on the CPU: each run apart, so that its arrays stay in cache and another core
    takes another run. Small ones, and accelerators: all runs in one program, by `vmap`."""
    numbers = whole.batch_size * prompt_numbers(whole.task)
    if jax.default_backend() != "cpu" or (runs > 1 and numbers < _SMALL_STEP):
        return whole, state
    loops = [
        replace(whole, data_key=data, test_key=test, stacked=False)
        for data, test in zip(whole.data_key, whole.test_key)
    ]
    return loops, [_run(state, i) for i in range(runs)]


def _run(layers: Any, run: int) -> Any:
    """One of the layers that are stacked along the leading axis of their arrays."""
    return jax.tree.map(lambda leaf: leaf[run] if eqx.is_array(leaf) else leaf, layers)


def _check_measure(measure: Measure, stacked: Any) -> None:
    """Traces it on a layer, computes nothing; what it raises itself is its author's to see."""
    found = eqx.filter_eval_shape(lambda layers: measure(_run(layers, 0)), stacked)
    good = isinstance(found, dict) and all(isinstance(name, str) for name in found)
    if not good or not all(hasattr(leaf, "shape") for leaf in found.values()):
        raise InvalidArgument("measure", measure, f"{_MEASURES}; it gave {found!r}")


def _check_finite(layer: Any) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(layer):
        if eqx.is_inexact_array(leaf) and not np.isfinite(np.asarray(leaf)).all():
            name = jax.tree_util.keystr(path)
            shown = f"{type(layer).__name__} with NaN or infinity in {name}"
            raise InvalidArgument("layer", shown, "a module of finite weights")


def _history(
    at: np.ndarray,
    shots: dict[str, np.ndarray],
    dims: dict[str, tuple[str, ...]],
    single: bool,
) -> xarray.Dataset:
    import xarray

    data: dict[str, Any] = {}
    for name, value in shots.items():
        axes = value.ndim - 2
        extra = dims.get(name, ())[:axes]
        extra += tuple(f"{name}_{n}" for n in range(len(extra), axes))
        data[name] = ("run", "step", *extra), np.swapaxes(value, 0, 1)
    dataset = xarray.Dataset(data)
    dataset = dataset.assign_coords(run=np.arange(dataset.sizes["run"]), step=at)
    for name, text in _LONG_NAMES.items():
        if name in dataset and (name in _ALWAYS or name in dims):
            dataset[name].attrs["long_name"] = text
    finite = np.isfinite(shots["risk"]).all(axis=0)
    dataset["status"] = ("run", np.where(finite, "ok", "diverged"))
    return dataset.isel(run=0, drop=True) if single else dataset
