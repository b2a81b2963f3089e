"""One head whose weights are merged into two matrices, as theory of linear attention writes it.

Source: eq. (3) of ahn2023, and its note on ReLU attention; `docs/theory/unnormalised-attention`.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from .._core.errors import InvalidArgument, check_integer, check_real, is_traced
from .._core.keys import check_key
from .attention_layer import AttentionLayer
from .normalizations import Normalization, get_normalization

_LARGEST_SIZE = 2**14  # two matrices of a gigabyte


class MergedAttention(AttentionLayer):
    """`Attn(Z) = P Z M g(Zᵀ Q Z)` on tokens `z = (x, y)` as columns; `M` hides the query as a key.

    The prediction is the last `n_outputs` entries of the query's column,

        ŷ = Σ_ℓ g(z_ℓᵀ Q z_q) (P z_ℓ)_last

    so that of `P` only the last rows matter, and of `Q` only the columns of the covariates, since
    the query's response is 0. For softmax and the like `g` acts on all scores of a query.

    **Arguments:**

    - `P`, `Q`: value and key-query matrices, `(D, D)` with `D = dim + n_outputs`, finite.
    - `n_outputs`: entries of `y`.
    - `normalization`: of the scores. `"linear"`, `"relu"`, `"tanh"`, `"exp"`, `"gelu"` divide by
      the length, as ahn2023 does; with `-sum` behind the name they do not, as its note on ReLU has
      it (`students.elementwise` for other activations). Also `"softmax"`.

    Raises `InvalidArgument` for anything else.
    """

    P: Float[Array, "tokens tokens"]
    Q: Float[Array, "tokens tokens"]
    dim: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)
    normalization: Normalization = eqx.field(static=True)

    def __init__(
        self,
        P: Float[ArrayLike, "tokens tokens"],
        Q: Float[ArrayLike, "tokens tokens"],
        *,
        n_outputs: int = 1,
        normalization: str | Normalization = "linear",
    ):
        self.n_outputs = check_integer("n_outputs", n_outputs, minimum=1)
        self.P, self.Q = _matrix("P", P), _matrix("Q", Q)
        if self.P.shape[0] <= self.n_outputs:
            raise InvalidArgument("P", self.P.shape, f"of more than {self.n_outputs} rows")
        if self.P.shape != self.Q.shape:
            raise InvalidArgument("Q", self.Q.shape, f"of P's shape {self.P.shape}")
        self.dim = self.P.shape[0] - self.n_outputs
        self.normalization = get_normalization(normalization)

    @classmethod
    def sparse(
        cls,
        A: Float[ArrayLike, "dim dim"],
        *,
        B: Float[ArrayLike, "dim dim"] | None = None,
        value: float = 1.0,
        normalization: str | Normalization = "linear",
    ) -> MergedAttention:
        """The pattern of Theorem 1: `P = [[B, 0], [0, value]]`, `Q = [[Aᵀ, 0], [0, 0]]`.

        The logit of example `i` is `x_qᵀ A x_i`. `B` (default 0) matters only in a stack. Raises
        `InvalidArgument`.
        """
        block = _matrix("A", A)
        beside = _matrix("B", np.zeros(block.shape) if B is None else B)
        if beside.shape != block.shape:
            raise InvalidArgument("B", beside.shape, f"of A's shape {block.shape}")
        if not is_traced(value):
            value = check_real("value", value)
        elif jnp.shape(value) != ():
            raise InvalidArgument("value", jnp.shape(value), "a single number")
        library = jnp if is_traced(block, beside, value) else np  # which keeps float64
        Q = library.pad(block.T, ((0, 1), (0, 1)))
        last = np.zeros(Q.shape)
        last[-1, -1] = 1.0
        P = library.pad(beside, ((0, 1), (0, 1))) + value * last
        return cls(P, Q, normalization=normalization)

    @classmethod
    def random(
        cls,
        dim: int,
        *,
        n_outputs: int = 1,
        normalization: str | Normalization = "linear",
        scale: float = 0.1,
        key: PRNGKeyArray,
    ) -> MergedAttention:
        """A layer with independent normal weights of standard deviation `scale`, float32.

        Raises `InvalidArgument`.
        """
        size = check_integer("dim", dim, minimum=1) + check_integer(
            "n_outputs", n_outputs, minimum=1
        )
        scale = check_real("scale", scale, low=0.0, low_open=True)
        if size > _LARGEST_SIZE:
            allowed = f"such that dim + n_outputs is at most {_LARGEST_SIZE}"
            raise InvalidArgument("dim", dim, allowed)
        P, Q = scale * jax.random.normal(check_key(key), (2, size, size), jnp.float32)
        return cls(P, Q, n_outputs=n_outputs, normalization=normalization)

    @property
    def n_heads(self) -> int:
        """One."""
        return 1

    @property
    def kq(self) -> Float[Array, "1 tokens tokens"]:
        """`Q`, with an axis for the head."""
        return self.Q[None]

    @property
    def ov(self) -> Float[Array, "1 tokens tokens"]:
        """`P`, with an axis for the head."""
        return self.P[None]

    @property
    def A(self) -> Float[Array, "dim dim"]:
        """The block with which covariates are compared: the logit is `x_qᵀ A x_i + ...`."""
        return self.Q[: self.dim, : self.dim].T


def _matrix(name: str, value: Any) -> Any:
    """A square matrix of finite numbers; concrete ones stay with NumPy, which keeps float64."""
    allowed = "a square matrix of finite numbers"
    if is_traced(value):
        matrix = value
    else:
        try:
            matrix = value if hasattr(value, "dtype") else np.asarray(value, np.float64)
            kind = np.dtype(matrix.dtype).kind
            if kind not in "fiu" or not np.isfinite(np.asarray(matrix)).all():
                raise InvalidArgument(name, value, allowed)
        except (TypeError, ValueError, OverflowError):
            raise InvalidArgument(name, value, allowed) from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
        raise InvalidArgument(name, value, allowed)
    return matrix
