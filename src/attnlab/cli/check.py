"""`verify` and `report`: the claims of the papers, checked and written up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .._core.errors import InvalidArgument
from .console import complain, computing, output, say, streamed

PRESET = typer.Option(help="quick (minutes in all) or paper (the sizes of the paper).")
SEED = typer.Option(help="Seed of every check.")
PROCESSES = typer.Option(help="Checks that run side by side, one process each.")
IDS = typer.Argument(
    metavar="[ID]...", help="Papers or claims, such as marion2025/risk-formula; all when left out."
)


def verify(
    ids: Annotated[list[str] | None, IDS] = None,
    preset: Annotated[str, PRESET] = "quick",
    seed: Annotated[int, SEED] = 0,
    processes: Annotated[int, PROCESSES] = 2,
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
    """Check claims; exit status 1 when a verdict is not the one on record or a check failed.

    Every check is computed anew; `report` uses stored results where they are still valid.
    """
    from .. import claims, records

    if only is not None:
        claims.only([], only)  # refuses an unknown word before the checks run
    if out is not None:
        records.writable_file(out)
    console = output()

    def show(verdict: claims.Verdict) -> None:
        if only is None:
            console.print(claims.verdict_line(verdict))

    verdicts, interrupted = streamed(
        lambda arrived: claims.verify(
            ids or None,
            preset=preset,  # type: ignore[arg-type]
            seed=seed,
            processes=processes,
            on_verdict=arrived,
        ),
        show,
        console,
    )
    if out is not None:  # before they are printed: the terminal may be gone
        settings = {"ids": ids or [], "preset": preset, "seed": seed}
        provenance = records.provenance(settings, extra={"interrupted": interrupted})
        claims.save_verdicts(verdicts, out, provenance=provenance)
    told = only is None and console.is_terminal  # each has had its line already
    claims.print_verdicts(verdicts, console, kind=only, table=not told)
    if out is not None:
        say(console, f"verdicts  {out}")
    if interrupted:
        complain("the verdicts above are those that were reached", mark="interrupted")
        raise typer.Exit(130)
    raise typer.Exit(claims.exit_status(verdicts, strict=strict))


def report(
    context: typer.Context,
    papers: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PAPER]...", help="Citation keys; all papers when left out."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The HTML file.")] = Path("report.html"),
    preset: Annotated[str, PRESET] = "quick",
    seed: Annotated[int, SEED] = 0,
    processes: Annotated[int, PROCESSES] = 2,
    archive: Annotated[
        Path | None,
        typer.Option(
            metavar="ZIP", help="Also write records, figures, verdicts and environment to this zip."
        ),
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="ZIP", help="Compute nothing: make the page again from an archive."
        ),
    ] = None,
) -> None:
    """Check the claims, run the experiments and write one HTML page, readable without a network.

    Results are kept beside the page and used again; after Ctrl-C the same command goes on.
    """
    from ..report import build_report, rebuild

    if from_ is not None:
        _alone(context, "from_", "out")
        say(output(), f"report  {rebuild(from_, out)}")
        return
    try:
        with computing(drawing=archive is not None, lines=True):
            path = build_report(
                out,
                preset=preset,
                seed=seed,
                papers=papers or None,
                processes=processes,
                archive=archive,
            )
    except KeyboardInterrupt:
        complain(
            "what was computed is kept beside the page; the same command goes on from there",
            mark="interrupted",
        )
        raise typer.Exit(130) from None
    say(output(), f"report  {path}")
    if archive is not None:
        say(output(), f"archive  {archive}")


def _alone(context: typer.Context, *allowed: str) -> None:
    """Refuses what was given besides: it would be ignored, since all of it is in the archive."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in allowed and source is not None and source.name == "COMMANDLINE":
            allowed_words = "left out with --from, which computes nothing"
            raise InvalidArgument(name, context.params[name], allowed_words)
