"""Sums over a uniform lattice of log-energies with kernels of `e^x`, in linear time.

Every quantity of the engine that lives on a logarithmic scale (a token's score `x`, the Laplace
variable `τ = -log t`, the informative token's score) enters through functions of `A = e^{x-τ}`.
On one lattice for all of them such a function is a kernel of the distance alone. To the left it
is a pure exponential, to the right it vanishes, so that near blocks are matrix products with one
constant matrix and far blocks have rank one. Source: `docs/theory/softmax-attention`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

STEP = 0.28  # the trapezoid rule for e^{x - e^x}, whose reach off the axis is π/2: e^-35
_FAR = 42.0  # farther to the left a kernel is its exponential, to e^-42


def block_size(step: float) -> int:
    """Nodes of one block of the lattice."""
    return math.ceil(_FAR / step)


class Kernel(NamedTuple):
    """A function of `x` that behaves as `e^{power x}` for `x → -∞` and vanishes for `x → ∞`."""

    function: Callable[[Any, Any], Any]  # (numpy or jax.numpy, x)
    power: int


# with A = e^x: e^{-A}, 1 - e^{-A} (which does not vanish to the right), A e^{-A}, A² e^{-A}
SURVIVAL = Kernel(lambda xp, x: xp.exp(-xp.exp(x)), 0)
COMPLEMENT = Kernel(lambda xp, x: -xp.expm1(-xp.exp(x)), 1)
FIRST = Kernel(lambda xp, x: xp.exp(x - xp.exp(x)), 1)
SECOND = Kernel(lambda xp, x: xp.exp(2 * x - xp.exp(x)), 2)


def lattice_sums(
    kernel: Kernel, values: Float[Array, "*batch n"], step: float
) -> Float[Array, "*batch n"]:
    """`Σ_i kernel(step (i - j)) values_i` for all `j`; `n` is a multiple of `block_size(step)`.

    A kernel that tends to 1 on the right (`COMPLEMENT`) is summed there too.
    """
    *batch, n = values.shape
    block = block_size(step)
    blocks = values.reshape(*batch, n // block, block)
    count = blocks.shape[-2]
    edge = jnp.zeros((*batch, 1, block))
    padded = jnp.concatenate([edge, blocks, edge], axis=-2)
    near = jnp.concatenate([padded[..., k : k + count, :] for k in range(3)], axis=-1)
    source, target = np.arange(3 * block)[:, None] - block, np.arange(block)
    with np.errstate(over="ignore", under="ignore"):
        matrix = kernel.function(np, step * (source - target))
    out = near @ matrix
    place = np.arange(count)
    before = place[:, None] <= place - 2  # source block, target block
    slope = kernel.power * step
    inside = blocks @ np.exp(slope * (np.arange(block) - block))
    gap = np.where(before, place[:, None] + 1 - place, 0)
    far = inside @ (before * np.exp(slope * block * gap))
    out = out + far[..., None] * np.exp(-slope * np.arange(block))
    if kernel is COMPLEMENT:
        after = (place[:, None] >= place + 2).astype(float)
        out = out + (jnp.sum(blocks, axis=-1) @ after)[..., None]
    return out.reshape(values.shape)


def dense_powers(
    values: Float[Array, "3 k"], sources: Float[Array, " k"], targets: Float[Array, " n"]
) -> Float[Array, "3 n"]:
    """`FIRST` of the first row of values and `SECOND` of the other two, for nodes of any position,
    from one exponential of each pair of nodes."""
    a = jnp.exp(jnp.minimum(sources[:, None] - targets, 7.0))
    one = a * jnp.exp(-a)
    return jnp.concatenate([values[:1] @ one, values[1:] @ (a * one)])


def dense_sums(
    kernel: Kernel,
    values: Float[Array, "*batch k"],
    sources: Float[Array, " k"],
    targets: Float[Array, " n"],
) -> Float[Array, "*batch n"]:
    """`Σ_i kernel(x_i - τ_j) values_i` for nodes of any position."""
    # beyond e^7 nothing is left of e^{-A}, and its products stay finite
    return values @ kernel.function(jnp, jnp.minimum(sources[:, None] - targets, 7.0))


def on_scores(values: Float[Array, "*batch n"], step: float) -> Float[Array, "*batch n"]:
    """`Σ_j e^{-e^{T_i - τ_j}} values_j` at all scores `T_i` of the same lattice."""
    return jnp.flip(lattice_sums(SURVIVAL, jnp.flip(values, axis=-1), step), axis=-1)
