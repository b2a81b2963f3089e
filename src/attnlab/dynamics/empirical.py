"""Training on a fixed set of prompts, in `R^d`: the empirical risk, in full or in mini-batches.

The population risk sees the vectors through five overlaps only; the empirical one of `n` prompts
sees every coordinate, so the state is the pair of vectors. Source: Section 5.2 of marion2025 for
the algorithm, here with repeated passes over the same prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from .._core.errors import check_flag, check_integer
from .._core.precision import check_dtype, float64, to_float64
from ..students import Overlaps
from ..tasks import SingleLocation
from ..tasks.single_location import check_single_location, sampleable_length
from ..theory import population_risk
from .arguments import Student, check_pace, check_start
from .dataset import risk_note, step_dataset
from .loop import Schedule, run_loop
from .vectors import (
    SphereLoop,
    cast,
    check_memory,
    hidden_and_start,
    run_keys,
)

if TYPE_CHECKING:
    import xarray


class _FixedPrompts(SphereLoop):
    """Prompts `X` of shape `(sets, n, length, dim)`, labels `(sets, n)`; one set, or one a run."""

    student: Student
    X: Float[Array, "sets n length dim"]
    y: Float[Array, "sets n"]
    keys: PRNGKeyArray
    batch_size: int | None = eqx.field(static=True)

    def gradients(self, k: Any, v: Any, i: Any) -> tuple[Any, Any]:
        scale = self.scale_at(i, k.dtype)
        if self.batch_size is None:
            return jax.grad(self._loss, argnums=(2, 3))(self.X, self.y, k, v, scale)
        chosen = self._chosen(i)
        pick = jax.vmap(lambda data, rows: data[rows])
        sets = [jnp.broadcast_to(a, (len(chosen), *a.shape[1:])) for a in (self.X, self.y)]
        return jax.grad(self._loss, argnums=(2, 3))(
            pick(sets[0], chosen), pick(sets[1], chosen), k, v, scale
        )

    def snapshot(self, carry: Any, i: Any) -> dict[str, Any]:
        shot = super().snapshot(carry, i)
        k, v = carry
        losses = self._losses(self.X, self.y, k, v, self.scale_at(i, k.dtype))
        return {**shot, "training_risk": losses.astype(jnp.float64)}

    def _chosen(self, i: Any) -> Any:
        """Rows of step `i`, `(runs, batch)`: every pass goes once through a fresh order."""
        n, batch = self.X.shape[1], self.batch_size
        assert batch is not None
        per_pass = n // batch

        def rows(key: PRNGKeyArray) -> Any:
            order = jax.random.permutation(jax.random.fold_in(key, i // per_pass), n)
            return jax.lax.dynamic_slice(order, ((i % per_pass) * batch,), (batch,))

        return jax.vmap(rows)(self.keys)

    def _losses(self, X: Any, y: Any, k: Any, v: Any, scale: Any) -> Float[Array, " runs"]:
        scores = jnp.einsum("...nld,...d->...nl", X, k)
        values = jnp.einsum("...nld,...d->...nl", X, v)
        prediction = self.student.predict_from_projections(scores, values, scale, dim=X.shape[-1])
        return jnp.mean((prediction - y) ** 2, axis=-1)

    def _loss(self, X: Any, y: Any, k: Any, v: Any, scale: Any) -> Float[Array, ""]:
        return jnp.sum(self._losses(X, y, k, v, scale))  # runs do not interact


def empirical_gradient_descent(
    task: SingleLocation,
    student: Student,
    overlaps: Overlaps,
    *,
    n_prompts: int,
    batch_size: int | None = None,
    step_size: Float[ArrayLike, "*#runs"],
    steps: int,
    key: PRNGKeyArray,
    save_every: int = 1,
    shared_prompts: bool = False,
    scale_schedule: Schedule | None = None,
    dtype: Any = jnp.float32,
) -> xarray.Dataset:
    """Projected (stochastic) gradient descent on the mean squared error over `n` fixed prompts.

    **Arguments:**

    - `student`: a `PointwiseAttention` or a `SoftmaxAttention`.
    - `n_prompts`: size of the training set. Every run has its own, drawn from `fold_in(key, i)`;
      with `shared_prompts` all runs train on the first run's.
    - `batch_size`: prompts a step, at most `n_prompts`; None descends the whole training risk. Each
      pass takes the prompts in a fresh order, and leaves out the `n_prompts % batch_size` last.
    - `overlaps`: the starts; the vectors are `overlaps.to_vectors(task.dim)`, the hidden directions
      the first two axes.
    - `step_size`, `steps`, `save_every`, `scale_schedule` as in `projected_gradient_descent`.
    - `dtype` of prompts and vectors; the recorded population risk is exact in float64.

    **Returns:** the dataset of `projected_gradient_descent` (its `risk` is the population risk at
    the saved state), and `training_risk` on `(run, step)`, the mean squared error on the run's
    prompts at that state.

    Raises `InvalidArgument` before any step is made, also when the prompts of all runs exceed
    2 GiB; `RunInterrupted` on Ctrl-C.
    """
    length = sampleable_length(check_single_location(task))
    start = check_start(overlaps)
    runs = len(start)
    pace = check_pace(step_size, steps, save_every, scale_schedule, runs=runs)
    n_prompts = check_integer("n_prompts", n_prompts, minimum=1)
    if batch_size is not None:
        batch_size = check_integer("batch_size", batch_size, minimum=1, maximum=n_prompts)
    check_flag("shared_prompts", shared_prompts)
    check_dtype(dtype)
    sets = 1 if shared_prompts else runs
    copies = sets if batch_size is None else max(sets, runs * batch_size // n_prompts)
    check_memory("n_prompts", n_prompts, copies * length * task.dim, dtype)
    risk = population_risk(task, student)
    with float64():
        exact, sizes, vectors = to_float64(
            (pace.resolved(risk), pace.sizes, hidden_and_start(start, task.dim))
        )
        keys = run_keys(key, runs)
        data_keys, order_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
        light, axes = cast(task, dtype), vectors[2:]
        prompts = jax.lax.map(
            lambda each: light.sample(each, n_prompts, *axes, dtype=dtype)[:2], data_keys[:sets]
        )
        loop = _FixedPrompts(
            schedule=scale_schedule,
            risk=exact,
            step_size=jnp.broadcast_to(sizes, (runs,))[:, None],
            k_star=axes[0],
            v_star=axes[1],
            student=cast(student, dtype),
            X=prompts[0],
            y=prompts[1],
            keys=order_keys,
            batch_size=batch_size,
        )
        carry = cast(vectors[:2], dtype)

    def finish(at: Any, shots: dict[str, Any]) -> xarray.Dataset:
        dataset = step_dataset(at, shots, risk.method)
        told = {"long_name": "mean squared error on the training prompts"}
        dataset["training_risk"] = (("run", "step"), shots["training_risk"].T, told)
        return dataset

    return run_loop(
        loop,
        carry,
        steps=pace.steps,
        save_every=pace.save_every,
        label="empirical gradient descent",
        finish=finish,
        note=risk_note,
    )
