"""Which papers there are: those of this package, then those that other distributions bring."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import warnings
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from .._core.errors import InvalidArgument
from ._framework import Experiment, Paper

GROUP = "attnlab.papers"


def collect(package: str, attribute: str) -> tuple[Any, ...]:
    """The tuples called `attribute` of all modules of `package`, joined in the order of the names.

    So that experiments or claims can be added side by side, a paper may keep them in a folder of
    light modules. Modules whose name starts with an underscore are helpers.
    """
    folder = importlib.import_module(package)
    found: list[Any] = []
    for name in sorted(info.name for info in pkgutil.iter_modules(folder.__path__)):
        if name.startswith("_"):
            continue
        items = getattr(importlib.import_module(f"{package}.{name}"), attribute, None)
        if not isinstance(items, tuple):
            raise InvalidArgument(f"{package}.{name}.{attribute}", items, "a tuple")
        found.extend(items)
    return tuple(found)


@cache
def all_papers() -> tuple[Paper, ...]:
    """All papers, the package's own first, each group in the order of the citation keys.

    A paper of another distribution that cannot be loaded, or whose key is taken, is left out with
    a warning: it must not keep the others from working.
    """
    papers: dict[str, Paper] = {}
    for paper in sorted(_own(), key=lambda paper: paper.key):
        papers[paper.key] = paper
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            paper = point.load()
            if not isinstance(paper, Paper):
                raise InvalidArgument(point.value, paper, "a Paper")
            if paper.key in papers:
                raise InvalidArgument(point.value, paper.key, "a citation key not yet taken")
        except Exception as error:  # whatever the foreign module raises
            warnings.warn(f"paper {point.name!r} ({point.value}) left out: {error}", stacklevel=2)
            continue
        papers[paper.key] = paper
    return tuple(papers.values())


def _own() -> Iterator[Paper]:
    package = importlib.import_module(__package__ or "attnlab.papers")
    for info in pkgutil.iter_modules(package.__path__):
        if not info.name.startswith("_"):
            yield importlib.import_module(f"{package.__name__}.{info.name}").PAPER


def all_experiments() -> tuple[Experiment, ...]:
    """The experiments of all papers, in the order of the papers."""
    return tuple(experiment for paper in all_papers() for experiment in paper.experiments)


def find_experiment(id: str) -> Experiment:
    """The experiment of that id; a name without its paper will do while it is the only one.

    Raises `InvalidArgument` for an unknown id, with the nearest ones.
    """
    if not isinstance(id, str):
        raise InvalidArgument("experiment id", id, "a text, one of those that `attnlab list` shows")
    experiments = {experiment.id: experiment for experiment in all_experiments()}
    if id in experiments:
        return experiments[id]
    named = [experiment for experiment in experiments.values() if experiment.name == id]
    if len(named) == 1:
        return named[0]
    names = {experiment.name: experiment.id for experiment in experiments.values()}
    short = id.rpartition("/")[2]
    near = difflib.get_close_matches(id, experiments, n=3, cutoff=0.5)
    near += [names[name] for name in difflib.get_close_matches(short, names, n=3, cutoff=0.5)]
    hint = f" (nearest: {', '.join(dict.fromkeys(near))})" if near else ""
    raise InvalidArgument("experiment id", id, f"one of those that `attnlab list` shows{hint}")
