"""A full multi-head attention layer on tokens `(x, y)`, with its circuits.

Source: eq. (2.2) of he2025; `docs/theory/multi-head-attention`.
"""

from __future__ import annotations

import math
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._core.errors import InvalidArgument, check_choice, check_integer, check_real
from .._core.keys import check_key
from .attention_layer import AttentionLayer
from .kernel_heads import KernelHeads
from .normalizations import Normalization, get_normalization

_LARGEST_BYTES = 8 * 2**30

Init = Literal["pytorch", "small-identity", "opposite-sign"]


class MultiHeadAttention(AttentionLayer):
    """`H` heads on tokens `z = (x, y)` of `D = dim + n_outputs` entries, without biases.

    The query attends to the context only, and the prediction is the last `N` entries of

        Σ_h OV^h Σ_ℓ p^h_ℓ z_ℓ,   p^h = softmax_ℓ(z_ℓᵀ KQ^h z_q),
        KQ^h = logit_scale · W_K^hᵀ W_Q^h,   OV^h = W_O^h W_V^h      (tokens as columns)

    **Arguments:**

    - `dim`: of the covariates; `n_heads`; `n_outputs`: entries of `y`.
    - `normalization`: `"softmax"`, `"linear"`, `"relu"` or one of `students.normalizations`.
    - `head_dim`: rows of `W_Q, W_K, W_V`; default `D`.
    - `logit_scale`: factor of the logits, such as `1/√D`; it is part of `KQ`.
    - `init`: `"pytorch"`, uniform on `±1/√fan_in` as of a linear layer there; `"small-identity"`,
      `KQ^h = α I` on the covariates and `OV^h = α` on the responses; `"opposite-sign"`, the same
      with the sign of both alternating between heads (Definition D.1).
    - `init_scale`: `α > 0` of the last two.

    **Fields:** `W_Q`, `W_K`, `W_V` of shape `(heads, head_dim, D)`, `W_O` of shape
    `(heads, D, head_dim)`, float32. Raises `InvalidArgument` for anything else.
    """

    W_Q: Float[Array, "heads head_dim tokens"]
    W_K: Float[Array, "heads head_dim tokens"]
    W_V: Float[Array, "heads head_dim tokens"]
    W_O: Float[Array, "heads tokens head_dim"]
    dim: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)
    logit_scale: float = eqx.field(static=True)
    normalization: Normalization = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        n_heads: int,
        *,
        n_outputs: int = 1,
        normalization: str | Normalization = "softmax",
        head_dim: int | None = None,
        logit_scale: float = 1.0,
        init: Init = "pytorch",
        init_scale: float = 0.01,
        key: PRNGKeyArray,
    ):
        self.dim = check_integer("dim", dim, minimum=1)
        heads = check_integer("n_heads", n_heads, minimum=1)
        self.n_outputs = check_integer("n_outputs", n_outputs, minimum=1)
        self.normalization = get_normalization(normalization)
        self.logit_scale = check_real("logit_scale", logit_scale, low=0.0, low_open=True)
        size = self.dim + self.n_outputs
        inner = size if head_dim is None else check_integer("head_dim", head_dim, minimum=1)
        if 16 * heads * inner * size > _LARGEST_BYTES:
            told = f"n_heads × head_dim × (dim + n_outputs) = {heads} × {inner} × {size}"
            allowed = f"small enough that {told} weights of four matrices fit in 8 GiB"
            raise InvalidArgument("n_heads", heads, allowed)
        check_choice("init", init, ("pytorch", "small-identity", "opposite-sign"))
        check_real("init_scale", init_scale, low=0.0, low_open=True)
        check_key(key)
        if init == "pytorch":
            self.W_Q, self.W_K, self.W_V, self.W_O = _uniform(key, heads, inner, size)
            return
        if inner < max(self.dim, self.n_outputs):
            allowed = f"at least {max(self.dim, self.n_outputs)} for init = {init!r}"
            raise InvalidArgument("head_dim", head_dim, allowed)
        sign = (-1.0) ** jnp.arange(heads) if init == "opposite-sign" else jnp.ones(heads)
        kq, ov = (sign[:, None, None] * init_scale * jnp.eye(n) for n in (self.dim, self.n_outputs))
        self.W_Q, self.W_K, self.W_V, self.W_O = _blocks(
            kq / self.logit_scale, ov, inner, math.sqrt(init_scale)
        )

    @classmethod
    def from_heads(
        cls, heads: KernelHeads, dim: int, *, logit_scale: float = 1.0
    ) -> MultiHeadAttention:
        """The layer whose circuits are those of `heads`: it makes the same predictions.

        Raises `InvalidArgument` when `heads` are for another dimension.
        """
        if not isinstance(heads, KernelHeads):
            raise InvalidArgument("heads", heads, "an attnlab.KernelHeads")
        kq, mu = jnp.asarray(heads.kq(dim)), jnp.asarray(heads.mu)
        mu = mu[:, None] if mu.ndim == 1 else mu
        layer = cls(
            dim,
            heads.n_heads,
            n_outputs=mu.shape[1],
            normalization=heads.normalization,
            logit_scale=logit_scale,
            key=jax.random.key(0),
        )
        ov = mu[:, :, None] * jnp.eye(mu.shape[1], dtype=mu.dtype)
        weights = _blocks(kq / layer.logit_scale, ov, dim + mu.shape[1], 1.0)
        return eqx.tree_at(lambda x: (x.W_Q, x.W_K, x.W_V, x.W_O), layer, weights)

    @property
    def n_heads(self) -> int:
        """Number of heads `H`."""
        return self.W_Q.shape[0]

    @property
    def kq(self) -> Float[Array, "heads tokens tokens"]:
        """`KQ^h`: the logit of key token `z_i` for query token `z_j` is `z_iᵀ KQ^h z_j`."""
        return self.logit_scale * jnp.einsum("hei,hej->hij", self.W_K, self.W_Q)

    @property
    def ov(self) -> Float[Array, "heads tokens tokens"]:
        """`OV^h`: what head `h` adds to the query token is `OV^h` times the attended token."""
        return jnp.einsum("hie,hej->hij", self.W_O, self.W_V)


def _uniform(key: PRNGKeyArray, heads: int, inner: int, size: int) -> tuple[Array, ...]:
    """`W_Q, W_K, W_V, W_O`, each as a linear layer without bias starts in PyTorch."""
    shapes = [(heads, inner, size)] * 3 + [(heads, size, inner)]
    return tuple(
        jax.random.uniform(k, shape, jnp.float32, -1, 1) / math.sqrt(shape[-1])
        for k, shape in zip(jax.random.split(key, 4), shapes)
    )


def _blocks(kq: Array, ov: Array, inner: int, root: float) -> tuple[Array, ...]:
    """`W_Q, W_K, W_V, W_O` with `W_KᵀW_Q = kq` on the covariates, `W_O W_V = ov` on the responses
    and zeros elsewhere; `W_K` and `W_V` are `root` times the identity."""
    heads, d, n = kq.shape[0], kq.shape[-1], ov.shape[-1]
    size = d + n
    zeros = jnp.zeros((heads, inner, size), jnp.result_type(kq, jnp.float32))
    W_K = zeros.at[:, :d, :d].set(root * jnp.eye(d))
    W_Q = zeros.at[:, :d, :d].set(kq / root)
    W_V = zeros.at[:, :n, d:].set(root * jnp.eye(n))
    W_O = jnp.swapaxes(zeros, 1, 2).at[:, d:, :n].set(ov / root)
    return W_Q, W_K, W_V, W_O
