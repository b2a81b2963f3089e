"""What a report says, before it becomes a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..claims import FAILED, Verdict

if TYPE_CHECKING:
    from ..papers import Experiment, Paper
    from ..plotting.spec import Figure

_ORDER = {FAILED: 0, "refuted as stated": 1, "inconclusive": 2, "confirmed": 3}


@dataclass(frozen=True)
class ExperimentResult:
    """An experiment in the report: its `figure`, or the `error` that prevented it.

    `seconds` is what the computation took, also when it was `stored` by an earlier run; `record` is
    the path of the record, `provenance` what it says about itself.
    """

    experiment: Experiment
    figure: Figure | None = None
    error: str | None = None
    details: str = ""
    seconds: float = 0.0
    stored: bool = False
    record: Path | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def anchor(self) -> str:
        """Id of its place in the page."""
        return slug("experiment", self.experiment.id)


@dataclass(frozen=True)
class Chapter:
    """A paper in the report; `error` says why its claims could not be read, if so."""

    paper: Paper
    verdicts: tuple[Verdict, ...]
    experiments: tuple[ExperimentResult, ...]
    error: str | None = None

    @property
    def anchor(self) -> str:
        """Id of its place in the page."""
        return slug("paper", self.paper.key)

    @property
    def link(self) -> str:
        """Address of the paper, from its BibTeX entry; else the place of its reference in the page."""
        return address(self.paper.bibtex) or "#" + slug("reference", self.paper.key)


@dataclass(frozen=True)
class Report:
    """All chapters, how they were computed, and how long it took (`seconds`, this time)."""

    chapters: tuple[Chapter, ...]
    preset: str
    seed: int
    seconds: float
    provenance: Mapping[str, Any]
    stored_verdicts: frozenset[str] = frozenset()
    archive: str | None = None  # the file that it was read from, if it was not computed here

    @property
    def verdicts(self) -> list[Verdict]:
        """All verdicts, the surprising ones first."""
        every = [verdict for chapter in self.chapters for verdict in chapter.verdicts]
        return sorted(every, key=lambda v: (v.as_expected, _ORDER[v.verdict]))

    @property
    def experiments(self) -> list[ExperimentResult]:
        """All experiments, in the order of the chapters."""
        return [result for chapter in self.chapters for result in chapter.experiments]

    @property
    def surprises(self) -> list[Verdict]:
        """Verdicts that a reader of the papers does not expect: refuted, failed, or not as on record."""
        surprising = (FAILED, "refuted as stated")
        return [v for v in self.verdicts if not v.as_expected or v.verdict in surprising]

    @property
    def undecided(self) -> list[Verdict]:
        """Claims on which the numbers were too coarse to say."""
        return [v for v in self.verdicts if v.verdict == "inconclusive"]

    @property
    def refuted(self) -> list[Verdict]:
        """Claims that do not hold as stated."""
        return [v for v in self.verdicts if v.verdict == "refuted as stated"]

    @property
    def answered(self) -> list[Verdict]:
        """Open questions that got an answer."""
        return [v for v in self.verdicts if v.answer]

    @property
    def computing_seconds(self) -> float:
        """What all results took to compute, those of earlier runs included."""
        return sum(v.seconds for v in self.verdicts) + sum(e.seconds for e in self.experiments)

    @property
    def stored(self) -> int:
        """How many results an earlier run had left."""
        return len(self.stored_verdicts) + sum(result.stored for result in self.experiments)


def slug(kind: str, id: str) -> str:
    """An element id: `slug("claim", "a/b c")` is `claim-a-b-c`."""
    return f"{kind}-" + re.sub(r"[^A-Za-z0-9]+", "-", id).strip("-")


def address(bibtex: str) -> str | None:
    """The web address in a BibTeX entry: `url`, else from `doi`, else from an arXiv `eprint`."""
    fields = dict(
        re.findall(r"^\s*(url|doi|eprint)\s*=\s*[{\"]([^}\"]+)[}\"]", bibtex, re.M | re.I)
    )
    found = {name.lower(): value.strip() for name, value in fields.items()}
    if found.get("url", "").startswith(("https://", "http://")):
        return found["url"]
    if "doi" in found:
        return "https://doi.org/" + found["doi"]
    return "https://arxiv.org/abs/" + found["eprint"] if "eprint" in found else None
