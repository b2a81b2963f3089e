"""The risk as a function of two vectors on spheres: Riemannian gradient and Hessian in `R^d`.

Only four of the `d` dimensions matter, those of `k*, v*, k, v`; each of the others adds the same
2×2 block to the Hessian. Source: `docs/theory/stationary-points`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..theory import SingleLocationRisk


def vector_risk(risk: SingleLocationRisk, pair: Float[Array, "2 near"]) -> Float[Array, ""]:
    """The risk of `k = pair[0]`, `v = pair[1]` where `k*`, `v*` are the first two axes."""
    k, v = pair
    state = jnp.stack([k[0], v[1], v[0], k[1], k @ v])
    return risk.value_of(state)


def riemannian_gradient(
    risk: SingleLocationRisk, pair: Float[Array, "2 near"]
) -> Float[Array, "2 near"]:
    """The gradient on the product of the two spheres."""
    raw = jax.grad(lambda p: vector_risk(risk, p))(pair)
    return raw - jnp.sum(raw * pair, axis=-1, keepdims=True) * pair


class SecondOrder(NamedTuple):
    """Eigenvalues of the Riemannian Hessian, and where it points to.

    - `near`: the `2 (near - 1)` eigenvalues within the first coordinates;
    - `far`: the two that every further dimension of `R^d` contributes: there only `rho` changes, so
      the block is `[[-g_k·k, R_ρ], [R_ρ, -g_v·v]]`;
    - `newton`: the tangent `-H⁺ g` that leads to a stationary point beside `(k, v)`, whatever its
      kind. Its length is a distance, which depends neither on the risk's scale nor on how flat the
      risk is there. Modes flatter than 1e-11 of the steepest, those of symmetry among them, are
      left alone.
    """

    near: Float[Array, " modes"]
    far: Float[Array, " 2"]
    newton: Float[Array, "2 near"]


def second_order(risk: SingleLocationRisk, pair: Float[Array, "2 near"]) -> SecondOrder:
    """The risk's Riemannian Hessian at unit vectors `(k, v)`."""
    full, raw, far = _hessians(risk, pair)
    basis = jnp.linalg.svd(_normals(pair), full_matrices=True)[2][2:]
    values, modes = jnp.linalg.eigh(basis @ full @ basis.T)
    flat = jnp.abs(values) <= 1e-11 * jnp.abs(values).max()
    along = jnp.where(flat, 0.0, (modes.T @ basis @ raw.ravel()) / jnp.where(flat, 1.0, values))
    newton = -(basis.T @ modes @ along).reshape(pair.shape)
    return SecondOrder(values, jnp.linalg.eigvalsh(far), newton)


class Curvature(NamedTuple):
    """Second-order sizes at a point: what a descent lemma needs."""

    retracted: Any  # norm of the Hessian of r(k, v) = R(k/|k|, v/|v|)
    hessian: Any  # norm of the Riemannian Hessian
    gradient: Any  # norm of the Riemannian gradient


def curvature(
    risk: SingleLocationRisk, pair: Float[Array, "2 near"], on_manifold: Any, further: Any
) -> Curvature:
    """Norms of the first and second derivatives at unit vectors `(k, v)`, in all of `R^d`, which
    has dimensions beyond the given ones if `further`.

    `r` does not change along `k` and `v`, so that its gradient `t` is of degree -1 there: besides
    the Riemannian Hessian, that of `r` has the entries `-t` between tangents and normals. With
    `on_manifold` (`near = 4`) only directions within M count: those along `k*` and the rest of `k`,
    and along `v*` and the rest of `v`.
    """
    full, raw, far = _hessians(risk, pair)
    normals = _normals(pair)
    project = jnp.eye(normals.shape[1]) - normals.T @ normals
    inner = project @ full @ project
    tangent = project @ raw.ravel()
    # one row per sphere: its normal and its part of the gradient
    outer = normals.T @ _split(tangent, pair.shape[1])
    retracted = inner - outer - outer.T
    within = jnp.zeros((2, pair.shape[1]), bool)
    if pair.shape[1] == 4:
        within = within.at[0, 0::2].set(True).at[1, 1::2].set(True)
    keep = jnp.where(on_manifold, within.ravel(), True)
    both = keep[:, None] & keep
    size = [jnp.abs(jnp.linalg.eigvalsh(jnp.where(both, m, 0.0))).max() for m in (retracted, inner)]
    beyond = jnp.abs(jnp.linalg.eigvalsh(far)).max()
    beyond = jnp.where(further & ~jnp.asarray(on_manifold), beyond, 0.0)
    return Curvature(
        jnp.maximum(size[0], beyond), jnp.maximum(size[1], beyond), jnp.linalg.norm(tangent)
    )


def _hessians(risk: SingleLocationRisk, pair: Any) -> tuple[Any, Any, Any]:
    """The Hessian with the curvature of the spheres, to be projected on their tangents, the raw
    gradient, and the 2×2 block of every further dimension."""
    size = pair.shape[1]
    raw = jax.grad(lambda p: vector_risk(risk, p))(pair)
    pull = jnp.sum(raw * pair, axis=-1)  # g·k and g·v: the curvature of the spheres
    full = jax.hessian(lambda p: vector_risk(risk, p.reshape(2, size)))(pair.ravel())
    full = full - jnp.diag(jnp.repeat(pull, size))
    k, v = pair
    state = jnp.stack([k[0], v[1], v[0], k[1], k @ v])
    r_rho = risk.gradient_of(state)[4]
    far = jnp.stack([jnp.stack([-pull[0], r_rho]), jnp.stack([r_rho, -pull[1]])])
    return full, raw, far


def _normals(pair: Any) -> Any:
    """The normals of the two spheres at `(k, v)`, as rows in the order of `pair.ravel()`."""
    return _split(pair.ravel(), pair.shape[1])


def _split(vector: Any, size: int) -> Any:
    """The parts of a vector that belong to `k` and to `v`, each with zeros for the other."""
    zero = jnp.zeros(size)
    first = jnp.concatenate([vector[:size], zero])
    return jnp.stack([first, jnp.concatenate([zero, vector[size:]])])


def symmetry_modes(pair: Any, dim: int, tolerance: float = 1e-6) -> int:
    """Zero modes that the symmetry forces: rotations that fix `k*`, `v*` but move `k` or `v`."""
    import numpy as np

    rest = np.asarray(pair)[:, 2:]
    if rest.shape[1] == 0:
        return 0
    rank = int(np.sum(np.linalg.svd(rest, compute_uv=False) > tolerance))
    free = dim - 2
    return sum(free - 1 - i for i in range(rank))
