"""Exact averages over a quadratic form `q = zᵀBz` of a standard Gaussian vector `z` in `R^d`.

`E φ(q)` and `E[φ(q) z zᵀ]` for any smooth `φ`, by one integral over the density of `q`. The density,
also with weights `z_k²` and `z_k² z_l²` in the eigenbasis of `B`, is a contour integral of a product
of square roots; a parabola around the rightmost singularity, through the saddle point, keeps it
relatively accurate down into the tails, whatever the eigenvalues. Derivatives in `B` are averages of
`φ'`, so that repeated and vanishing eigenvalues do no harm. Source: `docs/theory/quadratic-forms`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree

from .agreement import disagreement

_OUTER, _INNER = 256, 128  # intervals in log q, and on half of the contour; both even
_NEGLIGIBLE = 39.0  # e^{-39} = 1e-17
_SCAN = 24
_ROUNDING = 2e-14

Functions = Callable[[Float[Array, " nodes"]], PyTree[Float[Array, " nodes"]]]


class FormAverages(NamedTuple):
    """`mean`: `E φ(q)`, shape `()`; `outer`: `E[φ(q) z zᵀ]`, shape `(d, d)`; and estimates of their
    errors, shape `()`, that of `outer` in the spectral norm. Each has the structure that the
    functions return."""

    mean: PyTree[Float[Array, ""]]
    outer: PyTree[Float[Array, "d d"]]
    mean_error: PyTree[Float[Array, ""]]
    outer_error: PyTree[Float[Array, ""]]


def form_averages(
    functions: Functions, B: Float[Array, "d d"], growth: ArrayLike = 0.0
) -> FormAverages:
    """`E φ(q)` and `E[φ(q) z zᵀ]`, `q = zᵀBz`, `z ~ N(0, I_d)`. Call inside `float64()`.

    First derivatives in `B` are exact for any positive semi-definite `B`, zero included; a second
    derivative raises `NotImplementedError`. `B` is taken as given: its antisymmetric part does not
    enter, and negative eigenvalues count as zero.

    **Arguments:** `functions` maps nodes `q >= 0` of shape `(nodes,)`, zero among them, to a pytree
    of arrays `φ(q)` of that shape, entry by entry and differentiably; it must be finite at zero,
    analytic around the positive axis, and close over no traced array. `B`: shape `(d, d)`.
    `growth`: a `τ >= 0` such that no `φ` outgrows `e^{τq}` by more than powers. The averages are NaN
    where `E e^{τq}` is infinite, `2 τ λ_max(B) >= 1`.
    """
    values, means, outers, mean_errors, outer_errors = _stacked(
        functions, B, jnp.asarray(growth, B.dtype)
    )
    like = jax.tree.structure(jax.eval_shape(functions, values))
    return FormAverages(
        *(jax.tree.unflatten(like, list(x)) for x in (means, outers, mean_errors, outer_errors))
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _stacked(functions: Functions, B: Any, growth: Any) -> tuple[Any, ...]:
    return _averages(functions, _law(B, growth))


def _averages(functions: Functions, law: _Law) -> tuple[Any, ...]:
    phi = _leaves(functions, law.q)
    means, diagonals, mean_errors, outer_errors = _integrals(law, phi)
    outers = jnp.einsum("ik,fk,jk->fij", law.U, diagonals, law.U)
    return law.q, means, outers, mean_errors, outer_errors


@_stacked.defjvp
def _stacked_jvp(functions: Functions, primals: Any, tangents: Any) -> tuple[Any, Any]:
    B, growth = primals
    law = _law(B, growth)
    out = _averages(functions, law)
    slopes = jax.jvp(lambda q: _leaves(functions, q), (law.q,), (jnp.ones_like(law.q),))[1]
    _, first, _, _ = _integrals(law, slopes)
    second = _pair_integrals(law, slopes)
    turned = law.U.T @ ((tangents[0] + tangents[0].T) / 2) @ law.U
    along = jnp.diagonal(turned)
    eye = jnp.eye(len(along))
    d_outer = 2 * second * turned * (1 - eye) + eye * (second @ along)[:, :, None]
    d_outer = law.U @ d_outer @ law.U.T
    still = [jnp.zeros_like(out[i]) for i in (0, 3, 4)]
    return out, (still[0], first @ along, d_outer, still[1], still[2])


def _leaves(functions: Functions, q: Any) -> Any:
    return jnp.stack([jnp.broadcast_to(leaf, q.shape) for leaf in jax.tree.leaves(functions(q))])


class _Law(NamedTuple):
    """Nodes `q` (the first is 0, the others run through the law), and what averages need there.

    `density[n]` and `squares[n, k]`: weights for `E φ` and `E[φ z_k²]`; `root[n, y, k]`, real and
    imaginary: their products add up to those for `E[φ z_k² z_l²]`; `coarse`: the two first by two
    rules of twice the spacing, zero at the nodes that they leave out. They share the nodes on the
    contour but none in `log q`, so that errors of the two cannot hide each other in both.
    """

    q: Any
    U: Any
    density: Any
    squares: Any
    root: tuple[Any, Any]
    coarse: tuple[tuple[Any, Any], ...]


@jax.custom_jvp
def _law(B: Any, growth: Any) -> _Law:
    b, U = jnp.linalg.eigh((B + B.T) / 2)
    b = jnp.maximum(b, 0.0)
    scale = b[-1]
    # where B = 0 all nodes are at q = 0 and any law of mass 1 serves
    beta = jnp.where(scale > 0, b / jnp.where(scale > 0, scale, 1.0), 1.0)
    low, high = _range(beta, growth * scale)
    u = low + (high - low) * jnp.arange(_OUTER + 1) / _OUTER
    t = jnp.exp(u)
    spacing = (high - low) / _OUTER
    s = _saddles(beta, t)
    c = 2 * s[:, None] * beta / (1 - beta + 2 * s[:, None] * beta)
    log_height = (s - 0.5) * t - 0.5 * jnp.sum(jnp.log1p(beta * (2 * s[:, None] - 1)), -1)
    end = _contour_ends(c, s * t)
    y = end[:, None] * jnp.arange(_INNER + 1) / _INNER
    real, imag = 1 - c[:, None] * (y**2)[..., None], 2 * c[:, None] * y[..., None]
    size = real**2 + imag**2
    angle = jnp.sum(jnp.arctan2(imag, real), -1)
    log_size = 0.5 * jnp.sum(jnp.log(size), -1)
    weight = (2 / jnp.pi) * (s * jnp.exp(log_height) * t * spacing * end / _INNER)[:, None]
    weight = (
        weight
        * (1 + 1j * y)
        * jnp.exp((s * t)[:, None] * (2j * y - y**2) - 0.5 * (log_size + 1j * angle))
    )
    weight = weight.at[:, 0].multiply(0.5)  # the other half of the contour is its mirror image
    per = 1 / (1 - beta + 2 * s[:, None] * beta)
    g_real, g_imag = real / size * per[:, None], -imag / size * per[:, None]

    def sums(w: Any) -> tuple[Any, Any]:
        squares = jnp.einsum("ny,nyk->nk", w.real, g_real)
        return jnp.sum(w.real, -1), squares - jnp.einsum("ny,nyk->nk", w.imag, g_imag)

    even = jnp.where(jnp.arange(_INNER + 1) % 2 == 0, 2.0, 0.0)
    every_other = (
        even * jnp.where(jnp.arange(_OUTER + 1) % 2 == parity, 2.0, 0.0)[:, None]
        for parity in (0, 1)
    )
    half = jnp.sqrt(weight)[..., None]
    root = (half.real * g_real - half.imag * g_imag, half.real * g_imag + half.imag * g_real)
    finite = jnp.where(2 * growth * scale < 1, 1.0, jnp.nan)
    q = jnp.concatenate([jnp.zeros(1), scale * t])
    density, squares = sums(finite * weight)
    coarse = tuple(sums(weight * part) for part in every_other)
    return _Law(q, U, density, squares, root, coarse)


@_law.defjvp
def _law_jvp(primals: Any, tangents: Any) -> Any:
    # through the eigenvectors they would be wrong or NaN at repeated eigenvalues
    raise NotImplementedError("averages over a quadratic form have first derivatives only")


def _integrals(law: _Law, phi: Any) -> tuple[Any, Any, Any, Any]:
    """`E φ`, `E[φ z_k²]` and their errors. `φ(0)` is set apart: what is left decays faster towards
    `q = 0`, where the density of a form of rank 1 diverges."""
    start, rest = _split(phi)
    means, squares = rest @ law.density, rest @ law.squares

    def error(fine: Any, weights: Any, kind: int) -> Any:
        terms = jnp.abs(jnp.einsum("fn,n...->fn...", rest, weights))
        floor = _ROUNDING * (
            jnp.sum(terms, 1) + jnp.abs(start).reshape(-1, *([1] * (fine.ndim - 1)))
        )
        # beyond the last nodes the terms fall at least like q^{1/2} and exponentially
        cut = (terms[:, 0] + terms[:, -1]) * 4
        return disagreement([fine], *([rest @ rule[kind]] for rule in law.coarse)) + floor + cut

    mean_errors = error(means, law.density, 0)
    outer_errors = jnp.max(error(squares, law.squares, 1), -1)
    return means + start, squares + start[:, None], mean_errors, outer_errors


def _pair_integrals(law: _Law, phi: Any) -> Any:
    """`E[φ z_k² z_l²]`, shape `(functions, d, d)`."""
    start, rest = _split(phi)
    real, imag = law.root

    def one(values: Any) -> Any:
        turned = jnp.einsum("nyk,nyl->kl", real * values[:, None, None], real)
        return turned - jnp.einsum("nyk,nyl->kl", imag * values[:, None, None], imag)

    pairs = jax.lax.map(one, rest) + start[:, None, None]
    return pairs * (1 + 2 * jnp.eye(pairs.shape[-1]))


def _split(phi: Any) -> tuple[Any, Any]:
    """`φ(0)`, or 0 where it is infinite (a slope may be), and the rest at the other nodes."""
    start = jnp.where(jnp.isfinite(phi[:, 0]), phi[:, 0], 0.0)
    return start, phi[:, 1:] - start[:, None]


# --- the contour, in units of the largest eigenvalue: λ = -1/2 + s (1 + iy)² --------------------


def _range(beta: Any, growth: Any) -> tuple[Any, Any]:
    """The ends in `log t` by Chernoff's bounds, under the weights `t` and `z_k² z_l² e^{τt}`."""

    def position(s: Any) -> Any:
        return jnp.sum(beta / (1 - beta + 2 * s * beta))

    def bound(s: Any) -> Any:
        return (s - 0.5) * position(s) - 0.5 * jnp.sum(jnp.log1p(beta * (2 * s - 1)))

    def left(x: Any) -> Any:  # seven more: φ may vary on scales much below the mean of q
        s = jnp.exp(x)
        return bound(s) + jnp.minimum(jnp.log(position(s)), 0.0) + _NEGLIGIBLE + 7

    rest = jnp.maximum(0.5 - growth, 1e-12)
    log_mass = -0.5 * jnp.sum(jnp.log1p(-2 * beta * (0.5 - rest))) - 2 * jnp.log(2 * rest)

    def right(x: Any) -> Any:  # four more degrees of freedom at the largest eigenvalue
        s = jnp.exp(x)
        raised = bound(s) + (0.5 - rest) * position(s) - 2 * jnp.log(2 * s)
        return log_mass - raised - _NEGLIGIBLE - 2

    count = len(beta)
    far = _bisect(left, jnp.log(0.5), jnp.log(0.5) + 60.0, 24)
    near = _bisect(right, jnp.log(rest) - math.log(1e3 * count), jnp.log(rest), 24)
    return jnp.log(position(jnp.exp(far))), jnp.log(position(jnp.exp(near)))


