"""Training in `R^d`: the population descent and fresh-batch SGD, with the vectors themselves.

Slow next to `projected` and `stochastic`, which carry five numbers a run; they are here as plain
transcriptions of the algorithms, so that the reduced ones can be checked against them. Source: eq.
(9) and Section 5.2 of marion2025.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from .._core.errors import InvalidArgument, check_integer
from .._core.keys import check_key
from .._core.precision import check_dtype, float64, to_float64
from ..students import Overlaps
from ..tasks import SingleLocation
from ..tasks.single_location import check_single_location, sampleable_length
from ..theory import SingleLocationRisk, population_risk
from .arguments import Student, check_pace, check_risk, check_start
from .dataset import risk_note, risk_shot, step_dataset
from .loop import Schedule, ScheduledLoop, run_loop

if TYPE_CHECKING:
    import xarray

_LARGEST_BYTES = 2 * 2**30


def retract(x: Float[Array, "*runs dim"], gradient: Any, step_size: Any) -> Any:
    """One step `x <- (x - s P_x^⊥ g)/|·|` on the unit sphere."""
    tangent = gradient - jnp.sum(gradient * x, axis=-1, keepdims=True) * x
    moved = x - step_size * tangent
    return moved / jnp.sqrt(jnp.sum(moved**2, axis=-1, keepdims=True))


def stacked_overlaps(k: Any, v: Any, k_star: Any, v_star: Any) -> Float[Array, "*runs 5"]:
    """The five overlaps of `(k, v)`, in the dtype of the vectors."""
    return jnp.stack([k @ k_star, v @ v_star, v @ k_star, k @ v_star, jnp.sum(k * v, -1)], -1)


class SphereLoop(ScheduledLoop):
    """Carries `(k, v)`, each `(runs, dim)`; a subclass says what the gradient is."""

    risk: SingleLocationRisk
    step_size: Float[Array, "runs 1"]
    k_star: Float[Array, " dim"]
    v_star: Float[Array, " dim"]

    @abc.abstractmethod
    def gradients(self, k: Any, v: Any, i: Any) -> tuple[Any, Any]:
        """Gradients of the loss in `k` and `v` at step `i`, `(runs, dim)` each."""

    def step(self, carry: Any, i: Any) -> Any:
        k, v = carry
        g_k, g_v = self.gradients(k, v, i)
        size = self.step_size.astype(k.dtype)
        return retract(k, g_k, size), retract(v, g_v, size)

    def snapshot(self, carry: Any, i: Any) -> dict[str, Any]:
        # unit vectors of float32 are units to seven digits: the exact risk wants better ones
        k, v = (x / jnp.sqrt(jnp.sum(x**2, -1, keepdims=True)) for x in to_float64(carry))
        state = stacked_overlaps(k, v, self.k_star, self.v_star)
        return risk_shot(self.risk, state, self.scale_at(i))


class _PopulationDescent(SphereLoop):
    def gradients(self, k: Any, v: Any, i: Any) -> tuple[Any, Any]:
        def total(k: Any, v: Any) -> Any:
            state = stacked_overlaps(k, v, self.k_star, self.v_star)
            return jnp.sum(self.risk.value_of(state, self.scale_at(i)))

        return jax.grad(total, argnums=(0, 1))(k, v)


class _FreshBatches(SphereLoop):
    task: SingleLocation
    student: Student
    keys: PRNGKeyArray
    batch_size: int = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)

    def gradients(self, k: Any, v: Any, i: Any) -> tuple[Any, Any]:
        def one(key: PRNGKeyArray, k: Any, v: Any) -> tuple[Any, Any]:
            prompts = self.task.sample(
                jax.random.fold_in(key, i),
                self.batch_size,
                self.k_star,
                self.v_star,
                dtype=self.dtype,
            )
            scale = self.scale_at(i, self.dtype)
            return jax.grad(batch_loss, argnums=(2, 3))(self.student, prompts, k, v, scale)

        return jax.vmap(one)(self.keys, k, v)


def batch_loss(student: Student, prompts: Any, k: Any, v: Any, scale: Any) -> Float[Array, ""]:
    """Mean squared error of the student on a batch of prompts, `scale` in place of its own unless
    it is None."""
    X, y = prompts.X, prompts.y
    prediction = student.predict_from_projections(X @ k, X @ v, scale, dim=X.shape[-1])
    return jnp.mean((prediction - y) ** 2)


def projected_gradient_descent_vectors(
    risk: SingleLocationRisk,
    k: Float[ArrayLike, "runs dim"],
    v: Float[ArrayLike, "runs dim"],
    k_star: Float[ArrayLike, " dim"],
    v_star: Float[ArrayLike, " dim"],
    *,
    step_size: Float[ArrayLike, "*#runs"],
    steps: int,
    save_every: int = 1,
    scale_schedule: Schedule | None = None,
) -> xarray.Dataset:
    """Projected gradient descent on the population risk with the vectors in `R^d`, in float64.

    The gradient is that of the exact risk through the five inner products, by automatic
    differentiation in `R^d`; nothing of the overlap recursion is used.

    **Arguments:** `k`, `v` unit vectors, one row per run; `k_star`, `v_star` orthonormal; the rest
    as in `projected_gradient_descent`.

    **Returns:** the dataset of `projected_gradient_descent`, with which it agrees to rounding.

    Raises `InvalidArgument`; `RunInterrupted` on Ctrl-C.
    """
    check_risk(risk)
    k, v, k_star, v_star = check_vectors(k, v, k_star, v_star)
    pace = check_pace(step_size, steps, save_every, scale_schedule, runs=len(k))
    with float64():
        exact, sizes, vectors = to_float64(
            (pace.resolved(risk), pace.sizes, (k, v, k_star, v_star))
        )
        loop = _PopulationDescent(
            schedule=scale_schedule,
            risk=exact,
            step_size=jnp.broadcast_to(sizes, (len(k),))[:, None],
            k_star=vectors[2],
            v_star=vectors[3],
        )
    return run_loop(
        loop,
        vectors[:2],
        steps=pace.steps,
        save_every=pace.save_every,
        label="projected gradient descent in R^d",
        finish=lambda at, shots: step_dataset(at, shots, risk.method),
        note=risk_note,
    )


def stochastic_gradient_descent_vectors(
    task: SingleLocation,
    student: Student,
    overlaps: Overlaps,
    *,
    step_size: Float[ArrayLike, "*#runs"],
    steps: int,
    batch_size: int,
    key: PRNGKeyArray,
    save_every: int = 1,
    scale_schedule: Schedule | None = None,
    dtype: Any = jnp.float32,
) -> xarray.Dataset:
    """Projected SGD with fresh batches of `d`-dimensional prompts.

    **Arguments:** as in `stochastic_gradient_descent`, which gives trajectories of the same law
    at a cost that does not grow with `d`. Run `i` draws from `fold_in(key, i)`. The vectors are
    `overlaps.to_vectors(task.dim)`, the hidden directions the first two axes. `dtype` is that of
    prompts and vectors; the recorded risk is the exact population risk in float64.

    Raises `InvalidArgument`, also for batches of more than 2 GiB; `RunInterrupted` on Ctrl-C.
    """
    length = sampleable_length(check_single_location(task))
    start = check_start(overlaps)
    runs = len(start)
    pace = check_pace(step_size, steps, save_every, scale_schedule, runs=runs)
    batch_size = check_integer("batch_size", batch_size, minimum=1)
    check_memory("batch_size", batch_size, runs * length * task.dim, dtype)
    risk = population_risk(task, student)
    with float64():
        exact, sizes, vectors = to_float64(
            (pace.resolved(risk), pace.sizes, hidden_and_start(start, task.dim))
        )
        loop = _FreshBatches(
            schedule=scale_schedule,
            risk=exact,
            step_size=jnp.broadcast_to(sizes, (runs,))[:, None],
            k_star=vectors[2],
            v_star=vectors[3],
            task=cast(task, dtype),
            student=cast(student, dtype),
            keys=run_keys(key, runs),
            batch_size=batch_size,
            dtype=jnp.dtype(dtype),
        )
        carry = cast(vectors[:2], dtype)
    return run_loop(
        loop,
        carry,
        steps=pace.steps,
        save_every=pace.save_every,
        label="stochastic gradient descent in R^d",
        finish=lambda at, shots: step_dataset(at, shots, risk.method),
        note=risk_note,
    )


def run_keys(key: PRNGKeyArray, runs: int) -> PRNGKeyArray:
    """Key of run `i`: `fold_in(key, i)`, so that more runs never change earlier ones."""
    check_key(key)
    return jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(runs, dtype=jnp.uint32))


def hidden_and_start(start: np.ndarray, dim: int) -> tuple[Any, Any, Any, Any]:
    """`(k, v, k*, v*)` in `R^dim` for stacked overlaps; `k*`, `v*` are the first two axes."""
    k, v = Overlaps.unstack(start).to_vectors(dim)
    axes = np.eye(2, dim)
    return k, v, axes[0], axes[1]


def check_memory(name: str, value: int, numbers_each: int, dtype: Any) -> None:
    """Refuses a number of prompts whose tokens, of all runs together, exceed 2 GiB, and dtypes of other numbers."""
    check_dtype(dtype)
    size = value * numbers_each * jnp.dtype(dtype).itemsize
    if size > _LARGEST_BYTES:
        most = _LARGEST_BYTES // (numbers_each * jnp.dtype(dtype).itemsize)
        allowed = f"at most {most}, so that the prompts of all runs fit in 2 GiB"
        raise InvalidArgument(name, value, allowed)


def cast(tree: Any, dtype: Any) -> Any:
    """Every number of a tree as an array of `dtype`."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf).astype(dtype), tree)


