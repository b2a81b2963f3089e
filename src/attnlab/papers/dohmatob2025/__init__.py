"""Dohmatob: Understanding softmax attention layers (single-location regression, long prompts).

Audited from the author's answers to the reviewers, which state the results with their proofs in
outline; equations that they cite by number only are derived again in `docs/theory`.
"""

from .._discovery import collect
from .._framework import Paper

PAPER = Paper(
    key="dohmatob2025",
    title="Understanding Softmax Attention Layers: Exact Mean-Field Analysis on a Toy Problem",
    authors=("Elvis Dohmatob",),
    year=2025,
    bibtex="""\
@inproceedings{dohmatob2025,
  title     = {Understanding Softmax Attention Layers: Exact Mean-Field Analysis on a Toy Problem},
  author    = {Dohmatob, Elvis},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2025}
}""",
    experiments=collect("attnlab.papers.dohmatob2025.catalogue", "EXPERIMENTS"),
    claims="attnlab.papers.dohmatob2025.claims:CLAIMS",
    mutations="attnlab.papers.dohmatob2025.mutations:MUTATIONS",
    sweeps=("attnlab.papers.dohmatob2025:sweeps/phase-diagram.toml",),
)
