"""Where the engine's integrals are evaluated: scores on one grid, Laplace variables on another.

Both grids are uniform in a variable in which the integrand is smooth and dies at both ends, so
that the trapezoid rule converges exponentially. They follow the size of the scores and the length,
but carry no derivative: the integrals do not depend on them.
Source: `docs/theory/softmax-engine`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

SHIFT = 0.37  # in steps: by which grids are moved for an independent rule of the same size
_EXPONENT = 40.0  # e^-40 is below all rounding errors
_GAUSS_REACH = 8.9  # standard deviations; the Gaussian's mass beyond is 6e-19
_LOG_SURVIVAL = math.log(39.0)  # survival e^-39 at the end of large t
_TAIL = 37.0  # at the other end the integrand falls like t, to e^-37


class Resolution(NamedTuple):
    """How fine the grids are.

    - `scores`: nodes of a token's score
    - `laplace`: nodes of each Laplace variable
    - `reach`: half-width of the Laplace grid in its own variable
    """

    scores: int
    laplace: int
    reach: float


LADDER = (
    Resolution(28, 32, 3.3),
    Resolution(48, 48, 3.4),
    Resolution(72, 72, 3.6),
    Resolution(112, 112, 3.8),
    Resolution(176, 176, 4.0),
    Resolution(280, 280, 4.0),
    Resolution(440, 440, 4.2),
    Resolution(700, 700, 4.2),
)


class LaplaceNodes(NamedTuple):
    """Nodes `t = e^{-τ}` of one Laplace variable; `weights` are those of `∫ dτ = ∫ dt/t`."""

    tau: Float[Array, "*heads n"]
    weights: Float[Array, "*heads n"]


def score_nodes(
    scales: Float[Array, " heads"],
    log_length: Float[ArrayLike, ""],
    count: int,
    shift: ArrayLike = 0.0,
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Nodes of a standard normal `s` and their weights, density included.

    `scales` multiply `s` in the scores of the heads; up to twice the largest tilts the Gaussian.
    Some token of a prompt is beyond `√(2 (2 log L + 40))` with probability below `e^-40/L`, which
    does not count beside moments of the order `1/L`. `shift` moves all nodes by as many steps.
    """
    scales, log_length = jax.lax.stop_gradient((scales, log_length))
    most = jnp.sqrt(2 * (2 * log_length + _EXPONENT))
    up, down = (
        jnp.minimum(most, _GAUSS_REACH + 2 * jnp.maximum(jnp.max(sign * scales), 0.0))
        for sign in (1, -1)
    )
    step = (up + down) / (count - 1)
    s = step * (np.arange(count) + shift) - down
    return s, jnp.exp(-0.5 * s**2) * (step / math.sqrt(2 * math.pi))


def laplace_nodes(
    scales: Float[Array, " heads"],
    log_length: Float[ArrayLike, ""],
    s: Float[Array, " n"],
    weights: Float[Array, " n"],
    resolution: Resolution,
    shift: ArrayLike = 0.0,
) -> LaplaceNodes:
    """Nodes that follow the law of each head's `T`, where `P(T > t) = φ(t)^L`, `φ(t) = E e^{-tA}`.

    `τ = c - σ x + κ (e^{-x} - 1)` with uniform `x` in `±reach`: linear where the law of `log T`
    looks like that of a maximum, exponential on the side where it has the exponential tail of
    small `t`. Three quantiles, read off a coarse scan, fix `c, σ, κ`. All of shape `(heads, n)`.
    `shift` moves the `x` by as many steps.
    """
    scales, log_length, s, weights = jax.lax.stop_gradient((scales, log_length, s, weights))
    a = scales[:, None]
    spread = jnp.maximum(a * s[-1], a * s[0])
    top = log_length + jnp.minimum(a**2 / 2, spread) + _TAIL + 1
    scan = -5.0 - spread + (top + 5.0 + spread) * np.linspace(0.0, 1.0, 48)
    x = jnp.exp(a[:, None] * s - scan[:, :, None])
    # log(-log P(T > t)) falls with τ, with a slope between -1 and 0, almost linearly
    level = log_length + jnp.log(-log_survival(-jnp.expm1(-x) @ weights, jnp.exp(-x) @ weights))
    targets = np.array([_LOG_SURVIVAL, math.log(math.log(2)), -_TAIL])
    low, middle, high = jax.vmap(lambda y, z: jnp.interp(-targets, -y, z))(level, scan).T
    below, above = middle - low, high - middle
    reach, count = resolution.reach, resolution.laplace
    grow = math.exp(reach)
    kappa = jnp.maximum((above - below) / (grow - 2 + 1 / grow), 0.0)[:, None]
    sigma = (below[:, None] - kappa * (1 - 1 / grow)) / reach
    step = 2 * reach / (count - 1)
    y = np.linspace(-reach, reach, count) + shift * step
    tau = middle[:, None] - sigma * y + kappa * jnp.expm1(-y)
    return LaplaceNodes(tau, (sigma + kappa * jnp.exp(-y)) * step)


def log_survival(
    complement: Float[Array, "*n"], survival: Float[Array, "*n"]
) -> Float[Array, "*n"]:
    """`log φ` from whichever of `1 - φ` and `φ` keeps its digits, both given."""
    near = complement < 0.5
    # both branches stay finite, so that neither spoils the derivative of the other
    return jnp.where(
        near,
        jnp.log1p(-jnp.where(near, complement, 0.0)),
        jnp.log(jnp.where(near, 1.0, jnp.maximum(survival, 1e-300))),
    )
