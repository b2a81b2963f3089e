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

_NEWTON_STEPS = 12


class Minimum(NamedTuple):
    """Where a search ended, for each start.

    - `heads`, `(*batch, H)`, and the `value` of the risk, `(*batch,)`;
    - `gradient_norm`, Euclidean, in `(ω, μ)`;
    - `hessian_eigenvalues`, `(*batch, 2H)`, ascending; some are about 0 where heads coincide or
      where the risk has no minimum but falls slowly towards `γ = 0`;
    - `converged`: whether the gradient is below the tolerance and no eigenvalue clearly negative.
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
    risk: Any, heads: KernelHeads | None = None, *, tolerance: float = 1e-9, max_steps: int = 400
) -> Minimum:
    """Local minimisers of `risk` from the starts `heads` (leading axes: several starts at once).

    **Arguments:** `risk`: anything with `value_of(omega, mu)`, such as `population_risk(task,
    heads)` or `approximate_risk(task, heads)`; `heads`: default those of the risk; `tolerance`
    on the gradient's norm; `max_steps` of the quasi-Newton search, which Newton steps complete.

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
        found = to_numpy(_search(exact, points, max_steps))
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


@eqx.filter_jit
def _search(risk: Any, starts: Array, max_steps: int) -> tuple[Array, Array, Array, Array]:
    import optimistix

    solver: Any = optimistix.BFGS(rtol=1e-9, atol=1e-12)

    def value_at(point: Array, exact: Any) -> Array:
        omega, mu = jnp.split(point, 2)
        return exact.value_of(omega, mu)

    def newton(_: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        point, gradient = state
        values, vectors = jnp.linalg.eigh(jax.hessian(value_at)(point, risk))
        # saddle-free: along negative or flat directions a bounded step downhill
        size = jnp.maximum(jnp.abs(values), 1e-12 * jnp.max(jnp.abs(values)))
        shift = vectors @ ((vectors.T @ gradient) / size)
        shift = shift / jnp.maximum(1.0, jnp.linalg.norm(shift))
        trial = point - shift
        slope = jax.grad(value_at)(trial, risk)
        better = jnp.linalg.norm(slope) < jnp.linalg.norm(gradient)
        better &= value_at(trial, risk) <= value_at(point, risk) + 1e-12
        return jnp.where(better, trial, point), jnp.where(better, slope, gradient)

    def one(start: Array) -> tuple[Array, Array, Array, Array]:
        found: Any = optimistix.minimise(
            value_at, solver, start, args=risk, max_steps=max_steps, throw=False
        )
        point = found.value
        state = point, jax.grad(value_at)(point, risk)
        point, gradient = jax.lax.fori_loop(0, _NEWTON_STEPS, newton, state)
        eigenvalues = jnp.linalg.eigvalsh(jax.hessian(value_at)(point, risk))
        return point, value_at(point, risk), jnp.linalg.norm(gradient), eigenvalues

    return jax.vmap(one)(starts)


@eqx.filter_jit
def _solve_quadratic(risk: Any, omega: Array, bases: Array) -> tuple[Array, Array]:
    def one(row: Array, basis: Array) -> tuple[Array, Array]:
        def value_at(u: Array) -> Array:
            return risk.value_of(row, basis @ u)

        zero = jnp.zeros_like(row)
        value, slope = jax.value_and_grad(value_at)(zero)
        curvatures, vectors = jnp.linalg.eigh(jax.hessian(value_at)(zero))
        floor = 1e-13 * jnp.max(jnp.abs(curvatures))
        kept = curvatures > floor  # what is below is rounding
        along = jnp.where(kept, vectors.T @ slope / jnp.where(kept, curvatures, 1.0), 0.0)
        return -basis @ (vectors @ along), value - jnp.dot(vectors.T @ slope, along) / 2

    return jax.vmap(one)(omega, bases)
