"""`list` and `cite`: what there is, and whose work it rests on."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Annotated

import typer

from .._core.errors import InvalidArgument
from .console import columns, output, say

if TYPE_CHECKING:
    from rich.console import Console

    from ..claims import Claim
    from ..papers import Experiment, Paper


def list_(
    id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]", help="A paper, an experiment or a claim; all papers when left out."
        ),
    ] = None,
) -> None:
    """List papers with their experiments and claims, or show one experiment or claim."""
    from .. import papers
    from ..claims import registry

    console = output()
    known = {paper.key: paper for paper in papers.all_papers()}
    if id is None:
        for paper in known.values():
            _paper(console, paper)
    elif id in known:
        _paper(console, known[id])
    else:  # an experiment and a claim may have one id
        every = registry.all_claims()
        claims = [claim for claim in every if claim.key == id]
        for claim in claims:
            _claim(console, claim)
        if not claims or id in {experiment.id for experiment in papers.all_experiments()}:
            try:
                found = papers.find_experiment(id)
            except InvalidArgument as error:
                near = difflib.get_close_matches(
                    id, [claim.key for claim in every], n=3, cutoff=0.6
                )
                hint = f"; claims near it: {', '.join(near)}" if near else ""
                raise InvalidArgument("ID", id, f"{error.allowed}{hint}") from None
            _experiment(console, found)


def cite(
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID...",
            help="A citation key, an experiment or claim id, a task or a method (SingleLocation).",
        ),
    ],
) -> None:
    """Print the BibTeX of the works behind a paper, experiment, claim, task or method."""
    from .. import papers

    typer.echo(papers.bibtex_for(ids), nl=False)


def _paper(console: Console, paper: Paper) -> None:
    from ..claims import registry

    say(console, f"{paper.key}  {paper.title} ({paper.year})", style="bold")
    say(console, f"  {', '.join(paper.authors)}", style="dim")
    experiments = [(e.id, e.title) for e in paper.experiments]
    stated = [(c.key, c.title) for c in registry.claims_of(paper)]
    for heading, rows in (
        ("experiments (attnlab run ID)", experiments),
        ("claims (attnlab verify ID)", stated),
    ):
        if rows:
            say(console, f"  {heading}")
            columns(console, rows, indent=4)


def _experiment(console: Console, experiment: Experiment) -> None:
    from ..papers._config import as_text, describe

    kind = experiment.config_class()
    words = describe(kind)
    presets = {name: experiment.configure(name) for name in experiment.presets}
    say(console, f"{experiment.id}  {experiment.title}", style="bold")
    columns(
        console,
        [
            ("what", experiment.summary),
            ("source", experiment.source),
            ("expected", experiment.expected),
        ],
    )
    say(console, "settings (--set key=value)", style="bold")
    rows = [("key", "accepts", *presets, "meaning")]
    for key, field in kind.model_fields.items():
        values = [as_text(getattr(config, key)) for config in presets.values()]
        rows.append((key, words[key], *values, field.description or ""))
    columns(console, rows)


def _claim(console: Console, claim: Claim) -> None:
    say(console, f"{claim.key}  {claim.title}", style="bold")
    columns(
        console,
        [
            ("statement", claim.statement),
            ("source", claim.source),
            ("meaning", claim.explanation),
            ("on record", claim.expected or "no verdict yet"),
            ("check", f"attnlab verify {claim.key}"),
        ],
    )
