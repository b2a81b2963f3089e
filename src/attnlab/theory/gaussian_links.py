"""Gaussian averages of links: `E σ`, `E σ²` of one projection and `E σ(W) τ(U)` of two.

Closed forms where they exist, quadrature elsewhere; all differentiable in means, variances and the
covariance, perfect correlation and zero variance included. Smooth links get there by the heat
equation (a derivative in a variance is half a second derivative, one in the covariance is a mixed
one: Price's theorem). Source: `docs/theory/gaussian-averages`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import erf, ndtr
from jaxtyping import Array, ArrayLike, Float

from ..tasks import Link
from .erf_moments import erf_squared_curvature, erf_squared_mean, erf_squared_slope
from .gaussian_nodes import attached, density, resolving_nodes, uniform_nodes
from .relu_moments import relu_product

_TINY = 1e-12  # variance below which a kinked link counts as evaluated at its mean
Function = Callable[[Any], Any]


def mean(
    link: Link, m: Float[Array, "*n"], v: Float[Array, "*n"], *, spacing: float
) -> Float[Array, "*n"]:
    """`E σ(m + √v Z)`; `spacing` is that of the trapezoid rule in `z` where one is needed."""
    if link.polynomial is not None:
        return _polynomial_mean(link.polynomial, m, v)
    if link.gaussian_mean is not None:
        return link.gaussian_mean(m, v)
    if link.name in _CLOSED_MEANS:
        return _CLOSED_MEANS[link.name](m, v)
    return _numeric_mean(link.function, link.kinks, m, v, spacing)


def square(
    link: Link, m: Float[Array, "*n"], v: Float[Array, "*n"], *, spacing: float
) -> Float[Array, "*n"]:
    """`E σ(m + √v Z)²`."""
    if link.polynomial is not None:
        return _polynomial_mean(_squared(link.polynomial), m, v)
    if link.gaussian_square is not None:
        return link.gaussian_square(m, v)
    if link.name in _CLOSED_SQUARES:
        return _CLOSED_SQUARES[link.name](m, v)
    return _numeric_mean(lambda x: link.function(x) ** 2, link.kinks, m, v, spacing)


def product(
    first: Link,
    second: Link,
    m1: Float[Array, "*n"],
    m2: Float[Array, "*n"],
    v1: Float[Array, "*n"],
    v2: Float[Array, "*n"],
    c: Float[Array, "*n"],
    *,
    spacing: float,
) -> Float[Array, "*n"]:
    """`E σ(W) τ(U)` for jointly Gaussian `W ~ (m1, v1)`, `U ~ (m2, v2)` with covariance `c`."""
    if first.polynomial is not None:
        return _with_polynomial(first.polynomial, second, m1, m2, v1, v2, c, spacing)
    if second.polynomial is not None:
        return _with_polynomial(second.polynomial, first, m2, m1, v2, v1, c, spacing)
    if first.name == second.name == "relu":
        return relu_product(*jnp.broadcast_arrays(m1, m2, v1, v2, c))
    if not first.kinks and not second.kinks:
        return _smooth_product(first.function, second.function, m1, m2, v1, v2, c, spacing)
    if not first.kinks:  # the outer variable is the one whose link has kinks
        first, second, m1, m2, v1, v2 = second, first, m2, m1, v2, v1
    return _kinked_product(first, second, m1, m2, v1, v2, c, spacing)


# --- closed forms ---------------------------------------------------------------------------


def _polynomial_mean(coefficients: tuple[float, ...], m: Any, v: Any) -> Any:
    moments = (jnp.ones_like(m), m, m**2 + v, m**3 + 3 * m * v, m**4 + 6 * m**2 * v + 3 * v**2)
    terms = zip(coefficients, moments, strict=False)
    return sum(c * moment for c, moment in terms if c != 0) + jnp.zeros_like(m * v)


def _squared(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    out = [0.0] * (2 * len(coefficients) - 1)
    for i, a in enumerate(coefficients):
        for j, b in enumerate(coefficients):
            out[i + j] += a * b
    return tuple(out)


def _erf_mean(m: Any, v: Any) -> Any:
    return erf(m / jnp.sqrt(1 + 2 * v))


@jax.custom_jvp
def _erf_square(m: Any, v: Any) -> Any:
    return erf_squared_mean(m, jnp.sqrt(v))


@_erf_square.defjvp
def _erf_square_jvp(primals: Any, tangents: Any) -> Any:
    # in the variable v, d/dv = (1/2) d²/dm² stays finite at v = 0, where √v has no slope
    (m, v), (dm, dv) = primals, tangents
    g = jnp.sqrt(jnp.maximum(v, 1e-300))
    slope = erf_squared_slope(m, g) * dm + 0.5 * erf_squared_curvature(m, g) * dv
    return _erf_square(m, v), slope


def _relu_mean(m: Any, v: Any) -> Any:
    s = jnp.sqrt(jnp.maximum(v, _TINY**2))
    return m * ndtr(m / s) + s * density(m / s)


def _relu_square(m: Any, v: Any) -> Any:
    s = jnp.sqrt(jnp.maximum(v, _TINY**2))
    return (m**2 + v) * ndtr(m / s) + m * s * density(m / s)


_CLOSED_MEANS: dict[str, Callable[[Any, Any], Any]] = {"erf": _erf_mean, "relu": _relu_mean}
_CLOSED_SQUARES: dict[str, Callable[[Any, Any], Any]] = {
    "erf": _erf_square,
    "relu": _relu_square,
}


def _with_polynomial(
    coefficients: tuple[float, ...],
    link: Link,
    m1: Any,
    m2: Any,
    v1: Any,
    v2: Any,
    c: Any,
    spacing: float,
) -> Any:
    """`E p(W) τ(U)`, `p` of degree at most 2, by Stein: each factor `W` is `m1 + c d/dm2`."""

    def smoothed(m: Any) -> Any:
        return mean(link, m, v2, spacing=spacing)

    def slope(m: Any) -> Any:
        return jax.jvp(smoothed, (m,), (jnp.ones_like(m),))[1]

    total = coefficients[0] * smoothed(m2) if coefficients[0] else 0.0 * m2 * m1
    if len(coefficients) > 1 and coefficients[1]:
        total = total + coefficients[1] * (m1 * smoothed(m2) + c * slope(m2))
    if len(coefficients) > 2 and coefficients[2]:
        bent = jax.jvp(slope, (m2,), (jnp.ones_like(m2),))[1]
        pair = (m1**2 + v1) * smoothed(m2) + 2 * m1 * c * slope(m2) + c**2 * bent
        total = total + coefficients[2] * pair
    return total


# --- quadrature -----------------------------------------------------------------------------


def _derivative(function: Function) -> Function:
    def slope(x: Any) -> Any:
        return jax.jvp(function, (x,), (jnp.ones_like(x),))[1]

    return slope


def _numeric_mean(function: Function, kinks: Any, m: Any, v: Any, spacing: float) -> Any:
    m, v = jnp.broadcast_arrays(m, v)
    if not kinks:
        return _smooth_mean(function, m, v, spacing)
    # the density carries the derivative, so a kinked or stepping function is never differentiated
    s = jnp.sqrt(jnp.maximum(v, _TINY))
    nodes = resolving_nodes(m, s, kinks, panels=8, order=16)  # also for means far from the kinks
    _, weights = attached(nodes, m, s)
    return jnp.sum(function(nodes.b) * weights, axis=-1)


def _smooth_mean(function: Function, m: Any, v: Any, spacing: float) -> Any:
    z, weights = uniform_nodes(spacing)

    @jax.custom_jvp
    def average(m: Any, v: Any) -> Any:
        points = m[..., None] + jnp.sqrt(jnp.maximum(v, 0.0))[..., None] * z
        return jnp.sum(function(points) * weights, axis=-1)

    @average.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (m, v), (dm, dv) = primals, tangents
        first = _derivative(function)
        slope = _smooth_mean(first, m, v, spacing) * dm
        return average(m, v), slope + 0.5 * _smooth_mean(_derivative(first), m, v, spacing) * dv

    return average(m, v)


def _smooth_product(
    f: Function, g: Function, m1: Any, m2: Any, v1: Any, v2: Any, c: Any, spacing: float
) -> Any:
    z, weights = uniform_nodes(spacing)

    @jax.custom_jvp
    def average(m1: Any, m2: Any, v1: Any, v2: Any, c: Any) -> Any:
        root = jnp.sqrt(jnp.maximum(v1, 0.0))
        # rounding must not correlate U with a W that does not vary
        limit = jnp.sqrt(jnp.maximum(v2, 0.0))
        along = jnp.clip(c / jnp.maximum(root, 1e-150), -limit, limit)
        rest = jnp.sqrt(jnp.maximum(v2 - along**2, 0.0))

        def at(z1: Any) -> Any:  # one outer node: an inner average over the rest of U
            inner = (m2 + along * z1)[..., None] + rest[..., None] * z
            return f(m1 + root * z1) * jnp.sum(g(inner) * weights, axis=-1)

        def body(total: Any, node: Any) -> Any:
            return total + node[1] * at(node[0]), None

        start = jnp.zeros_like(m1)
        return jax.lax.scan(body, start, (jnp.asarray(z), jnp.asarray(weights)))[0]

    @average.defjvp
    def _(primals: tuple[Any, Any, Any, Any, Any], tangents: Any) -> Any:
        f1, g1 = _derivative(f), _derivative(g)
        pairs = ((f1, g), (f, g1), (_derivative(f1), g), (f, _derivative(g1)), (f1, g1))
        factors = (1.0, 1.0, 0.5, 0.5, 1.0)
        slope = sum(
            factor * _smooth_product(one, other, *primals, spacing) * tangent
            for factor, (one, other), tangent in zip(factors, pairs, tangents, strict=True)
        )
        return average(*primals), slope

    return average(*jnp.broadcast_arrays(m1, m2, v1, v2, c))


def _kinked_product(
    outer: Link, inner: Link, m1: Any, m2: Any, v1: Any, v2: Any, c: Any, spacing: float
) -> Any:
    """`E σ(W) τ(U)` where `σ` has kinks: nodes in `W` split there, and resolve the scale on which
    the smoothed `τ` bends, which shrinks as the two projections align."""
    m1, m2, v1, v2, c = jnp.broadcast_arrays(m1, m2, v1, v2, c)
    root = jnp.sqrt(jnp.maximum(v1, _TINY))
    slope = c / root  # dU/dz1
    rest = jnp.maximum(v2 - slope**2, 0.0)
    # centre the nodes where U passes its own feature, in units of the blur that surrounds it
    steep = jnp.maximum(jnp.abs(slope), 1e-6)
    blur = jnp.sqrt(rest + _TINY) / steep
    if not inner.kinks:
        blur = jnp.maximum(blur, inner.width / steep)
    blur = jnp.clip(blur, 1e-6, 1.0)
    feature = inner.kinks[0] if inner.kinks else 0.0
    z_feature = jnp.clip((feature - m2) / jnp.where(slope < 0, -steep, steep), -50.0, 50.0)
    spread = 1 / blur
    centre = -z_feature * spread  # in b = (z - z_feature)/blur the features sit at the origin
    kinks = [((kink - m1) / root - z_feature) * spread for kink in outer.kinks]
    kinks += [
        ((kink - m2) / jnp.where(slope < 0, -steep, steep) - z_feature) * spread
        for kink in inner.kinks
    ]
    nodes = resolving_nodes(centre, spread, tuple(kinks), order=16)
    W = jax.lax.stop_gradient(m1[..., None] + root[..., None] * nodes.z)
    z, weights = attached(nodes, m1, root)  # σ may step: only the density is differentiated
    U = m2[..., None] + slope[..., None] * z

    @jax.checkpoint
    def body(total: Any, node: Any) -> Any:  # one node at a time: the inner average may be large
        w, u, weight = node
        return total + weight * outer.function(w) * mean(inner, u, rest, spacing=spacing), None

    columns = tuple(jnp.moveaxis(part, -1, 0) for part in (W, U, weights))
    return jax.lax.scan(body, jnp.zeros_like(m1), columns)[0]


def uniform_spacing(width: float, std: float, *, rule: int = 0) -> float:
    """Trapezoid spacing in `z` for a function analytic within `width` of the real axis, smoothed
    over `std`: the error is about `exp(-2π width/(spacing std))`, 1e-14 for the fine rule; rules 1
    and 2 are coarser."""
    fine = min(0.5, 0.19 * width / max(std, 1e-3) if std > 0 else 0.5)
    return fine * (1.0, 1.19, 1.22)[rule]


def link_mean(link: Link, m: float, v: float) -> Float[Array, ""]:
    """`E σ(m + √v Z)` at scalars, the grid chosen from the variance. Call inside `float64()`."""
    return mean(link, *_scalars(m, v), spacing=uniform_spacing(link.width, v**0.5))


def link_square(link: Link, m: float, v: float) -> Float[Array, ""]:
    """`E σ(m + √v Z)²` at scalars. Call inside `float64()`."""
    return square(link, *_scalars(m, v), spacing=uniform_spacing(link.width, v**0.5))


def link_slope_mean(link: Link, std: float) -> Float[Array, ""]:
    """`E σ'(std Z)`, as the slope of the smoothed link at the origin: steps are allowed. Call
    inside `float64()`."""
    return jax.grad(lambda m: _mean_at(link, m, std))(jnp.zeros(()))


def _mean_at(link: Link, m: Float[Array, ""], std: float) -> Float[Array, ""]:
    """`E σ(m + std Z)`, differentiable in `m`."""
    variance = jnp.asarray(std, jnp.float64) ** 2
    return mean(link, m, variance, spacing=uniform_spacing(link.width, std))


def _scalars(*values: ArrayLike) -> tuple[Float[Array, ""], ...]:
    return tuple(jnp.asarray(value, jnp.float64) for value in values)
