"""Verdicts on the terminal, and the exit status that they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._core.errors import check_choice
from .claim import FAILED, VERDICTS, Verdict
from .levels import family_level
from .text import check_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_MARK = {
    "confirmed": ("✓", "green"),
    "refuted as stated": ("✗", "red"),
    "inconclusive": ("?", "yellow"),
    FAILED: ("!", "bold red"),
}
# What `--only` accepts, in short forms too.
_ONLY = {
    "confirmed": "confirmed",
    "refuted": "refuted as stated",
    "refuted as stated": "refuted as stated",
    "inconclusive": "inconclusive",
    "failed": FAILED,
    FAILED: FAILED,
    "unexpected": "unexpected",
}


def exit_status(verdicts: Sequence[Verdict], *, strict: bool = False) -> int:
    """1 when a check failed to run or a verdict differs from the one on record, else 0.

    With `strict`, 1 also when a claim is refuted as stated.
    """
    wrong = any(not verdict.as_expected for verdict in verdicts)
    refuted = any(verdict.verdict == "refuted as stated" for verdict in verdicts)
    return int(wrong or (strict and refuted))


def only(verdicts: Sequence[Verdict], kind: str) -> list[Verdict]:
    """Those verdicts that are `kind`: confirmed, refuted, inconclusive, failed or unexpected.

    Raises `InvalidArgument` for another word.
    """
    wanted = _ONLY[check_choice("only", kind, _ONLY)]
    if wanted == "unexpected":
        return [verdict for verdict in verdicts if not verdict.as_expected]
    return [verdict for verdict in verdicts if verdict.verdict == wanted]


def counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """How many of each verdict, in the order of `VERDICTS`, with those that failed to run last."""
    found = Counter(verdict.verdict for verdict in verdicts)
    kinds = (*VERDICTS, FAILED)
    return {kind: found[kind] for kind in kinds if found[kind] or kind != FAILED}


def answered(verdicts: Sequence[Verdict]) -> int:
    """How many open questions are answered: they are among the confirmed."""
    return sum(verdict.word == "answered" for verdict in verdicts)


def verdict_line(verdict: Verdict) -> Text:
    """One line for a stream of verdicts: mark, id, verdict, key numbers, seconds."""
    from rich.text import Text

    mark, style = _MARK[verdict.verdict]
    line = Text(f"{mark} ", style=style)
    line.append(verdict.id, style="bold")
    line.append(f"  {verdict.word}", style=style)
    if verdict.failed is None and not verdict.as_expected:
        line.append(f" (on record: {verdict.claim.expected})", style="bold red")
    line.append(f"  {_numbers(verdict)}  {verdict.seconds:.1f} s", style="dim")
    return line


def verdict_table(verdicts: Sequence[Verdict], title: str | None = None) -> Table:
    """All verdicts with measured and stated values, as a Rich table."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", expand=False)
    table.add_column("claim", overflow="fold", ratio=2)
    table.add_column("verdict", no_wrap=True)
    table.add_column("measured, and stated or required", overflow="fold", ratio=3)
    table.add_column("source", overflow="fold", ratio=1)
    table.add_column("s", justify="right", no_wrap=True)
    for verdict in verdicts:
        mark, style = _MARK[verdict.verdict]
        words = f"[{style}]{mark} {verdict.word}[/]"
        if verdict.failed is None and not verdict.as_expected:
            words += f"\n[bold red]on record: {verdict.claim.expected}[/]"
        table.add_row(
            _escaped(verdict.id),
            words,
            _escaped(_numbers(verdict)),
            _escaped(verdict.claim.source),
            f"{verdict.seconds:.1f}",
        )
    return table


def summary_line(verdicts: Sequence[Verdict]) -> str:
    """How many of each verdict, the family-wise level, and the time the checks took."""
    parts = ", ".join(f"{number} {kind}" for kind, number in counts(verdicts).items())
    answers = answered(verdicts)
    if answers:
        parts += f" ({answers} of the confirmed are answers to open questions)"
    seconds = sum(verdict.seconds for verdict in verdicts)
    level = family_level(len(verdicts))
    return (
        f"{len(verdicts)} claim{'' if len(verdicts) == 1 else 's'}: {parts}; checks took {seconds:.1f} s in all. "
        f"Chance of any false refutation: at most {level:.2%}."
    )


def print_verdicts(
    verdicts: Sequence[Verdict], console: Console, *, kind: str | None = None, table: bool = True
) -> None:
    """Prints the table (only those of `kind`, if given; unless it is not wanted), the corrected forms
    and the summary."""
    shown = list(verdicts) if kind is None else only(verdicts, kind)
    if shown and table:
        console.print(verdict_table(shown))
    for verdict in shown:
        if verdict.corrected:
            console.print(
                f"[bold]{_escaped(verdict.id)}[/] corrected: {_escaped(verdict.corrected)}"
            )
        if verdict.answer:
            console.print(f"[bold]{_escaped(verdict.id)}[/] answer: {_escaped(verdict.answer)}")
        if verdict.details:
            console.print(_escaped(verdict.details), style="dim")
    console.print(summary_line(verdicts))


def _numbers(verdict: Verdict) -> str:
    if verdict.failed is not None:
        return verdict.failed
    check = verdict.key_check
    return "" if check is None else check_text(check)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
