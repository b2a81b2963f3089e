"""Encoders run by `transformers`, where it is installed (extra `bert`)."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

import attnlab as al
from attnlab.probing import attention_to_words, embed, load_encoder, sentiment_sentences

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def saved(model, small_bert, tmp_path):
    model.save_pretrained(tmp_path)
    shutil.copy(small_bert / "vocab.txt", tmp_path)
    return tmp_path


def size(small_bert):
    return json.loads((small_bert / "config.json").read_text())["vocab_size"]


def test_bert_in_jax_is_bert_in_pytorch(small_bert, tmp_path):
    from attnlab.probing.transformers_encoder import TransformersEncoder

    (config := json.loads((small_bert / "config.json").read_text())).pop("model_type")
    model = transformers.BertModel(transformers.BertConfig(**config))
    folder = saved(model, small_bert, tmp_path)
    sentences = sentiment_sentences(20, seed=0)
    ours, theirs = load_encoder(folder), TransformersEncoder(folder)
    np.testing.assert_allclose(
        embed(ours, sentences).embedding, embed(theirs, sentences).embedding, atol=1e-5
    )
    one, two = (attention_to_words(encoder, sentences) for encoder in (ours, theirs))
    for name in ("mass", "gap", "bulk_std", "participation"):
        np.testing.assert_allclose(one[name], two[name], rtol=1e-3, atol=1e-5)


def test_other_encoders_are_read_and_decoders_refused(small_bert, tmp_path):
    common = {"vocab_size": size(small_bert)}
    config = transformers.DistilBertConfig(**common, dim=12, n_layers=3, n_heads=2, hidden_dim=16)
    folder = saved(transformers.DistilBertModel(config), small_bert, tmp_path / "distil")
    encoder = load_encoder(folder)
    ds = embed(encoder, sentiment_sentences(10, seed=0))
    assert ds.embedding.sizes == {"layer": 4, "sentence": 10, "place": 4, "feature": 12}
    first = ds.embedding.sel(layer=0, place="[CLS]")
    assert float(abs(first - first[0]).max()) < 1e-6
    once, again = (embed(encoder.untrained(1), sentiment_sentences(10, seed=0)) for _ in range(2))
    np.testing.assert_array_equal(once.embedding, again.embedding)
    ends = {"bos_token_id": 2, "eos_token_id": 3}
    config = transformers.GPT2Config(**common, **ends, n_embd=12, n_layer=2, n_head=2)
    folder = saved(transformers.GPT2Model(config), small_bert, tmp_path / "decoder")
    with pytest.raises(al.InvalidArgument, match="encoder, whose tokens see all others"):
        load_encoder(folder)
    # weights that are missing would be drawn at random
    config = transformers.DistilBertConfig(**common, dim=12, n_layers=2, n_heads=2, hidden_dim=16)
    shallow = transformers.DistilBertModel(config).state_dict()
    folder = tmp_path / "distil"
    save_file({k: v.numpy().copy() for k, v in shallow.items()}, folder / "model.safetensors")
    with pytest.raises(al.InvalidArgument, match=r"layer\.2.* is missing"):
        load_encoder(folder)
