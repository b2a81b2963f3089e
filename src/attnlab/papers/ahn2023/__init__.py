"""Ahn, Cheng, Daneshmand, Sra: linear attention in context is preconditioned gradient descent.

And the note that its authors posted in the review, on attention with ReLU in place of softmax.
"""

from .._discovery import collect
from .._framework import Paper

PAPER = Paper(
    key="ahn2023",
    title="Transformers learn to implement preconditioned gradient descent for in-context learning",
    authors=("Kwangjun Ahn", "Xiang Cheng", "Hadi Daneshmand", "Suvrit Sra"),
    year=2023,
    bibtex="""\
@inproceedings{ahn2023,
  title     = {Transformers learn to implement preconditioned gradient descent for in-context
               learning},
  author    = {Ahn, Kwangjun and Cheng, Xiang and Daneshmand, Hadi and Sra, Suvrit},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {36},
  year      = {2023}
}""",
    experiments=collect("attnlab.papers.ahn2023.catalogue", "EXPERIMENTS"),
    claims="attnlab.papers.ahn2023.claims:CLAIMS",
    mutations="attnlab.papers.ahn2023.mutations:MUTATIONS",
    references={
        "erdogdu2016": """\
@inproceedings{erdogdu2016,
  title     = {Scaled least squares estimator for {GLM}s in large-scale problems},
  author    = {Erdogdu, Murat A. and Dicker, Lee H. and Bayati, Mohsen},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {29},
  year      = {2016}
}""",
        "vonoswald2023": """\
@inproceedings{vonoswald2023,
  title     = {Transformers learn in-context by gradient descent},
  author    = {von Oswald, Johannes and Niklasson, Eyvind and Randazzo, Ettore and Sacramento,
               Jo{\\~a}o and Mordvintsev, Alexander and Zhmoginov, Andrey and Vladymyrov, Max},
  booktitle = {International Conference on Machine Learning},
  year      = {2023}
}""",
    },
)
