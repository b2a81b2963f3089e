"""Gaussian averages of erf and erf², with exact derivatives.

    E erf(t + g Z)  = erf(t / √(1 + 2g²))
    E erf(t + g Z)² = ζ(t, g) = 1 - 8 T(√2 t/√(1+2g²), 1/√(1+4g²))

with Owen's T function. Source: Lemma 18 and the definition of ζ in Appendix B of marion2025;
`docs/theory/erf-moments`.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf
from jaxtyping import Array, ArrayLike, Float

# The second argument of T never exceeds 1 here, so one Gauss-Legendre rule is exact to rounding: the
# integrand is analytic up to x = ±i, and its Gaussian factor is cut off _REACH standard deviations
# from the origin, so that the rule always resolves it.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(28)
_UNIT_NODES, _UNIT_WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
# Where T enters ζ beside numbers that it cannot exceed, what a rule loses for large h is suppressed
# by exp(-h²/2) as well: 16 nodes are exact to 1e-17.
_FEW_NODES, _FEW_WEIGHTS = np.polynomial.legendre.leggauss(16)
_FEW_UNIT_NODES, _FEW_UNIT_WEIGHTS = (_FEW_NODES + 1) / 2, _FEW_WEIGHTS / 2
_REACH = 8.7  # of a normal's mass, 3e-18 lies beyond


def owens_t(h: Float[ArrayLike, "*n"], a: Float[ArrayLike, "*n"]) -> Float[Array, "*n"]:
    """Owen's `T(h, a) = (1/2π) ∫_0^a exp(-h²(1+x²)/2)/(1+x²) dx` for `0 <= a <= 1`.

    Relative accuracy a few times `(1 + h²) 1e-16`, in the tail too. Its derivatives are not to be
    trusted where the integral is cut off; `erf_squared_complement` has exact rules.
    """
    h, a = jnp.asarray(h)[..., None], jnp.asarray(a)[..., None]
    end = jnp.minimum(a, _REACH / jnp.maximum(jnp.abs(h), 1e-3))
    x2 = (end * _UNIT_NODES) ** 2
    terms = jnp.exp(-0.5 * h**2 * x2) / (1 + x2)
    core = end[..., 0] * jnp.sum(terms * _UNIT_WEIGHTS, axis=-1) / (2 * math.pi)
    return jnp.exp(-0.5 * h[..., 0] ** 2) * core


def erf_mean(t: Float[ArrayLike, "*n"], g: Float[ArrayLike, "*n"]) -> Float[Array, "*n"]:
    """`E erf(t + g Z)`."""
    return erf(jnp.asarray(t) / jnp.sqrt(1 + 2 * jnp.asarray(g) ** 2))


def erf_slope_mean(t: Float[ArrayLike, "*n"], g: Float[ArrayLike, "*n"]) -> Float[Array, "*n"]:
    """`E erf'(t + g Z)`, the derivative of `erf_mean` in `t`."""
    spread = 1 + 2 * jnp.asarray(g) ** 2
    return 2 / jnp.sqrt(math.pi * spread) * jnp.exp(-(jnp.asarray(t) ** 2) / spread)


def erf_squared_slope(t: Float[ArrayLike, "*n"], g: Float[ArrayLike, "*n"]) -> Float[Array, "*n"]:
    """`dζ/dt`."""
    spread, wide = 1 + 2 * jnp.asarray(g) ** 2, 1 + 4 * jnp.asarray(g) ** 2
    bump = 4 / jnp.sqrt(math.pi * spread) * jnp.exp(-(jnp.asarray(t) ** 2) / spread)
    return bump * erf(t / jnp.sqrt(spread * wide))


def erf_squared_curvature(
    t: Float[ArrayLike, "*n"], g: Float[ArrayLike, "*n"]
) -> Float[Array, "*n"]:
    """`d²ζ/dt²`; by the heat equation `dζ/dg` is `g` times this."""
    t = jnp.asarray(t)
    spread, wide = 1 + 2 * jnp.asarray(g) ** 2, 1 + 4 * jnp.asarray(g) ** 2
    bump = 4 / jnp.sqrt(math.pi * spread) * jnp.exp(-(t**2) / spread)
    inner = 2 / jnp.sqrt(math.pi * spread * wide) * jnp.exp(-(t**2) / (spread * wide))
    return bump * (inner - 2 * t / spread * erf(t / jnp.sqrt(spread * wide)))


@jax.custom_jvp
def erf_squared_mean(t: Float[Array, "*n"], g: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """`ζ(t, g) = E erf(t + g Z)²`, accurate relative to itself also where it is small.

    Computed as `ζ(0, g) + 8 (T(0, a) - T(h, a))`, a sum of positive parts.
    """
    t, g = jnp.broadcast_arrays(jnp.asarray(t), jnp.asarray(g))
    wide = jnp.sqrt(1 + 4 * g**2)
    # arctan(√B) - π/4 = arctan((√B - 1)/(√B + 1)) and √B - 1 = 4g²/(√B + 1): no cancellation
    centre = 4 / math.pi * jnp.arctan(4 * g**2 / (wide + 1) ** 2)
    half_h2, a = (t**2 / (1 + 2 * g**2))[..., None], (1 / wide)[..., None]
    x2 = (a * _FEW_UNIT_NODES) ** 2
    terms = -jnp.expm1(-half_h2 * (1 + x2)) / (1 + x2)
    return centre + 4 / math.pi * a[..., 0] * jnp.sum(terms * _FEW_UNIT_WEIGHTS, axis=-1)


@jax.custom_jvp
def erf_squared_complement(t: Float[Array, "*n"], g: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """`1 - ζ(t, g) = E[1 - erf(t + g Z)²]`, accurate relative to itself where it is small."""
    t, g = jnp.broadcast_arrays(jnp.asarray(t), jnp.asarray(g))
    return 8 * owens_t(math.sqrt(2) * t / jnp.sqrt(1 + 2 * g**2), 1 / jnp.sqrt(1 + 4 * g**2))


def _tangent(primals: Any, tangents: Any) -> Any:
    (t, g), (dt, dg) = primals, tangents
    return erf_squared_slope(t, g) * dt + g * erf_squared_curvature(t, g) * dg


erf_squared_mean.defjvp(lambda p, d: (erf_squared_mean(*p), _tangent(p, d)))
erf_squared_complement.defjvp(lambda p, d: (erf_squared_complement(*p), -_tangent(p, d)))
