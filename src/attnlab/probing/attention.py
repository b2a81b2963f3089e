"""Where the token before a sentence looks: attention from `[CLS]` to the words of each sentence.

For each head, over the words of a sentence (special tokens and punctuation aside):

- `mass`: the share of the attention to words that goes to the informative one, and `mass_other`
  that to a neutral adjective of the same sentence; `uniform` is 1 over the number of words' tokens;
- `participation`: `1/Σ p²`, the number of tokens that the attention to words is spread over;
- `words`: the share of all attention that goes to words at all (the rest goes to `[CLS]`, `[SEP]`
  and the full stop).

And the numbers by which the theory of single-location regression would describe the head: relative
to the mean logit of the other words of the same sentence, the informative token's logit has mean
`gap` and standard deviation `informative_std`; the others spread by `bulk_std`.
`docs/theory/linear-probing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._core.errors import InvalidArgument
from .embeddings import readings
from .encoders import Encoder, check_encoder
from .sentences import Sentences
from .tokens import Tokenized

if TYPE_CHECKING:
    import xarray

_KEPT = ("mass", "mass_other", "participation", "words", "gap")


def attention_to_words(
    encoder: Encoder, sentences: Sentences, *, batch_size: int = 64
) -> xarray.Dataset:
    """Averages over `sentences` for each `(layer, head)`, layers counted from 1.

    Variables: those above, each with its standard error `<name>_error` where it is a mean over
    sentences; `uniform`, the mean of 1/L, and `length`, the mean of L, on no dimension. An
    informative adjective of several tokens counts as the sum of them. Progress is reported. Raises
    `InvalidArgument`.
    """
    import xarray as xr

    check_encoder(encoder)
    if not isinstance(sentences, Sentences) or len(sentences) < 2:
        raise InvalidArgument("sentences", sentences, "probing.Sentences, at least two of them")
    shape = (len(sentences), encoder.n_layers, encoder.n_heads)
    each = {name: np.empty(shape) for name in (*_KEPT, "bulk_variance")}
    lengths = np.empty(len(sentences))
    for rows, tokens, reading in readings(encoder, sentences, batch_size, "attention"):
        if np.isnan(reading.log_attention[:, : len(rows)]).any():
            raise InvalidArgument("encoder", encoder.name, "one whose attention is finite")
        for place, row in enumerate(rows):
            text, one = sentences.texts[row], tokens[place]
            words = _words(text, one)
            found = one.places(*sentences.informative[row])
            other = one.places(*sentences.other[row])
            if len(set(words) - set(found)) < 2:
                allowed = "sentences of at least two words beside the informative one"
                raise InvalidArgument("sentences", text, allowed)
            logits = reading.log_attention[:, place].astype(np.float64)
            for name, value in _of_sentence(logits, words, found, other).items():
                each[name][row] = value
            lengths[row] = len(words) - len(found) + 1
    dims = ("layer", "head")
    out = xr.Dataset(
        coords={
            "layer": np.arange(1, encoder.n_layers + 1),
            "head": np.arange(encoder.n_heads),
        },
        attrs={"model": encoder.name, "sentences": len(sentences)},
    )
    for name in _KEPT:
        out[name] = (dims, each[name].mean(0))
        out[f"{name}_error"] = (dims, each[name].std(0, ddof=1) / np.sqrt(len(sentences)))
    out["bulk_std"] = (dims, np.sqrt(each["bulk_variance"].mean(0)))
    # the mean logit of N bulk tokens, from which the gap is measured, has a variance of its own
    own = np.mean(each["bulk_variance"] / (lengths - 1)[:, None, None], axis=0)
    out["informative_std"] = (dims, np.sqrt(np.maximum(each["gap"].var(0, ddof=1) - own, 0.0)))
    out["uniform"], out["length"] = np.mean(1 / lengths), lengths.mean()
    return out


def _words(text: str, one: Tokenized) -> list[int]:
    """The tokens that stand for letters or digits of the sentence."""
    return [
        i for i, (low, high) in enumerate(one.spans) if any(c.isalnum() for c in text[low:high])
    ]


def _of_sentence(
    logits: np.ndarray, words: list[int], found: list[int], other: list[int]
) -> dict[str, np.ndarray]:
    bulk = [i for i in words if i not in found]
    # relative to the largest among words, which may be e^-800 beside [SEP]
    top = logits[..., words].max(-1, keepdims=True)
    weights = np.exp(np.minimum(logits - top, 0.0))
    total = weights[..., words].sum(-1)
    shares = weights[..., bulk] / total[..., None]
    mass = weights[..., found].sum(-1) / total
    level = logits[..., bulk].mean(-1)
    return {
        "mass": mass,
        "mass_other": weights[..., other].sum(-1) / total,
        "participation": 1 / (mass**2 + np.sum(shares**2, axis=-1)),
        "words": total * np.exp(top[..., 0]),
        "gap": np.logaddexp.reduce(logits[..., found], axis=-1) - level,
        "bulk_variance": logits[..., bulk].var(-1, ddof=1),
    }
