"""Projected gradient descent closes on the five overlaps: the exact map, and its flow.

Every population gradient lies in the span of the hidden and the learned directions,

    grad_k R = R_κ k* + R_η v* + R_ρ v,        grad_v R = R_ν v* + R_θ k* + R_ρ k,

so all the inner products that a step needs are known from the overlaps. Source: Section 4 of
marion2025; `docs/theory/overlap-recursion`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


class Tangents(NamedTuple):
    """Inner products of the projected gradients `t_k = P_k^⊥ grad_k R`, `t_v = P_v^⊥ grad_v R`
    with the hidden directions, with the other learned vector, and with each other."""

    k_kstar: Any
    k_vstar: Any
    v_vstar: Any
    v_kstar: Any
    k_v: Any  # t_k · v
    v_k: Any  # t_v · k
    k_norm2: Any
    v_norm2: Any
    cross: Any  # t_k · t_v


def tangents(state: Float[Array, "*runs 5"], gradient: Float[Array, "*runs 5"]) -> Tangents:
    """The inner products of the projected gradients, from overlaps and partial derivatives."""
    kappa, nu, theta, eta, rho = (state[..., i] for i in range(5))
    r_kappa, r_nu, r_theta, r_eta, r_rho = (gradient[..., i] for i in range(5))
    # the raw gradients against the four vectors
    gk_kstar, gk_vstar = r_kappa + r_rho * theta, r_eta + r_rho * nu
    gk_k = r_kappa * kappa + r_eta * eta + r_rho * rho
    gk_v = r_kappa * theta + r_eta * nu + r_rho
    gv_vstar, gv_kstar = r_nu + r_rho * eta, r_theta + r_rho * kappa
    gv_v = r_nu * nu + r_theta * theta + r_rho * rho
    gv_k = r_nu * eta + r_theta * kappa + r_rho
    gk_gv = r_kappa * gv_kstar + r_eta * gv_vstar + r_rho * gv_v
    gk_gk = r_kappa * gk_kstar + r_eta * gk_vstar + r_rho * gk_v
    gv_gv = r_nu * gv_vstar + r_theta * gv_kstar + r_rho * gv_k
    return Tangents(
        k_kstar=gk_kstar - gk_k * kappa,
        k_vstar=gk_vstar - gk_k * eta,
        v_vstar=gv_vstar - gv_v * nu,
        v_kstar=gv_kstar - gv_v * theta,
        k_v=gk_v - gk_k * rho,
        v_k=gv_k - gv_v * rho,
        k_norm2=jnp.maximum(gk_gk - gk_k**2, 0.0),
        v_norm2=jnp.maximum(gv_gv - gv_v**2, 0.0),
        cross=gk_gv - gk_k * gv_k - gv_v * gk_v + gk_k * gv_v * rho,
    )


def descend(
    state: Float[Array, "*runs 5"], gradient: Float[Array, "*runs 5"], step_size: Any
) -> Float[Array, "*runs 5"]:
    """One step `k <- (k - s t_k)/|k - s t_k|`, `v` alike, as a map of the overlaps."""
    kappa, nu, theta, eta, rho = (state[..., i] for i in range(5))
    t, s = tangents(state, gradient), step_size
    k_norm = jnp.sqrt(1 + s**2 * t.k_norm2)
    v_norm = jnp.sqrt(1 + s**2 * t.v_norm2)
    moved = (
        (kappa - s * t.k_kstar) / k_norm,
        (nu - s * t.v_vstar) / v_norm,
        (theta - s * t.v_kstar) / v_norm,
        (eta - s * t.k_vstar) / k_norm,
        (rho - s * (t.k_v + t.v_k) + s**2 * t.cross) / (k_norm * v_norm),
    )
    return jnp.stack(moved, axis=-1)


def flow_field(
    state: Float[Array, "*runs 5"], gradient: Float[Array, "*runs 5"]
) -> Float[Array, "*runs 5"]:
    """Velocities of the overlaps under `dk/dt = -P_k^⊥ grad_k R`, `dv/dt = -P_v^⊥ grad_v R`."""
    t = tangents(state, gradient)
    return -jnp.stack([t.k_kstar, t.v_vstar, t.v_kstar, t.k_vstar, t.k_v + t.v_k], axis=-1)


def gradient_norm(
    state: Float[Array, "*runs 5"], gradient: Float[Array, "*runs 5"]
) -> Float[Array, "*runs"]:
    """Norm of the Riemannian gradient `(t_k, t_v)` in `R^d × R^d`."""
    t = tangents(state, gradient)
    return jnp.sqrt(t.k_norm2 + t.v_norm2)
