"""Sentences in which one word carries the label: one sentiment adjective among neutral words.

Each sentence is a chain of clauses, and each clause holds one noun with an adjective before it. In
one clause, drawn uniformly, the adjective is positive (label +1) or negative (label -1); in all
others it is neutral. So a neutral adjective of the same sentence, also recorded, stands in the same
surroundings as the informative one: the control of every comparison.

Source: the experiment of marion2025, section 2, on sentences of this kind; words and templates are
our own. `docs/theory/linear-probing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from .._core.errors import InvalidArgument, check_integer
from . import lexicon

Span = tuple[int, int]
_CHOICES = 10_000  # tries before the templates count as used up


@dataclass(frozen=True)
class Sentences:
    """Labelled sentences and the places of two of their words.

    **Fields:** `texts`; `labels` `(sentences,)` of ±1; `words`, the sentiment adjective of each;
    `informative` and `other`, the characters `[start, end)` of the sentiment adjective and of a
    neutral one. Raises `InvalidArgument` where these do not fit together.
    """

    texts: tuple[str, ...]
    labels: Int[np.ndarray, " sentences"]
    words: tuple[str, ...]
    informative: tuple[Span, ...]
    other: tuple[Span, ...]

    def __post_init__(self) -> None:
        count = len(self.texts)
        if not count or not all(isinstance(text, str) for text in self.texts):
            raise InvalidArgument("texts", self.texts, "at least one sentence, all of them texts")
        if np.shape(self.labels) != (count,) or not np.isin(self.labels, (1, -1)).all():
            raise InvalidArgument("labels", self.labels, f"{count} numbers, each 1 or -1")
        if len(self.words) != count:
            raise InvalidArgument("words", self.words, f"{count} words")
        for name in ("informative", "other"):
            spans = getattr(self, name)
            allowed = f"{count} pairs of characters [start, end) within the sentences"
            if np.shape(spans) != (count, 2):
                raise InvalidArgument(name, spans, allowed)
            for text, (start, end) in zip(self.texts, spans):
                if not 0 <= start < end <= len(text):
                    raise InvalidArgument(name, (start, end), f"{allowed}, such as {text!r}")

    def __len__(self) -> int:
        return len(self.texts)

    def swapped(self, seed: int) -> Sentences:
        """The same sentences with the sentiment adjective alone exchanged for one of the other
        label: pairs that differ in a single word."""
        generator = _generator(seed, "swap")
        pools = {1: lexicon.NEGATIVE, -1: lexicon.POSITIVE}
        texts, words, informative, other = [], [], [], []
        for text, label, (start, end), (low, high) in zip(
            self.texts, self.labels, self.informative, self.other
        ):
            word = str(generator.choice(pools[int(label)]))
            shift = len(word) - (end - start) if low > start else 0
            texts.append(text[:start] + word + text[end:])
            words.append(word)
            informative.append((start, start + len(word)))
            other.append((low + shift, high + shift))
        return Sentences(tuple(texts), -self.labels, tuple(words), tuple(informative), tuple(other))


def sentiment_sentences(
    count: int, *, seed: int, min_clauses: int = 2, max_clauses: int = 4
) -> Sentences:
    """`count` different sentences, half of them with each label, in random order.

    Adjectives of one sign occur equally often (up to one). The number of clauses is uniform in
    `min_clauses`..`max_clauses`, and so is the place of the informative one. The same `seed` gives
    the same sentences. Raises `InvalidArgument`, also when `count` is odd or the templates do not
    hold that many.
    """
    count = check_integer("count", count, minimum=2, maximum=10**6)
    if count % 2:
        raise InvalidArgument("count", count, "even, so that both labels are equally frequent")
    min_clauses = check_integer("min_clauses", min_clauses, minimum=2, maximum=6)
    max_clauses = check_integer("max_clauses", max_clauses, minimum=min_clauses, maximum=6)
    generator = _generator(seed, "sentences")
    half = count // 2
    rows = [(1, word) for word in _evenly(lexicon.POSITIVE, half, generator)]
    rows += [(-1, word) for word in _evenly(lexicon.NEGATIVE, half, generator)]
    seen: set[str] = set()
    made = []
    for place in generator.permutation(count):
        label, word = rows[int(place)]
        for _ in range(_CHOICES):
            clauses = int(generator.integers(min_clauses, max_clauses + 1))
            text, informative, other = _sentence(word, clauses, generator)
            if text not in seen:
                break
        else:
            raise InvalidArgument("count", count, "at most what the templates give")
        seen.add(text)
        made.append((text, label, word, informative, other))
    texts, labels, words, informatives, others = zip(*made)
    return Sentences(texts, np.array(labels), words, informatives, others)


def _sentence(word: str, clauses: int, generator: np.random.Generator) -> tuple[str, Span, Span]:
    frames = generator.choice(len(lexicon.CLAUSES), clauses, replace=False)
    nouns = generator.choice(lexicon.NOUNS, clauses, replace=False)
    adjectives = [str(a) for a in generator.choice(lexicon.NEUTRAL, clauses, replace=False)]
    which = int(generator.integers(clauses))
    control = int((which + generator.integers(1, clauses)) % clauses)
    adjectives[which] = word
    text, spans = "", []
    for index in range(clauses):
        if index:
            text += f" {generator.choice(lexicon.CONNECTORS)} "
        before, _, after = lexicon.CLAUSES[frames[index]].partition("{}")
        start = len(text) + len(before)
        spans.append((start, start + len(adjectives[index])))
        text += f"{before}{adjectives[index]} {nouns[index]}{after}"
    return text + ".", spans[which], spans[control]


def _evenly(words: tuple[str, ...], count: int, generator: np.random.Generator) -> list[str]:
    """`count` words in which each occurs equally often, up to one."""
    rounds = [generator.permutation(words) for _ in range(-(-count // len(words)))]
    return [str(word) for word in np.concatenate(rounds)[:count]]


def _generator(seed: Any, purpose: str) -> np.random.Generator:
    seed = check_integer("seed", seed, minimum=0)
    return np.random.default_rng([seed, *purpose.encode()])
