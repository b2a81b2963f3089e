"""A pretrained encoder: what its tokens carry, and where its heads look."""

from __future__ import annotations

from ..._framework import Experiment

_ROOT = "attnlab.papers.marion2025"

EXPERIMENTS = (
    Experiment(
        id="marion2025/linear-probing",
        title="Linear probes of a pretrained BERT",
        summary=(
            "Sentences carry one sentiment adjective among neutral words. Logistic regression reads its "
            "sign from the adjective's own embedding, from [CLS], from a neutral adjective and from the "
            "mean, at every layer; an untrained network and unseen adjectives are the controls."
        ),
        source="section 2: linear probing of BERT (and rebuttal, answer Q1 on the sentences)",
        config=f"{_ROOT}.linear_probing:ProbingConfig",
        run=f"{_ROOT}.linear_probing:probed",
        figure=f"{_ROOT}.linear_probing_figure:figure",
        presets={
            "quick": {},
            "paper": {
                "sentences": 6000,
                "sizes": (20, 50, 100, 200, 500, 1000, 3000),
                "folds": 8,
            },
        },
        expected=(
            "MiniLM with 6 layers, 1000 training sentences, unseen adjectives: [CLS] at chance in layer "
            "0, 0.94 ± 0.02 in layer 1, 0.96 ± 0.02 in layer 6; the informative token 0.99, a neutral one "
            "0.85. Untrained: 0.96 on unseen sentences (it recalls words), at chance on unseen words."
        ),
    ),
    Experiment(
        id="marion2025/head-attention",
        title="Where the heads of a pretrained BERT look, against single-location theory",
        summary=(
            "From [CLS] to the words of each sentence: the weight of the informative one, head by head, "
            "against the exact weight of a single-location head with the same three numbers."
        ),
        source="section 2: token-wise sparsity and the role of [CLS]",
        config=f"{_ROOT}.head_attention:HeadAttentionConfig",
        run=f"{_ROOT}.head_attention:measured",
        figure=f"{_ROOT}.head_attention:figure",
        presets={"quick": {}, "paper": {"sentences": 4000}},
        expected=(
            "MiniLM with 6 layers: no head looks at one word alone. The largest weight is 0.24, 5.6 times "
            "equal attention, in layer 6; 39 of 72 heads prefer the informative to a neutral adjective. The "
            "theory's weight agrees head by head: 4 % apart on average over a range of 0.015 to 0.24."
        ),
    ),
)
