"""Monte Carlo risks of in-context students, with a standard error.

Prompts are drawn from the task in chunks and scored. Kernel heads are averaged over `β` and the
noise in closed form given the covariates, which leaves `gᵀWg + σ² (1 + |p̄|²)` of each prompt,
`g = x_q - Xᵀp̄` and far less variance; other students are scored by their squared errors.
Source: `docs/theory/monte-carlo`.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._core.errors import InvalidArgument, check_integer, is_traced
from .._core.keys import check_key
from .._core.precision import float64, to_float64
from ..students import KernelHeads
from ..tasks import InContextRegression
from ..tasks.in_context import check_in_context
from .heads_risk import check_one_reading

_CHUNK_VALUES = 2**21


def monte_carlo_in_context(
    task: InContextRegression, student: Any, *, key: PRNGKeyArray, samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """The risk by sampling prompts, label noise included: `(mean, standard_error)`, float64.

    `student` maps `(X, y, xq)` to predictions. `KernelHeads` may be a batch of scalar heads, with
    results of the batch shape; all of them see the same prompts.

    Raises `InvalidArgument` for `samples < 2`, another task, and a student of other shapes or
    whose losses are no finite numbers.
    """
    check_in_context(task, any_prior=True)
    samples = check_integer("samples", samples, minimum=2)
    check_key(key)
    if not callable(student):
        raise InvalidArgument("student", student, "a KernelHeads, or a layer called on (X, y, xq)")
    _check_student(task, student)
    batch: tuple[int, ...] = ()
    if isinstance(student, KernelHeads):
        check_one_reading(student, dim=task.dim, n_outputs=task.n_outputs)
    if isinstance(student, KernelHeads) and np.shape(student.omega) == np.shape(student.mu):
        *batch_axes, heads = np.shape(student.omega)
        batch = tuple(batch_axes)
        omega, mu = (np.reshape(x, (-1, heads)) for x in (student.omega, student.mu))
        student = eqx.tree_at(lambda s: (s.omega, s.mu), student, (omega, mu))
    size = (task.length + 1) * (task.dim + task.n_outputs)
    chunk = max(1, min(samples, _CHUNK_VALUES // size))
    count = math.ceil(samples / chunk)
    with float64():
        arrays, rest = eqx.partition(student, eqx.is_array_like)
        student = eqx.combine(to_float64(arrays), rest)
        mean, square = (np.asarray(x) for x in _totals(task, student, chunk, count, samples, key))
    if not (np.isfinite(mean).all() and np.isfinite(square).all()):
        shown = f"{type(student).__name__} with losses that are not finite, or their squares"
        raise InvalidArgument("student", shown, "of weights that keep losses in floating point")
    variance = np.maximum(square - mean**2, 0.0) * samples / (samples - 1)
    shape = batch if mean.ndim else ()
    return mean.reshape(shape), np.sqrt(variance / samples).reshape(shape)


def _check_student(task: InContextRegression, student: Any) -> None:
    """Finite weights, and predictions of the shape of the targets; computes nothing."""
    name = type(student).__name__
    numbers = jax.tree.leaves(eqx.filter(student, eqx.is_array_like))
    if not all(is_traced(x) or np.isfinite(np.asarray(x)).all() for x in numbers):
        raise InvalidArgument("student", f"{name} with NaN or infinity", "of finite weights")
    if isinstance(student, KernelHeads):
        omega, mu = np.shape(student.omega), np.shape(student.mu)
        if omega == mu:  # scalar heads, or a batch of them, for any task
            return
        if len(omega) > 1 and omega[1] != task.dim:
            raise InvalidArgument("student", f"heads of dimension {omega[1]}", f"of {task.dim}")
        if len(mu) > 1 and mu[1] not in (1, task.n_outputs):
            raise InvalidArgument("student", f"heads of {mu[1]} tasks", f"of {task.n_outputs}")
        return
    prompts = jax.eval_shape(lambda: task.sample(jax.random.key(0), 2))
    wanted = prompts.target.shape
    try:
        with float64():
            found = jnp.shape(eqx.filter_eval_shape(student, *prompts.inputs))
    except Exception as error:  # whatever a student for other prompts raises
        shown = f"{name}, which raises {type(error).__name__}"
        shapes = ", ".join(str(x.shape) for x in prompts.inputs)
        raise InvalidArgument("student", shown, f"callable on prompts of {shapes}") from error
    if found != wanted:
        shown = f"{name} with predictions of shape {found}"
        raise InvalidArgument("student", shown, f"one that predicts the targets, {wanted}")


@eqx.filter_jit
def _totals(
    task: InContextRegression, student: Any, chunk: int, count: int, samples: int, key: Any
) -> tuple[Any, Any]:
    score = _conditional_loss if isinstance(student, KernelHeads) else _loss

    def body(totals: Any, step: Any) -> Any:
        prompts = task.sample(jax.random.fold_in(key, step), chunk, dtype=jnp.float64)
        loss = score(task, student, prompts)
        counted = step * chunk + jnp.arange(chunk) < samples
        loss = jnp.where(counted, loss, 0.0)
        return (totals[0] + loss.sum(-1), totals[1] + (loss**2).sum(-1)), None

    many = isinstance(student, KernelHeads) and student.omega.shape == student.mu.shape
    start = jnp.zeros(student.omega.shape[:1] if many else ())
    totals, _ = jax.lax.scan(body, (start, start), jnp.arange(count))
    return totals[0] / samples, totals[1] / samples


def _loss(task: InContextRegression, student: Any, prompts: Any) -> Any:
    """The squared error of each prompt, summed over tasks."""
    errors = (student(*prompts.inputs) - prompts.target) ** 2
    return errors.sum(-1) if task.supports is not None else errors


def _conditional_loss(task: InContextRegression, heads: KernelHeads, prompts: Any) -> Any:
    """The squared error averaged over `β` and the noise, summed over tasks."""
    X, _, xq = prompts.inputs
    mask = jnp.asarray(task.support_mask)

    def of(one: KernelHeads) -> Any:
        weights = one.attention(X, xq)
        mu = jnp.broadcast_to(one.mu.reshape(one.n_heads, -1), (one.n_heads, len(mask)))
        mixed = jnp.einsum("hn,bhl->bnl", mu, weights)
        gap = (xq[:, None] - mixed @ X) * mask
        noise = task.noise_std**2 * (1 + jnp.sum(mixed**2, -1))
        if task.prior is None:
            signal = jnp.sum(gap**2, -1) / task.dim
        else:
            signal = jnp.einsum("bni,ij,bnj->bn", gap, jnp.asarray(task.prior), gap)
        return jnp.sum(signal + noise, axis=-1)

    if heads.omega.shape != heads.mu.shape:
        return of(heads)
    rows = (heads.omega, heads.mu)
    like = heads.normalization
    return jax.lax.map(lambda row: of(KernelHeads(*row, normalization=like)), rows)
