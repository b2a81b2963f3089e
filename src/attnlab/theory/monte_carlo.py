"""Monte Carlo risks with a standard error: the independent check of every exact risk."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._core.errors import InvalidArgument, check_integer
from .._core.keys import check_key
from .._core.precision import float64, to_float64
from ..students import Overlaps
from ..tasks import InContextRegression, SingleLocation
from ..tasks.single_location import check_single_location, sampleable_length
from .monte_carlo_in_context import monte_carlo_in_context
from .setting import Setting

_CHUNK_VALUES = 2**22
_LARGEST_LENGTH = 2**26


def monte_carlo_risk(
    task: SingleLocation | InContextRegression,
    student: Any,
    params: Any,
    *,
    key: PRNGKeyArray,
    samples: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The risk at `params` by sampling prompts: `(mean, standard_error)`, each of the batch shape.

    **Arguments:**

    - `task`, `student`: a `SingleLocation` with a student such as `PointwiseAttention`, or an
      `InContextRegression` with `KernelHeads` or a layer (see `monte_carlo_in_context`).
    - `params`: the student's `Overlaps`; in context None, or a student in place of `student`.
    - `key`, `samples`: of the prompts.

    Single-location prompts are sampled in the (at most four-dimensional) span of `k*, v*, k, v`, which is exact
    in law for every `d` since nothing outside it reaches the prediction. Float64.

    Raises `InvalidArgument` for `samples < 2` or a length that cannot be sampled.
    """
    if isinstance(task, InContextRegression):
        student = student if params is None else params
        return monte_carlo_in_context(task, student, key=key, samples=samples)
    samples = check_integer("samples", samples, minimum=2)
    length = sampleable_length(check_single_location(task))
    if length > _LARGEST_LENGTH:
        allowed = f"at most {_LARGEST_LENGTH} to be sampled; population_risk needs no samples"
        raise InvalidArgument("length", length, allowed)
    if not hasattr(student, "predict_from_projections"):
        raise InvalidArgument("student", student, "a student such as attnlab.PointwiseAttention")
    if not isinstance(params, Overlaps):
        raise InvalidArgument("params", params, "an attnlab.Overlaps")
    check_key(key)
    k, v = Overlaps.unstack(params.stack().reshape(-1, 5)).to_vectors(4)
    chunk = max(1, min(samples, _CHUNK_VALUES // (4 * length)))
    with float64():
        student, vectors = to_float64((student, (k, v)))
        # numbers, so that one program serves tasks of all dimensions
        setting, dim = to_float64((Setting.of(task), task.dim))
        count = math.ceil(samples / chunk)
        mean, square = _accumulate(
            student, task.link, dim, length, chunk, count, samples, setting, vectors, key
        )
        mean, square = np.asarray(mean), np.asarray(square)
    variance = np.maximum(square - mean**2, 0.0) * samples / (samples - 1)
    shape = params.shape
    return mean.reshape(shape), np.sqrt(variance / samples).reshape(shape)


@eqx.filter_jit
def _accumulate(
    student: Any,
    link: Any,
    dim: Any,
    length: int,
    chunk: int,
    count: int,
    samples: int,
    setting: Setting,
    vectors: Any,
    key: PRNGKeyArray,
) -> Any:
    def losses(key: Any, k: Any, v: Any) -> Any:
        token_key, noise_key = jax.random.split(key)
        z = jax.random.normal(token_key, (chunk, length, 4), jnp.float64)
        # tokens are exchangeable: the informative one may as well come first
        marker = jnp.zeros(4).at[0].set(setting.shift)
        X = z.at[:, 0, :].set(setting.token_std * z[:, 0, :] + marker)
        noise = setting.noise_std * jax.random.normal(noise_key, (chunk,), jnp.float64)
        y = link(X[:, 0, 1]) + noise
        return (student.predict_from_projections(X @ k, X @ v, dim=dim) - y) ** 2

    def one(index: Any, k: Any, v: Any) -> Any:
        run_key = jax.random.fold_in(key, index)

        def body(totals: Any, step: Any) -> Any:
            loss = losses(jax.random.fold_in(run_key, step), k, v)
            counted = step * chunk + jnp.arange(chunk) < samples
            loss = jnp.where(counted, loss, 0.0)
            return (totals[0] + loss.sum(), totals[1] + (loss**2).sum()), None

        start = (jnp.zeros(()), jnp.zeros(()))
        return jax.lax.scan(body, start, jnp.arange(count))[0]

    runs = vectors[0].shape[0]
    totals = jax.lax.map(lambda row: one(*row), (jnp.arange(runs), *vectors))
    return totals[0] / samples, totals[1] / samples
