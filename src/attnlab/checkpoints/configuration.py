"""What a `config.json` says about attention: every key of it is used, or stands in the way.

Source: the configurations and models of `transformers`, compared with in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from .._core.errors import InvalidArgument
from .entry import refuse
from .kinds import SOME_LAYERS, WRAPPERS, Kinds
from .layout import Layout
from .weights import Weights

_HEADS = ("num_attention_heads", "n_heads", "n_head")
# A key with such a word may change scores or values. One that is neither used for the type at hand
# nor known to change nothing has to be empty.
_TELLING = re.compile(
    r"attn|attention|rope|rotary|qk|kv|query|queries|\bkey|_keys?\b|value|window|softcap|clip|head"
    r"|alibi|sink|causal|bidirectional|layer_types|scale|scaling|multiplier|position|relative|lora",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"\w*(dropout|_drop|pdrop)(_prob|_ratio)?|_?\w*attn_implementation\w*|\w*softmax_in_fp32|\w*_token_id"
    r"|(attention|attention_out|qkv|use_qkv|lm_head|use|mlp)_bias|n_positions|max_position_embeddings"
    r"|output_attentions|reorder_and_upcast_attn|add_cross_attention|cross_attention_hidden_size"
    r"|sinusoidal_pos_embds|(embedding|residual)_multiplier|logits_scaling|logit_scale|routed_scaling_factor"
    r"|final_logit_softcapping|prediction_head_size|scale_embeddings?|mlp_layer_types|max_2d_position_embeddings"
    r"|keys_to_ignore_at_inference|num_attention_layers|classifier_dropout|summary_\w+|rms_norm_eps"
)
# Of these even False says something.
_STATING = re.compile(
    r"(use_|with_|apply_)?(rope|rotary)|(is_|use_)?causal\w*|\w*attn_scal\w*|scale_attn\w*"
)
_ROPE = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
_EMPTY: tuple[Any, ...] = (None, False, [], {})


def configured(layout: Layout, weights: Weights, kinds: Kinds) -> Layout:
    """`layout` with what the configuration says. Raises `InvalidArgument` for a model type that is
    not among `kinds`, and for a key that changes scores or values in a way that is not known."""
    config = _part(weights, kinds)
    if not config:
        return layout
    kind = config.get("model_type")
    if kind is not None and not _known(config, kinds):
        allowed = f"of a model type that has such names and whose attention is known, not {kind!r}"
        raise _refused(weights, allowed)
    defaults: dict[str, Any] = {}
    for known in kinds.values() if kind is None else (kinds[kind],):
        defaults |= known if kind is not None else dict.fromkeys(known)
    read = _Reader(weights, config, defaults)
    told: dict[str, Any] = {
        "heads": read.whole(*_HEADS),
        "kv_heads": read.whole("num_key_value_heads"),
        "head_dim": read.whole("head_dim"),
        "causal": _causal(read, layout),
        "by_layer": bool(read.flag("scale_attn_by_inverse_layer_idx")),
        "scale": _scale(read),
    }
    if read.known("multi_query"):
        many = read.flag("multi_query") is False
        told |= {"order": "heads"} if many else {"kv_heads": 1}
    window = _window(read, layout)
    told |= window or {}
    beside = _positions(read, kind) if layout.family == "Llama" else {"beside": None}
    read.used.add("attn_logit_softcapping")
    caps = ["a cap on the logits"] if read.value("attn_logit_softcapping") else []
    if window is None:
        caps.append(f"positions of the kind {kind}, windows of layers that are not told")
    if layout.family == "BERT" and read.value("position_embedding_type") not in (None, "absolute"):
        caps.append(f"positions of type {read.value('position_embedding_type')}")
    told |= beside | {"beside": "; ".join(filter(None, (*caps, beside["beside"])))}
    _check_others(read)
    return replace(layout, **{name: value for name, value in told.items() if value is not None})


# What a mapping says, and the keys of a configuration that it answers.
_ANSWERS = {
    "heads": r"num_attention_heads|n_heads?|num_heads",
    "kv_heads": r"num_key_value_heads|num_kv_heads|n_head_kv|multi_query",
    "head_dim": r"head_dim",
    "scale": r"\w*scal\w*|attention_multiplier",
    "qkv_order": r"multi_query|new_decoder_architecture",
    "rotary": r"\w*(rope|rotary|position)\w*",
    "window": r"\w*window\w*|layer_types",
    "causal": r"\w*causal\w*|is_decoder",
    "beside": r"\w*(rope|rotary|position|alibi|relative|softcap)\w*",
}


def check_answered(weights: Weights, said: Collection[str], ignored: Collection[str]) -> None:
    """Raises `InvalidArgument` for a key of the configuration that may change scores or values and
    that a mapping with the keys `said` does not answer; `ignored` names keys that change nothing."""
    read = _Reader(weights, weights.config, {})
    told = [pattern for name, pattern in _ANSWERS.items() if name in said]
    read.used |= {key for key in read.config if any(re.fullmatch(x, key) for x in told)}
    read.used |= {*ignored, *_HEADS, "num_key_value_heads", "head_dim"}
    _check_others(read, "; the mapping can answer it, or list it under ignored")


class _Reader:
    """Values of a configuration with its type's defaults; remembers which keys were asked for."""

    def __init__(self, weights: Weights, config: Mapping[str, Any], defaults: Mapping[str, Any]):
        self.weights, self.config, self.defaults = weights, config, defaults
        self.used = {"model_type"}

    def known(self, key: str) -> bool:
        """Whether models of this type read the key, and there is anything to read."""
        return key in self.defaults and self.value(key) is not None

    def value(self, key: str) -> Any:
        """The value, or the type's default; None also for a key that models of this type ignore."""
        if key in self.defaults:
            self.used.add(key)
            return self.config.get(key, self.defaults[key])
        return self.config.get(key) if key in self.used else None

    def whole(self, *keys: str) -> int | None:
        """What `keys`, which mean the same, say: a positive whole number."""
        self.used.update(keys)
        found: int | None = None
        for key in keys:
            value = self.config.get(key, self.defaults.get(key))
            if value is None:
                continue
            whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
            if not whole or found not in (None, value):
                raise self.unsound(key, value)
            found = value
        return found

    def positive(self, key: str) -> float | None:
        """A positive number."""
        value = self.value(key)
        if value is None:
            return None
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value < 1e300:  # whole numbers in JSON have no end
            raise self.unsound(key, value)
        return float(value)

    def flag(self, key: str) -> bool | None:
        """A boolean."""
        value = self.value(key)
        if value is not None and not isinstance(value, bool):
            raise self.unsound(key, value)
        return value

    def unsound(self, key: str, value: Any) -> InvalidArgument:
        return _refused(self.weights, f"of a sound config.json; there {key} = {value!r}")


