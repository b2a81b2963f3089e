"""What else stands beside a layer's projections: an array there may change scores or values."""

from __future__ import annotations

import re
from itertools import takewhile

from .._core.errors import InvalidArgument
from .layout import NAMES, Layout
from .weights import Weights

# Behind the prefix of the attention, and none of its weights: masks (of four axes, and the number
# behind them), tables that programs keep of rotary positions, and BERT's norm after the sum.
_BUFFERS = (
    *("masked_bias", "attn.masked_bias", "mask", "IGNORE"),
    *("rotary_emb.inv_freq", "rotary_sin", "rotary_cos", "inner_attention.rope.freqs"),
    *(f"output.LayerNorm.{name}" for name in ("weight", "bias", "gamma", "beta")),
)
_MASKS = ("bias", "attn.bias")
# Of weights of 8 bits, which are read together with these; the last are of what enters and leaves.
_SCALES = ("_scale_inv", "_scale")
_OF_INPUTS = ("input_scale", "output_scale")
_ATTENTION = ("attn.", "attention.")  # ends of prefixes behind which nothing else stands


def check_neighbours(weights: Weights, layout: Layout) -> None:
    """Raises `InvalidArgument` for an array behind the prefix of a layer's attention that is neither
    one of its projections nor known to be none of its weights."""
    templates = [name for part in NAMES if (name := getattr(layout, part))]
    stem = _stem(templates)
    if stem is None:
        return
    pattern = re.compile(re.escape(stem).replace(r"\{layer\}", r"\d+"))
    known = re.compile("|".join(_pattern(name) for name in (*templates, *layout.ignored)))
    flat = not stem.endswith(_ATTENTION)
    for name in weights:
        start = pattern.match(name)
        if start is None or known.fullmatch(name):
            continue
        rest = name[start.end() :]
        if flat and "." in rest:  # of another part of the layer or the model
            continue
        buffer = rest in _BUFFERS or (rest in _MASKS and len(weights.shape(name)) == 4)
        whole, _, last = name.rpartition(".")
        scaled = last in _OF_INPUTS and any(f"{whole}.weight{x}" in weights for x in _SCALES)
        scaled |= any(name.endswith(x) and weights.few_bits(name.removesuffix(x)) for x in _SCALES)
        if not buffer and not scaled:
            told = f"{name}, beside its projections, may change queries, keys or values"
            if layout.family == "mapping":
                told += "; the mapping can name it, or list it under ignored"
            raise InvalidArgument("path", str(weights.path), f"of plain attention; {told}")


def _stem(templates: list[str]) -> str | None:
    """What all names have in front, up to a dot; None where it is no layer's own."""
    places = zip(*(name.split(".")[:-1] for name in templates))
    common = takewhile(lambda parts: len(set(parts)) == 1, places)
    prefix = "".join(f"{part[0]}." for part in common)
    own = any("{layer}" in name for name in templates)
    return None if own and "{layer}" not in prefix else prefix


def _pattern(template: str) -> str:
    escaped = re.escape(template)
    return escaped.replace(r"\{layer\}", r"\d+").replace(r"\{head\}", r"\d+")
