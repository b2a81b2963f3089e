"""Template sentences: balance, places, pairs that differ in one word."""

import dataclasses

import numpy as np
import pytest

import attnlab as al
from attnlab.probing import lexicon, sentiment_sentences


@pytest.fixture(scope="module")
def sentences():
    return sentiment_sentences(480, seed=1)


def test_labels_words_and_places_are_balanced(sentences):
    assert np.sum(sentences.labels) == 0
    _, counts = np.unique(sentences.words, return_counts=True)
    assert counts.tolist() == [10] * 48
    assert len(set(sentences.texts)) == 480
    starts = np.array([span[0] for span in sentences.informative])
    controls = np.array([span[0] for span in sentences.other])
    # neither the place in the sentence nor the label's order tells the label
    for places in (starts, controls):
        differ = places[sentences.labels == 1].mean() - places[sentences.labels == -1].mean()
        assert abs(differ) < 4 * places.std() * np.sqrt(4 / 480)
    assert abs(starts.mean() - controls.mean()) < 4 * starts.std() * np.sqrt(2 / 480)


def test_places_hold_the_words(sentences):
    loaded = {*lexicon.POSITIVE, *lexicon.NEGATIVE}
    for text, label, word, (start, end), (low, high) in zip(
        sentences.texts, sentences.labels, sentences.words, sentences.informative, sentences.other
    ):
        assert text[start:end] == word
        assert word in (lexicon.POSITIVE if label == 1 else lexicon.NEGATIVE)
        assert text[low:high] in lexicon.NEUTRAL
        assert sum(part in loaded for part in text.rstrip(".").split()) == 1


def test_the_same_seed_gives_the_same_sentences():
    once, again = (sentiment_sentences(20, seed=4) for _ in range(2))
    assert once.texts == again.texts
    assert once.texts != sentiment_sentences(20, seed=5).texts


def test_swapped_sentences_differ_in_one_word(sentences):
    other = sentences.swapped(0)
    np.testing.assert_array_equal(other.labels, -sentences.labels)
    for mine, theirs, (start, end), (low, high) in zip(
        sentences.texts, other.texts, other.informative, other.other
    ):
        pairs = list(zip(mine.split(), theirs.split(), strict=True))
        assert sum(a != b for a, b in pairs) == 1
        assert theirs[start:end] in (*lexicon.POSITIVE, *lexicon.NEGATIVE)
        assert theirs[low:high] in lexicon.NEUTRAL


@pytest.mark.parametrize(
    ("count", "changes", "allowed"),
    [
        (3, {}, "even"),
        (0, {}, ">= 2"),
        (20, {"min_clauses": 1}, ">= 2"),
        (20, {"min_clauses": 4, "max_clauses": 3}, ">= 4"),
        (20, {"seed": -1}, ">= 0"),
    ],
)
def test_bad_arguments_are_refused(count, changes, allowed):
    with pytest.raises(al.InvalidArgument, match=allowed):
        sentiment_sentences(count, **{"seed": 0, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"texts": ()}, "at least one sentence"),
        ({"labels": np.zeros(480)}, "each 1 or -1"),
        ({"words": ("nice",)}, "480 words"),
        ({"informative": ((0, 4),)}, "480 pairs"),
        ({"other": ((1000, 1001),) * 480}, r"other = \(1000, 1001\)"),
    ],
)
def test_sentences_of_ones_own_have_to_fit_together(sentences, changes, message):
    with pytest.raises(al.InvalidArgument, match=message):
        dataclasses.replace(sentences, **changes)
