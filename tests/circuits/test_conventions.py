"""What names alone do not tell: orders of fused arrays, positions, windows, scales, and what stands
beside the projections. Expected values are computed here, token by token."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import attnlab as al

WIDTH, HEADS, DIM, LENGTH = 12, 4, 6, 7


def rng():
    return np.random.default_rng(11)


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(4).normal(size=(LENGTH, WIDTH))


def random_heads(groups=HEADS):
    """`q, k, v` as `(heads or groups, DIM, WIDTH)`, their biases, and `o` `(WIDTH, HEADS DIM)`."""
    draw = rng().normal
    w = {n: draw(size=(h, DIM, WIDTH)) / 2 for n, h in zip("qkv", (HEADS, groups, groups))}
    w |= {f"b{n}": draw(size=w[n].shape[:2]) for n in "qkv"}
    return w | {"o": draw(size=(WIDTH, HEADS * DIM)) / 2}


def angle(place, k, size, base):
    return place / base ** (2 * k / size)


def turned(vector, place, base, pairs, size):
    """One vector at one place, plane by plane."""
    out = vector.copy()
    for k in range(size // 2):
        i, j = (k, k + size // 2) if pairs == "halves" else (2 * k, 2 * k + 1)
        z = (vector[i] + 1j * vector[j]) * np.exp(1j * angle(place, k, size, base))
        out[i], out[j] = z.real, z.imag
    return out


def original(w, x, *, scale=DIM**-0.5, turn=None, window=None, causal=True):
    """Attention head by head and token by token; `turn(vector, place)`."""
    turn = (lambda vector, place: vector) if turn is None else turn
    group, heads = HEADS // len(w["k"]), []
    for h in range(HEADS):
        q, k, v = (
            x @ w[n][g].T + w[f"b{n}"][g] for n, g in zip("qkv", (h, h // group, h // group))
        )
        q, k = (np.array([turn(row, i) for i, row in enumerate(part)]) for part in (q, k))
        out = []
        for i in range(len(x)):
            first = 0 if window is None else max(0, i - window + 1)
            seen = slice(first, i + 1 if causal else len(x))
            weights = np.exp(scale * k[seen] @ q[i])
            out.append(weights @ v[seen] / weights.sum())
        heads.append(out)
    return np.concatenate(heads, axis=-1) @ w["o"].T


def fused(w, order):
    """All three in one array `(inner, WIDTH)` with its bias, as programs write it."""
    if order == "parts":
        rows = [w[n][h] for n in "qkv" for h in range(len(w[n]))]
        bias = [w[f"b{n}"][h] for n in "qkv" for h in range(len(w[n]))]
    else:
        groups, rows, bias = len(w["k"]), [], []
        share = HEADS // groups
        for g in range(groups):
            mine = [("q", h) for h in range(g * share, (g + 1) * share)] + [("k", g), ("v", g)]
            rows += [w[n][h] for n, h in mine]
            bias += [w[f"b{n}"][h] for n, h in mine]
    return np.concatenate(rows), np.concatenate(bias)


FUSED = {
    "qkv": "m.{layer}.attention.qkv.weight",
    "qkv_bias": "m.{layer}.attention.qkv.bias",
    "output": "m.{layer}.attention.dense.weight",
    "heads": HEADS,
    "causal": True,
}


def fused_file(path, w, order, convention="column"):
    array, bias = fused(w, order)
    flip = np.transpose if convention == "row" else np.asarray
    np.savez(
        path,
        **{"m.0.attention.qkv.weight": flip(array), "m.0.attention.qkv.bias": bias},
        **{"m.0.attention.dense.weight": flip(w["o"])},
    )
    return path


@pytest.mark.parametrize("order", ["parts", "heads"])
@pytest.mark.parametrize("groups", [HEADS, 2, 1])
@pytest.mark.parametrize("convention", ["row", "column"])
def test_fused_orders(tmp_path, x, order, groups, convention):
    w = random_heads(groups)
    path = fused_file(tmp_path / "w.npz", w, order, convention)
    told = {"qkv_order": order, "convention": convention, "kv_heads": groups}
    found = al.circuits.load(path, mapping=FUSED | told, layer=0)
    np.testing.assert_allclose(found.attend(x), original(w, x), atol=1e-12)
    np.testing.assert_allclose(found.kq[0], w["k"][0].T @ w["q"][0] / DIM**0.5, atol=1e-12)


def test_a_fused_order_has_to_be_said(tmp_path):
    path = fused_file(tmp_path / "w.npz", random_heads(), "heads")
    for told in ({}, {"qkv_order": "thirds"}):
        with pytest.raises(al.InvalidArgument, match="mapping.qkv_order"):
            al.circuits.load(path, mapping=FUSED | told)
    without = {key: value for key, value in FUSED.items() if key != "heads"}
    with pytest.raises(al.InvalidArgument, match="heads = None"):
        al.circuits.load(path, mapping=without | {"qkv_order": "heads"})


SPLIT = {n: f"layers.{{layer}}.attention.w{n[0]}.weight" for n in ("query", "key", "value")}
SPLIT |= {"output": "layers.{layer}.attention.wo.weight", "convention": "column", "heads": HEADS}
SPLIT |= {
    f"{n}_bias": f"layers.{{layer}}.attention.w{n[0]}.bias" for n in ("query", "key", "value")
}


def split_arrays(w):
    out = {f"layers.0.attention.w{n}.weight": w[n].reshape(-1, WIDTH) for n in "qkv"}
    out |= {f"layers.0.attention.w{n}.bias": w[f"b{n}"].reshape(-1) for n in "qkv"}
    return out | {"layers.0.attention.wo.weight": w["o"]}


@pytest.mark.parametrize("pairs", ["halves", "neighbours"])
@pytest.mark.parametrize(("share", "size"), [(1.0, 6), (2 / 3, 4), (0.4, 2)])
def test_rotary_pairs_and_shares(tmp_path, x, pairs, share, size):
    w = random_heads(groups=2)
    np.savez(tmp_path / "w.npz", **split_arrays(w))
    told = {"rotary": 100.0, "rotary_pairs": pairs, "rotary_share": share, "causal": True}
    found = al.circuits.load(tmp_path / "w.npz", mapping=SPLIT | told)[0]
    expected = original(w, x, turn=lambda vector, place: turned(vector, place, 100.0, pairs, size))
    np.testing.assert_allclose(found.attend(x), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"rotary": 100.0}, "mapping.rotary_pairs = None"),
        ({"rotary": 100.0, "rotary_pairs": "thirds"}, "mapping.rotary_pairs = 'thirds'"),
        (
            {"rotary": 1.0, "rotary_pairs": "halves", "rotary_share": 1.5},
            "mapping.rotary_share = 1.5",
        ),
        ({"rotary": 1.0, "rotary_pairs": "halves", "rotary_share": 0.5}, "an even number"),
        ({"rotary": 1.0, "rotary_pairs": "halves", "rotary_share": 0.1}, "an even number"),
        ({"window": 0}, "mapping.window = 0"),
        ({"window": 3}, "causal = true only"),
        ({"window": 3, "causal": False}, "causal = true only"),
        ({"beside": 3}, "mapping.beside = 3"),
        ({"ignored": "x"}, "mapping.ignored = 'x'"),
    ],
)
def test_mappings_that_do_not_say_enough(tmp_path, told, message):
    np.savez(tmp_path / "w.npz", **split_arrays(random_heads()))
    with pytest.raises(al.InvalidArgument, match=message):
        al.circuits.load(tmp_path / "w.npz", mapping=SPLIT | told)[0]


def test_windows_scales_and_other_scores_in_a_mapping(tmp_path, x):
    w = random_heads()
    np.savez(tmp_path / "w.npz", **split_arrays(w))
    told = {"window": 3, "causal": True, "scale": 0.2}
    found = al.circuits.load(tmp_path / "w.npz", mapping=SPLIT | told)[0]
    np.testing.assert_allclose(found.attend(x), original(w, x, scale=0.2, window=3), atol=1e-12)
    np.testing.assert_allclose(found.attend(x, "causal"), original(w, x, scale=0.2), atol=1e-12)
    beside = al.circuits.load(tmp_path / "w.npz", mapping=SPLIT | {"beside": "slopes by distance"})
    assert beside[0].kq.shape == (HEADS, WIDTH, WIDTH)
    with pytest.raises(al.InvalidArgument, match="without slopes by distance"):
        beside[0].attend(x, "full")


def test_arrays_beside_a_mapping(tmp_path):
    arrays = split_arrays(random_heads())
    np.savez(tmp_path / "w.npz", **arrays, **{"layers.0.attention.sinks": np.ones(HEADS)})
    told = SPLIT | {"ignored": ["layers.{layer}.attention.sinks"]}
    assert al.circuits.load(tmp_path / "w.npz", mapping=told)[0].n_heads == HEADS
    with pytest.raises(al.InvalidArgument, match=r"attention.sinks, beside .* under ignored"):
        al.circuits.load(tmp_path / "w.npz", mapping=SPLIT)[0]
    # a bias that the mapping leaves out
    without = {key: value for key, value in SPLIT.items() if key != "query_bias"}
    with pytest.raises(al.InvalidArgument, match=r"wq.bias, beside"):
        al.circuits.load(tmp_path / "w.npz", mapping=without | {"ignored": told["ignored"]})[0]


def llama(w, stem="model."):
    out = {f"{stem}layers.0.self_attn.{n}_proj.weight": w[n].reshape(-1, WIDTH) for n in "qkv"}
    out |= {f"{stem}layers.0.self_attn.{n}_proj.bias": w[f"b{n}"].reshape(-1) for n in "qkv"}
    return out | {f"{stem}layers.0.self_attn.o_proj.weight": w["o"]}


def bert(w, stem=""):
    names = {"q": "query", "k": "key", "v": "value"}
    place = f"{stem}encoder.layer.0.attention."
    out = {f"{place}self.{names[n]}.weight": w[n].reshape(-1, WIDTH) for n in "qkv"}
    out |= {f"{place}self.{names[n]}.bias": w[f"b{n}"].reshape(-1) for n in "qkv"}
    return out | {f"{place}output.dense.weight": w["o"]}


def gpt2(w):
    array, bias = fused(w, "heads")
    stem = "h.0.attn."
    return {
        f"{stem}c_attn.weight": array,
        f"{stem}c_attn.bias": bias,
        f"{stem}c_proj.weight": w["o"],
    }


def directory(folder, arrays, config):
    save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


NUMBERS = {"num_attention_heads": HEADS, "num_key_value_heads": HEADS}
ROTARY = {"rope_theta": 100.0}


def by_halves(vector, place, size=DIM):
    return turned(vector, place, 100.0, "halves", size)


CONFIGURED = {
    "granite": (llama, {"attention_multiplier": 0.03} | ROTARY, {"scale": 0.03, "turn": by_halves}),
    "granitemoe": (llama, ROTARY, {"scale": 1.0, "turn": by_halves}),  # its class's default
    "mistral": (llama, {"sliding_window": 3} | ROTARY, {"window": 3, "turn": by_halves}),
    "qwen2": (llama, {"sliding_window": 3} | ROTARY, {"turn": by_halves}),  # not used
    "stablelm": (
        llama,
        {"rope_parameters": {"rope_theta": 100.0, "partial_rotary_factor": 0.4}},
        {"turn": lambda vector, place: by_halves(vector, place, 2)},
    ),
    "cohere": (
        llama,
        ROTARY,
        {"turn": lambda vector, place: turned(vector, place, 100.0, "neighbours", DIM)},
    ),
    "bert": (bert, {}, {"causal": False}),
    "roberta": (bert, {"is_decoder": True}, {}),
    "gpt_bigcode": (gpt2, {"multi_query": False}, {}),
}


@pytest.mark.parametrize("kind", CONFIGURED)
@pytest.mark.parametrize("nested", [False, True])
def test_what_a_configuration_says_is_used(tmp_path, x, kind, nested):
    write, config, reads = CONFIGURED[kind]
    w = random_heads()
    config = NUMBERS | config | {"model_type": kind}
    if nested:
        config = {
            "model_type": "llava",
            "text_config": config,
            "vision_config": {"model_type": "x"},
        }
    found = al.circuits.load(directory(tmp_path, write(w), config))[0]
    np.testing.assert_allclose(found.attend(x), original(w, x, **reads), atol=1e-12)


@pytest.mark.parametrize(
    ("write", "config", "message"),
    [
        *(
            (bert, {"model_type": kind}, f"attention is known, not {kind!r}")
            for kind in ("roformer", "big_bird", "nezha", "deberta", "made-up", "llama", 3, ["bert"])
        ),
        (gpt2, {"model_type": "falcon"}, "not 'falcon'"),
        (llama, {"model_type": "gpt2"}, "not 'gpt2'"),
        (llama, {"model_type": "llava", "text_config": {"model_type": "qwen3"}}, "not 'qwen3'"),
        (llama, {"model_type": "llama", "attention_multiplier": 0.1}, "attention_multiplier = 0.1"),
        (llama, {"model_type": "llama", "sliding_window": 3}, "sliding_window = 3"),
        (llama, {"model_type": "llama", "use_alibi": True}, "use_alibi = True"),
        (llama, {"model_type": "llama", "qk_norm": True}, "qk_norm = True"),
        (llama, {"model_type": "llama", "is_causal": False}, "is_causal = False"),
        (llama, {"model_type": "llama", "use_rope": False}, "use_rope = False"),
        (gpt2, {"model_type": "openai-gpt", "scale_attn_weights": False}, "weights = False"),
        (llama, {"model_type": "mistral", "layer_types": ["full_attention"]}, "layer_types = "),
        (llama, {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 3,
                 "max_window_layers": "1"}, "max_window_layers = '1'"),
        (llama, {"model_type": "olmo", "clip_qkv": 8.0}, "clip_qkv = 8.0"),
        (llama, {"model_type": "mistral", "sliding_window": -1}, "sliding_window = -1"),
        (llama, {"model_type": "granite", "attention_multiplier": 0}, "attention_multiplier = 0"),
        (llama, {"model_type": "granite", "attention_multiplier": "1"}, "multiplier = '1'"),
        (llama, {"model_type": "granite", "attention_multiplier": 10**400}, "multiplier = 1000"),
        (llama, {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 3,
                 "layer_types": ["chunked_attention"]}, "layer_types"),
        (bert, {"model_type": "bert", "attention_head_size": 3}, "attention_head_size = 3"),
        (bert, {"model_type": "bert", "n_heads": 2}, "n_heads = 2"),
        (bert, {"model_type": "bert", "attn\x1b[2J\nx": 3}, "attn\\x1b[2J x = 3"),
        (bert, {"model_type": "\x1b[2J"}, "not '\\x1b[2J'"),
        (bert, {"pruned_heads": {"0": [1]}}, "pruned_heads"),
        (bert, {"model_type": "bert", "is_decoder": 1}, "is_decoder = 1"),
        (gpt2, {"model_type": "gpt2", "scale_attn_weights": "no"}, "scale_attn_weights = 'no'"),
    ],
)  # fmt: skip
def test_what_a_configuration_says_and_nobody_knows_is_refused(tmp_path, write, config, message):
    path = directory(tmp_path, write(random_heads()), NUMBERS | config)
    with pytest.raises(al.InvalidArgument) as caught:
        al.circuits.load(path)[0]
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("write", "stem", "beside"),
    [
        *(
            (llama, "model.layers.0.self_attn.", name)
            for name in (
                *("q_norm.weight", "k_layernorm.norms.0.weight", "attn_sub_norm.weight", "sinks"),
                *("q_proj.lora_A.weight", "q_proj.weight_scale", "g_proj.weight", "lambda_q1"),
                *("query_layernorm.weight", "bias", "rotary_emb.scale"),
            )
        ),
        *(
            (bert, "encoder.layer.0.attention.", name)
            for name in ("self.distance_embedding.weight", "self.qk_scale", "ln.weight")
        ),
        (gpt2, "h.0.attn.", "alibi_slopes"),
        (lambda w: {"W_Q": w["q"], "W_K": w["k"], "W_V": w["v"],
                    "W_O": w["o"].reshape(WIDTH, HEADS, DIM).transpose(1, 0, 2)}, "", "q_norm"),
    ],
)  # fmt: skip
def test_arrays_beside_the_projections_are_refused_by_name(tmp_path, write, stem, beside):
    arrays = {k: np.ascontiguousarray(v) for k, v in write(random_heads()).items()}
    save_file(arrays, tmp_path / "w.safetensors")
    told = {} if stem == "" else {"heads": HEADS}
    assert al.circuits.load(tmp_path / "w.safetensors", **told)[0].n_heads == HEADS
    save_file(arrays | {stem + beside: np.ones(3)}, tmp_path / "w.safetensors")
    with pytest.raises(al.InvalidArgument) as caught:
        al.circuits.load(tmp_path / "w.safetensors", **told)
    assert f"{stem + beside}, beside its projections" in str(caught.value)


def test_buffers_are_no_weights(tmp_path):
    buffers = {"bias": np.ones((1, 1, 5, 5)), "masked_bias": np.float32(-1e4)}
    arrays = gpt2(random_heads()) | {f"h.0.attn.{name}": x for name, x in buffers.items()}
    folder = directory(tmp_path, arrays, {"model_type": "gpt2", "n_head": HEADS})
    assert al.circuits.load(folder)[0].n_heads == HEADS


def test_weights_of_eight_bits_beside_their_scales(tmp_path):
    w = random_heads()
    arrays, scales = {}, {}
    for name, array in llama(w).items():
        if name.endswith("weight"):
            scales[name] = np.abs(array).max() / 127
            arrays[name] = np.rint(array / scales[name]).astype(np.int8)
            arrays[f"{name}_scale"] = np.array(scales[name], np.float32)
            arrays[name.replace("weight", "input_scale")] = np.array(3.0, np.float32)
        else:
            arrays[name] = array
    save_file(arrays, tmp_path / "w.safetensors")
    found = al.circuits.load(tmp_path / "w.safetensors", heads=HEADS)[0]
    stem = "model.layers.0.self_attn."
    q, k = (arrays[f"{stem}{n}_proj.weight"][:DIM] * scales[f"{stem}{n}_proj.weight"] for n in "qk")
    np.testing.assert_allclose(found.kq[0], k.T @ q / DIM**0.5, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.kq[0], w["k"][0].T @ w["q"][0] / DIM**0.5, atol=0.1)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"rotary_pct": 0.25}, {"rotary": 100.0, "rotary_pairs": "halves", "rotary_share": 0.4}),
        ({"rope_theta": 100.0}, {"beside": "rotary positions"}),
        ({"alibi": True}, {"beside": "slopes by distance"}),
        ({"offset_alibi": 100}, {"beside": "slopes by distance"}),
        ({"sliding_window": 4}, {"window": 4, "causal": True}),
        ({"attention_multiplier": 0.1}, {"scale": 0.1}),
        ({"parallel_attn": True}, {"ignored": ["parallel_attn"]}),
    ],
)
def test_a_mapping_has_to_answer_the_configuration(tmp_path, config, told):
    config = config | {"model_type": "other", "n_head": HEADS, "hidden_size": WIDTH}
    folder = directory(tmp_path, split_arrays(random_heads()), config)
    assert al.circuits.load(folder, mapping=SPLIT | told)[0].n_heads == HEADS
    with pytest.raises(al.InvalidArgument, match=f"there {next(iter(config))} = .* can answer it"):
        al.circuits.load(folder, mapping=SPLIT)


@pytest.mark.parametrize(
    "told",
    [
        {"rotary": 100.0, "rotary_pairs": "halves"},
        {"beside": "slopes by distance"},
        {"window": 3, "causal": True},
    ],
)
def test_regression_in_context_has_no_positions(tmp_path, told):
    w = random_heads()
    arrays = {k: v for k, v in split_arrays(w).items() if k.endswith("weight")}
    np.savez(tmp_path / "w.npz", **arrays)
    mapping = {k: v for k, v in SPLIT.items() if not k.endswith("bias")}
    assert al.circuits.load(tmp_path / "w.npz", mapping=mapping, dim=WIDTH - 1).n_heads == HEADS
    with pytest.raises(al.InvalidArgument, match="know no positions"):
        al.circuits.load(tmp_path / "w.npz", mapping=mapping | told, dim=WIDTH - 1)
