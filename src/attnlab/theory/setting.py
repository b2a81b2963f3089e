"""The numbers of a single-location task that a population risk needs, and what it is made of."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..tasks import SingleLocation


class Setting(NamedTuple):
    """Scalars of a task, all of them dynamic, so that changing one never recompiles.

    `shift = c√d` is the mean score of the informative token for a perfect `k`; `others = L - 1`.
    """

    shift: Any
    token_std: Any
    others: Any
    noise_std: Any

    @classmethod
    def of(cls, task: SingleLocation) -> Setting:
        others = task.length - 1.0 if task.length is not None else _expm1(task.log_length)
        return cls(task.signal * math.sqrt(task.dim), task.token_std, others, task.noise_std)


def _expm1(x: Any) -> Any:
    try:
        return math.expm1(x)
    except OverflowError:
        return math.inf
    except TypeError:
        return jnp.expm1(x)


class Moments(NamedTuple):
    """Per-token averages from which the pointwise student's risk is assembled.

    With `a = a(λ x·k)`, `σ = σ(x·v)`, `y` the label without noise:

    - `error`: `E (aσ - y)²` of the informative token;
    - `bias`: `E[aσ - y]` of the informative token;
    - `bulk_mean`, `bulk_square`: `E[aσ]`, `E[a²σ²]` of any other token;
    - `magnitude`: a sum of absolute values that bounds the rounding error of `error`, in units of
      the machine precision.
    """

    error: Float[Array, "*runs"]
    bias: Float[Array, "*runs"]
    bulk_mean: Float[Array, "*runs"]
    bulk_square: Float[Array, "*runs"]
    magnitude: Float[Array, "*runs"]


class Components(NamedTuple):
    """The population risk, split by where it comes from; the fields add up to the risk.

    - `informative`: `E (a σ - y)²` of the informative token alone;
    - `bulk_variance`: `(L-1) Var(a σ)`, noise let through from the other tokens;
    - `bulk_mean`: `(L-1)² (E a σ)²`, their systematic contribution;
    - `cross`: `2 (L-1) E[a σ - y]_informative E[a σ]_bulk`;
    - `label_noise`: `ε²`.
    """

    informative: Float[Array, "*runs"]
    bulk_variance: Float[Array, "*runs"]
    bulk_mean: Float[Array, "*runs"]
    cross: Float[Array, "*runs"]
    label_noise: Float[Array, "*runs"]


def assemble(moments: Moments, setting: Setting) -> Components:
    """Theory of independent tokens: the risk from its per-token moments.

    Source: Lemma 6 of marion2025; `docs/theory/pointwise-attention`.
    """
    error, bias, mean, square, _ = moments
    n = setting.others
    return Components(
        informative=error,
        bulk_variance=n * (square - mean**2),
        bulk_mean=(n * mean) ** 2,
        cross=2 * n * bias * mean,
        label_noise=jnp.broadcast_to(setting.noise_std**2, jnp.shape(error)),
    )


def rounding_error(moments: Moments, setting: Setting) -> Float[Array, "*runs"]:
    """A bound on the rounding error of the assembled risk."""
    _, bias, mean, square, magnitude = moments
    n = setting.others
    total = magnitude + n * jnp.abs(square) + n * mean**2 + (n * mean) ** 2
    total = total + 2 * n * (jnp.abs(bias) + jnp.sqrt(magnitude)) * jnp.abs(mean)
    return 64 * jnp.finfo(jnp.float64).eps * (total + setting.noise_std**2)
