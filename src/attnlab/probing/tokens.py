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


@dataclass(frozen=True)
class Tokenized:
    """One sentence: its token `ids`, and for each token the characters `[start, end)` it stands
    for, `(0, 0)` for special ones."""

    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]

    def places(self, start: int, end: int) -> list[int]:
        """The tokens that overlap with the characters `[start, end)`."""
        return [i for i, (low, high) in enumerate(self.spans) if low < end and high > start]


class Tokens:
    """The tokenizer of a Hugging Face directory (`tokenizer.json`, or BERT's `vocab.txt`).

    **Arguments:** `path` of the directory. Raises `InvalidArgument` if it holds no tokenizer, or
    one whose sentences do not begin with a token of their own such as `[CLS]`.
    """

    def __init__(self, path: str | Path):
        self._tokenizer = _load(Path(path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        first = self._tokenizer.encode("a")
        if not first.special_tokens_mask or not first.special_tokens_mask[0]:
            allowed = "one that puts a token of its own, such as [CLS], before a sentence"
            raise InvalidArgument("tokenizer", str(path), allowed)
        self.first_token = str(first.tokens[0])

    def encode(self, texts: Sequence[str], *, max_length: int) -> list[Tokenized]:
        """The sentences as tokens; raises `InvalidArgument` for one longer than `max_length`."""
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


def _load(path: Path) -> Any:
    try:
        import tokenizers
    except ImportError:
        allowed = 'installed: pip install "attnlab[probing]"'
        raise InvalidArgument("tokenizers", None, allowed) from None
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
        lower = bool(config.get("do_lower_case", True))
        return BertWordPieceTokenizer(str(path / "vocab.txt"), lowercase=lower)._tokenizer
    raise InvalidArgument("tokenizer", str(path), "a directory with tokenizer.json or vocab.txt")
