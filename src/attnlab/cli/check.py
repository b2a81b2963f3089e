"""`verify` and `report`: the claims of the papers, checked and written up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import output, progress, say

_PRESET = typer.Option(help="quick (minutes in all) or paper (the sizes of the paper).")
_SEED = typer.Option(help="Seed of every check.")
_PROCESSES = typer.Option(help="Checks that run side by side, one process each.")
_IDS = typer.Argument(
    metavar="[ID]...", help="Papers or claims, such as marion2025/risk-formula; all when left out."
)


def verify(
    ids: Annotated[list[str] | None, _IDS] = None,
    preset: Annotated[str, _PRESET] = "quick",
    seed: Annotated[int, _SEED] = 0,
    processes: Annotated[int, _PROCESSES] = 1,
    only: Annotated[
        str | None,
        typer.Option(help="Show only: confirmed, refuted, inconclusive, failed, unexpected."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuted claims make the exit status 1 too.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Also write the verdicts to this JSON file.")
    ] = None,
) -> None:
    """Check claims; exit status 1 when a verdict is not the one on record or a check failed."""
    from .. import claims, records

    if only is not None:
        claims.only([], only)  # refuses an unknown word before the checks run
    if out is not None:
        records.writable_directory(out.parent)
    console = output()
    with progress():
        verdicts = claims.verify(ids or None, preset=preset, seed=seed, processes=processes)  # type: ignore[arg-type]
    claims.print_verdicts(verdicts, console, kind=only)
    if out is not None:
        provenance = records.provenance({"ids": ids or [], "preset": preset, "seed": seed})
        say(console, f"verdicts  {claims.save_verdicts(verdicts, out, provenance=provenance)}")
    raise typer.Exit(claims.exit_status(verdicts, strict=strict))


def report(
    out: Annotated[Path, typer.Option(help="The HTML file.")] = Path("report.html"),
    preset: Annotated[str, _PRESET] = "quick",
    seed: Annotated[int, _SEED] = 0,
) -> None:
    """Check every claim, run the experiments and write one HTML page, readable without a network."""
    from .. import records
    from ..report import build_report

    records.writable_directory(out.parent)
    with progress():
        path = build_report(out, preset=preset, seed=seed)
    say(output(), f"report  {path}")
