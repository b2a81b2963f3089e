"""BERT's forward pass in JAX: hidden states of every layer, and where its first token looks.

For a sentence of `T` tokens, `H^0` is the normalised sum of word, position and segment embeddings;
a layer is post-norm,

    A = LN(H + W_o [softmax_h(Q_h K_hᵀ/√d_h) V_h]_h + b_o),    H' = LN(A + W_2 g(W_1 A + b_1) + b_2),

with biases in all maps. Padding is masked from the softmax and so changes nothing else. `n` layers
have `n + 1` hidden states, the first being the embeddings.

Source: Devlin, Chang, Lee, Toutanova, BERT (NAACL 2019); `docs/theory/linear-probing`.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._core.errors import InvalidArgument, check_choice, check_integer, check_real
from ..checkpoints import read_weights
from .tokens import Tokens, check_padding

_ACTIVATIONS: dict[str, Any] = {
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_new": jax.nn.gelu,
    "gelu_pytorch_tanh": jax.nn.gelu,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
}
_LAYER = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "norm": "output.LayerNorm",
}
_EMBEDDINGS = {
    "word_embeddings": "vocab_size",
    "position_embeddings": "max_position_embeddings",
    "token_type_embeddings": "type_vocab_size",
}
_SIZES = (
    *("num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size"),
    *_EMBEDDINGS.values(),
)


class Reading(NamedTuple):
    """What is kept of a forward pass.

    **Fields:** `states` `(layers + 1, batch, positions, width)`: weighted means of hidden states
    over tokens; `log_attention` `(layers, batch, heads, tokens)`: logarithm of the attention from
    the first token to each, `-inf` on padding.
    """

    states: Float[np.ndarray, "states batch positions width"]
    log_attention: Float[np.ndarray, "layers batch heads tokens"]


class BertEncoder:
    """A BERT from a Hugging Face directory, in float32, without PyTorch.

    **Arguments:** `path` of the directory with `config.json`, weights and tokenizer. Raises
    `InvalidArgument` for another family, missing weights and wrong shapes, before any compute.

    **Fields:** `name`, `n_layers`, `n_heads`, `width`, `max_length` (tokens), `tokens` (its
    tokenizer).
    """

    def __init__(self, path: str | Path):
        weights = read_weights(path)
        config = weights.config
        kind = config.get("model_type")
        if kind != "bert":
            raise InvalidArgument("model_type", kind, "bert: load_encoder reads other families")
        place = config.get("position_embedding_type", "absolute")
        if place != "absolute":
            raise InvalidArgument("position_embedding_type", place, "absolute")
        if config.get("is_decoder"):
            raise InvalidArgument(
                "is_decoder", True, "false: an encoder, whose tokens see all others"
            )
        self.activation = config.get("hidden_act", "gelu")
        check_choice("hidden_act", self.activation, _ACTIVATIONS)
        self.name = name_of(path, config)
        sizes = {key: check_integer(key, config.get(key), minimum=1) for key in _SIZES}
        self.n_layers, self.n_heads = sizes["num_hidden_layers"], sizes["num_attention_heads"]
        self.width, self.max_length = sizes["hidden_size"], sizes["max_position_embeddings"]
        if self.width % self.n_heads:
            raise InvalidArgument("hidden_size", self.width, f"a multiple of {self.n_heads} heads")
        self._eps = check_real("layer_norm_eps", config.get("layer_norm_eps", 1e-12), low=0.0)
        self._spread = check_real(
            "initializer_range", config.get("initializer_range", 0.02), low=0.0
        )
        self._weights = _collect(weights, sizes)
        self.tokens = Tokens(path)
        self.tokens.check_known(sizes["vocab_size"])

    def untrained(self, seed: int) -> BertEncoder:
        """The same network as it was before any training: weights `N(0, initializer_range²)`,
        biases 0, normalisations 1. What it shows is owed to the architecture and to the words alone.
        """
        generator = np.random.default_rng(check_integer("seed", seed, minimum=0))
        embeddings, layers = self._weights

        def draw(value: Any) -> Any:
            return jnp.asarray(generator.normal(0, self._spread, value.shape), jnp.float32)

        def start(role: str, part: Any) -> Any:
            weight, bias = part
            new = jnp.ones_like(weight) if role.endswith("norm") else draw(weight)
            return new, jnp.zeros_like(bias)

        other = copy.copy(self)
        other.name = f"{self.name}, untrained"
        ends = (embeddings["scale"], embeddings["shift"])
        fresh = {name: draw(embeddings[name]) for name in _EMBEDDINGS}
        fresh |= {"scale": jnp.ones_like(ends[0]), "shift": jnp.zeros_like(ends[1])}
        other._weights = fresh, {role: start(role, part) for role, part in layers.items()}
        return other

    def read(
        self,
        ids: Int[np.ndarray, "batch tokens"],
        mask: Bool[np.ndarray, "batch tokens"],
        select: Float[np.ndarray, "batch positions tokens"],
    ) -> Reading:
        """Hidden states of every layer at chosen places, and the attention of the first token.

        `mask` is True on tokens and False on padding; `select` gives the weight of each token in
        each position that is kept. Raises `InvalidArgument` for padding that is not at the end.
        """
        check_padding(mask)
        states, logits = _forward(
            self._weights,
            jnp.asarray(ids, jnp.int32),
            jnp.asarray(mask, bool),
            jnp.asarray(select, jnp.float32),
            heads=self.n_heads,
            eps=self._eps,
            activation=self.activation,
        )
        return Reading(np.asarray(states), np.asarray(logits))


def name_of(path: str | Path, config: Mapping[str, Any]) -> str:
    """What the model is called: the last part of the name that it was saved from, else its folder's."""
    saved = str(config.get("_name_or_path") or "").replace("\\", "/").rstrip("/")
    return saved.rpartition("/")[2] or Path(path).resolve().name


