"""Embeddings of sentences at four places of every layer.

- `[CLS]`: the token before the sentence;
- `informative`: the sentiment adjective (the mean over its tokens, if it has several);
- `other`: a neutral adjective of the same sentence;
- `mean`: the mean over all tokens, `[CLS]` and `[SEP]` included.

`docs/theory/linear-probing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._core.errors import InvalidArgument, check_integer
from .._core.progress import current_progress
from .encoders import Encoder, check_encoder
from .sentences import Sentences
from .tokens import Tokenized, padded

if TYPE_CHECKING:
    import xarray

PLACES = ("[CLS]", "informative", "other", "mean")
_ROUND = 16  # lengths are padded up to a multiple of it: few programs, little padding


def embed(encoder: Encoder, sentences: Sentences, *, batch_size: int = 64) -> xarray.Dataset:
    """Hidden states of `sentences` at the four places, layer by layer.

    Variables: `embedding` `(layer, sentence, place, feature)` in float32, layer 0 being the
    embeddings before the first layer; `label` `(sentence,)` of ±1; `word` `(sentence,)`, the
    sentiment adjective. Sentences are sorted by length and padded a little; neither padding nor
    `batch_size` changes a hidden state (up to rounding). Progress is reported. Raises
    `InvalidArgument`.
    """
    import xarray as xr

    check_encoder(encoder)
    if not isinstance(sentences, Sentences):
        raise InvalidArgument("sentences", sentences, "probing.Sentences")
    batch_size = check_integer("batch_size", batch_size, minimum=1)
    tokenized = encoder.tokens.encode(sentences.texts, max_length=encoder.max_length)
    states = np.empty(
        (encoder.n_layers + 1, len(sentences), len(PLACES), encoder.width), np.float32
    )
    progress = current_progress()
    progress.start("embeddings", len(sentences))
    try:
        for rows, chosen, length in batches(tokenized, batch_size, encoder.max_length):
            ids, mask = padded(chosen, length)
            select = np.stack(
                [
                    _weights(tokenized[row], length, sentences.informative[row], sentences.other[row])
                    for row in rows
                ]
            )  # fmt: skip
            reading = encoder.read(ids, mask, _filled(select, len(ids)))
            if not np.isfinite(reading.states).all():
                raise InvalidArgument("encoder", encoder.name, "one whose hidden states are finite")
            states[:, rows] = reading.states[:, : len(rows)]
            progress.advance(len(rows))
    finally:
        progress.stop()
    return xr.Dataset(
        {
            "embedding": (("layer", "sentence", "place", "feature"), states),
            "label": ("sentence", np.asarray(sentences.labels)),
            "word": ("sentence", np.array(sentences.words, dtype=np.str_)),
        },
        coords={"layer": np.arange(encoder.n_layers + 1), "place": list(PLACES)},
        attrs={"model": encoder.name},
    )


def batches(
    tokenized: Sequence[Tokenized], batch_size: int, max_length: int
) -> Iterator[tuple[list[int], list[Tokenized], int]]:
    """`(rows, sentences, length)`: sentences of like lengths together, so that little is padded.

    The last batch of a length is filled up with a sentence again, so that each length has one
    program; `rows` names the real ones, which come first.
    """
    groups: dict[int, list[int]] = {}
    for row, one in enumerate(tokenized):
        length = min(-(-len(one.ids) // _ROUND) * _ROUND, max_length)
        groups.setdefault(length, []).append(row)
    for length, rows in sorted(groups.items()):
        size = min(batch_size, len(tokenized))
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            filled = part + [part[0]] * (size - len(part))
            yield part, [tokenized[row] for row in filled], length


def _filled(select: np.ndarray, size: int) -> np.ndarray:
    """`select` with rows of zeros after it, up to `size` of them."""
    return np.concatenate([select, np.zeros((size - len(select), *select.shape[1:]))])


def _weights(
    one: Tokenized, length: int, informative: tuple[int, int], other: tuple[int, int]
) -> np.ndarray:
    weights = np.zeros((len(PLACES), length))
    weights[0, 0] = 1.0
    for row, span in ((1, informative), (2, other)):
        places = one.places(*span)
        weights[row, places] = 1 / len(places)
    weights[3, : len(one.ids)] = 1 / len(one.ids)
    return weights