def check_vectors(k: Any, v: Any, k_star: Any, v_star: Any) -> tuple[np.ndarray, ...]:
    """The vectors as float64 arrays of matching shapes, unit and orthonormal where they must be."""
    arrays = {"k": k, "v": v, "k_star": k_star, "v_star": v_star}
    for name, value in arrays.items():
        array = np.asarray(value, np.float64)
        if not np.isfinite(array).all():
            raise InvalidArgument(name, value, "finite")
        rank = 1 if name.endswith("_star") else 2
        if array.ndim != rank or array.shape[-1] < 2:
            shape = "(dim,)" if rank == 1 else "(runs, dim)"
            raise InvalidArgument(name, array.shape, f"of shape {shape} with dim >= 2")
        if np.abs(np.linalg.norm(array, axis=-1) - 1).max(initial=0.0) > 1e-6:
            raise InvalidArgument(name, value, "of unit length along its last axis")
        arrays[name] = array
    shapes = {name: array.shape for name, array in arrays.items()}
    if shapes["k"] != shapes["v"] or len({shape[-1] for shape in shapes.values()}) > 1:
        raise InvalidArgument("k, v, k_star, v_star", shapes, "of one dim, k and v of one shape")
    inner = float(arrays["k_star"] @ arrays["v_star"])
    if abs(inner) > 1e-6:
        raise InvalidArgument("k_star · v_star", inner, "0: the hidden directions are orthonormal")
    return tuple(arrays.values())
