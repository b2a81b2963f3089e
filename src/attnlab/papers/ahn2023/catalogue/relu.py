"""The lemma of the note on ReLU attention, drawn."""

from __future__ import annotations

from ..._framework import Experiment

_ROOT = "attnlab.papers.ahn2023.relu_lemma"

EXPERIMENTS = (
    Experiment(
        id="ahn2023/relu-lemma",
        title="ReLU attention: its loss along and around multiples of the identity",
        summary=(
            "The exact loss is a paraboloid around a multiple of the identity, the same in all "
            "directions, and training from random P and Q ends at its minimum. A factor ½ that the "
            "proof drops would put the minimum elsewhere."
        ),
        source="note on ReLU attention, Lemma and its Proof",
        config=f"{_ROOT}:ReluLemmaConfig",
        run=f"{_ROOT}:run",
        figure=f"{_ROOT}:figure",
        presets={
            "quick": {
                "steps": 2500,
                "runs": 4,
                "samples": 5000,
                "lengths": (2, 5, 10, 20, 50),
            },
            "paper": {},
        },
        expected=(
            "At d = 5, n = 20 the minimum is at c = 2/33 = 0.0606 with a loss of 1.970; the printed "
            "diagonal term would put it at 2/47 = 0.0426, where the loss is 2.239. Layers trained from "
            "random P and Q end within about one percent of 2/33."
        ),
        cites=("erdogdu2016",),
    ),
)
