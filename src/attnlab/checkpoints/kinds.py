"""The model types whose attention is known, family by family, and what their classes assume.

A `config.json` leaves out what equals its class's default, so that the defaults belong here. A type
that is not listed is refused: it may have the same names and another attention. Each one is compared
with the model itself in `tests/circuits/test_model_types.py`; the guide says when that was last done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# For each model type the keys that only some types read, with their defaults; `rotary_pairs` and
# `is_causal`, where it differs from the family's, are no keys but facts.
Kinds = Mapping[str, Mapping[str, Any]]

SOME_LAYERS = "some layers"  # have a window, and only the configuration tells which

_ROTARY = {"rope_theta": 10000.0}
_WINDOW = {"sliding_window": None}
_QWEN = _ROTARY | _WINDOW | {"use_sliding_window": False, "max_window_layers": 28}
_QWEN |= {"layer_types": None}
_GRANITE = _ROTARY | {"attention_multiplier": 1.0, "position_embedding_type": "rope"}
_GLM = _ROTARY | {"partial_rotary_factor": 0.5, "rotary_pairs": "neighbours"}


def _alike(names: str, defaults: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return dict.fromkeys(names.split(), defaults)


BERT: Kinds = {
    **_alike(
        "bert bert-generation camembert data2vec-text dpr electra ernie rembert roberta roc_bert "
        "xlm-roberta xmod",
        {"position_embedding_type": "absolute", "is_decoder": False},
    ),
    **_alike("layoutlm markuplm splinter visual_bert", {"position_embedding_type": "absolute"}),
}
DISTILBERT: Kinds = {"distilbert": {}}
GPT2: Kinds = {
    **_alike(
        "gpt2 gpt-sw3 decision_transformer imagegpt",
        {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False},
    ),
    "openai-gpt": {},
    "gpt_bigcode": {"scale_attn_weights": True, "multi_query": True},
}
LLAMA: Kinds = {
    **_alike("llama arcee aria_text gemma internlm3 iquestcoder jais2 seed_oss", _ROTARY),
    "solar_open": {"rope_theta": 1e6},
    "hyperclovax": _ROTARY | {"attention_multiplier": None},
    "mistral": _ROTARY | _WINDOW | {"sliding_window": 4096},
    **_alike("mixtral phimoe", _WINDOW | {"rope_theta": 1e6}),
    **_alike("qwen2 qwen2_moe", _QWEN),
    "starcoder2": _ROTARY | _WINDOW,
    **_alike(
        "gemma2 vaultgemma",
        _ROTARY
        | {"query_pre_attn_scalar": 256, "attn_logit_softcapping": 50.0}
        | {"sliding_window": 4096, "layer_types": SOME_LAYERS},
    ),
    **_alike("granite granitemoe granitemoeshared", _GRANITE),
    "cohere": {"rope_theta": 500000.0, "rotary_pairs": "neighbours"},
    **_alike("glm glm4", _GLM),
    "helium": {"rope_theta": 100000.0, "rotary_pairs": "neighbours"},
    "ernie4_5": {"rope_theta": 500000.0, "rotary_pairs": "neighbours"},
    "ernie4_5_moe": {"rope_theta": 500000.0, "rotary_pairs": "neighbours"},
    "glm4_moe": _ROTARY | {"partial_rotary_factor": 0.5},
    "stablelm": _ROTARY | {"partial_rotary_factor": 0.25},
    "olmo": _ROTARY,
    "eurobert": _ROTARY | {"is_causal": False},
}
# Models of several parts, one of which has a type above, under a key of its own.
WRAPPERS = ("internvl", "llava", "llava_next", "mistral3")
