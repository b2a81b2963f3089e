"""The layouts that are recognised by their names, and what a configuration adds to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .._core.errors import InvalidArgument
from . import kinds
from .configuration import configured
from .kinds import Kinds
from .layout import Layout, every_layer, layers_of
from .weights import Weights


def _linear(family: str, query: str, key: str, value: str, output: str, **more: Any) -> Layout:
    """Four linear layers as PyTorch writes them, with biases if there are any."""
    names = {"query": query, "key": key, "value": value, "output": output}
    told: dict[str, Any] = {name: f"{stem}.weight" for name, stem in names.items()}
    told |= {f"{name}_bias": f"{stem}.bias" for name, stem in names.items()}
    return Layout(**told, convention="column", family=family, **more)


_BERT = "encoder.layer.{layer}.attention."
_DISTILBERT = "transformer.layer.{layer}.attention."
_LLAMA = "layers.{layer}.self_attn."
_LENS = "blocks.{layer}.attn."

FAMILIES = (
    _linear(
        "BERT",
        *(_BERT + part for part in ("self.query", "self.key", "self.value", "output.dense")),
        causal=False,
    ),
    _linear(
        "DistilBERT",
        *(_DISTILBERT + part for part in ("q_lin", "k_lin", "v_lin", "out_lin")),
        causal=False,
    ),
    Layout(
        qkv="h.{layer}.attn.c_attn.weight",
        qkv_bias="h.{layer}.attn.c_attn.bias",
        output="h.{layer}.attn.c_proj.weight",
        output_bias="h.{layer}.attn.c_proj.bias",  # row-wise in GPT-2 itself, not in all its kin
        causal=True,
        family="GPT-2",
    ),
    _linear(
        "Llama",
        *(_LLAMA + part for part in ("q_proj", "k_proj", "v_proj", "o_proj")),
        causal=True,
        beside="rotary positions of an unknown base",
    ),
    Layout(
        query=_LENS + "W_Q",
        key=_LENS + "W_K",
        value=_LENS + "W_V",
        output=_LENS + "W_O",
        query_bias=_LENS + "b_Q",
        key_bias=_LENS + "b_K",
        value_bias=_LENS + "b_V",
        output_bias=_LENS + "b_O",
        convention="row",
        family="TransformerLens",
    ),
    *(
        Layout(
            qkv=stem + "in_proj_weight",
            qkv_bias=stem + "in_proj_bias",
            output=stem + "out_proj.weight",
            output_bias=stem + "out_proj.bias",
            convention="column",
            family="nn.MultiheadAttention",
        )
        for stem in ("layers.{layer}.self_attn.", "")
    ),
    *(
        Layout(
            query=stem + "W_Q",
            key=stem + "W_K",
            value=stem + "W_V",
            output=stem + "W_O",
            query_bias=stem + "b_Q",
            key_bias=stem + "b_K",
            value_bias=stem + "b_V",
            output_bias=stem + "b_O",
            family="W_Q, W_K, W_V, W_O",
        )
        for stem in ("layers.{layer}.", "")
    ),
)

_KINDS: dict[str, Kinds] = {
    "BERT": kinds.BERT,
    "DistilBERT": kinds.DISTILBERT,
    "GPT-2": kinds.GPT2,
    "Llama": kinds.LLAMA,
}


def recognise(weights: Weights) -> Layout:
    """The layout of a file by the names in it; raises `InvalidArgument` if there is none, or two."""
    for family in FAMILIES:
        found = layers_of(family.first, weights)
        if not found:
            continue
        if (
            len(found) > 1 and family.key
        ):  # a part whose output has another name is of another family
            keys, outputs = layers_of(family.key, weights), layers_of(family.output, weights)
            found = {x: y for x, y in found.items() if x in outputs or x not in keys} or found
        if len(found) > 1:
            places = ", ".join(repr(prefix) for prefix in sorted(found))
            told = f"given: {family.family} attention is there under several prefixes, {places}"
            raise InvalidArgument("mapping", None, told)
        (prefix,) = found
        layout = replace(family.with_prefix(prefix), layers=found[prefix])
        layout = _grouped_lens(layout, weights)
        layout = replace(layout, layers=every_layer(layout, weights))
        return configured(layout, weights, _KINDS.get(layout.family, {}))
    some = ", ".join(list(weights)[:4])
    raise InvalidArgument(
        "mapping",
        None,
        f"given for {weights.path}, whose names belong to no known family ({some}, ...)",
    )


def _grouped_lens(layout: Layout, weights: Weights) -> Layout:
    """TransformerLens writes keys and values of groups with an underscore in front."""
    if layout.family != "TransformerLens":
        return layout
    changed: dict[str, Any] = {}
    for name in ("key", "value", "key_bias", "value_bias"):
        stem, dot, last = getattr(layout, name).rpartition(".")
        if f"{stem}.{'_'}{last}".replace("{layer}", str(layout.layers[0])) in weights:
            changed[name] = f"{stem}{dot}_{last}"
    rotary = f"blocks.{layout.layers[0]}.attn.rotary_sin"
    if any(name.endswith(rotary) for name in weights):
        changed["beside"] = "rotary positions of an unknown base"
    return replace(layout, **changed)
