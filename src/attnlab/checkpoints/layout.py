"""Where the weights of attention stand in a file, and how they are written.

Two conventions are in use. With `"column"` a matrix is written `(out, in)` and a token is a column,
`q = W z + b` (PyTorch's linear layers, attnlab). With `"row"` it is written `(in, out)` and a token
is a row, `q = z W + b` (GPT-2's, TransformerLens, Flax). Source: `docs/guides/reading-checkpoints`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

Convention = Literal["row", "column"]
Order = Literal["parts", "heads"]
Pairs = Literal["halves", "neighbours"]


@dataclass(frozen=True)
class Layout:
    """Names of the weights of a layer's attention, with the numbers that names do not tell.

    In names `{layer}` and `{head}` stand for numbers that count from 0.

    - `query`, `key`, `value` or all three in `qkv`; `output`.
    - `order` of `qkv`: `"parts"`, all queries, then all keys, then all values (GPT-2); `"heads"`, the
      queries of a group of heads, its key, its value, then the next group (GPT-NeoX).
    - the same with `_bias`; None where there is none.
    - `convention`: `"row"`, `"column"`, or None: to be told from the shapes.
    - `heads`; `kv_heads`, fewer of keys and values, shared by groups of heads; `head_dim`. None:
      told by the shapes.
    - `scale` of the logits; None: `1/√head_dim`. `by_layer` divides it by the layer's number, from 1.
    - `causal`: whether a token attends to itself and earlier ones only; None: not known.
    - `rotary`: the base of rotary positions, None without; `rotary_pairs`: entries that are turned
      together, `k` and `k + e/2` (`"halves"`) or `2k` and `2k + 1` (`"neighbours"`); `rotary_share`
      of a head's entries that are turned, the first ones.
    - `window`: how many tokens are seen, the token itself and those before it; None: all.
      `window_layers`: the layers that have it; None: all.
    - `beside`: what else enters the scores, and no weights here tell.
    - `ignored`: names behind the attention's prefix that are none of its weights.
    - `family`: where the names come from; `layers`: the numbers found in the file.
    """

    output: str
    query: str | None = None
    key: str | None = None
    value: str | None = None
    qkv: str | None = None
    order: Order = "parts"
    query_bias: str | None = None
    key_bias: str | None = None
    value_bias: str | None = None
    qkv_bias: str | None = None
    output_bias: str | None = None
    convention: Convention | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    scale: float | None = None
    by_layer: bool = False
    causal: bool | None = None
    rotary: float | None = None
    rotary_pairs: Pairs = "halves"
    rotary_share: float = 1.0
    window: int | None = None
    window_layers: tuple[int, ...] | None = None
    beside: str | None = None
    ignored: tuple[str, ...] = ()
    family: str = "mapping"
    layers: tuple[int, ...] = ()

    @property
    def first(self) -> str:
        """The name by which a layer is recognised."""
        name = self.qkv or self.query
        assert name is not None
        return name

    def with_prefix(self, prefix: str) -> Layout:
        """The same with all names behind `prefix`."""
        return replace(self, **{n: prefix + v for n in NAMES if (v := getattr(self, n))})


NAMES = (
    *("query", "key", "value", "qkv", "output"),
    *("query_bias", "key_bias", "value_bias", "qkv_bias", "output_bias"),
)


def every_layer(layout: Layout, names: Iterable[str]) -> tuple[int, ...]:
    """The numbers of all layers of which any matrix is there, so that one that lacks another is
    found out, not left out."""
    told = (layout.query, layout.key, layout.value, layout.qkv, layout.output)
    kept = [name for name in told if name and ("{layer}" in name) == ("{layer}" in layout.first)]
    known = tuple(names)
    return tuple(sorted({x for name in kept for x in layers_of(name, known).get("", ())}))


def layers_of(template: str, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The layers that are there for each prefix of `template`: `{"bert.": (0, 1, ...)}`."""
    pattern = re.escape(template).replace(r"\{layer\}", r"(?P<layer>\d+)", 1)
    pattern = pattern.replace(r"\{layer\}", r"(?P=layer)").replace(r"\{head\}", r"\d+")
    found: dict[str, set[int]] = {}
    for name in names:
        match = re.fullmatch(rf"(?P<prefix>(?:.*\.)?){pattern}", name)
        if match:
            layer = int(match["layer"]) if "layer" in match.groupdict() else 0
            found.setdefault(match["prefix"], set()).add(layer)
    return {prefix: tuple(sorted(layers)) for prefix, layers in found.items()}