def _part(weights: Weights, kinds: Kinds) -> Mapping[str, Any]:
    """The configuration of the part that the attention belongs to: of models that are made of several
    the one whose type is known."""
    config: Mapping[str, Any] = weights.config
    kind = config.get("model_type")
    if _known(config, kinds) or (kind is not None and kind not in WRAPPERS):
        return config
    parts = [x for x in config.values() if isinstance(x, Mapping) and _known(x, kinds)]
    if len(parts) == 1 and not any(key in config for key in _HEADS):
        return parts[0]
    if kind in WRAPPERS:
        types = [repr(x.get("model_type")) for x in config.values() if isinstance(x, Mapping)]
        allowed = "with one part that has such names and whose attention is known"
        raise _refused(weights, f"of a {kind} {allowed}, not {', '.join(types)}")
    return config


def _known(config: Mapping[str, Any], kinds: Kinds) -> bool:
    kind = config.get("model_type")
    return isinstance(kind, str) and kind in kinds


def _causal(read: _Reader, layout: Layout) -> bool | None:
    if read.flag("is_decoder"):
        return True
    causal = read.defaults.get("is_causal", layout.causal)
    read.used.add("is_causal")
    if read.config.get("is_causal") not in (None, causal):
        raise read.unsound("is_causal", read.config["is_causal"])
    return causal


def _scale(read: _Reader) -> float | None:
    """The factor of the logits where it is not that of the head's dimension."""
    if read.flag("scale_attn_weights") is False:
        return 1.0
    if (factor := read.positive("attention_multiplier")) is not None:
        return factor
    base = read.positive("query_pre_attn_scalar")
    return None if base is None else base**-0.5


def _window(read: _Reader, layout: Layout) -> dict[str, Any] | None:
    """How far a token sees, and in which layers; None where some have a window and it is not told
    which."""
    if "sliding_window" not in read.defaults:
        return {}
    last = read.value("max_window_layers")
    types = read.value("layer_types")
    if read.value("use_sliding_window") is False:
        read.used.add("sliding_window")
        return {}
    size = read.whole("sliding_window")
    if size is None:
        return {}
    if types == SOME_LAYERS:
        return None
    if types is not None:
        known = ("sliding_attention", "full_attention")
        sound = isinstance(types, list) and all(x in known for x in types)
        if not sound or len(types) <= max(layout.layers):
            raise read.unsound("layer_types", types)
        layers = [i for i, x in enumerate(types) if x == known[0]]
    elif last is not None:
        if isinstance(last, bool) or not isinstance(last, int):
            raise read.unsound("max_window_layers", last)
        layers = [i for i in layout.layers if i >= last]
    else:
        return {"window": size}
    return {"window": size, "window_layers": tuple(layers)}


def _positions(read: _Reader, kind: Any) -> dict[str, Any]:
    """Rotary positions of the plain kind have a base; others are told as not known here."""
    nested: dict[str, Any] = {}
    for key in ("rope_scaling", "rope_parameters"):
        value = read.config.get(key)
        read.used.add(key)
        if value is not None and not isinstance(value, Mapping):
            raise read.unsound(key, value)
        nested |= value or {}
    both = {key: nested[key] for key in _ROPE if nested.get(key) is not None}
    read.config = {**read.config, **both}
    read.used |= {*_ROPE}
    name = both.get("rope_type", both.get("type", "default"))
    others = sorted(set(nested) - set(_ROPE))
    usual = read.value("position_embedding_type") in (None, "rope")
    base = read.positive("rope_theta")
    share = read.positive("partial_rotary_factor")
    if "partial_rotary_factor" not in read.defaults and share not in (None, 1.0):
        others.append("partial_rotary_factor")  # which models of this type do not read
    if kind is None or name != "default" or others or not usual or base is None:
        told = ", ".join(map(str, (name, *others)))
        return {"beside": f"positions of the kind {kind}, {told}"}
    return {
        "rotary": base,
        "rotary_share": share,
        "rotary_pairs": read.defaults.get("rotary_pairs"),
        "beside": None,
    }


def _check_others(read: _Reader, hint: str = "") -> None:
    for key, value in read.config.items():
        stating = value is False and _STATING.fullmatch(key)
        if key in read.used or not _TELLING.search(key) or (value in _EMPTY and not stating):
            continue
        if not _HARMLESS.fullmatch(key):
            told = f"there {key} = {value!r}, which may change scores or values{hint}"
            raise _refused(read.weights, f"of a config.json that says nothing unknown; {told}")


def _refused(weights: Weights, allowed: str) -> InvalidArgument:
    return refuse(weights.path, allowed)
