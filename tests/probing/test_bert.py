"""BERT in JAX: against plain NumPy, against PyTorch's numbers, and what it refuses."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy.special import erf

import attnlab as al
from attnlab.probing import bundled_model, embed, load_encoder, sentiment_sentences
from attnlab.probing.embeddings import batches
from attnlab.probing.tokens import padded


def reference(folder, ids):
    """Hidden states and attention of one unpadded sentence, in float64, head by head."""
    w = {name: value.astype(np.float64) for name, value in load_file(folder / "model.safetensors").items()}  # fmt: skip
    heads = json.loads((folder / "config.json").read_text())["num_attention_heads"]

    def norm(x, name):
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-12)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    h = w["embeddings.word_embeddings.weight"][list(ids)]
    h = h + w["embeddings.position_embeddings.weight"][: len(ids)]
    h = norm(h + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    states, maps = [h], []
    layer = 0
    while f"encoder.layer.{layer}.output.dense.weight" in w:
        at = f"encoder.layer.{layer}."
        q, k, v = (linear(h, f"{at}attention.self.{part}") for part in ("query", "key", "value"))
        size = h.shape[1] // heads
        mixed, first = [], []
        for head in range(heads):
            cut = slice(head * size, (head + 1) * size)
            scores = np.exp(q[:, cut] @ k[:, cut].T / np.sqrt(size))
            p = scores / scores.sum(1, keepdims=True)
            mixed.append(p @ v[:, cut])
            first.append(p[0])
        a = norm(h + linear(np.hstack(mixed), f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm")  # fmt: skip
        u = linear(a, f"{at}intermediate.dense")
        inner = u * (1 + erf(u / np.sqrt(2))) / 2
        h = norm(a + linear(inner, f"{at}output.dense"), f"{at}output.LayerNorm")
        states.append(h)
        maps.append(first)
        layer += 1
    return np.array(states), np.array(maps)


def test_hidden_states_and_attention_are_those_of_the_formulas(small_bert):
    encoder = load_encoder(small_bert)
    sentences = sentiment_sentences(6, seed=2)
    tokens = encoder.tokens.encode(sentences.texts, max_length=64)
    length = max(len(one.ids) for one in tokens) + 3
    ids, mask = padded(tokens, length)
    everything = np.broadcast_to(np.eye(length), (6, length, length))
    reading = encoder.read(ids, mask, everything)
    assert reading.states.shape == (3, 6, length, 12)
    for row, one in enumerate(tokens):
        states, maps = reference(small_bert, one.ids)
        count = len(one.ids)
        np.testing.assert_allclose(reading.states[:, row, :count], states, atol=2e-5)
        found = np.exp(reading.log_attention[:, row])
        np.testing.assert_allclose(found[..., :count], maps, atol=1e-5)
        assert not found[..., count:].any()


def test_embeddings_do_not_depend_on_padding_or_batches(small_bert):
    encoder = load_encoder(small_bert)
    sentences = sentiment_sentences(30, seed=0)
    one, other = (embed(encoder, sentences, batch_size=size) for size in (7, 64))
    np.testing.assert_allclose(one.embedding, other.embedding, atol=1e-5)
    tokens = encoder.tokens.encode(sentences.texts, max_length=64)
    kept = [row for rows, _, _ in batches(tokens, 7, 64) for row in rows]
    assert sorted(kept) == list(range(30))
    # the four places, of one sentence
    states, _ = reference(small_bert, tokens[3].ids)
    places = tokens[3].places(*sentences.informative[3])
    wanted = [states[:, 0], states[:, places].mean(1), None, states.mean(1)]
    for name, value in zip(one.place.values, wanted):
        if value is not None:
            found = one.embedding.sel(sentence=3, place=name)
            np.testing.assert_allclose(found, value, atol=2e-5)
    assert tokens[3].ids[places[0]] == encoder.tokens.encode([sentences.words[3]], max_length=64)[0].ids[1]  # fmt: skip


def test_the_real_bert_gives_the_numbers_of_pytorch():
    # transformers 5.24 on PyTorch 2.13: the first three features of [CLS] in every layer, and the
    # attention from [CLS] to the fourth token of two heads in every layer
    states = [
        [-0.1765674650669098, -0.04823637753725052, 0.03769821301102638],
        [-0.0032178612891584635, -0.017668342217803, -0.015405719168484211],
        [-0.041531942784786224, 0.011907926760613918, -0.013177094049751759],
        [-0.01887371577322483, -0.012152822688221931, -0.013564430177211761],
        [-0.0033170655369758606, 0.002865286311134696, -0.005121251102536917],
        [-0.0129650067538023, 0.013921617530286312, 2.794681449813652e-06],
        [0.3846493065357208, 0.2837790846824646, 0.41522011160850525],
    ]
    attention = [
        [0.01900210790336132, 0.015266750939190388],
        [0.0016384160844609141, 0.0020393510349094868],
        [0.00172825763002038, 0.0008718731696717441],
        [0.002737404778599739, 0.0017586533213034272],
        [0.010043212212622166, 0.0017455816268920898],
        [0.03292679414153099, 0.14521755278110504],
    ]
    encoder = load_encoder(bundled_model())
    assert (encoder.n_layers, encoder.n_heads, encoder.width) == (6, 12, 384)
    tokens = encoder.tokens.encode(["the nice house was shown on the map."], max_length=512)
    ids, mask = padded(tokens, 16)
    select = np.zeros((1, 1, 16))
    select[0, 0, 0] = 1
    found = encoder.read(ids, mask, select)
    np.testing.assert_allclose(found.states[:, 0, 0, :3], states, atol=1e-5)
    np.testing.assert_allclose(np.exp(found.log_attention[:, 0, :2, 3]), attention, rtol=1e-4)


def test_untrained_is_as_bert_begins(small_bert):
    encoder = load_encoder(small_bert)
    sentences = sentiment_sentences(10, seed=0)
    one, again = (embed(encoder.untrained(3), sentences) for _ in range(2))
    np.testing.assert_array_equal(one.embedding, again.embedding)
    assert one.attrs["model"].endswith("untrained")
    # normalisation with scale 1 and shift 0
    first = one.embedding.sel(layer=2, place="[CLS]").values
    np.testing.assert_allclose(first.mean(1), 0, atol=1e-5)
    np.testing.assert_allclose(first.std(1), 1, atol=1e-3)


def broken(folder, tmp_path, change):
    copy = tmp_path / "model"
    shutil.copytree(folder, copy)
    change(copy)
    return copy


def edit(name, value):
    def change(folder):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, name: value}))

    return change


def weight(name, make):
    def change(folder):
        found = load_file(folder / "model.safetensors")
        found[name] = make(found[name])
        save_file({k: v for k, v in found.items() if v is not None}, folder / "model.safetensors")

    return change


_MORE = "\n".join([*map(str, range(156)), "[UNK]", "[CLS]", "[SEP]"])
_QUERY = "encoder.layer.1.attention.self.query.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (weight(_QUERY, lambda w: None), "query"),
        (weight(_QUERY, lambda w: w[:, :4].copy()), "shape"),
        (weight(_QUERY, lambda w: w * np.nan), "finite"),
        (edit("hidden_act", "square"), "hidden_act"),
        (edit("position_embedding_type", "relative_key"), "position_embedding_type"),
        (edit("num_attention_heads", 5), "multiple of 5"),
        (edit("num_attention_heads", 0), "num_attention_heads = 0"),
        (edit("num_hidden_layers", 10**12), "encoder.layer.2"),
        (edit("hidden_size", "many"), "hidden_size = 'many'"),
        (edit("vocab_size", None), "vocab_size = None"),
        (edit("is_decoder", True), "is_decoder"),
        (lambda folder: (folder / "vocab.txt").write_text("one\ntwo\n"), "vocab.txt"),
        (lambda folder: (folder / "vocab.txt").write_text(_MORE), "knows 156 tokens"),
        (lambda folder: (folder / "vocab.txt").unlink(), "vocab.txt"),
        (lambda folder: (folder / "config.json").write_text("{"), "JSON"),
        (lambda folder: (folder / "config.json").unlink(), "config.json"),
    ],
)
def test_broken_models_are_refused(small_bert, tmp_path, change, message):
    with pytest.raises(al.InvalidArgument, match=message):
        load_encoder(broken(small_bert, tmp_path, change))


def test_sentences_that_are_too_long_are_refused_and_not_cut(small_bert):
    encoder = load_encoder(small_bert)
    with pytest.raises(al.InvalidArgument, match="at most 20 tokens"):
        encoder.tokens.encode(sentiment_sentences(20, seed=0).texts, max_length=20)


@pytest.mark.parametrize("seen", [[0, 1, 1, 1], [1, 0, 1, 1], [0, 0, 0, 0]])
def test_padding_that_is_not_at_the_end_is_refused(small_bert, seen):
    encoder = load_encoder(small_bert)
    ids, select = np.array([[2, 7, 8, 3]]), np.eye(4)[None]
    for mask in (np.array([seen], bool), np.array([[1, 1, 1, 0]])):
        with pytest.raises(al.InvalidArgument, match="mask"):
            encoder.read(ids, mask, select)