def _saddles(beta: Any, t: Any) -> Any:
    """`s` with `Σ β/(1 - β + 2sβ) = t`, to a few digits: any contour nearby does as well."""

    def excess(x: Any) -> Any:
        s = jnp.exp(x)[:, None]
        return jnp.log(jnp.sum(beta / (1 - beta + 2 * s * beta), -1) / t)

    low = -jnp.log(2 * t)
    return jnp.exp(_bisect(excess, low, low + math.log(len(beta)), 14))


def _contour_ends(c: Any, rate: Any) -> Any:
    """The `y` beyond which the integrand is negligible beside its value at the saddle. Many small
    eigenvalues slow the Gaussian decay down, so the integrand itself decides."""
    y = _largest_end(c.shape[-1]) * 2.0 ** (-jnp.arange(_SCAN - 1, -1, -1) / 4)
    squared = y[:, None] ** 2
    size = (1 - c[:, None] * squared) ** 2 + 4 * c[:, None] ** 2 * squared
    fall = rate[:, None] * y**2 + 0.25 * jnp.sum(jnp.log(size), -1)
    kept = jnp.max(jnp.where(fall < _NEGLIGIBLE, y, 0.0), -1)
    return jnp.clip(2**0.25 * kept, y[0], y[-1])


def _largest_end(dim: int) -> float:
    """Where `e^{-y²/2}` of the largest eigenvalue outweighs all the others at their worst."""
    y = 9.0
    for _ in range(50):
        y = math.sqrt(2 * _NEGLIGIBLE + max(dim * (math.log(y / 2) - 1), 0.0))
    return y


def _bisect(decreasing: Callable[[Any], Any], low: Any, high: Any, steps: int) -> Any:
    def step(_: Any, ends: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = ends
        middle = (low + high) / 2
        above = decreasing(middle) > 0
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    low, high = jax.lax.fori_loop(0, steps, step, (low, high))
    return (low + high) / 2
