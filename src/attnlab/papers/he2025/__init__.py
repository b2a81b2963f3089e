"""He, Pan, Chen, Yang: In-context linear regression demystified (multi-head softmax attention)."""

from .._discovery import collect
from .._framework import Paper

PAPER = Paper(
    key="he2025",
    title=(
        "In-Context Linear Regression Demystified: Training Dynamics and Mechanistic "
        "Interpretability of Multi-Head Softmax Attention"
    ),
    authors=("Jianliang He", "Xintian Pan", "Siyu Chen", "Zhuoran Yang"),
    year=2025,
    bibtex="""\
@inproceedings{he2025,
  title     = {In-Context Linear Regression Demystified: Training Dynamics and Mechanistic
               Interpretability of Multi-Head Softmax Attention},
  author    = {He, Jianliang and Pan, Xintian and Chen, Siyu and Yang, Zhuoran},
  booktitle = {International Conference on Machine Learning},
  year      = {2025}
}""",
    experiments=collect("attnlab.papers.he2025.catalogue", "EXPERIMENTS"),
    claims="attnlab.papers.he2025.claims:CLAIMS",
    mutations="attnlab.papers.he2025.mutations:MUTATIONS",
    sweeps=("attnlab.papers.he2025:sweeps/heads-length-dimension.toml",),
)
