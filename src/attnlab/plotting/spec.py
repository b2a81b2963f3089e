"""What a figure shows, apart from how it is drawn.

A figure function returns a `Figure`; the matplotlib renderer makes the PDF of a paper from it, the
Plotly renderer the interactive figure of the report, and both write down the plotted numbers.
Nothing here imports a plotting library. Arrays may be lists, NumPy or JAX arrays of real numbers;
NaN leaves a gap. Labels are plain Unicode text (`κ`, `R − R*`), no TeX, and carry their units.

`role` picks the colour of a mark: an int is a place in the colour-blind-safe palette, a name gets
the same colour wherever it occurs in the figure ("theory" is always black, "reference" grey), and
None takes the next colour of the panel. The colour is the same in both renderers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Role = int | str | None


@dataclass(frozen=True)
class Axis:
    """One axis: its label with units, its scale, and its `limits = (low, high)` if fixed.

    With `low > high` it runs backwards, such as down the rows of a matrix. `ticks` names places,
    `((value, text), ...)`, in place of numbers chosen by the renderer.
    """

    label: str
    log: bool = False
    limits: tuple[float, float] | None = None
    ticks: Sequence[tuple[float, str]] | None = None


@dataclass(frozen=True)
class Line:
    """A curve through the points `(x[i], y[i])`; `width` in points."""

    x: Any
    y: Any
    label: str | None = None
    role: Role = None
    dash: bool = False
    width: float = 1.5


@dataclass(frozen=True)
class Band:
    """The region between `low[i]` and `high[i]` over `x[i]`: a spread or an error."""

    x: Any
    low: Any
    high: Any
    label: str | None = None
    role: Role = None


@dataclass(frozen=True)
class Points:
    """Markers at `(x[i], y[i])` with error bars of half-length `yerr[i]` (standard errors)."""

    x: Any
    y: Any
    yerr: Any = None
    label: str | None = None
    role: Role = None


@dataclass(frozen=True)
class Heat:
    """A map `z[j, i]` over `x[i]`, `y[j]`; `label` names the colour bar, with units.

    `diverging` centres the colours at 0; `log` shows log10 of the values (which must be positive).
    `limits = (low, high)` are the values at the ends of the colour scale, which several panels can
    share; by default those of `z`. A diverging scale needs `low = -high`.

    With `names`, up to six, `z` holds classes: number `n` has the colour of role `n` and the entry
    `names[n]` in the legend.
    """

    x: Any
    y: Any
    z: Any
    label: str
    diverging: bool = False
    log: bool = False
    limits: tuple[float, float] | None = None
    names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Arrows:
    """A vector field `(u[n], v[n])` at `(x[n], y[n])`, all flattened alike.

    Only directions and relative lengths are shown: the longest arrow spans about one grid step.
    """

    x: Any
    y: Any
    u: Any
    v: Any
    label: str | None = None
    role: Role = None


@dataclass(frozen=True)
class Rule:
    """A straight line at `value` across the panel: `axis="y"` lies flat, `axis="x"` stands."""

    value: float
    axis: Literal["x", "y"] = "y"
    label: str | None = None
    role: Role = "reference"


@dataclass(frozen=True)
class Bars:
    """One bar per category; several `Bars` in one panel stand side by side.

    `errors` are standard errors. The panel's x axis must not be logarithmic.
    """

    labels: Sequence[str]
    values: Any
    errors: Any = None
    label: str | None = None
    role: Role = None


@dataclass(frozen=True)
class Paths:
    """Several curves `[(x, y), ...]` of one kind, drawn thin in one colour, with one legend entry.

    A dot marks where each path ends.
    """

    paths: Sequence[tuple[Any, Any]]
    label: str | None = None
    role: Role = None


Mark = Line | Band | Points | Heat | Arrows | Rule | Bars | Paths


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its marks; `note` is a short remark printed below it."""

    title: str
    x: Axis
    y: Axis
    marks: Sequence[Mark] = ()
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A titled grid of panels, filled row by row.

    `caption` says what is seen, `alt` describes it for a reader who does not see it.
    """

    title: str
    panels: Sequence[Panel]
    columns: int = 2
    caption: str = ""
    alt: str = ""
