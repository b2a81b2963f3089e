"""Marion, Berthier, Biau, Boyer: Attention layers provably solve single-location regression."""

from .._discovery import collect
from .._framework import Paper

PAPER = Paper(
    key="marion2025",
    title="Attention layers provably solve single-location regression",
    authors=("Pierre Marion", "Raphaël Berthier", "Gérard Biau", "Claire Boyer"),
    year=2025,
    bibtex="""\
@inproceedings{marion2025,
  title     = {Attention layers provably solve single-location regression},
  author    = {Marion, Pierre and Berthier, Rapha{\\"e}l and Biau, G{\\'e}rard and Boyer, Claire},
  booktitle = {International Conference on Learning Representations},
  year      = {2025}
}""",
    experiments=collect("attnlab.papers.marion2025.catalogue", "EXPERIMENTS"),
    claims="attnlab.papers.marion2025.claims:CLAIMS",
    mutations="attnlab.papers.marion2025.mutations:MUTATIONS",
    sweeps=("attnlab.papers.marion2025:sweeps/basins.toml",),
)
