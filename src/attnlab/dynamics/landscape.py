"""The risk as a function of two vectors on spheres: Riemannian gradient and Hessian in `R^d`.

Only four of the `d` dimensions matter, those of `k*, v*, k, v`; each of the others adds the same
2×2 block to the Hessian. Source: `docs/theory/stationary-points`.
"""

from __future__ import annotations

from typing import Any

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


def hessian_eigenvalues(
    risk: SingleLocationRisk, pair: Float[Array, "2 near"]
) -> tuple[Float[Array, " modes"], Float[Array, " 2"]]:
    """Eigenvalues of the Riemannian Hessian at `(k, v)`.

    **Returns** `(near, far)`: the `2 (near - 1)` eigenvalues within the first coordinates, and the
    two that every further dimension of `R^d` contributes: there only `rho` changes, so the block
    is `[[-g_k·k, R_ρ], [R_ρ, -g_v·v]]`.
    """
    size = pair.shape[1]
    raw = jax.grad(lambda p: vector_risk(risk, p))(pair)
    pull = jnp.sum(raw * pair, axis=-1)  # g·k and g·v: the curvature of the spheres
    full = jax.hessian(lambda p: vector_risk(risk, p.reshape(2, size)))(pair.ravel())
    full = full - jnp.diag(jnp.repeat(pull, size))
    normals = jnp.zeros((2, 2 * size)).at[0, :size].set(pair[0]).at[1, size:].set(pair[1])
    basis = jnp.linalg.svd(normals, full_matrices=True)[2][2:]
    near = jnp.linalg.eigvalsh(basis @ full @ basis.T)
    k, v = pair
    state = jnp.stack([k[0], v[1], v[0], k[1], k @ v])
    r_rho = risk.gradient_of(state)[4]
    block = jnp.stack([jnp.stack([-pull[0], r_rho]), jnp.stack([r_rho, -pull[1]])])
    return near, jnp.linalg.eigvalsh(block)


def symmetry_modes(pair: Any, dim: int, tolerance: float = 1e-6) -> int:
    """Zero modes that the symmetry forces: rotations that fix `k*`, `v*` but move `k` or `v`."""
    import numpy as np

    rest = np.asarray(pair)[:, 2:]
    if rest.shape[1] == 0:
        return 0
    rank = int(np.sum(np.linalg.svd(rest, compute_uv=False) > tolerance))
    free = dim - 2
    return sum(free - 1 - i for i in range(rank))
