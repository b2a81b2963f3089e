"""Closed-form moments of the erf student with linear links.

Source: Lemma 6 and Lemma 18 of marion2025, completed; `docs/theory/pointwise-attention`.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.scipy.special import erfc
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
