"""Every model type of `transformers` that is read, and many that are not, against the models
themselves: tiny ones of random weights, what enters their attention and what leaves it.

The guide `docs/guides/reading-checkpoints` lists the types and the versions of the last comparison.
"""

import re
from pathlib import Path

import numpy as np
import pytest

import attnlab as al
from attnlab.checkpoints import kinds

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LENGTH, LAYERS = 9, 3
PLACES = {
    "BERT": (r"(.*\.)?encoder\.layer\.(\d+)\.attention", "self", "output.dense"),
    "DistilBERT": (r"(.*\.)?transformer\.layer\.(\d+)\.attention", "", "out_lin"),
    "GPT-2": (r"(.*\.)?h\.(\d+)\.attn", "", "c_proj"),
    "Llama": (r"(.*\.)?layers\.(\d+)\.self_attn", "", "o_proj"),
}
SIZES = {
    "vocab_size": 40,
    "hidden_size": 32,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "intermediate_size": 16,
    "max_position_embeddings": 64,
}
GPT = {"vocab_size": 40, "n_embd": 32, "n_layer": LAYERS, "n_head": 4, "n_positions": 64}
DISTIL = {"vocab_size": 40, "dim": 32, "n_layers": LAYERS, "n_heads": 4, "hidden_dim": 16}
LLAMA = SIZES | {"num_key_value_heads": 2, "head_dim": 8}
EVERY = {"BERT": SIZES, "DistilBERT": DISTIL, "GPT-2": GPT, "Llama": LLAMA}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
# What some types need besides to be small.
FEW = {"moe_intermediate_size": 8, "shared_expert_intermediate_size": 8, "num_experts_per_tok": 1}
FEW |= {"num_local_experts": 2, "num_experts": 2, "n_routed_experts": 2, "moe_num_experts": 2}
NEEDS = {
    "decision_transformer": {"hidden_size": 32, "state_dim": 3, "act_dim": 2},
    "dpr": {"projection_dim": 0},
    "electra": {"embedding_size": 16},
    "rembert": {"input_embedding_size": 16},
    "roc_bert": {"pronunciation_vocab_size": 40, "shape_vocab_size": 40},
    "visual_bert": {"visual_embedding_dim": 16},
    "xmod": {"default_language": "en_XX"},
    **dict.fromkeys(
        ("mixtral", "phimoe", "qwen2_moe", "granitemoe", "granitemoeshared", "solar_open"), FEW
    ),
    **dict.fromkeys(("glm4_moe", "ernie4_5_moe"), FEW),
}
PLAIN = {"rope_type": "default", "rope_theta": 50.0}
CLIP = {"model_type": "clip_vision_model", "hidden_size": 32, "num_hidden_layers": 2}
CLIP |= {"num_attention_heads": 4, "intermediate_size": 16, "image_size": 8, "patch_size": 4}
PIXTRAL = CLIP | {"model_type": "pixtral", "head_dim": 8}
TUPLES = {"model_type": "internvl_vision", "image_size": [8, 8], "patch_size": [4, 4]}
WINDOWED = LLAMA | {"model_type": "mistral", "sliding_window": 4}

