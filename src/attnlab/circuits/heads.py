"""The circuits of any attention layer, with biases, kept as the thin factors they are made of.

Source: `docs/theory/head-circuits`; elhage2021 for the two circuits of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import ArrayLike, Bool, Float

from .._core.errors import InvalidArgument, check_integer
from ..checkpoints import AttentionWeights
from ..checkpoints.layout import Pairs
from .rotary import rotated

Mask = Literal["full", "causal"]
_LARGEST_MATRICES = 4 * 2**30  # bytes


@dataclass(frozen=True, eq=False, repr=False)
class HeadCircuits:
    """`KQ^h` and `OV^h` of one attention layer, and the two vectors that its biases leave.

    On tokens `z` as columns, `D` entries each, head `h` of token `j` weighs token `i` by

        softmax_i( z_iᵀ (KQ^h z_j + u^h) ),   KQ^h = scale · W_K^hᵀ W_Q^h,  u^h = scale · W_K^hᵀ b_Q^h

    and the layer gives `Σ_h Σ_i weight · OV^h z_i + c` with `OV^h = W_O^h W_V^h` and
    `c = Σ_h W_O^h b_V^h + b_O`. The bias of the keys changes no weight.

    `KQ^h` and `OV^h` are `D × D` of rank at most `e`, a head's dimension, and only made when asked
    for: `left_kq @ right_kq` and `left_ov @ right_ov`.

    - `weights`: what the file holds; `layer`: its number there; `origin`: words on the file.
    - `causal`: whether a token sees itself and earlier ones only; None if the file does not tell.
    - `rotary`: base of rotary positions, with `rotary_pairs` and `rotary_share` as in
      `checkpoints.Layout`. Queries and keys are rotated then, so that `KQ^h` is what a
      token makes of itself, at distance 0; `attend` rotates.
    - `window`: how many tokens a causal layer sees, the token itself and those before it; None: all.
    - `beside`: what else enters the scores and is not known here; `attend` refuses then.
    """

    weights: AttentionWeights
    layer: int = 0
    causal: bool | None = None
    rotary: float | None = None
    rotary_pairs: Pairs = "halves"
    rotary_share: float = 1.0
    window: int | None = None
    beside: str | None = None
    origin: str = ""

    @property
    def n_heads(self) -> int:
        """Number of heads `H`."""
        return len(self.weights.query)

    @property
    def width(self) -> int:
        """Entries `D` of a token."""
        return self.weights.query.shape[2]

    @property
    def head_dim(self) -> int:
        """Rows `e` of a head's queries and keys."""
        return self.weights.query.shape[1]

    @property
    def left_kq(self) -> Float[np.ndarray, "heads width head_dim"]:
        """`scale · W_Kᵀ`, float64."""
        return self.weights.scale * np.swapaxes(self.weights.key, 1, 2).astype(np.float64)

    @property
    def right_kq(self) -> Float[np.ndarray, "heads head_dim width"]:
        """`W_Q`, float64."""
        return self.weights.query.astype(np.float64)

    @property
    def left_ov(self) -> Float[np.ndarray, "heads width value_dim"]:
        """`W_O`, float64."""
        return self.weights.output.astype(np.float64)

    @property
    def right_ov(self) -> Float[np.ndarray, "heads value_dim width"]:
        """`W_V`, float64."""
        return self.weights.value.astype(np.float64)

    @property
    def kq(self) -> Float[np.ndarray, "heads width width"]:
        """All `KQ^h`, made now; raises `InvalidArgument` where they would take over 4 GiB."""
        self._check_size()
        return self.left_kq @ self.right_kq

    @property
    def ov(self) -> Float[np.ndarray, "heads width width"]:
        """All `OV^h`, made now; raises `InvalidArgument` where they would take over 4 GiB."""
        self._check_size()
        return self.left_ov @ self.right_ov

    @property
    def key_offset(self) -> Float[np.ndarray, "heads width"]:
        """`u^h`: how a token is looked at whoever asks; 0 without a bias of the queries."""
        bias = self.weights.query_bias
        if bias is None:
            return np.zeros((self.n_heads, self.width))
        return np.einsum("hde,he->hd", self.left_kq, bias.astype(np.float64))

    @property
    def constant(self) -> Float[np.ndarray, " width"]:
        """`c`: what the layer adds whatever the tokens are."""
        w = self.weights
        out = np.zeros(self.width)
        if w.value_bias is not None:
            out += np.einsum("hde,he->d", self.left_ov, w.value_bias.astype(np.float64))
        return out if w.output_bias is None else out + w.output_bias

    def scores(
        self, hidden: Float[ArrayLike, "*batch length width"]
    ) -> Float[np.ndarray, "*batch heads length length"]:
        """`z_iᵀ (KQ^h z_j + u^h)` in float64, with queries `j` along the last axis but one.

        `hidden` is what enters the layer's projections: behind the LayerNorm of a model that has it
        in front (GPT-2, Llama). Raises `InvalidArgument`, also where positions enter in a way that
        is not known here.
        """
        if self.beside:
            allowed = f"a layer without {self.beside}, which no weights tell"
            raise InvalidArgument("self", self, allowed)
        z = self._tokens(hidden)[..., None, :, :]
        if self.rotary is not None:
            w = self.weights
            query, key = z @ np.swapaxes(self.right_kq, 1, 2), z @ self.left_kq
            if w.query_bias is not None:
                query = query + w.query_bias[:, None]
            if w.key_bias is not None:
                key = key + w.scale * w.key_bias[:, None]
            how = (self.rotary, self.rotary_pairs, self.rotary_share)
            query, key = rotated(query, *how), rotated(key, *how)
            return query @ np.swapaxes(key, -1, -2)
        looked_for = z @ np.swapaxes(self.right_kq, 1, 2) @ np.swapaxes(self.left_kq, 1, 2)
        looked_for = looked_for + self.key_offset[:, None]
        return looked_for @ np.swapaxes(z, -1, -2)

    def pattern(
        self,
        hidden: Float[ArrayLike, "*batch length width"],
        mask: Mask | Bool[ArrayLike, "*any query key"] | None = None,
    ) -> Float[np.ndarray, "*batch heads length length"]:
        """The attention of each head: softmax of the scores over what the mask lets a token see.

        **Arguments:** `mask`: `"full"`, `"causal"`, or booleans `(query, key)`, True where seen,
        with any leading axes that broadcast against `(*batch, heads)`; by default as the layer says
        with its window, and needed where it does not. A token that sees nothing has weights 0. Raises
        `InvalidArgument`.
        """
        scores = self.scores(hidden)
        seen = np.broadcast_to(self._mask(mask, scores.shape), scores.shape)
        hidden_scores = np.where(seen, scores, -np.inf)
        largest = hidden_scores.max(-1, keepdims=True)
        raw = np.exp(hidden_scores - np.where(np.isfinite(largest), largest, 0.0))
        total = raw.sum(-1, keepdims=True)
        return raw / np.where(total > 0, total, 1.0)

    def attend(
        self,
        hidden: Float[ArrayLike, "*batch length width"],
        mask: Mask | Bool[ArrayLike, "*any query key"] | None = None,
    ) -> Float[np.ndarray, "*batch length width"]:
        """What the layer gives for `hidden`, from its circuits, in float64.

        This is the attention alone: no residual link, no LayerNorm, no dropout. See `scores` and
        `pattern` for the arguments; raises `InvalidArgument`.
        """
        weights = self.pattern(hidden, mask)
        z = self._tokens(hidden)[..., None, :, :]
        heads = weights @ z @ np.swapaxes(self.right_ov, 1, 2) @ np.swapaxes(self.left_ov, 1, 2)
        return heads.sum(-3) + self.constant

    def __repr__(self) -> str:
        origin = f"{self.origin!r}, " if self.origin else ""
        return f"HeadCircuits({origin}{self.n_heads} heads, width {self.width})"

    def _tokens(self, hidden: Any) -> np.ndarray:
        allowed = f"finite numbers of shape (..., length, {self.width})"
        try:
            tokens = np.asarray(hidden, np.float64)
        except (TypeError, ValueError):
            raise InvalidArgument("hidden", hidden, allowed) from None
        if tokens.ndim < 2 or tokens.shape[-1] != self.width or not np.isfinite(tokens).all():
            raise InvalidArgument("hidden", f"an array of shape {tokens.shape}", allowed)
        return tokens

    def _mask(self, mask: Any, shape: tuple[int, ...]) -> np.ndarray:
        length = shape[-1]
        if mask is None and self.causal is None:
            raise InvalidArgument("mask", mask, "given, since the file does not tell what is seen")
        if mask is None:
            if self.causal and self.window is not None:
                past = np.arange(length)[:, None] - np.arange(length)
                return (past >= 0) & (past < self.window)
            mask = "causal" if self.causal else "full"
        if isinstance(mask, str) and mask in ("full", "causal"):
            seen = np.ones((length, length), bool)
            return np.tril(seen) if mask == "causal" else seen
        array = np.asarray(mask)
        try:
            fits = np.broadcast_shapes(array.shape, shape) == shape
        except ValueError:
            fits = False
        if array.dtype != bool or array.ndim < 2 or not fits:
            allowed = f"'full', 'causal', or booleans that broadcast to {shape}"
            raise InvalidArgument("mask", mask, allowed)
        return array

    def _check_size(self) -> None:
        size = 8 * self.n_heads * self.width**2
        if size > _LARGEST_MATRICES:
            told = f"used by its factors, left_kq and the like: {self.n_heads} matrices of "
            told += f"{self.width} × {self.width} take {size / 2**30:.1f} GiB"
            raise InvalidArgument("self", self, told)


class ModelCircuits(Sequence[HeadCircuits]):
    """The layers of a model in order, each read when it is asked for: `model[3].attend(hidden)`.

    - `path`: of the file; `family`: whose names it has; `convention` that it is written in,
      `"row"` or `"column"`; `layers`: their numbers in the file.
    """

    def __init__(
        self,
        path: Path,
        family: str,
        convention: str,
        layers: tuple[int, ...],
        read: Callable[[int], HeadCircuits],
    ):
        self.path, self.family, self.convention = path, family, convention
        self.layers = layers
        self._read = read

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = check_integer("index", index, minimum=-len(self), maximum=max(len(self) - 1, 0))
        return self._read(self.layers[place])

    def __iter__(self) -> Iterator[HeadCircuits]:
        return (self._read(layer) for layer in self.layers)

    @property
    def origin(self) -> str:
        """Words on the file: its family, its convention, its path."""
        return f"{self.family}, written {self.convention}-wise: {self.path}"

    def __repr__(self) -> str:
        return f"ModelCircuits({str(self.path)!r}, {self.family}, {len(self)} layers)"
