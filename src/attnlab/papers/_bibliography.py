"""Which works stand behind a task, an experiment or a method, as BibTeX."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from .._core.errors import InvalidArgument, check_several
from ._discovery import all_papers

# Works that are no papers under audit here, by citation key.
_REFERENCES = {
    "absil2008": """\
@book{absil2008,
  title     = {Optimization Algorithms on Matrix Manifolds},
  author    = {Absil, P.-A. and Mahony, R. and Sepulchre, R.},
  publisher = {Princeton University Press},
  year      = {2008}
}""",
    "bouchaud1997": """\
@article{bouchaud1997,
  title   = {Universality classes for extreme-value statistics},
  author  = {Bouchaud, Jean-Philippe and M{\\'e}zard, Marc},
  journal = {Journal of Physics A: Mathematical and General},
  volume  = {30},
  number  = {23},
  pages   = {7997--8015},
  year    = {1997},
  doi     = {10.1088/0305-4470/30/23/004}
}""",
    "derrida1981": """\
@article{derrida1981,
  title   = {Random-energy model: an exactly solvable model of disordered systems},
  author  = {Derrida, Bernard},
  journal = {Physical Review B},
  volume  = {24},
  number  = {5},
  pages   = {2613--2626},
  year    = {1981},
  doi     = {10.1103/PhysRevB.24.2613}
}""",
    "elhage2021": """\
@article{elhage2021,
  title   = {A Mathematical Framework for Transformer Circuits},
  author  = {Elhage, Nelson and Nanda, Neel and Olsson, Catherine and others},
  journal = {Transformer Circuits Thread},
  year    = {2021}
}""",
    "hoyer2017": """\
@article{hoyer2017,
  title   = {xarray: {N-D} labeled arrays and datasets in {Python}},
  author  = {Hoyer, Stephan and Hamman, Joe},
  journal = {Journal of Open Research Software},
  volume  = {5},
  number  = {1},
  year    = {2017},
  doi     = {10.5334/jors.148}
}""",
    "jax2018": """\
@software{jax2018,
  title  = {{JAX}: composable transformations of {Python}+{NumPy} programs},
  author = {Bradbury, James and Frostig, Roy and Hawkins, Peter and Johnson, Matthew James and Leary, Chris
            and Maclaurin, Dougal and Necula, George and Paszke, Adam and Vander{P}las, Jake
            and Wanderman-{M}ilne, Skye and Zhang, Qiao},
  url    = {https://github.com/jax-ml/jax},
  year   = {2018}
}""",
    "kidger2021": """\
@phdthesis{kidger2021,
  title  = {On Neural Differential Equations},
  author = {Kidger, Patrick},
  school = {University of Oxford},
  year   = {2021}
}""",
    "kidger2021equinox": """\
@article{kidger2021equinox,
  title   = {{Equinox}: neural networks in {JAX} via callable {PyTrees} and filtered transformations},
  author  = {Kidger, Patrick and Garcia, Cristian},
  journal = {Differentiable Programming workshop at Neural Information Processing Systems},
  year    = {2021}
}""",
    "owen1956": """\
@article{owen1956,
  title   = {Tables for computing bivariate normal probabilities},
  author  = {Owen, Donald B.},
  journal = {The Annals of Mathematical Statistics},
  volume  = {27},
  number  = {4},
  pages   = {1075--1090},
  year    = {1956},
  doi     = {10.1214/aoms/1177728074}
}""",
    "rader2024": """\
@article{rader2024,
  title   = {Optimistix: modular optimisation in {JAX} and {Equinox}},
  author  = {Rader, Jason and Lyons, Terry and Kidger, Patrick},
  journal = {arXiv:2402.09983},
  year    = {2024}
}""",
    "roy2007": """\
@inproceedings{roy2007,
  title     = {The effective rank: a measure of effective dimensionality},
  author    = {Roy, Olivier and Vetterli, Martin},
  booktitle = {15th European Signal Processing Conference},
  pages     = {606--610},
  year      = {2007}
}""",
    "stein1981": """\
@article{stein1981,
  title   = {Estimation of the mean of a multivariate normal distribution},
  author  = {Stein, Charles M.},
  journal = {The Annals of Statistics},
  volume  = {9},
  number  = {6},
  pages   = {1135--1151},
  year    = {1981},
  doi     = {10.1214/aos/1176345632}
}""",
    "su2021": """\
@article{su2021,
  title   = {{RoFormer}: enhanced transformer with rotary position embedding},
  author  = {Su, Jianlin and Lu, Yu and Pan, Shengfeng and Murtadha, Ahmed and Wen, Bo and Liu, Yunfeng},
  journal = {arXiv:2104.09864},
  year    = {2021}
}""",
}

# What users name in their code, and the works it rests on.
_BEHIND = {
    "attnlab": ("jax2018", "kidger2021equinox", "hoyer2017"),
    "SingleLocation": ("marion2025", "dohmatob2025"),
    "SeveralLocations": ("marion2025",),
    "PointwiseAttention": ("marion2025",),
    "SoftmaxAttention": ("dohmatob2025", "marion2025"),
    "AttentionHeads": ("marion2025",),
    "TransformerLayer": ("marion2025",),
    "Overlaps": ("marion2025", "dohmatob2025"),
    "population_risk": ("marion2025", "owen1956", "stein1981"),
    "mean_field_risk": ("dohmatob2025", "derrida1981"),
    "finite_random_energy": ("dohmatob2025", "derrida1981"),
    "monte_carlo_risk": ("marion2025",),
    "projected_gradient_descent": ("marion2025", "absil2008"),
    "stochastic_gradient_descent": ("marion2025", "absil2008"),
    "gradient_flow": ("marion2025", "kidger2021"),
    "stationary_points": ("marion2025", "rader2024"),
    "convergence_rates": ("marion2025", "absil2008"),
    "transverse_stability": ("marion2025",),
    "empirical_gradient_descent": ("marion2025", "absil2008"),
    "best_linear_predictor": ("marion2025",),
    "diagnose_heads": ("elhage2021", "roy2007", "he2025"),
    "train": ("marion2025", "jax2018", "kidger2021equinox"),
}


def citable() -> dict[str, tuple[str, ...]]:
    """Everything that `bibtex_for` knows, with the citation keys behind it."""
    papers = all_papers()
    known = dict(_BEHIND)
    known.update({key: (key,) for key in _entries()})
    known.update({paper.key: (paper.key,) for paper in papers})
    for paper in papers:
        for experiment in paper.experiments:
            keys = dict.fromkeys((paper.key, *experiment.cites))
            known[experiment.id] = tuple(keys)
    return known


def bibtex_for(ids: str | Iterable[str]) -> str:
    """BibTeX entries, each once, of the works behind papers, experiments, claims, tasks or methods.

    **Arguments:** `ids`, one or several of: a citation key, an experiment or claim id
    (`"marion2025/gd-manifold"`), a public name of attnlab (`"SingleLocation"`, also with its
    module: `"dynamics.gradient_flow"`).

    Raises `InvalidArgument` for an unknown id, with the nearest ones.
    """
    known, entries = citable(), _entries()
    keys: dict[str, None] = {}
    several = (
        [ids] if isinstance(ids, str) else check_several("ids", ids, "an id, or a list of them")
    )
    for id in several:
        if not isinstance(id, str):
            raise InvalidArgument("ids", id, "an id, or a list of them")
        keys.update(dict.fromkeys(_keys(id, known)))
    return "\n\n".join(entries[key] for key in keys) + "\n"


def _entries() -> dict[str, str]:
    entries = dict(_REFERENCES)
    for paper in all_papers():
        entries.update(paper.references)
        entries[paper.key] = paper.bibtex
    return entries


def _keys(id: str, known: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    if id in known:
        return known[id]
    if id.rpartition(".")[2] in _BEHIND:
        return _BEHIND[id.rpartition(".")[2]]
    # Claims are looked up last, since that imports the modules that define them.
    for paper in all_papers():
        if id.startswith(paper.key + "/") and id in _claims(paper.key):
            return (paper.key,)
    near = difflib.get_close_matches(id, known, n=3, cutoff=0.5)
    hint = f" (nearest: {', '.join(near)})" if near else ""
    allowed = "a citation key, an experiment or claim id, a task or a method"
    raise InvalidArgument("cite id", id, allowed + hint)


def _claims(key: str) -> set[str]:
    from .. import claims

    return {claim.key for claim in claims.find(key)}