READ = [(family, kind, {}) for family, known in (
    ("BERT", kinds.BERT), ("DistilBERT", kinds.DISTILBERT),
    ("GPT-2", kinds.GPT2), ("Llama", kinds.LLAMA),
) for kind in known if kind not in ("gemma2", "vaultgemma")]  # fmt: skip
READ += [
    *(("BERT", kind, {"is_decoder": True}) for kind in kinds.BERT if kind != "dpr"),
    ("GPT-2", "gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    ("GPT-2", "gpt2", {"scale_attn_weights": False}),
    ("GPT-2", "gpt_bigcode", {"multi_query": False}),
    ("Llama", "llama", {"attention_bias": True, "rope_parameters": PLAIN}),
    ("Llama", "granite", {"attention_multiplier": 0.3}),
    ("Llama", "hyperclovax", {"attention_multiplier": 0.3}),
    ("Llama", "mistral", {"sliding_window": 4}),
    ("Llama", "mixtral", {"sliding_window": 3}),
    ("Llama", "starcoder2", {"sliding_window": 4}),
    ("Llama", "qwen2", {"sliding_window": 4, "use_sliding_window": True, "max_window_layers": 1}),
    ("Llama", "stablelm", {"rope_parameters": PLAIN | {"partial_rotary_factor": 0.5}}),
    ("Llama", "glm", {"rope_parameters": PLAIN | {"partial_rotary_factor": 0.25}}),
    (
        "Llama",
        "gemma2",
        {"attn_logit_softcapping": None, "sliding_window": 4, "query_pre_attn_scalar": 20},
    ),
    ("Llama", "vaultgemma", {"attn_logit_softcapping": None, "sliding_window": 4}),
    ("Llama", "llava", {"text_config": LLAMA | {"model_type": "llama"}, "vision_config": CLIP}),
    ("Llama", "llava_next", {"text_config": WINDOWED, "vision_config": CLIP}),
    ("Llama", "mistral3", {"text_config": WINDOWED, "vision_config": PIXTRAL}),
    (
        "Llama",
        "internvl",
        {"text_config": LLAMA | {"model_type": "qwen2"}, "vision_config": CLIP | TUPLES},
    ),
]
# Types with the names of a family and another attention, or settings that are not known.
REFUSED = [
    *(
        ("BERT", kind, {})
        for kind in (
            *("big_bird", "canine", "convbert", "longformer", "mobilebert", "nystromformer"),
            *("roformer", "xlm-roberta-xl", "yoso"),
        )
    ),
    ("BERT", "bert", {"position_embedding_type": "relative_key"}),
    *(
        ("Llama", kind, {})
        for kind in (
            *("apertus", "bitnet", "cohere2", "diffllama", "gemma2", "gemma3_text", "gpt_oss"),
            *("minimax", "nanochat", "olmo2", "olmo3", "qwen3", "smollm3", "vaultgemma"),
        )
    ),
    ("Llama", "olmo", {"clip_qkv": 0.5}),
    ("Llama", "cohere", {"use_qk_norm": True}),
    ("Llama", "stablelm", {"qk_layernorm": True}),
    ("Llama", "llama", {"sliding_window": 4}),
    ("Llama", "llama", {"is_causal": False}),
    ("Llama", "llama", {"rope_parameters": PLAIN | {"partial_rotary_factor": 0.5}}),
    ("Llama", "mistral", {"sliding_window": 4, "layer_types": ["full_attention"] * LAYERS}),
    ("Llama", "llama", {"rope_parameters": PLAIN | {"rope_type": "linear", "factor": 2.0}}),
    ("Llama", "llava", {"text_config": LLAMA | {"model_type": "qwen3"}, "vision_config": CLIP}),
]


def name_of(case):
    return f"{case[1]}{'' if not case[2] else ' ' + ' '.join(case[2])}"


def random_model(family, kind, settings):
    """A tiny model with weights and biases large enough to matter."""
    config = transformers.models.auto.configuration_auto.CONFIG_MAPPING[kind]
    wrapped = "text_config" in settings
    sizes = {} if wrapped else EVERY[family] | TOKENS | NEEDS.get(kind, {})
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(
        config(**sizes | settings), attn_implementation="eager"
    )
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def watched(model, places):
    """What enters each attention, and what leaves its output projection, for one sentence."""
    pattern, entry, projection = places
    seen = {}

    def enters(layer):
        def hook(_, args, kwargs):
            seen["in", layer] = (args[0] if args else kwargs["hidden_states"]).detach()[0].numpy()

        return hook

    def leaves(layer):
        def hook(_, args, out):
            seen["out", layer] = out.detach()[0].numpy()

        return hook

    for name, module in model.named_modules():
        found = re.fullmatch(pattern, name)
        if found is None or not any(n == projection for n, _ in module.named_modules()):
            continue
        layer, first = int(found[2]), module.get_submodule(entry)
        first.register_forward_pre_hook(enters(layer), with_kwargs=True)
        module.get_submodule(projection).register_forward_hook(leaves(layer))
    with torch.no_grad():
        ids = torch.arange(3, 3 + LENGTH)[None]
        if model.config.model_type == "decision_transformer":
            states = {"inputs_embeds": torch.randn(1, LENGTH, 32)}
            model.encoder(**states)
        else:
            model(input_ids=ids)
    return seen


@pytest.mark.parametrize("case", READ, ids=name_of)
def test_types_that_are_read(tmp_path, case):
    family = case[0]
    model = random_model(*case)
    model.save_pretrained(tmp_path)
    seen = watched(model, PLACES[family])
    circuits = al.circuits.load(tmp_path)
    assert circuits.family == family
    assert len(circuits) == LAYERS
    for layer in circuits:
        expected = seen["out", layer.layer]
        size = np.abs(expected).max()
        assert size > 0.1
        found = layer.attend(seen["in", layer.layer])
        np.testing.assert_allclose(found, expected, atol=1e-5 * max(size, 1.0))


# Types of no family, which a mapping describes: settings, names, and what names do not tell.
NEOX = "layers.{layer}.attention.query_key_value", "layers.{layer}.attention.dense"
FALCON = "h.{layer}.self_attention.query_key_value", "h.{layer}.self_attention.dense"
PHI = "layers.{layer}.self_attn.qkv_proj", "layers.{layer}.self_attn.o_proj"
SUMS = ["parallel_attn", "num_ln_in_parallel_attn"]  # where the layer is added
TURNED = {"rotary_pairs": "halves", "rotary": 10000.0}
MAPPED = [
    (
        "gpt_neox",
        SIZES | {"rope_parameters": PLAIN | {"partial_rotary_factor": 0.5}},
        NEOX,
        {"qkv_order": "heads", "rotary": 50.0, "rotary_pairs": "halves", "rotary_share": 0.5},
    ),
    (
        "falcon",
        SIZES | {"multi_query": True, "alibi": False, "new_decoder_architecture": False},
        FALCON,
        TURNED | {"qkv_order": "heads", "kv_heads": 1, "ignored": SUMS},
    ),
    (
        "falcon",
        SIZES | {"new_decoder_architecture": True, "num_kv_heads": 2, "alibi": False},
        FALCON,
        TURNED | {"qkv_order": "heads", "kv_heads": 2, "ignored": SUMS},
    ),
    (
        "phi3",
        LLAMA | {"sliding_window": 4},
        PHI,
        TURNED | {"qkv_order": "parts", "kv_heads": 2, "window": 4},
    ),
]


@pytest.mark.parametrize("case", MAPPED, ids=lambda case: f"{case[0]} {case[3].get('kv_heads')}")
def test_types_that_a_mapping_describes(tmp_path, case):
    kind, settings, (fused, output), told = case
    model = random_model("BERT", kind, settings)
    model.save_pretrained(tmp_path)
    names = {"qkv": f"{fused}.weight", "output": f"{output}.weight"}
    present = al.checkpoints.read_weights(tmp_path)
    for key, stem in (("qkv_bias", fused), ("output_bias", output)):
        if f"{stem}.bias".replace("{layer}", "0") in present:
            names[key] = f"{stem}.bias"
    mapping = names | {"convention": "column", "heads": 4, "causal": True} | told
    place, _, last = output.rpartition(".")
    seen = watched(model, (rf"(.*\.)?{place}".replace("{layer}", r"(\d+)"), "", last))
    for layer in al.circuits.load(tmp_path, mapping=mapping):
        expected = seen["out", layer.layer]
        size = np.abs(expected).max()
        assert size > 0.1
        found = layer.attend(seen["in", layer.layer])
        np.testing.assert_allclose(found, expected, atol=1e-5 * max(size, 1.0))


@pytest.mark.parametrize("case", REFUSED, ids=name_of)
def test_types_that_are_refused(tmp_path, case):
    random_model(*case).save_pretrained(tmp_path)
    with pytest.raises(al.InvalidArgument, match=r"path = |self = ") as caught:
        al.circuits.load(tmp_path)[0].attend(np.ones((3, 32)))
    words = [case[1], *case[2], *(str(x) for x in case[2].values()), "beside its projections"]
    words += ["a cap on the logits", "linear", "partial_rotary_factor", "qwen3"]
    assert any(word in str(caught.value) for word in words)


def test_the_guide_lists_the_types_and_the_versions():
    guide = Path(__file__).parents[2] / "docs/guides/reading-checkpoints.md"
    text = guide.read_text("utf-8")
    for known in (kinds.BERT, kinds.DISTILBERT, kinds.GPT2, kinds.LLAMA, kinds.WRAPPERS):
        for kind in known:
            assert f"`{kind}`" in text, kind
    told = re.search(r"transformers (\S+) with PyTorch (\S+)", text)
    assert told is not None


@pytest.mark.parametrize("known", [kinds.BERT, kinds.GPT2, kinds.LLAMA])
def test_defaults_are_those_of_the_classes(known):
    """They stand for what a configuration leaves out."""
    facts = ("layer_types", "is_causal", "rotary_pairs")
    compared = 0
    for kind, defaults in known.items():
        config = transformers.models.auto.configuration_auto.CONFIG_MAPPING[kind]().to_dict()
        config |= config.get("rope_parameters") or {}
        for key, value in defaults.items():
            unused = key == "sliding_window" and "use_sliding_window" in defaults
            computed = key == "attention_multiplier" and value is None  # from the head's dimension
            if key in config and key not in facts and not unused and not computed:
                assert config[key] == value, (kind, key)
                compared += 1
    assert compared > 0 or known is kinds.BERT  # whose keys its classes no longer have
