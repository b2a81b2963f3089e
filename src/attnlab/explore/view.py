"""What a part of the page shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..plotting.spec import Figure


@dataclass(frozen=True)
class View:
    """A `figure`, and `numbers`: rows of a quantity, its value, and how it was found."""

    figure: Figure
    numbers: tuple[tuple[str, str, str], ...]


def number(value: float) -> str:
    """Six digits: what a reader compares."""
    return f"{value:.6g}"
