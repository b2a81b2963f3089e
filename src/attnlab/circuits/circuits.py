"""The circuits of an attention layer: all that its predictions depend on.

Source: eq. (2.2) and the displays after it in he2025; Appendix B.4 for several tasks;
`docs/theory/multi-head-attention`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from .._core.errors import InvalidArgument, check_integer, is_traced
from .._core.precision import float64
from ..students import AttentionStack, KernelHeads, MergedAttention, MultiHeadAttention
from ..students.normalizations import Normalization, get_normalization
from ..students.prompt_shapes import check_prompt_shapes


@dataclass(frozen=True, init=False, eq=False)
class Circuits:
    """The matrices `KQ^h` and `OV^h` of a layer on tokens `(x, y)`, as NumPy float64.

    - `kq` `(heads, D, D)`: the logit of key token `z_i` for query token `z_j` is `z_iᵀ KQ^h z_j`,
      with the scale of the logits in it; `D = dim + n_outputs`.
    - `ov` `(heads, D, D)`: a head adds `OV^h z_i` for a token `z_i` it attends to.

    Two kinds of entries are without effect on the prediction of one layer, since the query's label
    is 0 and only the last `n_outputs` entries are read: the last columns of `KQ` and the first rows
    of `OV`. The rest are the effective blocks.

    **Arguments:** `kq` and `ov`, plain arrays of finite numbers; `dim` of the covariates;
    `n_outputs`, the number of labels of a token; `normalization` of the scores. Raises
    `InvalidArgument`.
    """

    kq: Float[np.ndarray, "heads tokens tokens"]
    ov: Float[np.ndarray, "heads tokens tokens"]
    dim: int
    n_outputs: int
    normalization: Normalization

    def __init__(
        self,
        kq: Float[ArrayLike, "heads tokens tokens"],
        ov: Float[ArrayLike, "heads tokens tokens"],
        *,
        dim: int,
        n_outputs: int = 1,
        normalization: str | Normalization = "softmax",
    ):
        dim = check_integer("dim", dim, minimum=1)
        n_outputs = check_integer("n_outputs", n_outputs, minimum=1)
        size = dim + n_outputs
        kq, ov = _matrices("kq", kq, size), _matrices("ov", ov, size)
        if len(kq) != len(ov):
            raise InvalidArgument("ov", f"{len(ov)} heads", f"of as many heads as kq, {len(kq)}")
        values: dict[str, Any] = {
            "kq": kq,
            "ov": ov,
            "dim": dim,
            "n_outputs": n_outputs,
            "normalization": get_normalization(normalization),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def n_heads(self) -> int:
        """Number of heads `H`."""
        return len(self.kq)

    @property
    def effective_kq(self) -> Float[np.ndarray, "heads tokens dim"]:
        """The first `d` columns of `KQ`, which meet the covariates of the query."""
        return self.kq[:, :, : self.dim]

    @property
    def effective_ov(self) -> Float[np.ndarray, "heads outputs tokens"]:
        """The last `N` rows of `OV`: what reaches the read-out."""
        return self.ov[:, self.dim :, :]

    @property
    def kq_covariates(self) -> Float[np.ndarray, "heads dim dim"]:
        """The block of `KQ` that compares covariates of an example and of the query."""
        return self.kq[:, : self.dim, : self.dim]

    @property
    def kq_labels(self) -> Float[np.ndarray, "heads outputs dim"]:
        """The rows of `KQ` through which an example's labels enter its score."""
        return self.kq[:, self.dim :, : self.dim]

    @property
    def ov_covariates(self) -> Float[np.ndarray, "heads outputs dim"]:
        """The part of `OV` that reads covariates into the prediction."""
        return self.ov[:, self.dim :, : self.dim]

    @property
    def ov_labels(self) -> Float[np.ndarray, "heads outputs outputs"]:
        """The part of `OV` that reads labels into the prediction."""
        return self.ov[:, self.dim :, self.dim :]

    @property
    def omega(self) -> Float[np.ndarray, " heads"]:
        """`ω_h`: the mean of the diagonal of `KQ^h` on the covariates."""
        return np.trace(self.kq_covariates, axis1=1, axis2=2) / self.dim

    @property
    def omega_diagonal(self) -> Float[np.ndarray, "heads dim"]:
        """The diagonals themselves: a vector `ω^h` for each head, as several tasks need it."""
        return np.diagonal(self.kq_covariates, axis1=1, axis2=2).copy()

    @property
    def mu(self) -> Float[np.ndarray, "heads outputs"]:
        """`μ_n^h`: what head `h` makes of label `n` in the prediction of label `n`."""
        return np.diagonal(self.ov_labels, axis1=1, axis2=2).copy()

    def __call__(
        self,
        X: Float[ArrayLike, "*batch length dim"],
        y: Float[ArrayLike, "*batch length *outputs"],
        xq: Float[ArrayLike, "*batch dim"],
    ) -> Float[np.ndarray, "*batch *outputs"]:
        """Predictions of the layer in NumPy float64; raises `InvalidArgument`."""
        X, y, xq = (np.asarray(part, np.float64) for part in (X, y, xq))
        single = check_prompt_shapes(X, y, xq, dim=self.dim, n_outputs=self.n_outputs)
        tokens = np.concatenate([X, y[..., None] if single else y], axis=-1)
        out: Any = 0.0
        for kq, ov in zip(self.effective_kq, self.effective_ov):
            scores = np.einsum("...ti,ij,...j->...t", tokens, kq, xq, optimize=True)
            with float64():
                weights = np.asarray(self.normalization.weights(scores), np.float64)
            out = out + np.einsum("ni,...t,...ti->...n", ov, weights, tokens, optimize=True)
        return out[..., 0] if single else out

    def as_layer(self) -> MultiHeadAttention:
        """A layer with exactly these circuits, of JAX's default precision."""
        layer = MultiHeadAttention(
            self.dim,
            self.n_heads,
            n_outputs=self.n_outputs,
            normalization=self.normalization,
            key=jax.random.key(0),
        )
        kq, ov = jnp.asarray(self.kq.copy()), jnp.asarray(self.ov.copy())
        one = jnp.broadcast_to(jnp.eye(kq.shape[-1], dtype=kq.dtype), kq.shape)
        weights = (kq, one, one, ov)
        return eqx.tree_at(lambda x: (x.W_Q, x.W_K, x.W_V, x.W_O), layer, weights)


