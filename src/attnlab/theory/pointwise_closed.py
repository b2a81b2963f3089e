"""Closed-form moments of the erf student with linear links.

Source: Lemma 6 and Lemma 18 of marion2025, completed; `docs/theory/pointwise-attention`.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax.scipy.special import erf, erfc
from jaxtyping import Array, Float

from .erf_moments import (
    erf_slope_mean,
    erf_squared_complement,
    erf_squared_curvature,
    erf_squared_mean,
    erf_squared_slope,
)
from .setting import Moments, Setting


def erf_linear_moments(state: Float[Array, "*runs 5"], scale: Any, setting: Setting) -> Moments:
    """Moments for `a = erf`, both links linear.

    Stein's lemma turns every factor `x·v` or `x·v*` into a derivative in the mean score `μ`:
    with `F(μ) = E erf(λ(μ + γZ))²` and `S(μ) = E erf(λ(μ + γZ))`,

        E[erf² w²]_* = (m² + γ²) F + 2 m ρ γ² F' + ρ² γ⁴ F'',      m = c√d θ
        E[y erf w]_* = γ² ( ν S + η ( m S' + γ² ρ S'' ) )
    """
    kappa, nu, theta, eta, rho = jnp.moveaxis(state, -1, 0)
    gamma2 = setting.token_std**2
    m, t, g = setting.shift * theta, scale * setting.shift * kappa, scale * setting.token_std
    spread = 1 + 2 * g**2

    f = erf_squared_mean(t, g)
    f1 = scale * erf_squared_slope(t, g)
    f2 = scale**2 * erf_squared_curvature(t, g)
    s1 = scale * erf_slope_mean(t, g)
    s2 = -2 * scale * t / spread * s1

    # E(erf - 1)² style complements: near perfect attention F and S approach ±1, and the error of
    # the informative token is their tiny deviation, never a difference of numbers of order one.
    side = jnp.where(kappa >= 0, 1.0, -1.0)
    miss = erfc(side * t / jnp.sqrt(spread))
    aligned = side * nu
    core = 2 * (1 - aligned) + 2 * aligned * miss - erf_squared_complement(t, g)
    tilt = m**2 * f + 2 * m * rho * gamma2 * f1 + (rho * gamma2) ** 2 * f2
    leak = 2 * gamma2 * eta * (m * s1 + gamma2 * rho * s2)
    error = gamma2 * core + tilt - leak

    bias = m * side * (1 - miss) + gamma2 * rho * s1
    bulk_mean = rho * scale * erf_slope_mean(0.0, scale)
    bulk_square = erf_squared_mean(0.0, scale) + (rho * scale) ** 2 * erf_squared_curvature(
        0.0, scale
    )
    # rounding of an exponent x = t²/spread becomes a relative error x eps of exp(-x)
    tail = gamma2 * (2 * miss + erf_squared_complement(t, g)) + (
        jnp.abs(2 * m * rho * gamma2 * f1)
        + (rho * gamma2) ** 2 * (jnp.abs(f2) + 2 * scale**2 * jnp.exp(-(t**2) / spread))
        + 2 * gamma2 * jnp.abs(eta) * (jnp.abs(m * s1) + gamma2 * jnp.abs(rho * s2))
    )
    magnitude = 2 * gamma2 * jnp.abs(1 - aligned) + m**2 * f + (1 + t**2 / spread) * tail
    return Moments(error, bias, bulk_mean, bulk_square, magnitude)


def erf_linear_gradient(
    state: Float[Array, "*runs 5"], scale: Any, setting: Setting
) -> Float[Array, "*runs 5"]:
    """Partial derivatives of the risk in kappa, nu, theta, eta, rho, written out.

    What automatic differentiation of the assembled risk gives too, at a quarter of the cost: two
    exponentials, two error functions and one ζ a run. Source: `docs/theory/pointwise-attention`.
    """
    kappa, nu, theta, eta, rho = jnp.moveaxis(state, -1, 0)
    gamma2, shift, n = setting.token_std**2, setting.shift, setting.others
    m, t, g = shift * theta, scale * shift * kappa, scale * setting.token_std
    spread, wide = 1 + 2 * g**2, 1 + 4 * g**2
    lean = 2 * t / spread
    F, S, inner, bell, inner_bell = _computed_once(
        erf_squared_mean(t, g),
        erf(t / jnp.sqrt(spread)),
        erf(t / jnp.sqrt(spread * wide)),
        2 * scale / jnp.sqrt(math.pi * spread) * jnp.exp(-(t**2) / spread),
        2 / jnp.sqrt(math.pi * spread * wide) * jnp.exp(-(t**2) / (spread * wide)),
    )
    # derivatives in the mean score of S = E erf and of F = E erf²
    s1, s2 = bell, -scale * lean * bell
    s3 = scale**2 * (lean**2 - 2 / spread) * bell
    bend = inner_bell - lean * inner
    f1, f2 = 2 * bell * inner, 2 * scale * bell * bend
    turn = -lean * bend - lean * inner_bell / wide - 2 / spread * inner - lean * inner_bell
    f3 = 2 * scale**2 * bell * turn
    bulk1 = scale * erf_slope_mean(0.0, scale)
    bulk2 = scale**2 * erf_squared_curvature(0.0, scale)
    mean = rho * bulk1
    bias, bias1 = m * S + gamma2 * rho * s1, m * s1 + gamma2 * rho * s2
    in_kappa = gamma2 * (f1 - 2 * nu * s1) + m**2 * f1 + 2 * m * rho * gamma2 * f2
    in_kappa += (rho * gamma2) ** 2 * f3 - 2 * gamma2 * eta * (m * s2 + gamma2 * rho * s3)
    in_theta = 2 * m * F + 2 * rho * gamma2 * f1 - 2 * gamma2 * eta * s1
    in_rho = 2 * gamma2 * (m * f1 + gamma2 * (rho * f2 - eta * s2))
    in_rho += 2 * n * (rho * (bulk2 + (n - 1) * bulk1**2) + bias * bulk1 + gamma2 * s1 * mean)
    parts = (
        shift * (in_kappa + 2 * n * mean * bias1),
        -2 * gamma2 * S,
        shift * (in_theta + 2 * n * mean * S),
        -2 * gamma2 * bias1,
        in_rho,
    )
    return jnp.stack(jnp.broadcast_arrays(*parts), axis=-1)


def _computed_once(*parts: Float[Array, "*runs"]) -> tuple[Float[Array, "*runs"], ...]:
    """The same values, kept in memory: XLA on a CPU otherwise evaluates them anew for every output
    that needs them, 25 times in a step of the descent. It cannot see through a product with the
    identity, and optimisation barriers do not survive until it decides."""
    stacked = jnp.stack(jnp.broadcast_arrays(*parts))
    kept = jnp.eye(len(parts)) @ stacked.reshape(len(parts), -1)
    return tuple(kept.reshape(stacked.shape))
