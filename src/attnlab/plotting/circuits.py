"""Circuits as heatmaps: `KQ` of each head and `OV` of all, on signed colour scales that are shared.

Only effective entries are shown: the columns of `KQ` that meet the query's covariates, and the rows
of `OV` that reach the read-out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.errors import check_real
from .spec import Axis, Figure, Heat, Panel

if TYPE_CHECKING:
    from ..circuits import Circuits, Diagnosis

Ticks = tuple[tuple[float, str], ...]
_MOST_TICKS = 6
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def circuit_panels(
    found: Circuits | Diagnosis,
    *,
    kq_limit: float | None = None,
    ov_limit: float | None = None,
) -> list[Panel]:
    """One panel for `KQ` of each head, and one for `OV` of all heads, a row for each.

    All `KQ` share one colour scale, from `-kq_limit` to `kq_limit`; by default the largest entry of
    any head. Give the limits to compare several layers, or one at several times. A `Diagnosis`
    adds the heads' roles to the titles. Entries count from 0; `y` is the label. Raises
    `InvalidArgument`.
    """
    circuits: Any = getattr(found, "circuits", found)
    roles = getattr(found, "role", None)
    kq, ov = circuits.effective_kq, circuits.effective_ov
    d, n = circuits.dim, circuits.n_outputs
    columns, entries = _ticks(d, 0), _ticks(d, n)
    query = Axis("query entry", limits=(-0.5, d - 0.5), ticks=columns)
    key = Axis("key entry", limits=(d + n - 0.5, -0.5), ticks=entries)
    span = _span("kq_limit", kq_limit, kq)
    panels = []
    for h, matrix in enumerate(kq):
        title = f"KQ, head {h}" + (f" ({roles[h]})" if roles else "")
        heat = Heat(np.arange(d), np.arange(d + n), matrix, "logit", diverging=True, limits=span)
        panels.append(Panel(title, query, key, [heat]))
    rows = ov.reshape(-1, d + n)
    names = tuple(
        (float(i), f"{i // n}" if n == 1 else f"{i // n}: {_label(i % n, n)}")
        for i in range(len(rows))
    )
    heat = Heat(
        np.arange(d + n),
        np.arange(len(rows)),
        rows,
        "output",
        diverging=True,
        limits=_span("ov_limit", ov_limit, ov),
    )
    attended = Axis("attended entry", limits=(-0.5, d + n - 0.5), ticks=entries)
    head = Axis("head" if n == 1 else "head: output", limits=(len(rows) - 0.5, -0.5), ticks=names)
    return [*panels, Panel("OV, read-out", attended, head, [heat])]


def circuit_figure(
    found: Circuits | Diagnosis,
    *,
    title: str = "Circuits",
    kq_limit: float | None = None,
    ov_limit: float | None = None,
) -> Figure:
    """The panels of `circuit_panels` as a figure."""
    panels = circuit_panels(found, kq_limit=kq_limit, ov_limit=ov_limit)
    return Figure(
        title,
        panels,
        columns=2 if len(panels) in (2, 4) else 3,
        caption="Effective entries of KQ for each head, and the read-out rows of OV. The scale of "
        "colours is the same for all KQ.",
        alt=f"Heatmaps of the circuits of {len(panels) - 1} heads.",
    )


def _span(name: str, limit: float | None, matrices: np.ndarray) -> tuple[float, float]:
    if limit is None:
        limit = float(np.abs(matrices).max()) or 1.0
    limit = check_real(name, limit, low=0.0, low_open=True)
    return -limit, limit


def _label(output: int, n: int) -> str:
    return "y" if n == 1 else "y" + str(output).translate(_SUBSCRIPTS)


def _ticks(dim: int, n: int) -> Ticks:
    """Numbers for some of the covariates, and the labels."""
    every = -(-dim // _MOST_TICKS)
    numbers = [(float(i), str(i)) for i in range(0, dim, every)]
    return (*numbers, *((float(dim + i), _label(i, n)) for i in range(n)))
