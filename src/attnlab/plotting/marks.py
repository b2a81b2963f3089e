"""Marks that several figures put together alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from .spec import Band, Line, Mark


def spread(
    x: Any, values: np.ndarray, label: str | None, role: Any, dash: bool = False
) -> list[Mark]:
    """The median of `values` `(run, x)` as a line in its 10-90 % band."""
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9), axis=0)
    marks: list[Mark] = [] if len(values) < 2 else [Band(x, low, high, role=role)]
    return [*marks, Line(x, middle, label=label, role=role, dash=dash)]
