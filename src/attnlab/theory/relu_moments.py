"""Gaussian averages of products of ReLUs, with derivatives that survive perfect correlation.

For jointly Gaussian `W ~ (m1, v1)`, `U ~ (m2, v2)` with covariance `c`, standardised means `h, k`
and correlation `r`, everything follows from the orthant probability

    P(W > 0, U > 0) = Φ(h) Φ(k) + (1/2π) ∫_0^{artanh r} e^{-(h² - 2hk tanh x + k²) cosh²x / 2} dx/cosh x

and from Price's theorem: `∂/∂c` is the average of both derivatives, `∂/∂v` half that of a second
one. Source: `docs/theory/gaussian-averages`.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from .gaussian_nodes import density

_TINY = 1e-12  # standard deviation that counts as none
_MOST = math.tanh(18.0)  # largest correlation, below 1 by 5e-16; all terms must take the same
_PANELS, _ORDER = 8, 16


@jax.custom_jvp
def both_positive(
    h: Float[Array, "*n"], k: Float[Array, "*n"], r: Float[Array, "*n"]
) -> Float[Array, "*n"]:
    """`P(X > -h, Y > -k)` for standard normals of correlation `r`."""
    end = jnp.arctanh(jnp.clip(r, -_MOST, _MOST))
    nodes, weights = np.polynomial.legendre.leggauss(_ORDER)
    fraction = ((np.arange(_PANELS)[:, None] + (nodes + 1) / 2) / _PANELS).ravel()
    x = jnp.abs(end)[..., None] * fraction
    signed = jnp.where(end < 0, -k, k)[..., None]
    h_ = h[..., None]
    # (h² - 2hk tanh x + k²) cosh²x without cancellation
    quadratic = ((h_ - signed) * jnp.cosh(x)) ** 2 + h_ * signed * (1 + jnp.exp(-2 * x))
    inside = jnp.exp(-0.5 * quadratic) / jnp.cosh(x)
    area = jnp.sum(inside * np.tile(weights / 2 / _PANELS, _PANELS), axis=-1) * end
    return ndtr(h) * ndtr(k) + area / (2 * math.pi)


@both_positive.defjvp
def _both_positive_jvp(primals: Any, tangents: Any) -> Any:
    (h, k, r), (dh, dk, dr) = primals, tangents
    rest = jnp.sqrt(jnp.maximum(1 - r**2, 1e-30))
    slope = density(h) * ndtr((k - r * h) / rest) * dh + density(k) * ndtr((h - r * k) / rest) * dk
    joint = jnp.exp(-0.5 * (h**2 + ((k - r * h) / rest) ** 2)) / (2 * math.pi * rest)
    return both_positive(h, k, r), slope + joint * dr


@jax.custom_jvp
def relu_product(
    m1: Float[Array, "*n"],
    m2: Float[Array, "*n"],
    v1: Float[Array, "*n"],
    v2: Float[Array, "*n"],
    c: Float[Array, "*n"],
) -> Float[Array, "*n"]:
    """`E relu(W) relu(U)`."""
    s1, s2, h, k, r, rest = _standard(m1, m2, v1, v2, c)
    joint = jnp.exp(-0.5 * (h**2 + ((k - r * h) / rest) ** 2)) / (2 * math.pi)
    edges = s2 * m1 * density(k) * ndtr((h - r * k) / rest)
    edges = edges + s1 * m2 * density(h) * ndtr((k - r * h) / rest)
    return (m1 * m2 + c) * both_positive(h, k, r) + edges + s1 * s2 * rest * joint


@relu_product.defjvp
def _relu_product_jvp(primals: Any, tangents: Any) -> Any:
    m1, m2, v1, v2, c = primals
    dm1, dm2, dv1, dv2, dc = tangents
    _, _, h, k, r, _ = _standard(*primals)
    slope = _half_relu(m1, m2, v1, v2, c) * dm1 + _half_relu(m2, m1, v2, v1, c) * dm2
    slope = slope + 0.5 * (
        _edge_relu(m1, m2, v1, v2, c) * dv1 + _edge_relu(m2, m1, v2, v1, c) * dv2
    )
    return relu_product(*primals), slope + both_positive(h, k, r) * dc


def _standard(m1: Any, m2: Any, v1: Any, v2: Any, c: Any) -> tuple[Any, ...]:
    s1, s2 = (jnp.sqrt(jnp.maximum(v, _TINY**2)) for v in (v1, v2))
    r = jnp.clip(c / (s1 * s2), -_MOST, _MOST)
    rest = jnp.sqrt((1 - r) * (1 + r))
    return s1, s2, m1 / s1, m2 / s2, r, rest


def _half_relu(m1: Any, m2: Any, v1: Any, v2: Any, c: Any) -> Any:
    """`E[1(W > 0) relu(U)]`."""
    _, s2, h, k, r, rest = _standard(m1, m2, v1, v2, c)
    tails = density(k) * ndtr((h - r * k) / rest) + r * density(h) * ndtr((k - r * h) / rest)
    return m2 * both_positive(h, k, r) + s2 * tails


def _edge_relu(m1: Any, m2: Any, v1: Any, v2: Any, c: Any) -> Any:
    """`E[δ(W) relu(U)]`."""
    s1, s2, h, k, r, rest = _standard(m1, m2, v1, v2, c)
    there = (k - r * h) / rest
    return density(h) / s1 * s2 * rest * (there * ndtr(there) + density(there))
