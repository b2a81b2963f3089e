"""The risk as a function of two vectors on spheres: Riemannian gradient and Hessian in `R^d`.

Only four of the `d` dimensions matter, those of `k*, v*, k, v`; each of the others adds the same
2×2 block to the Hessian. Derivatives in the vectors are those in the five overlaps and the chain
rule. Source: `docs/theory/stationary-points`, `docs/theory/descent-lemma`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.precision import float64, to_float64
from ..theory import SingleLocationRisk

_BLOCK = 64  # points at a time
_LONGEST = 0.1  # of a Newton step


def overlaps_state(pair: Float[Array, "2 near"]) -> Float[Array, " 5"]:
    """The overlaps of `k = pair[0]`, `v = pair[1]` where `k*`, `v*` are the first two axes."""
    k, v = pair
    return jnp.stack([k[0], v[1], v[0], k[1], k @ v])


def riemannian_gradient(
    risk: SingleLocationRisk, pair: Float[Array, "2 near"]
) -> Float[Array, "2 near"]:
    """The gradient on the product of the two spheres."""
    raw = (_slopes(pair).T @ risk.gradient_of(overlaps_state(pair))).reshape(pair.shape)
    return raw - jnp.sum(raw * pair, axis=-1, keepdims=True) * pair


class Picture(NamedTuple):
    """What a risk looks like at a pair of unit vectors; arrays with a leading axis of points.

    - `pair`, `(2, near)`: the point; `value`: the risk; `gradient`: the Riemannian gradient's norm;
    - `near`: the `2 (near - 1)` eigenvalues of the Riemannian Hessian within the first coordinates;
    - `far`: the two that every further dimension of `R^d` contributes: there only `rho` changes, so
      the block is `[[-g_k·k, R_ρ], [R_ρ, -g_v·v]]`;
    - `newton`: length of the tangent `-H⁺ g` that leads to a stationary point beside this one,
      whatever its kind: a distance, which depends neither on the risk's scale nor on how flat the
      risk is there. Modes flatter than 1e-11 of the steepest, those of symmetry among them, are
      left alone;
    - `hessian`: the norm of the Riemannian Hessian; `retracted`: that of the Hessian of
      `r(k, v) = R(k/|k|, v/|v|)`.
    """

    pair: Any
    value: Any
    gradient: Any
    near: Any
    far: Any
    newton: Any
    hessian: Any
    retracted: Any


def pictures(
    risk: SingleLocationRisk,
    pairs: Float[np.ndarray, "points 2 near"],
    *,
    newton_steps: int = 0,
    on_manifold: bool = False,
    further: bool = True,
) -> Picture:
    """The pictures at `pairs`, or where Newton's method leads from them.

    Norms of second derivatives are over `R^d`, which has dimensions beyond the given ones if
    `further`; with `on_manifold` (`near = 4`) only directions within M count: those along `k*` and
    the rest of `k`, and along `v*` and the rest of `v`.
    """
    flags = (np.asarray(newton_steps), np.asarray(on_manifold), np.asarray(further))
    with float64():
        return Picture(*in_blocks(_pictures, to_float64(risk), pairs, flags))


def in_blocks(
    function: Any, risk: SingleLocationRisk, pairs: np.ndarray, *more: Any
) -> list[np.ndarray]:
    """`function(risk, pairs, *more)` on blocks of one size, so that another number of points is no
    other program. Inside `float64()`."""
    padding = -len(pairs) % _BLOCK if len(pairs) else _BLOCK
    filling = np.broadcast_to(np.eye(*pairs.shape[1:]), (padding, *pairs.shape[1:]))
    padded = np.concatenate([pairs, filling])
    blocks = [
        function(risk, to_float64(block), *more)
        for block in padded.reshape(-1, _BLOCK, *pairs.shape[1:])
    ]
    return [np.concatenate(parts)[: len(pairs)] for parts in zip(*blocks, strict=True)]


@eqx.filter_jit
def _pictures(risk: SingleLocationRisk, pairs: Any, flags: Any) -> Picture:
    steps, on_manifold, further = flags

    def one(pair: Any) -> Picture:
        def onward(_: Any, here: Picture) -> Picture:
            point, step = here.pair, here.newton
            moved = point + step * jnp.minimum(1.0, _LONGEST / _length(step))
            moved = moved / jnp.linalg.norm(moved, axis=-1, keepdims=True)
            return _picture(risk, moved, on_manifold, further)

        # one loop for the picture and for Newton's method: its first round starts with no step
        shapes = jax.eval_shape(lambda p: _picture(risk, p, on_manifold, further), pair)
        blank = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        end = jax.lax.fori_loop(0, steps + 1, onward, blank._replace(pair=pair))
        return end._replace(newton=jnp.linalg.norm(end.newton))

    return jax.vmap(one)(pairs)


def _picture(risk: SingleLocationRisk, pair: Any, on_manifold: Any, further: Any) -> Picture:
    """One picture, `newton` still a vector."""
    size = pair.shape[1]
    state, slopes = overlaps_state(pair), _slopes(pair)
    gradient, push = jax.linearize(risk.gradient_of, state)
    raw = slopes.T @ gradient
    pull = jnp.sum(raw.reshape(2, size) * pair, axis=-1)  # g·k and g·v: curvature of the spheres
    swap = jnp.kron(jnp.array([[0.0, 1.0], [1.0, 0.0]]), jnp.eye(size))  # only rho is bilinear
    full = slopes.T @ jax.vmap(push)(jnp.eye(5)) @ slopes + gradient[4] * swap
    full = 0.5 * (full + full.T) - jnp.diag(jnp.repeat(pull, size))
    far = jnp.stack([jnp.stack([-pull[0], gradient[4]]), jnp.stack([gradient[4], -pull[1]])])
    normals = _split(pair.ravel(), size)
    basis = jnp.linalg.svd(normals, full_matrices=True)[2][2:]
    near, modes = jnp.linalg.eigh(basis @ full @ basis.T)
    flat = jnp.abs(near) <= 1e-11 * jnp.abs(near).max()
    along = jnp.where(flat, 0.0, (modes.T @ basis @ raw) / jnp.where(flat, 1.0, near))
    project = basis.T @ basis
    tangent, inner = project @ raw, project @ full @ project
    # r does not change along k and v, so its gradient is of degree -1 there: the Hessian of r has
    # the entries -t between tangents and normals
    outer = normals.T @ _split(tangent, size)
    sizes = _norms_within(jnp.stack([inner, inner - outer - outer.T]), size, on_manifold)
    outside = jnp.linalg.eigvalsh(far)
    beyond = jnp.where(further & ~on_manifold, jnp.abs(outside).max(), 0.0)
    return Picture(
        pair=pair,
        value=risk.value_of(state),
        gradient=jnp.linalg.norm(tangent),
        near=near,
        far=outside,
        newton=-(basis.T @ modes @ along).reshape(pair.shape),
        hessian=jnp.maximum(sizes[0], beyond),
        retracted=jnp.maximum(sizes[1], beyond),
    )


def _norms_within(matrices: Any, size: int, on_manifold: Any) -> Any:
    """Largest absolute eigenvalues, of the parts within M where `on_manifold`."""
    within = np.zeros((2, size), bool)
    within[0, 0::2], within[1, 1::2] = True, True
    keep = jnp.where(on_manifold, within.ravel(), True)
    kept = jnp.where(keep[:, None] & keep, matrices, 0.0)
    return jnp.abs(jnp.linalg.eigvalsh(kept)).max(axis=-1)


def _slopes(pair: Any) -> Any:
    """Derivatives of the five overlaps in the entries of `pair`, `(5, 2 near)`."""
    size = pair.shape[1]
    entries = jnp.eye(2 * size)
    rho = jnp.concatenate([pair[1], pair[0]])
    rows = [entries[0], entries[size + 1], entries[size], entries[1], rho]
    return jnp.stack(rows)


def _split(vector: Any, size: int) -> Any:
    """The parts of a vector that belong to `k` and to `v`, each with zeros for the other."""
    zero = jnp.zeros(size)
    first = jnp.concatenate([vector[:size], zero])
    return jnp.stack([first, jnp.concatenate([zero, vector[size:]])])


def _length(step: Any) -> Any:
    return jnp.maximum(jnp.linalg.norm(step), 1e-300)


def symmetry_modes(pair: Any, dim: int, tolerance: float = 1e-6) -> int:
    """Zero modes that the symmetry forces: rotations that fix `k*`, `v*` but move `k` or `v`."""
    rest = np.asarray(pair)[:, 2:]
    if rest.shape[1] == 0:
        return 0
    rank = int(np.sum(np.linalg.svd(rest, compute_uv=False) > tolerance))
    free = dim - 2
    return sum(free - 1 - i for i in range(rank))
