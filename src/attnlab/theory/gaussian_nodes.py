"""Quadrature nodes that resolve a Gaussian and a function of another scale at once.

A Gaussian average `E f(B)`, `B = μ + σ Z`, where `f` varies on the scale 1 around 0, has two
scales that may differ by a factor 1e5. In `u = asinh(B)` both are smooth on a scale of order one,
and the integrand dies doubly exponentially at both ends, so the trapezoid rule converges
exponentially. Where `f` has kinks, Gauss-Legendre panels between them replace it.
Source: `docs/theory/quadrature`.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# Of the fine rule and of two coarser ones that it is compared with: nodes of a trapezoid rule, and
# nodes that a Gauss-Legendre panel lacks. Inner trapezoid rules are wider by 1/share and a little.
SHARE = (1.0, 0.735, 0.7)
FEWER = (0, 5, 6)
REACH = 9.0  # standard deviations; the Gaussian's mass beyond is 2e-19


class Nodes(NamedTuple):
    """Nodes of one Gaussian average.

    - `z`: standardised positions, `(*runs, n)`
    - `b`: the same positions `μ + σ z`
    - `weights`: of `∫ dz` (the Gaussian density is not included)
    """

    z: Float[Array, "*runs n"]
    b: Float[Array, "*runs n"]
    weights: Float[Array, "*runs n"]


def density(z: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Standard normal density."""
    return jnp.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)


def uniform_nodes(spacing: float, reach: float = REACH) -> tuple[np.ndarray, np.ndarray]:
    """Trapezoid nodes on `[-reach, reach]` and their weights times the Gaussian density."""
    half = math.ceil(reach / spacing)
    z = np.arange(-half, half + 1) * (reach / half)
    weights = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) * (reach / half)
    return z, weights / weights.sum()


def resolving_nodes(
    mean: Float[Array, "*runs"],
    std: Float[Array, "*runs"],
    kinks: tuple[Any, ...] = (),
    *,
    rule: int = 0,
    panels: int = 10,
    order: int = 24,
    count: int = 257,
) -> Nodes:
    """Nodes for `E f(mean + std Z)`, `f` of scale 1 around 0, smooth between `kinks`.

    `kinks` are numbers, or arrays of the batch shape, in units of the argument of `f`; between two
    of them lie `panels` panels of `order` nodes, and without kinks there are `count` nodes (a
    longer range of `asinh` needs more). `rule` 1 and 2 are independent rules of fewer nodes, for error
    estimates. Nodes carry no derivative: differentiate the density instead (`attached`).
    """
    mean, std, kinks = jax.lax.stop_gradient((jnp.asarray(mean), jnp.asarray(std), tuple(kinks)))
    mean, std = jnp.broadcast_arrays(mean, std)
    if not kinks:
        n = round(SHARE[rule] * count)
        fraction, weight = np.linspace(0.0, 1.0, n), np.full(n, 1.0 / (n - 1))
        weight[[0, -1]] /= 2
        return _map_segment(mean, std, -REACH, REACH, fraction, weight)
    points = [jnp.clip((jnp.asarray(kink) - mean) / std, -REACH, REACH) for kink in kinks]
    inner = jnp.sort(jnp.stack(jnp.broadcast_arrays(*points), axis=0), axis=0)
    edges = [jnp.full_like(mean, -REACH), *inner, jnp.full_like(mean, REACH)]
    x, w = np.polynomial.legendre.leggauss(order - FEWER[rule])
    fraction = ((np.arange(panels)[:, None] + (x + 1) / 2) / panels).ravel()
    weight = np.tile(w / 2 / panels, panels)
    parts = [
        _map_segment(mean, std, low, high, fraction, weight)
        for low, high in itertools.pairwise(edges)
    ]
    return Nodes(*(jnp.concatenate(pieces, axis=-1) for pieces in zip(*parts, strict=True)))


def _map_segment(
    mean: Any, std: Any, low: Any, high: Any, fraction: np.ndarray, weight: np.ndarray
) -> Nodes:
    """Nodes at equal fractions in `u = asinh(b)` of the segment `low <= z <= high`.

    All differences are formed without cancellation, so a tiny `std` beside a large `mean` keeps
    its digits: the reference end is the one nearer to the origin of `b`.
    """
    b_low, b_high = mean + std * low, mean + std * high
    flip = jnp.abs(b_low) > jnp.abs(b_high)  # reflect b -> -b, so that b_high is the larger
    start = jnp.where(flip, -b_high, b_low)
    end = jnp.where(flip, -b_low, b_high)
    z_start = jnp.where(flip, -jnp.asarray(high), jnp.asarray(low))
    length = std * (jnp.asarray(high) - jnp.asarray(low))
    root_start, root_end = jnp.sqrt(1 + start**2), jnp.sqrt(1 + end**2)
    # start + root_start, without cancellation for a negative start
    lift = jnp.where(start > 0, start + root_start, 1 / (root_start - jnp.minimum(start, 0)))
    span = jnp.log1p(length * (1 + (start + end) / (root_start + root_end)) / lift)
    u = jnp.arcsinh(start)[..., None] + span[..., None] * fraction
    half = span[..., None] * fraction / 2
    step = 2 * jnp.sinh(half) * jnp.cosh(jnp.arcsinh(start)[..., None] + half)
    z = z_start[..., None] + step / std[..., None]
    dz = jnp.cosh(u) * span[..., None] / std[..., None]
    sign = jnp.where(flip, -1.0, 1.0)[..., None]
    return Nodes(sign * z, sign * (start[..., None] + step), dz * weight)


def bends(kinks: tuple[float, ...], mean: Any, std: Any, overlap: Any) -> tuple[Any, ...]:
    """Both ends of the stretch of standardised scores on which a function of `mean + std (overlap z
    + √(1 - overlap²) Z)` with `kinks` bends, averaged over `Z`: blurred over `√(1 - overlap²)`, it
    becomes a kink again as the overlap nears 1."""
    steep, blur = seen_through(overlap)
    places = [(kink - mean) / (std * steep) for kink in kinks]
    return tuple(place + side * REACH * blur for place in places for side in (-1.0, 1.0))


def seen_through(overlap: Any) -> tuple[Any, Any]:
    """The slope of `overlap z + √(1 - overlap²) Z` in `z`, never 0, and over which stretch of `z` a
    kink of a function of it is blurred."""
    steep = jnp.where(overlap < 0, -1.0, 1.0) * jnp.maximum(jnp.abs(overlap), 1e-9)
    return steep, jnp.sqrt(jnp.maximum(1 - overlap**2, 0.0)) / jnp.abs(steep)


def attached(nodes: Nodes, mean: Any, std: Any) -> tuple[Any, Any]:
    """Standardised positions and density weights as functions of `mean` and `std`.

    With the nodes fixed at `b`, `z = (b - mean)/std` and the weight `φ(z) db/std` carry all
    derivatives in the mean and the standard deviation, so the averaged function is never
    differentiated: steps and kinks are allowed. The value of `z` keeps its digits.
    """
    mean, std = jnp.asarray(mean)[..., None], jnp.asarray(std)[..., None]
    still_mean, still_std = jax.lax.stop_gradient((mean, std))
    z = ((still_mean - mean) + still_std * nodes.z) / std
    return z, density(z) * nodes.weights * (still_std / std)
