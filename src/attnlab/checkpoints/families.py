"""The layouts that are recognised by their names, and what a configuration adds to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._core.errors import InvalidArgument
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

# Beside a layer's projections these make its scores or values something else than circuits say.
_FOREIGN = ("q_norm.weight", "k_norm.weight", "bias_k", "bias_v", "q_layernorm.weight")


def recognise(weights: Weights) -> Layout:
    """The layout of a file by the names in it; raises `InvalidArgument` if there is none, or two."""
    for family in FAMILIES:
        found = layers_of(family.first, weights)
        if not found:
            continue
        if len(found) > 1:
            places = ", ".join(repr(prefix) for prefix in sorted(found))
            told = f"given: {family.family} attention is there under several prefixes, {places}"
            raise InvalidArgument("mapping", None, told)
        (prefix,) = found
        layout = replace(family.with_prefix(prefix), layers=found[prefix])
        _check_foreign(weights, layout)
        layout = _grouped_lens(layout, weights)
        return _configured(replace(layout, layers=every_layer(layout, weights)), weights)
    some = ", ".join(list(weights)[:4])
    raise InvalidArgument(
        "mapping",
        None,
        f"given for {weights.path}, whose names belong to no known family ({some}, ...)",
    )


def _check_foreign(weights: Weights, layout: Layout) -> None:
    stem = layout.first.removesuffix("q_proj.weight").removesuffix("in_proj_weight")
    for layer in layout.layers[:1]:
        for name in _FOREIGN:
            full = stem.replace("{layer}", str(layer)) + name
            if full in weights:
                allowed = f"of plain bilinear attention; {full} changes queries or keys"
                raise InvalidArgument("path", str(weights.path), allowed)


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


def _configured(layout: Layout, weights: Weights) -> Layout:
    """What `config.json` says about heads, scale and positions. Raises `InvalidArgument`."""
    config: Mapping[str, Any] = weights.config
    if not config:
        return layout
    told: dict[str, Any] = {
        "heads": _whole(weights, "num_attention_heads", "n_heads", "n_head"),
        "kv_heads": _whole(weights, "num_key_value_heads"),
        "head_dim": _whole(weights, "head_dim"),
    }
    if layout.family == "BERT" and str(config.get("position_embedding_type", "absolute")) not in (
        "absolute",
        "None",
    ):
        told["beside"] = f"positions of type {config['position_embedding_type']}"
    if layout.family == "BERT" and config.get("is_decoder") is True:
        told["causal"] = True
    if layout.family == "GPT-2":
        if config.get("scale_attn_weights") is False:
            told["scale"] = 1.0
        told["by_layer"] = config.get("scale_attn_by_inverse_layer_idx") is True
    if layout.family == "Llama":
        told |= _positions(config)
        base = config.get("query_pre_attn_scalar")
        if isinstance(base, int | float) and not isinstance(base, bool) and base > 0:
            told["scale"] = base**-0.5
    if config.get("attn_logit_softcapping"):
        told["beside"] = "a cap on the logits"
    return replace(layout, **{name: value for name, value in told.items() if value is not None})


def _positions(config: Mapping[str, Any]) -> dict[str, Any]:
    """Rotary positions of the plain kind have a base; others are told as not known here."""
    nested = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(nested, Mapping):
        nested = {}
    kind = nested.get("rope_type", nested.get("type", "default"))
    base = nested.get("rope_theta", config.get("rope_theta", 10000.0))
    share = nested.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    plain = config.get("model_type") in ("llama", "mistral", "qwen2", "mixtral")
    usual = isinstance(base, int | float) and not isinstance(base, bool) and base > 0
    if plain and kind == "default" and usual and share in (1, None):
        return {"rotary": float(base), "beside": ""}
    return {"beside": f"positions of the kind {config.get('model_type')}, {kind}"}


def _whole(weights: Weights, *keys: str) -> int | None:
    for key in keys:
        value = weights.config.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            allowed = f"of a sound config.json; there {key} = {value!r}"
            raise InvalidArgument("path", str(weights.path), allowed)
        return value
    return None
