"""Attention to words, on an encoder whose logits are drawn, against the theory of such logits."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import attnlab as al
from attnlab import theory
from attnlab.papers.marion2025 import head_attention
from attnlab.probing import Sentences, attention_to_words, load_encoder, sentiment_sentences
from attnlab.probing.bert import Reading


class Drawn:
    """Heads whose logits are Gaussian: `N(mean, std²)` on a sentiment adjective, else `N(0, b²)`."""

    name, n_layers, n_heads, width, max_length = "drawn", 2, 2, 4, 64
    mean = np.array([[0.0, 1.5], [3.0, -1.0]])
    std = np.array([[0.5, 0.3], [1.0, 0.8]])
    spread = np.array([[0.4, 1.0], [1.6, 0.8]])

    def __init__(self, path):
        real = load_encoder(path)
        self.tokens = real.tokens
        loaded = real.tokens.encode(sorted(self.words()), max_length=8)
        self.loaded = [one.ids[1] for one in loaded]
        self.rng = np.random.default_rng(0)

    @staticmethod
    def words():
        from attnlab.probing import lexicon

        return {*lexicon.POSITIVE, *lexicon.NEGATIVE}

    def read(self, ids, mask, select):
        shape = (2, len(ids), 2, ids.shape[1])
        z = self.rng.standard_normal(shape)
        heads = SimpleNamespace(**{k: getattr(self, k)[:, None, :, None] for k in ("mean", "std", "spread")})  # fmt: skip
        found = np.isin(ids, self.loaded)[None, :, None, :]
        logits = np.where(found, heads.mean + heads.std * z, heads.spread * z)
        logits = np.where(mask[None, :, None, :], logits + 2.0, -np.inf)
        log_weights = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return Reading(np.zeros((3, len(ids), select.shape[1], 4)), log_weights)


def test_the_numbers_of_each_head_and_what_the_theory_makes_of_them(small_bert):
    count = 2000
    drawn = Drawn(small_bert)
    ds = attention_to_words(drawn, sentiment_sentences(count, seed=3))
    assert np.all(np.abs(ds.gap - drawn.mean) < 4.5 * ds.gap_error)
    np.testing.assert_allclose(ds.bulk_std, drawn.spread, rtol=0.02)
    np.testing.assert_allclose(ds.informative_std, drawn.std, rtol=0.08)
    # the exact masses at the true numbers: lengths vary, and E p depends on 1/L nearly linearly
    exact = theory.attention_masses(drawn.spread, head_attention.others(ds), drawn.mean, drawn.std)
    assert np.all(np.abs(ds.mass - exact.mass) < 4.5 * ds.mass_error + 0.02 * exact.mass)
    np.testing.assert_allclose(head_attention.predicted_mass(ds), exact.mass, rtol=0.1)
    # special tokens and the full stop take 3 of L + 3 in a head of even logits
    assert abs(float(ds.words[0, 0]) - float(ds.length / (ds.length + 3))) < 0.03
    assert np.all((ds.participation > 1) & (ds.participation < ds.length + 1))
    assert np.all(ds.mass_other[:, 0] < 0.1)


def test_what_is_no_encoder_and_sentences_that_are_too_short_are_refused(small_bert):
    short = Sentences(("nice house", "ugly house"), np.array([1, -1]), ("nice", "ugly"), ((0, 4),) * 2, ((5, 10),) * 2)  # fmt: skip
    encoder = load_encoder(small_bert)
    for given, sentences, message in (
        (encoder, short, "at least two words beside"),
        (encoder, sentiment_sentences(2, seed=0).texts, "probing.Sentences"),
        (str(small_bert), short, "such as load_encoder gives"),
        (encoder, dataclasses.replace(short, other=((4, 5),) * 2), "has tokens"),
    ):
        with pytest.raises(al.InvalidArgument, match=message):
            attention_to_words(given, sentences)


def test_words_that_hardly_get_any_attention_are_compared_all_the_same(small_bert):
    drawn = Drawn(small_bert)
    sentences = sentiment_sentences(20, seed=3)
    near = attention_to_words(drawn, sentences)
    drawn = Drawn(small_bert)
    shifted = drawn.read

    def read(ids, mask, select):
        found = shifted(ids, mask, select)
        return found._replace(log_attention=found.log_attention - 900)

    drawn.read = read
    far = attention_to_words(drawn, sentences)
    for name in ("mass", "participation", "gap", "bulk_std"):
        np.testing.assert_allclose(far[name], near[name], rtol=1e-9)
    drawn.read = lambda *given: shifted(*given)._replace(
        log_attention=np.full((2, 64, 2, 64), np.nan)
    )
    with pytest.raises(al.InvalidArgument, match="attention is finite"):
        attention_to_words(drawn, sentences)
