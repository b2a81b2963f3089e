"""Linear probes on embeddings whose best accuracy is known."""

import numpy as np
import pytest
import xarray as xr
from scipy.stats import norm

import attnlab as al
from attnlab.probing import probe


def embeddings(count, signal, *, words=24, word_signal=0.0, seed=0):
    """Gaussian features `y signal e_1 + word_signal a_word + N(0, I)` in 6 dimensions, one layer."""
    rng = np.random.default_rng(seed)
    label = np.tile([1, -1], count // 2)
    # the words of one label are not those of the other
    word = 2 * rng.integers(words // 2, size=count) + (label < 0)
    features = rng.standard_normal((count, 6))
    features[:, 0] += signal * label
    features += word_signal * rng.standard_normal((words, 6))[word]
    return xr.Dataset(
        {
            "embedding": (("layer", "sentence", "place", "feature"), features[None, :, None]),
            "label": ("sentence", label),
            "word": ("sentence", np.char.mod("w%02d", word)),
        },
        coords={"layer": [0], "place": ["x"]},
    )


def test_accuracy_is_that_of_the_best_linear_rule():
    # two Gaussians at ±s along one direction: no rule is better than Φ(s)
    truth = norm.cdf(0.7)
    found = probe(embeddings(6000, 0.7), seed=0).squeeze()
    z = (float(found.accuracy) - truth) / float(found.error)
    assert abs(z) < 4
    assert 0.003 < float(found.error) < 0.015  # binomial: 0.0055
    assert float(found.low) < truth < float(found.high)


def test_without_information_it_is_chance_and_with_more_sentences_better():
    nothing = probe(embeddings(2000, 0.0), seed=1).squeeze()
    assert abs(float(nothing.accuracy) - 0.5) < 4 * float(nothing.error)
    curve = probe(embeddings(2000, 0.5), sizes=[10, 1000], seed=1).squeeze()
    assert float(curve.accuracy[1]) > float(curve.accuracy[0]) + 0.02


def test_words_that_were_seen_are_recalled_and_unseen_ones_are_not():
    recalled = embeddings(1200, 0.0, word_signal=4.0, words=6)
    seen = probe(recalled, seed=0).squeeze()
    unseen = probe(recalled, unseen="words", folds=3, seed=0).squeeze()
    assert float(seen.accuracy) > 0.9
    assert float(unseen.accuracy) < 0.8
    # sentences of one word are right or wrong together, and the error says so
    assert float(unseen.error) > 4 * np.sqrt(0.25 / 1200)


def test_judged_on_other_versions_of_the_sentences():
    one = embeddings(1000, 3.0)
    flipped = one.assign(embedding=-one.embedding, label=-one.label)
    assert probe(one, judged_on=flipped, seed=0).accuracy.item() > 0.99
    lost = flipped.assign(label=one.label)
    assert probe(one, judged_on=lost, seed=0).accuracy.item() < 0.01


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        ({"sizes": [5]}, ">= 10"),
        ({"sizes": [900]}, "<= 7"),
        ({"folds": 2}, ">= 3"),
        ({"unseen": "nouns"}, "sentences, words"),
        ({"penalty": 0.0}, "> 0"),
        ({"sizes": []}, "at least one integer"),
        ({"sizes": 20}, "at least one integer"),
        ({"folds": 25, "unseen": "words"}, "at most 24, since there are 24 different words"),
        ({"embeddings": None}, "as embed gives it"),
        ({"embeddings": embeddings(900, np.nan)}, "finite"),
        ({"judged_on": embeddings(800, 1.0)}, "of shape"),
        ({"embeddings": embeddings(8, 1.0)}, "at most 4, since there are 4 sentences of each"),
    ],
)
def test_bad_arguments_are_refused(changes, allowed):
    with pytest.raises(al.InvalidArgument, match=allowed):
        probe(**{"embeddings": embeddings(900, 1.0), "seed": 0, **changes})
