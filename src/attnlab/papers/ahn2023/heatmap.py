"""`P` and `Q` of one head as one heatmap: what has an effect, each over its largest entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ...plotting.spec import Panel


def weights_panel(title: str, P: Any, Q: Any) -> Panel:
    """The first `d` columns of `Q`, and below a gap the last row of `P`."""
    from ...plotting.spec import Axis, Heat, Panel

    P, Q = np.asarray(P, np.float64), np.asarray(Q, np.float64)
    d = len(P) - 1
    shown = np.full((d + 3, d + 1), np.nan)
    shown[: d + 1, :d] = Q[:, :d] / (np.abs(Q[:, :d]).max() or 1.0)
    shown[d + 2] = P[d] / (np.abs(P[d]).max() or 1.0)
    every = max(1, d // 6)
    names = tuple((float(i), str(i) if i < d else "y") for i in (*range(0, d, every), d))
    rows = (*((place, f"Q {name}") for place, name in names), (d + 2.0, "P y"))
    heat = Heat(
        np.arange(d + 1), np.arange(d + 3), shown, "over the largest", diverging=True,
        limits=(-1.0, 1.0),
    )  # fmt: skip
    return Panel(
        title,
        Axis("column", limits=(-0.5, d + 0.5), ticks=names),
        Axis("row", limits=(d + 2.5, -0.5), ticks=rows),
        [heat],
    )