def check_circuits(circuits: Any) -> Circuits:
    """`circuits` if they are; raises `InvalidArgument`."""
    if not isinstance(circuits, Circuits):
        allowed = "attnlab Circuits, such as extract(layer) gives; for heads of a model see diagnose_heads"
        raise InvalidArgument("circuits", circuits, allowed)
    return circuits


def extract(layer: Any, *, dim: int | None = None, index: int | None = None) -> Circuits:
    """The circuits of a trained layer.

    **Arguments:**

    - `layer`: a `MultiHeadAttention`, `MergedAttention`, `KernelHeads`, or an `AttentionStack`;
      `Circuits` are returned as they are. Of several runs take one: `run.layer_of(0)`.
    - `dim`: of the covariates; needed for `KernelHeads` with scalar `omega`, which fit any.
    - `index`: which layer of an `AttentionStack`; needed if it has more than one. What the
      effective blocks say about the prediction holds for the first layer only: afterwards the
      query's label is no longer 0.

    Products of weights are formed in float64. Raises `InvalidArgument`, also for weights that are
    not finite.
    """
    if isinstance(layer, AttentionStack):
        count = len(layer.layers)
        if index is None and count > 1:
            raise InvalidArgument(
                "index", index, f"the layer's place in the stack, 0 to {count - 1}"
            )
        index = 0 if index is None else check_integer("index", index, minimum=0, maximum=count - 1)
        layer = layer.layers[index]
    elif index is not None:
        raise InvalidArgument("index", index, "absent: layer is no AttentionStack")
    known = None
    if isinstance(layer, Circuits):
        known, circuits = layer.dim, layer
    elif isinstance(layer, MultiHeadAttention | MergedAttention):
        known, circuits = layer.dim, _of_layer(layer)
    elif isinstance(layer, KernelHeads):
        return _of_heads(layer, dim)
    else:
        allowed = "a MultiHeadAttention, MergedAttention, AttentionStack, KernelHeads or Circuits"
        raise InvalidArgument("layer", layer, allowed)
    if dim is not None and dim != known:
        raise InvalidArgument("dim", dim, f"{known}, as the layer says, or absent")
    return circuits


def _of_layer(layer: MultiHeadAttention | MergedAttention) -> Circuits:
    merged = isinstance(layer, MergedAttention)
    weights = {}
    for name in ("P", "Q") if merged else ("W_Q", "W_K", "W_V", "W_O"):
        value = getattr(layer, name)
        if is_traced(value):
            raise InvalidArgument("layer", layer, "concrete: circuits are read outside of jit")
        weights[name] = np.asarray(value, np.float64)
        if weights[name].ndim != (2 if merged else 3):
            allowed = "a single layer; of several runs take one with run.layer_of(i)"
            raise InvalidArgument("layer", f"{name} of shape {weights[name].shape}", allowed)
        if not np.isfinite(weights[name]).all():
            raise InvalidArgument("layer", name, "of finite weights")
    if isinstance(layer, MergedAttention):
        kq, ov = weights["Q"][None], weights["P"][None]
    else:
        kq = float(layer.logit_scale) * np.swapaxes(weights["W_K"], 1, 2) @ weights["W_Q"]
        ov = weights["W_O"] @ weights["W_V"]
    return Circuits(
        kq,
        ov,
        dim=layer.dim,
        n_outputs=layer.n_outputs,
        normalization=layer.normalization,
    )


def _of_heads(heads: KernelHeads, dim: int | None) -> Circuits:
    omega, mu = np.asarray(heads.omega, np.float64), np.asarray(heads.mu, np.float64)
    if dim is None and omega.ndim == 1:
        raise InvalidArgument(
            "dim", dim, "given, since scalar omega fit covariates of any dimension"
        )
    dim = omega.shape[-1] if dim is None else check_integer("dim", dim, minimum=1)
    if omega.ndim > 1 and omega.shape[-1] != dim:
        raise InvalidArgument("dim", dim, f"{omega.shape[-1]}, as omega says, or absent")
    mu = mu[:, None] if mu.ndim == 1 else mu
    count, n = mu.shape
    kq, ov = np.zeros((2, count, dim + n, dim + n))
    if omega.ndim < 3:
        omega = (omega[:, None] if omega.ndim == 1 else omega)[:, :, None] * np.eye(dim)
    kq[:, :dim, :dim] = omega
    ov[:, dim:, dim:] = mu[:, :, None] * np.eye(n)
    return Circuits(kq, ov, dim=dim, n_outputs=n, normalization=heads.normalization)


def _matrices(name: str, value: Any, size: int) -> np.ndarray:
    allowed = f"finite numbers of shape (heads, {size}, {size}), with at least one head"
    if is_traced(value):
        raise InvalidArgument(name, value, allowed + ", known outside of jit")
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(name, value, allowed) from None
    if array.ndim != 3 or array.shape[0] < 1 or array.shape[1:] != (size, size):
        raise InvalidArgument(name, f"an array of shape {array.shape}", allowed)
    if not np.isfinite(array).all():
        raise InvalidArgument(name, value, allowed)
    return array