def _collect(weights: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    """The weights by role, those of the layers stacked."""
    prefix = "bert." if "bert.embeddings.word_embeddings.weight" in weights else ""
    width, inner = sizes["hidden_size"], sizes["intermediate_size"]

    def take(name: str, *shape: int) -> np.ndarray:
        full = prefix + name
        value = np.asarray(weights[full], np.float32)
        if value.shape != shape:
            raise InvalidArgument(full, f"an array of shape {value.shape}", f"of shape {shape}")
        if not np.isfinite(value).all():
            raise InvalidArgument(full, "an array with NaN or infinite entries", "finite")
        return value

    shapes = {"up": (inner, width), "down": (width, inner)}
    embeddings = {
        name: take(f"embeddings.{name}.weight", sizes[size], width)
        for name, size in _EMBEDDINGS.items()
    }
    embeddings["scale"] = take("embeddings.LayerNorm.weight", width)
    embeddings["shift"] = take("embeddings.LayerNorm.bias", width)
    stacked = {}
    for role, name in _LAYER.items():
        shape = (width,) if role.endswith("norm") else shapes.get(role, (width, width))
        # one at a time, so that a layer that is not there is found before its number is believed
        both = [
            (take(f"{place}.weight", *shape), take(f"{place}.bias", shape[0]))
            for index in range(sizes["num_hidden_layers"])
            for place in (f"encoder.layer.{index}.{name}",)
        ]
        stacked[role] = tuple(jnp.asarray(np.stack(part)) for part in zip(*both))
    return jax.tree.map(jnp.asarray, embeddings), stacked


@functools.partial(jax.jit, static_argnames=("heads", "eps", "activation"))
def _forward(
    weights: Any,
    ids: Int[Array, "batch tokens"],
    mask: Bool[Array, "batch tokens"],
    select: Float[Array, "batch positions tokens"],
    *,
    heads: int,
    eps: float,
    activation: str,
) -> tuple[Float[Array, "states batch positions width"], Float[Array, "layers batch heads tokens"]]:
    with jax.default_matmul_precision("highest"):
        embeddings, layers = weights
        count = ids.shape[1]
        hidden = embeddings["word_embeddings"][ids] + embeddings["position_embeddings"][:count]
        hidden = hidden + embeddings["token_type_embeddings"][0]
        hidden = _norm(hidden, (embeddings["scale"], embeddings["shift"]), eps)

        def layer(hidden: Any, part: Any) -> tuple[Any, Any]:
            mixed, log_attention = _attention(hidden, mask, part, heads)
            middle = _norm(hidden + mixed, part["attention_norm"], eps)
            inner = _ACTIVATIONS[activation](_linear(middle, part["up"]))
            out = _norm(middle + _linear(inner, part["down"]), part["norm"], eps)
            return out, (_selected(out, select), log_attention)

        _, (states, log_attention) = jax.lax.scan(layer, hidden, layers)
        return jnp.concatenate([_selected(hidden, select)[None], states]), log_attention


def _attention(hidden: Any, mask: Any, part: Any, heads: int) -> tuple[Any, Any]:
    batch, count, width = hidden.shape

    def split(role: str) -> Any:
        return _linear(hidden, part[role]).reshape(batch, count, heads, width // heads)

    query, key, value = split("query"), split("key"), split("value")
    logits = jnp.einsum("bqhc,bkhc->bhqk", query, key) / jnp.sqrt(width / heads)
    logits = jnp.where(mask[:, None, None, :], logits, -jnp.inf)
    log_weights = jax.nn.log_softmax(logits, axis=-1)
    mixed = jnp.einsum("bhqk,bkhc->bqhc", jnp.exp(log_weights), value)
    return _linear(mixed.reshape(batch, count, width), part["output"]), log_weights[:, :, 0, :]


def _selected(hidden: Any, select: Any) -> Any:
    return jnp.einsum("bpt,btd->bpd", select, hidden)


def _linear(x: Any, part: Any) -> Any:
    weight, bias = part
    return x @ weight.T + bias


def _norm(x: Any, part: Any, eps: float) -> Any:
    scale, shift = part
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + eps) * scale + shift
