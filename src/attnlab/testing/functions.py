"""Invariants of activations and links: scalar functions that the theory averages over Gaussians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .._core.errors import check_choice
from .._core.precision import float64
from ..students import Activation, get_activation
from ..tasks import Link, get_link
from .invariants import Invariants

_REACH = 8.0  # Gaussian arguments beyond it have probability 1e-15
_FAR = 50.0
Parity = Literal["odd", "even"]


def check_activation(
    activation: str | Activation, *, parity: Parity | None = None
) -> tuple[str, ...]:
    """Checks what the library relies on in an activation.

    It must act elementwise and keep shape and dtype, be finite, give the same under `jit`, `vmap`
    and in float64, have a derivative (away from its kinks) that agrees with differences, and
    declare every kink: an undeclared one makes quadrature silently inaccurate. `parity` states
    that it is odd or even, and is checked as well.

    Returns the names of the invariants. Raises `InvariantError` for those that fail,
    `InvalidArgument` for an unknown name.
    """
    activation = get_activation(activation)
    found = Invariants(f"activation {activation.name!r}")
    _check_function(found, activation.function, activation.kinks, parity)
    return found.result()


def check_link(link: str | Link, *, parity: Parity | None = None) -> tuple[str, ...]:
    """Checks a link as `check_activation` does an activation, and the closed forms it declares.

    Its polynomial, its Gaussian mean and mean square must be those of its function.
    """
    link = get_link(link)
    found = Invariants(f"link {link.name!r}")
    _check_function(found, link.function, link.kinks, parity)
    if link.polynomial is not None:
        coefficients = link.polynomial
        found.require("polynomial", lambda: _same_polynomial(link.function, coefficients))
    for name, power in (("gaussian_mean", 1), ("gaussian_square", 2)):
        average = getattr(link, name)
        if average is not None:
            found.require(name, lambda a=average, p=power: _same_average(link, a, p))  # type: ignore[misc]
    return found.result()


def _check_function(
    found: Invariants,
    function: Callable[[Any], Any],
    kinks: tuple[float, ...],
    parity: str | None,
) -> None:
    if parity is not None:
        check_choice("parity", parity, ("odd", "even"))
    if not found.require("evaluates", lambda: _evaluates(function)):
        return
    found.require("elementwise", lambda: _elementwise(function))
    found.require("keeps the dtype", lambda: _keeps_dtype(function))
    found.require("finite", lambda: _finite(function))
    found.require("traceable", lambda: _traceable(function))
    if found.require("differentiable", lambda: _differentiable(function, kinks)):
        found.require("kinks declared", lambda: _kinks_declared(function, kinks))
    if parity is not None:
        found.require(parity, lambda: _has_parity(function, parity))


def _grid(points: int = 257, reach: float = _REACH) -> np.ndarray:
    return np.linspace(-reach, reach, points)


def _values(function: Callable[[Any], Any], x: Any) -> np.ndarray:
    """The function in float64."""
    with float64():
        return np.asarray(function(jnp.asarray(x, jnp.float64)))


def _evaluates(function: Callable[[Any], Any]) -> str | None:
    x = jnp.asarray(_grid(), jnp.float32)
    value = function(x)
    if not isinstance(value, jax.Array):
        return f"returns {type(value).__name__}, not a JAX array"
    return None if value.shape == x.shape else f"shape {x.shape} became {value.shape}"


def _elementwise(function: Callable[[Any], Any]) -> str | None:
    x = _grid(60)
    whole = _values(function, x)
    for shape in ((3, 4, 5), (60, 1)):
        shaped = _values(function, x.reshape(shape))
        if shaped.shape != shape or not np.allclose(shaped.ravel(), whole, 1e-13, 1e-13):
            return f"differs on an array of shape {shape}"
    for i in (0, 30, 59):
        alone = _values(function, x[i])
        if alone.shape != () or not np.allclose(alone, whole[i], 1e-13, 1e-13):
            return f"f({x[i]:.3g}) alone is {alone}, within an array {whole[i]}"
    return None


def _keeps_dtype(function: Callable[[Any], Any]) -> str | None:
    with float64():
        for dtype in (jnp.float32, jnp.float64):
            got = function(jnp.asarray(_grid(), dtype)).dtype
            if got != dtype:
                return f"{jnp.dtype(dtype).name} became {got.name}"
    single = np.asarray(function(jnp.asarray(_grid(), jnp.float32)), np.float64)
    double = _values(function, np.float32(_grid()))
    off = np.abs(single - double) > 1e-4 * (1 + np.abs(double))
    return f"float32 and float64 differ at {_grid()[off][0]:.3g}" if off.any() else None


def _finite(function: Callable[[Any], Any]) -> str | None:
    x = np.concatenate([_grid(), _grid(257, _FAR), [0.0, -0.0]])
    wrong = ~np.isfinite(_values(function, x))
    return f"f({x[wrong][0]:.3g}) is not finite" if wrong.any() else None


def _traceable(function: Callable[[Any], Any]) -> str | None:
    x = _grid(64)
    with float64():
        plain = np.asarray(function(jnp.asarray(x)))
        for name, transformed in (("jit", jax.jit(function)), ("vmap", jax.vmap(function))):
            if not np.allclose(np.asarray(transformed(jnp.asarray(x))), plain, 1e-12, 1e-12):
                return f"differs under {name}"
    return None


def _slope(function: Callable[[Any], Any], x: Any) -> np.ndarray:
    with float64():
        slope = jax.vmap(jax.grad(lambda t: jnp.reshape(function(t), ())))
        return np.asarray(slope(jnp.asarray(np.ravel(x), jnp.float64)))


def _differentiable(function: Callable[[Any], Any], kinks: tuple[float, ...]) -> str | None:
    """The derivative that JAX computes against central differences, away from kinks."""
    h = 1e-5
    x = np.concatenate([_grid(), _grid(100, 0.1)])
    x = x[np.all([np.abs(x - kink) > 4 * h for kink in kinks], axis=0)] if kinks else x
    slope = _slope(function, x)
    if not np.isfinite(slope).all():
        return f"the derivative at {x[~np.isfinite(slope)][0]:.3g} is not finite"
    differences = (_values(function, x + h) - _values(function, x - h)) / (2 * h)
    # A kink between x - h and x + h that was not declared is the business of `kinks declared`.
    off = np.abs(slope - differences) > 1e-5 * (1 + np.abs(slope))
    if off.mean() > 0.02:
        i = int(np.argmax(np.abs(slope - differences) * off))
        return (
            f"the derivative at {x[i]:.3g} is {slope[i]:.6g}, differences give {differences[i]:.6g}"
        )
    return None


def _kinks_declared(function: Callable[[Any], Any], kinks: tuple[float, ...]) -> str | None:
    """Looks for jumps, of more than about 1e-3, of the function and of its slope.

    Cells whose change stands out from that of their neighbours are halved again and again towards
    the larger change: on a smooth function the change shrinks with the cell, across a jump it stays.
    """
    edges = np.linspace(-_REACH, _REACH, 2**16) + 1.2345e-6  # no kink of round value is on an edge
    for name, of in (("function", _values), ("slope", _slope)):
        change = np.diff(of(function, edges))
        apart = np.abs(np.convolve(change, [-0.5, 1.0, -0.5], "same"))
        worst = np.argsort(apart)[-16:]
        left, right, before = edges[worst], edges[worst + 1], np.abs(change[worst])
        for _ in range(20):
            middle = (left + right) / 2
            at = of(function, np.concatenate([left, middle, right])).reshape(3, -1)
            go_left = np.abs(at[1] - at[0]) >= np.abs(at[2] - at[1])
            left, right = np.where(go_left, left, middle), np.where(go_left, middle, right)
        after = np.abs(of(function, right) - of(function, left))
        for place, size, first in zip(right, after, before, strict=True):
            known = any(abs(place - kink) < 1e-6 for kink in kinks)
            if size > 1e-6 and size > 0.2 * first and not known:
                return f"the {name} jumps by {size:.3g} at {place:.6g}, which is no declared kink"
    return None


def _has_parity(function: Callable[[Any], Any], parity: str) -> str | None:
    x = _grid(256)[128:]
    sign = -1.0 if parity == "odd" else 1.0
    off = np.abs(_values(function, -x) - sign * _values(function, x))
    limit = 1e-12 * (1 + np.abs(_values(function, x)))
    return (
        f"f(-x) and f(x) disagree at x = {x[off > limit][0]:.3g}" if (off > limit).any() else None
    )


def _same_polynomial(function: Callable[[Any], Any], coefficients: tuple[float, ...]) -> str | None:
    x = _grid()
    stated = np.polynomial.polynomial.polyval(x, coefficients)
    off = ~np.isclose(_values(function, x), stated, 1e-12, 1e-12)
    return f"the polynomial differs at {x[off][0]:.3g}" if off.any() else None


def _same_average(link: Link, average: Callable[[Any, Any], Any], power: int) -> str | None:
    """A declared Gaussian average against Gauss-Legendre panels split at the kinks."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    for mean, variance in ((0.0, 1.0), (0.7, 0.5), (-1.3, 2.0), (2.0, 1e-2), (-0.4, 0.0)):
        std = np.sqrt(variance)
        if std == 0.0:
            numeric = float(_values(link.function, mean)) ** power
        else:
            z_kinks = [(kink - mean) / std for kink in link.kinks]
            cuts = [*np.linspace(-9.0, 9.0, 37), *(z for z in z_kinks if abs(z) < 9.0)]
            edges = np.unique(cuts)
            half = np.diff(edges)[:, None] / 2
            z = (edges[:-1, None] + half) + half * nodes
            values = _values(link.function, mean + std * z) ** power
            numeric = float(
                np.sum(half * weights * values * np.exp(-(z**2) / 2)) / np.sqrt(2 * np.pi)
            )
        with float64():
            stated = float(average(jnp.float64(mean), jnp.float64(variance)))
            slopes = [float(g) for g in jax.grad(average, (0, 1))(mean, variance)]
        if not abs(stated - numeric) <= 1e-9 * (1 + abs(numeric)):
            return f"at mean {mean}, variance {variance} it is {stated:.10g}, quadrature {numeric:.10g}"
        if not np.isfinite(slopes).all():
            return f"its derivatives at mean {mean}, variance {variance} are {slopes}"
    return None
