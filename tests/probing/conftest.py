"""A small BERT of random weights in a directory of its own."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from attnlab.probing import lexicon

WIDTH, HEADS, LAYERS, INNER, LONGEST = 12, 3, 2, 20, 64


def words():
    every = [*lexicon.POSITIVE, *lexicon.NEGATIVE, *lexicon.NEUTRAL, *lexicon.NOUNS]
    for text in (*lexicon.CLAUSES, *lexicon.CONNECTORS):
        every += text.split()
    return sorted(set(every) - {"{}"})


def weights(rng, vocabulary):
    def draw(*shape):
        return rng.normal(0, 0.4, shape).astype(np.float32)

    found = {
        "embeddings.word_embeddings.weight": draw(vocabulary, WIDTH),
        "embeddings.position_embeddings.weight": draw(LONGEST, WIDTH),
        "embeddings.token_type_embeddings.weight": draw(2, WIDTH),
        "embeddings.LayerNorm.weight": 1 + draw(WIDTH),
        "embeddings.LayerNorm.bias": draw(WIDTH),
    }
    shapes = {
        "attention.self.query": (WIDTH, WIDTH),
        "attention.self.key": (WIDTH, WIDTH),
        "attention.self.value": (WIDTH, WIDTH),
        "attention.output.dense": (WIDTH, WIDTH),
        "attention.output.LayerNorm": (WIDTH,),
        "intermediate.dense": (INNER, WIDTH),
        "output.dense": (WIDTH, INNER),
        "output.LayerNorm": (WIDTH,),
    }
    for layer in range(LAYERS):
        for name, shape in shapes.items():
            place = f"encoder.layer.{layer}.{name}"
            found[f"{place}.weight"] = (len(shape) == 1) + draw(*shape)
            found[f"{place}.bias"] = draw(shape[0])
    return found


@pytest.fixture(scope="session")
def small_bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small-bert")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *words()]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "max_position_embeddings": LONGEST,
        "type_vocab_size": 2,
        "vocab_size": len(vocabulary),
        "layer_norm_eps": 1e-12,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(weights(np.random.default_rng(5), len(vocabulary)), folder / "model.safetensors")
    return folder
