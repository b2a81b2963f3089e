"""Minimisers of risks of kernel heads, exact or approximate, in float64.

Every such risk is quadratic in `μ`: `best_outputs` solves for it in coordinates in which small or
nearby heads stay apart, and `profile` follows the least risk along `|ω_h| = γ`. `minimise` searches
in `(ω, μ)` together. Source: Section 4.2 of he2025 on what training finds;
`docs/theory/solution-manifold`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from .._core.errors import InvalidArgument, check_integer, check_real
from .._core.precision import float64, to_float64, to_numpy
from ..students import KernelHeads
from .approximate_minimiser import OptimalOutputs, whitening
from .heads_risk import check_scalar_heads


class Minimum(NamedTuple):
    """Where a search ended, for each start.

    - `heads`, `(*batch, H)`, and the `value` of the risk, `(*batch,)`;
    - `gradient_norm`, Euclidean, in `(ω, μ)`;
    - `hessian_eigenvalues`, `(*batch, 2H)`, ascending; some are about 0 where heads coincide or
      where the risk has no minimum but falls slowly towards `γ = 0`;
    - `converged`: whether the gradient is below the tolerance and no eigenvalue clearly negative. An
      infimum that no heads reach can look so from far along: `|μ|` is then huge and two `ω` nearly
      equal, and `theory.coalescing_heads` gives the limit.
    """

    heads: KernelHeads
    value: Float[np.ndarray, "*batch"]
    gradient_norm: Float[np.ndarray, "*batch"]
    hessian_eigenvalues: Float[np.ndarray, "*batch parameters"]
    converged: Bool[np.ndarray, "*batch"]


class Profile(NamedTuple):
    """The least risk over `μ` at fixed `ω = γ · pattern`, for each `γ`."""

    gamma: Float[np.ndarray, " points"]
    heads: KernelHeads
    value: Float[np.ndarray, " points"]


def minimise(
    risk: Any, heads: KernelHeads | None = None, *, tolerance: float = 1e-9, max_steps: int = 200
) -> Minimum:
    """Local minimisers of `risk` from the starts `heads` (leading axes: several starts at once).

    **Arguments:** `risk`: anything with `value_of(omega, mu)`, such as `population_risk(task,
    heads)` or `approximate_risk(task, heads)`; `heads`: default those of the risk; `tolerance`
    on the gradient's norm; `max_steps` of Newton's method in a trust region.

    Raises `InvalidArgument` for heads with more than one number each.
    """
    heads = check_scalar_heads(risk.heads if heads is None else heads)
    _check_risk(risk)
    tolerance = check_real("tolerance", tolerance, low=0.0, low_open=True)
    max_steps = check_integer("max_steps", max_steps, minimum=1)
    batch, n = np.shape(heads.omega)[:-1], np.shape(heads.omega)[-1]
    start = np.concatenate([np.asarray(heads.omega), np.asarray(heads.mu)], -1).reshape(-1, 2 * n)
    with float64():
        exact, points = to_float64((risk, start))
        found = to_numpy(_search(exact, points, jnp.asarray(tolerance), max_steps))
    points, value, gradient, eigenvalues = (x.reshape((*batch, *x.shape[1:])) for x in found)
    floor = -1e-6 * np.abs(eigenvalues).max(-1)
    good = (gradient <= tolerance) & (eigenvalues.min(-1) >= floor)
    return Minimum(
        KernelHeads(points[..., :n], points[..., n:]), value, gradient, eigenvalues, good
    )


def best_outputs(risk: Any, omega: Float[ArrayLike, "*batch heads"]) -> OptimalOutputs:
    """The minimiser of `risk` over `μ` at each `ω`, and the least risk.

    Rounding of the risk is magnified where heads nearly coincide: with two heads `±γ` its error
    divided by `dγ²` enters `2γμ`. Raises `InvalidArgument` where they do coincide.
    """
    _check_risk(risk)
    rows = np.asarray(omega, np.float64)
    if rows.ndim < 1 or 0 in rows.shape or not np.isfinite(rows).all():
        raise InvalidArgument("omega", omega, "finite numbers of shape (*batch, heads)")
    flat = rows.reshape(-1, rows.shape[-1])
    bases = np.stack([whitening(row, _dim_of(risk)) for row in flat])
    with float64():
        mu, value = to_numpy(_solve_quadratic(*to_float64((risk, flat, bases))))
    return OptimalOutputs(mu.reshape(rows.shape), value.reshape(rows.shape[:-1]))


def profile(
    risk: Any,
    gammas: Float[ArrayLike, " points"],
    *,
    pattern: Any = (1.0, -1.0),
) -> Profile:
    """The least risk along `ω = γ · pattern`, which tells which size of heads is best.

    `gammas`: positive; `pattern`: different numbers, one for each head.
    """
    scale = np.asarray(gammas, np.float64)
    if scale.ndim != 1 or not np.all(scale > 0) or not np.isfinite(scale).all():
        raise InvalidArgument("gammas", gammas, "a vector of positive numbers")
    omega = scale[:, None] * np.asarray(pattern, np.float64)
    mu, value = best_outputs(risk, omega)
    return Profile(scale, KernelHeads(omega, mu), value)


def _check_risk(risk: Any) -> None:
    if not callable(getattr(risk, "value_of", None)):
        raise InvalidArgument("risk", risk, "a risk of kernel heads, with value_of(omega, mu)")


def _dim_of(risk: Any) -> int:
    """The dimension, which only scales the coordinates: any number is right, the true one best."""
    dim = getattr(risk, "dim", None)
    return round(float(dim)) if dim is not None else 1


class _State(NamedTuple):
    """One search: the point, what the risk looks like there, the radius of trust."""

    point: Array
    value: Array
    gradient: Array
    hessian: Array
    radius: Array
    step: Array


@eqx.filter_jit
def _search(risk: Any, starts: Array, tolerance: Array, max_steps: int) -> tuple[Array, ...]:
    """Newton's method in a trust region; the saddle-free form, so that it ends in minima.

    One evaluation in each step and one traced copy of the risk: its compilation is what costs.
    """

    def look(point: Array) -> tuple[Array, Array, Array]:
        return _value_gradient_hessian(risk, point)

    def going(state: _State) -> Array:
        far = jnp.linalg.norm(state.gradient) > tolerance
        return far & (state.radius > 1e-12) & (state.step < max_steps)

    def advance(state: _State) -> _State:
        begun = state.step > 0
        values, vectors = jnp.linalg.eigh(state.hessian)
        slope = jnp.where(begun, vectors.T @ state.gradient, 0.0)
        size = jnp.maximum(jnp.abs(values), 1e-13 * jnp.max(jnp.abs(values)))
        along = slope / size
        length = jnp.linalg.norm(along)
        along = along * jnp.minimum(1.0, state.radius / jnp.maximum(length, 1e-300))
        trial = state.point - vectors @ along
        value, gradient, hessian = look(trial)
        promised = along @ slope - along @ (values * along) / 2
        kept = (state.value - value) / jnp.maximum(jnp.abs(promised), 1e-300)
        # below rounding the value says nothing, and the gradient decides
        calmer = jnp.linalg.norm(gradient) < jnp.linalg.norm(state.gradient)
        rounding = 1e-13 * jnp.abs(state.value)
        small = jnp.abs(value - state.value) <= rounding
        good = jnp.isfinite(value) & jnp.where(small, calmer, kept > 0.05)
        good |= ~begun
        used = jnp.linalg.norm(along)
        grown = jnp.where(small | (kept > 0.7), jnp.maximum(state.radius, 2 * used), state.radius)
        radius = jnp.where(begun, jnp.where(good, grown, used / 4), state.radius)
        new = _State(trial, value, gradient, hessian, radius, state.step + 1)
        stay = state._replace(radius=radius, step=state.step + 1)
        return jax.tree.map(lambda x, y: jnp.where(good, x, y), new, stay)

    def one(start: Array) -> tuple[Array, ...]:
        radius, step = jnp.asarray(0.5), jnp.asarray(0)
        # a first step of length 0 evaluates the start: no second copy of the risk is traced
        unseen = jnp.full_like(start, jnp.inf)
        state = _State(start, jnp.asarray(jnp.inf), unseen, jnp.eye(len(start)), radius, step)
        state = jax.lax.while_loop(going, advance, state)
        eigenvalues = jnp.linalg.eigvalsh(state.hessian)
        return state.point, state.value, jnp.linalg.norm(state.gradient), eigenvalues

    return jax.vmap(one)(starts)


def _value_gradient_hessian(risk: Any, point: Array) -> tuple[Array, Array, Array]:
    """By differences of gradients: central ones in `ω`; in `μ`, where `∂R/∂μ` is affine, one is
    exact. They need no second derivatives of the risk, and cost as much."""
    n = len(point) // 2
    h = 1e-4
    moves = jnp.eye(2 * n)
    shifts = jnp.concatenate([jnp.zeros((1, 2 * n)), h * moves[:n], -h * moves[:n], moves[n:]])
    omega, mu = jnp.split(point + shifts, 2, axis=-1)

    def values_of(w: Array, m: Array) -> tuple[Array, Array]:
        values = risk.value_of(w, m)
        return jnp.sum(values), values

    (_, values), slopes = jax.value_and_grad(values_of, argnums=(0, 1), has_aux=True)(omega, mu)
    gradients = jnp.concatenate(slopes, -1)
    curved = (gradients[1 : n + 1] - gradients[n + 1 : 2 * n + 1]) / (2 * h)
    affine = (gradients[2 * n + 1 :] - gradients[0])[:, n:]
    mixed = curved[:, n:]
    hessian = jnp.block([[curved[:, :n], mixed], [mixed.T, affine]])
    return values[0], gradients[0], (hessian + hessian.T) / 2


@eqx.filter_jit
def _solve_quadratic(risk: Any, omega: Array, bases: Array) -> tuple[Array, Array]:
    def one(row: Array, basis: Array) -> tuple[Array, Array]:
        def values_of(points: Array) -> tuple[Array, Array]:
            values = risk.value_of(jnp.broadcast_to(row, points.shape), points @ basis.T)
            return jnp.sum(values), values

        # the gradient is affine: H + 1 of them are the whole quadratic form
        points = jnp.concatenate([jnp.zeros((1, len(row))), jnp.eye(len(row))])
        (_, values), slopes = jax.value_and_grad(values_of, has_aux=True)(points)
        value, slope, form = values[0], slopes[0], slopes[1:] - slopes[0]
        curvatures, vectors = jnp.linalg.eigh((form + form.T) / 2)
        floor = 1e-13 * jnp.max(jnp.abs(curvatures))
        kept = curvatures > floor  # what is below is rounding
        along = jnp.where(kept, vectors.T @ slope / jnp.where(kept, curvatures, 1.0), 0.0)
        return -basis @ (vectors @ along), value - jnp.dot(vectors.T @ slope, along) / 2

    return jax.vmap(one)(omega, bases)
