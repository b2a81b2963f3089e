"""`mutate`: are the checks of the claims sharp enough to notice a broken formula?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .check import IDS, PRESET, PROCESSES, SEED
from .console import complain, output, say, streamed


def mutate(
    ids: Annotated[list[str] | None, IDS] = None,
    preset: Annotated[str, PRESET] = "quick",
    seed: Annotated[int, SEED] = 0,
    processes: Annotated[int, PROCESSES] = 2,
    out: Annotated[
        Path | None, typer.Option(help="Also write the results to this JSON file.")
    ] = None,
) -> None:
    """Break formulas behind claims; exit status 1 when a check does not notice."""
    from .. import claims, records

    if out is not None:
        records.writable_file(out)
    console = output()
    results, interrupted = streamed(
        lambda arrived: claims.mutate(
            ids or None,
            preset=preset,  # type: ignore[arg-type]
            seed=seed,
            processes=processes,
            on_result=arrived,
        ),
        lambda result: console.print(claims.mutation_line(result)),
        console,
    )
    if out is not None:  # before they are printed: the terminal may be gone
        settings = {"ids": ids or [], "preset": preset, "seed": seed}
        provenance = records.provenance(settings, extra={"interrupted": interrupted})
        claims.save_mutations(results, out, provenance=provenance)
    claims.print_mutations(results, console)
    if out is not None:
        say(console, f"mutations  {out}")
    if interrupted:
        complain("the results above are those that were reached", mark="interrupted")
        raise typer.Exit(130)
    raise typer.Exit(int(claims.share_caught(results) < 1))
