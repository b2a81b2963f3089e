"""What every kind of file is turned into: arrays that can be read, with their shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .._core.errors import InvalidArgument


@dataclass(frozen=True)
class Entry:
    """An array in a file: its shape, how to read it, and whether it holds floating-point numbers of
    8 bits or fewer, which stand for weights only together with a scale."""

    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]
    eight_bit: bool = False


@dataclass(frozen=True)
class Contents:
    """The arrays of a file by name, and the text beside them."""

    entries: Mapping[str, Entry]
    metadata: Mapping[str, str] = field(default_factory=dict)


def refuse(path: Path, allowed: str, reason: object = None) -> InvalidArgument:
    """The error about `path`: what it must be, with the first line of a reader's complaint."""
    told = "" if reason is None else f" ({(str(reason) or type(reason).__name__).splitlines()[0]})"
    return InvalidArgument("path", str(path), " ".join((allowed + told).splitlines()))
