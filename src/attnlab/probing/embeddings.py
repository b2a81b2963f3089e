"""Embeddings of sentences at four places of every layer.

- `[CLS]`: the token before the sentence;
- `informative`: the sentiment adjective (the mean over its tokens, if it has several);
- `other`: a neutral adjective of the same sentence;
- `mean`: the mean over all tokens, `[CLS]` and `[SEP]` included.

`docs/theory/linear-probing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._core.errors import InvalidArgument, check_integer
from .._core.progress import current_progress
from .encoders import Encoder, check_encoder
from .sentences import Sentences
from .tokens import Tokenized, padded

if TYPE_CHECKING:
    import xarray

    from .bert import Reading

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
    states = np.empty(
        (encoder.n_layers + 1, len(sentences), len(PLACES), encoder.width), np.float32
    )

    def places(row: int, one: Tokenized, length: int) -> np.ndarray:
        return _weights(one, length, sentences.informative[row], sentences.other[row])

    for rows, _, reading in readings(encoder, sentences, batch_size, "embeddings", places):
        if not np.isfinite(reading.states).all():
            raise InvalidArgument("encoder", encoder.name, "one whose hidden states are finite")
        states[:, rows] = reading.states[:, : len(rows)]
    return xr.Dataset(
        {
            "embedding": (("layer", "sentence", "place", "feature"), states),
            "label": ("sentence", np.asarray(sentences.labels)),
            "word": ("sentence", np.array(sentences.words, dtype=np.str_)),
        },
        coords={"layer": np.arange(encoder.n_layers + 1), "place": list(PLACES)},
        attrs={"model": encoder.name},
    )


def readings(
    encoder: Encoder,
    sentences: Sentences,
    batch_size: int,
    label: str,
    places: Callable[[int, Tokenized, int], np.ndarray] | None = None,
) -> Iterator[tuple[list[int], list[Tokenized], Reading]]:
    """Batch by batch the rows of the sentences, their tokens, and what the encoder gives (rows that
    fill up a batch come last). Progress is reported under `label`. Raises `InvalidArgument`.

    `places(row, tokens, length)` `(places, length)` says which hidden states are kept; None is
    none, in arrays of the same shape, so that one program serves both.
    """
    batch_size = check_integer("batch_size", batch_size, minimum=1)
    tokenized = encoder.tokens.encode(sentences.texts, max_length=encoder.max_length)
    progress = current_progress()
    progress.start(label, len(sentences))
    try:
        for rows, chosen, length in batches(tokenized, batch_size, encoder.max_length):
            select = np.zeros((len(chosen), len(PLACES), length))
            if places is not None:
                for place, row in enumerate(rows):
                    select[place] = places(row, chosen[place], length)
            yield rows, chosen, encoder.read(*padded(chosen, length), select)
            progress.advance(len(rows))
    finally:
        progress.stop()


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
