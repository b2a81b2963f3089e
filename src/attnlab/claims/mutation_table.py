"""Results of the mutation test on the terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core.files import replacing
from .._version import __version__
from .mutation import MutationResult, share_caught

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

FORMAT = 1


def mutation_line(result: MutationResult) -> Text:
    """One line for a stream of results: mark, claim, what was broken, what became of it."""
    from rich.text import Text

    mark, style = ("✓", "green") if result.caught else ("✗", "bold red")
    line = Text(f"{mark} ", style=style)
    line.append(result.claim, style="bold")
    line.append(f"  {_broken(result)}")
    line.append(f"  {_fate(result)}", style=style)
    line.append(f"  {result.seconds:.1f} s", style="dim")
    return line


def mutation_table(results: Sequence[MutationResult], title: str | None = None) -> Table:
    """Results as a Rich table."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left", expand=False)
    table.add_column("claim", overflow="fold", ratio=1)
    table.add_column("broken", overflow="fold", ratio=2)
    table.add_column("check", overflow="fold", ratio=2)
    table.add_column("s", justify="right", no_wrap=True)
    for result in results:
        style = "green" if result.caught else "bold red"
        cells = (result.claim, _broken(result), f"{result.seconds:.1f}")
        name, what, seconds = map(escape, cells)
        table.add_row(name, what, f"[{style}]{escape(_fate(result))}[/]", seconds)
    return table


def mutation_summary(results: Sequence[MutationResult]) -> str:
    """How many mutations of how many claims were caught."""
    missed = {result.claim for result in results if not result.caught}
    claims = {result.claim for result in results}
    caught = sum(result.caught for result in results)
    seconds = sum(result.seconds for result in results)
    return (
        f"{caught} of {len(results)} mutations caught ({share_caught(results):.1%}); "
        f"{len(claims - missed)} of {len(claims)} claims caught all of theirs. "
        f"Broken checks took {seconds:.0f} s in all."
    )


def print_mutations(results: Sequence[MutationResult], console: Console) -> None:
    """Prints those that were not caught as a table, and the summary."""
    missed = [result for result in results if not result.caught]
    if missed:
        console.print(mutation_table(missed, "not caught"))
    console.print(mutation_summary(results), markup=False)


def save_mutations(
    results: Sequence[MutationResult],
    path: str | Path,
    *,
    provenance: dict[str, Any] | None = None,
) -> Path:
    """Writes the results as JSON, all of it or nothing."""
    document = {
        "format": FORMAT,
        "attnlab": __version__,
        "provenance": provenance or {},
        "caught": sum(result.caught for result in results),
        "mutations": len(results),
        "share_caught": share_caught(results),
        "results": [_to_dict(result) for result in results],
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    return Path(path)


def _to_dict(result: MutationResult) -> dict[str, Any]:
    mutation = result.mutation
    return {
        "claim": result.claim,
        "target": mutation and mutation.target,
        "change": mutation and repr(mutation.change),
        "text": mutation and mutation.text,
        "expects": mutation and mutation.expects,
        "verdict": result.verdict,
        "caught": result.caught,
        "failed": list(result.failed),
        "seconds": result.seconds,
        "error": result.error,
    }


def _broken(result: MutationResult) -> str:
    return "nothing" if result.mutation is None else result.mutation.text


def _fate(result: MutationResult) -> str:
    if result.error is not None:
        return result.error
    if not result.caught:
        return f"not caught: {result.verdict}"
    return f"caught: {result.failed[0]}" if result.failed else f"caught: {result.verdict}"
