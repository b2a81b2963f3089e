"""A sum of kernel regressors: what multi-head attention with trained circuits reduces to.

Source: eq. (3.2) and Appendix E.1 of he2025; Appendix B.4 for several tasks;
`docs/theory/multi-head-attention`.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .._core.errors import InvalidArgument, is_traced
from .normalizations import Normalization, get_normalization
from .prompt_shapes import check_prompt_shapes


class KernelHeads(eqx.Module):
    """`ŷ_q = Σ_h μ_h Σ_ℓ p_ℓ(KQ_h) y_ℓ` with `p(KQ) = softmax_ℓ(x_ℓᵀ KQ x_q)`.

    **Arguments:**

    - `omega`: `(H,)` for `KQ_h = ω_h I`, `(H, d)` for `KQ_h = diag(ω_h)`, or the matrices
      `(H, d, d)`.
    - `mu`: `(H,)`, or `(H, N)` for `N` tasks on the same covariates.
    - `normalization`: in place of softmax (see `students.normalizations`).

    Risks take batches of scalar heads, with equal leading axes in front of both. Concrete entries
    must be finite. Raises `InvalidArgument` for anything else.
    """

    omega: Float[Array, "*batch heads"] | Float[Array, "heads ..."]
    mu: Float[Array, "*batch heads"] | Float[Array, "heads outputs"]
    normalization: Normalization = eqx.field(static=True)

    def __init__(
        self,
        omega: Float[ArrayLike, "heads ..."],
        mu: Float[ArrayLike, "heads ..."],
        *,
        normalization: str | Normalization = "softmax",
    ):
        self.omega, self.mu = _numbers("omega", omega), _numbers("mu", mu)
        self.normalization = get_normalization(normalization)
        shapes = self.omega.shape, self.mu.shape
        equal = shapes[0] == shapes[1]
        if not equal and (self.omega.ndim > 3 or self.mu.ndim > 2 or shapes[0][0] != shapes[1][0]):
            allowed = f"of as many heads as omega, whose shape is {shapes[0]}; mu has {shapes[1]}"
            raise InvalidArgument("mu", mu, allowed)
        if self.omega.ndim == 3 and not equal and shapes[0][1] != shapes[0][2]:
            raise InvalidArgument("omega", omega, "square matrices, of shape (heads, dim, dim)")

    @property
    def n_heads(self) -> int:
        """Number of heads `H`."""
        return self.omega.shape[0]

    def kq(self, dim: int) -> Float[Array, "heads dim dim"]:
        """The circuits as matrices: the score of `x_ℓ` is `x_ℓᵀ KQ_h x_q`.

        Raises `InvalidArgument` when `omega` is for another dimension.
        """
        if self.omega.ndim == 1:
            return self.omega[:, None, None] * np.eye(dim, dtype=self.omega.dtype)
        if self.omega.shape[-1] != dim:
            raise InvalidArgument("omega", self.omega, f"of shape (heads, {dim}) or more axes")
        if self.omega.ndim == 2:
            return self.omega[:, :, None] * np.eye(dim, dtype=self.omega.dtype)
        return self.omega

    def __call__(
        self,
        X: Float[Array, "*batch length dim"],
        y: Float[Array, "*batch length *outputs"],
        xq: Float[Array, "*batch dim"],
    ) -> Float[Array, "*batch *outputs"]:
        """Predictions for the queries `xq`, given the examples `(X, y)`.

        A `mu` of shape `(H,)` or `(H, 1)` serves every task alike. Raises `InvalidArgument` for
        shapes that do not fit together or the heads.
        """
        mu = jnp.asarray(self.mu)
        mu = mu[:, None] if mu.ndim == 1 else mu
        count = None if mu.shape[1] == 1 else mu.shape[1]
        single = check_prompt_shapes(X, y, xq, n_outputs=count)
        labels = y[..., None] if single else y
        mu = jnp.broadcast_to(mu, (self.n_heads, labels.shape[-1]))
        out = jnp.einsum("hn,...hl,...ln->...n", mu, self.attention(X, xq), labels)
        return out[..., 0] if single else out

    def attention(
        self, X: Float[Array, "*batch length dim"], xq: Float[Array, "*batch dim"]
    ) -> Float[Array, "*batch heads length"]:
        """The weights of each head on the examples."""
        if jnp.ndim(self.omega) == 1:
            products = jnp.einsum("...ld,...d->...l", X, xq)
            scores = jnp.asarray(self.omega)[:, None] * products[..., None, :]
        else:
            directions = jnp.einsum("hde,...e->...hd", self.kq(X.shape[-1]), xq)
            scores = jnp.einsum("...ld,...hd->...hl", X, directions)
        return self.normalization.weights(scores)


def _numbers(name: str, value: Any) -> Any:
    """An array of the caller's precision; concrete numbers stay with NumPy, which keeps float64."""
    if is_traced(value):
        array = value
    else:
        try:
            array = value if hasattr(value, "dtype") else np.asarray(value, np.float64)
            real = jnp.issubdtype(array.dtype, jnp.floating) or jnp.issubdtype(
                array.dtype, jnp.integer
            )
            good = real and bool(np.isfinite(np.asarray(array)).all())
        except (TypeError, ValueError):
            good = False
        if not good:
            raise InvalidArgument(name, value, "finite numbers, one or more for each head")
    if array.ndim < 1 or 0 in array.shape:
        raise InvalidArgument(name, value, "of shape (heads,) or more axes, with at least one head")
    return array
