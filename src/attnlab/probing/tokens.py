"""Sentences as token ids, and words as groups of tokens.

The tokenizer of the model's own directory is used, without truncation (a sentence that is too long
is refused, not cut) and without padding of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import InvalidArgument
from .installed import require


@dataclass(frozen=True)
class Tokenized:
    """One sentence: its token `ids`, and for each token the characters `[start, end)` it stands
    for, `(0, 0)` for special ones."""

    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]

    def places(self, start: int, end: int) -> list[int]:
        """The tokens that overlap with the characters `[start, end)`; raises `InvalidArgument` if
        there are none."""
        found = [i for i, (low, high) in enumerate(self.spans) if low < end and high > start]
        if not found:
            allowed = "characters for which the tokenizer has tokens"
            raise InvalidArgument("sentences", f"a word at {(start, end)}", allowed)
        return found


class Tokens:
    """The tokenizer of a Hugging Face directory (`tokenizer.json`, or BERT's `vocab.txt`).

    **Arguments:** `path` of the directory. Raises `InvalidArgument` if it holds no tokenizer, or
    one whose sentences do not begin with a token of their own such as `[CLS]`.
    """

    def __init__(self, path: str | Path):
        self._path = Path(path)
        self._tokenizer = _load(self._path)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        try:
            first = self._tokenizer.encode("a")
        except Exception as error:  # such as a vocabulary without its token for unknown words
            raise InvalidArgument("tokenizer", str(path), f"one that works ({error})") from None
        if not first.special_tokens_mask or not first.special_tokens_mask[0]:
            allowed = "one that puts a token of its own, such as [CLS], before a sentence"
            raise InvalidArgument("tokenizer", str(path), allowed)
        self.first_token = str(first.tokens[0])

    def check_known(self, count: int) -> None:
        """Raises `InvalidArgument` unless the network knows all tokens: it has `count` of them."""
        largest = max(self._tokenizer.get_vocab().values(), default=0)
        if largest >= count:
            allowed = (
                f"one of the network's own, which knows {count} tokens; it has number {largest}"
            )
            raise InvalidArgument("tokenizer", str(self._path), allowed)

    def encode(self, texts: Sequence[str], *, max_length: int) -> list[Tokenized]:
        """The sentences as tokens; raises `InvalidArgument` for one longer than `max_length`."""
        if not len(texts):
            raise InvalidArgument("texts", texts, "at least one sentence")
        encoded = self._tokenizer.encode_batch(list(texts))
        longest = max(encoded, key=lambda one: len(one.ids))
        if len(longest.ids) > max_length:
            allowed = f"sentences of at most {max_length} tokens; one has {len(longest.ids)}"
            raise InvalidArgument("texts", texts[encoded.index(longest)], allowed)
        return [Tokenized(tuple(one.ids), tuple(map(tuple, one.offsets))) for one in encoded]


def padded(sentences: Sequence[Tokenized], length: int) -> tuple[np.ndarray, np.ndarray]:
    """`ids` and `mask`, both `(batch, length)`; padding has id 0 and is False in the mask."""
    ids = np.zeros((len(sentences), length), np.int32)
    mask = np.zeros((len(sentences), length), bool)
    for row, sentence in enumerate(sentences):
        ids[row, : len(sentence.ids)] = sentence.ids
        mask[row, : len(sentence.ids)] = True
    return ids, mask


def check_padding(mask: np.ndarray) -> None:
    """Raises `InvalidArgument` unless each sentence comes first and its padding behind it: places
    are counted from the start, and the first token is the one whose attention is kept."""
    seen = np.asarray(mask)
    allowed = "booleans (batch, tokens), True on each sentence and False on the padding behind it"
    if seen.ndim != 2 or seen.dtype != bool or not seen.size:
        raise InvalidArgument("mask", mask, allowed)
    if not seen[:, 0].all() or (seen[:, 1:] & ~seen[:, :-1]).any():
        raise InvalidArgument("mask", "padding before or inside a sentence", allowed)


def _load(path: Path) -> Any:
    require("tokenizers")
    import tokenizers

    if (path / "tokenizer.json").is_file():
        try:
            return tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))
        except Exception as error:  # the library raises plain exceptions for broken files
            allowed = f"a tokenizer that can be read ({error})"
            raise InvalidArgument("tokenizer.json", str(path), allowed) from None
    if (path / "vocab.txt").is_file():
        from tokenizers.implementations import BertWordPieceTokenizer

        try:
            config = json.loads((path / "tokenizer_config.json").read_text("utf-8"))
        except (OSError, ValueError):
            config = {}
        lower = bool(config.get("do_lower_case", True)) if isinstance(config, dict) else True
        try:
            return BertWordPieceTokenizer(str(path / "vocab.txt"), lowercase=lower)._tokenizer
        except Exception as error:  # as above
            allowed = f"a vocabulary that can be read, with [CLS] and [SEP] ({error})"
            raise InvalidArgument("vocab.txt", str(path), allowed) from None
    raise InvalidArgument("tokenizer", str(path), "a directory with tokenizer.json or vocab.txt")
