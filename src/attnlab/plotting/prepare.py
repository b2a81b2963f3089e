"""What both renderers share: checked arrays, colours, thinning, the plotted numbers."""

from __future__ import annotations

import itertools
import math
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from .._core.errors import InvalidArgument
from .spec import Arrows, Band, Bars, Figure, Heat, Line, Mark, Panel, Paths, Points, Rule

# Okabe and Ito's palette, which the common kinds of colour blindness keep apart, without its yellow
# (too light for lines on white); then three darker ones of Tol's.
PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
    "#882255", "#777711", "#332288",
)  # fmt: skip
LEAST_SPREAD = 0.1  # of the values of a map, relative: less is not shown as all of the colours
NAMED = {"theory": "#000000", "reference": "#6E6E6E"}
_ARRAYS = {
    Line: ("x", "y"),
    Band: ("x", "low", "high"),
    Points: ("x", "y", "yerr"),
    Arrows: ("x", "y", "u", "v"),
    Bars: ("values", "errors"),
}
# Which arrays of a mark belong to which axis, where a log axis can show positive values only.
_ON_X, _ON_Y = ("x",), ("y", "low", "high", "values")


def prepare(figure: Figure) -> Figure:
    """The same figure with float64 arrays (NaN where a log axis has no place for a value) and with
    each role replaced by its colour.

    Raises `InvalidArgument`, naming panel and mark, when shapes differ or the figure is empty.
    """
    if not figure.panels:
        raise InvalidArgument("panels of the figure", figure.panels, "at least one panel")
    if figure.columns < 1:
        raise InvalidArgument("columns of the figure", figure.columns, "an integer >= 1")
    named: dict[str, str] = dict(NAMED)
    return replace(figure, panels=tuple(_panel(panel, named) for panel in figure.panels))


def _panel(panel: Panel, named: dict[str, str]) -> Panel:
    used = 0
    marks: list[Mark] = []
    for number, mark in enumerate(panel.marks):
        where = f"{type(mark).__name__} {number} of panel {panel.title!r}"
        if not is_dataclass(mark) or type(mark) not in (*_ARRAYS, Heat, Paths, Rule):
            raise InvalidArgument(where, mark, "one of the marks of plotting.spec")
        mark = _arrays(mark, panel, where)
        if not isinstance(mark, Heat):
            colour, used = _colour(mark.role, used, named)
            mark = replace(mark, role=colour)
        marks.append(mark)
    return replace(panel, marks=tuple(marks))


def _colour(role: Any, used: int, named: dict[str, str]) -> tuple[str, int]:
    """The colour of a role, and how many colours of the panel's own order are used now."""
    if role is None:
        return PALETTE[used % len(PALETTE)], used + 1
    if isinstance(role, str):
        if role not in named:
            named[role] = PALETTE[(len(named) - len(NAMED)) % len(PALETTE)]
        return named[role], used
    return PALETTE[role % len(PALETTE)], used


def _arrays(mark: Any, panel: Panel, where: str) -> Any:
    if isinstance(mark, Rule):
        if mark.axis not in ("x", "y"):
            raise InvalidArgument(f"axis of {where}", mark.axis, "'x' or 'y'")
        return replace(mark, value=float(mark.value))
    if isinstance(mark, Heat):
        return _heat(mark, where)
    if isinstance(mark, Paths):
        pairs = [(_vector(x, where), _vector(y, where)) for x, y in mark.paths]
        for x, y in pairs:
            _same_length(where, x=x, y=y)
        shown = [(_positive(x, panel.x.log), _positive(y, panel.y.log)) for x, y in pairs]
        return replace(mark, paths=tuple(shown))
    arrays = {
        name: _vector(getattr(mark, name), where)
        for name in _ARRAYS[type(mark)]
        if getattr(mark, name) is not None
    }
    if isinstance(mark, Bars):
        _same_length(where, labels=np.empty(len(mark.labels)), **arrays)
    else:
        _same_length(where, **arrays)
    for name, array in arrays.items():
        on_log = (name in _ON_X and panel.x.log) or (name in _ON_Y and panel.y.log)
        arrays[name] = _positive(array, on_log)
    return replace(mark, **arrays)


def _heat(mark: Heat, where: str) -> Heat:
    x, y = _vector(mark.x, where), _vector(mark.y, where)
    z = np.asarray(mark.z, dtype=np.float64)
    if z.shape != (y.size, x.size):
        raise InvalidArgument(
            f"shape of z in {where}", z.shape, f"(len(y), len(x)) = {(y.size, x.size)}"
        )
    if mark.names is not None:
        _check_classes(mark, z, where)
    return replace(mark, x=x, y=y, z=_positive(z, mark.log), limits=_colour_limits(mark, where))


def _check_classes(mark: Heat, z: np.ndarray, where: str) -> None:
    assert mark.names is not None
    if not 1 <= len(mark.names) <= len(PALETTE) or mark.log or mark.diverging or mark.limits:
        allowed = f"1 to {len(PALETTE)} names, on no scale (no log, diverging, limits)"
        raise InvalidArgument(f"names of {where}", mark.names, allowed)
    known = np.isnan(z) | np.isin(z, np.arange(len(mark.names)))
    if not known.all():
        allowed = f"whole numbers from 0 to {len(mark.names) - 1}, or NaN"
        raise InvalidArgument(f"z of {where}", float(z[~known][0]), allowed)


def classes(mark: Heat) -> list[tuple[int, str, str]]:
    """Number, name and colour of the classes that a prepared map shows."""
    names = mark.names or ()
    return [(n, names[n], PALETTE[n]) for n in range(len(names)) if np.any(mark.z == n)]


def _colour_limits(mark: Heat, where: str) -> tuple[float, float] | None:
    if mark.limits is None:
        return None
    low, high = (float(limit) for limit in mark.limits)
    good = math.isfinite(low) and math.isfinite(high) and low < high
    if not good or (mark.diverging and low != -high) or (mark.log and low <= 0):
        allowed = "finite with low < high, positive if log, and low = -high if diverging"
        raise InvalidArgument(f"limits of {where}", mark.limits, allowed)
    return low, high


def colour_range(mark: Heat) -> tuple[float, float] | None:
    """The values at the ends of the colours of a prepared map; None leaves them to the renderer."""
    if mark.limits is not None:
        return mark.limits
    finite = mark.z[np.isfinite(mark.z)]
    if mark.diverging:
        largest = float(np.max(np.abs(finite), initial=0.0)) or 1.0
        return -largest, largest
    if mark.log or not finite.size:
        return None
    low, high = float(finite.min()), float(finite.max())
    room = LEAST_SPREAD * max(abs(low), abs(high)) - (high - low)
    # differences of a per cent must not look like structure
    return (low - room / 2, high + room / 2) if room > 0 else None


def _vector(value: Any, where: str) -> np.ndarray:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim > 1:
        raise InvalidArgument(f"an array of {where}", array.shape, "one-dimensional")
    return np.atleast_1d(array)


def _same_length(where: str, **arrays: np.ndarray) -> None:
    sizes = {name: array.size for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise InvalidArgument(f"lengths in {where}", sizes, "equal")


def _positive(array: np.ndarray, log: bool) -> np.ndarray:
    return np.where(array > 0, array, np.nan) if log else array


def thin(x: np.ndarray, y: np.ndarray, limit: int, log_x: bool) -> tuple[np.ndarray, np.ndarray]:
    """At most about `limit` points of a curve that draw the same picture.

    The curve is cut into bins of equal width on the axis as shown; each keeps its first point and
    its extremes, so that no peak is lost. Short curves and curves whose x does not increase are
    returned as they are (thinned evenly, in the latter case).
    """
    if x.size <= limit:
        return x, y
    if not _increasing(x):
        keep = np.unique(np.linspace(0, x.size - 1, limit).round().astype(int))
        return x[keep], y[keep]
    edges = _bins(x, limit // 3, log_x)
    chosen = {0, x.size - 1}
    for start, stop in itertools.pairwise(edges):
        piece = y[start:stop]
        chosen.add(start)
        if np.any(np.isfinite(piece)):
            chosen.update((start + int(np.nanargmin(piece)), start + int(np.nanargmax(piece))))
        chosen.update(start + i for i in np.flatnonzero(np.isnan(piece))[:1])  # a gap stays a gap
    order = np.array(sorted(chosen))
    return x[order], y[order]


def thin_band(
    x: np.ndarray, low: np.ndarray, high: np.ndarray, limit: int, log_x: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same for a band: each bin keeps its first place, with its lowest and highest edge."""
    if x.size <= limit or not _increasing(x):
        return x, low, high
    edges = np.append(_bins(x, limit, log_x)[:-1], [x.size - 1, x.size])
    edges = np.unique(edges)
    starts = edges[:-1]
    return x[starts], np.fmin.reduceat(low, starts), np.fmax.reduceat(high, starts)


def _increasing(x: np.ndarray) -> bool:
    return bool(np.all(np.diff(x[np.isfinite(x)]) > 0))


def _bins(x: np.ndarray, count: int, log_x: bool) -> np.ndarray:
    """Indices at which bins of equal width begin, with x.size at the end."""
    place = np.log(np.where(x > 0, x, np.nan)) if log_x else x
    first = np.nanmin(place)
    span = np.nanmax(place) - first
    number = np.nan_to_num((place - first) / span * count, nan=-1.0).astype(int)
    return np.append(np.flatnonzero(np.diff(number, prepend=-2)), x.size)


def thin_path(x: np.ndarray, y: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `limit` points of a path in the plane, evenly spaced along it, ends included."""
    if x.size <= limit:
        return x, y
    wide, high = (float(np.nanmax(a) - np.nanmin(a)) or 1.0 for a in (x, y))
    length = np.cumsum(np.nan_to_num(np.hypot(np.diff(x) / wide, np.diff(y) / high)))
    wanted = np.linspace(0, length[-1], limit)
    keep = np.unique(np.append(np.searchsorted(length, wanted), x.size - 1))
    return x[keep], y[keep]


def extent(panel: Panel, axis: str) -> tuple[float, float]:
    """Smallest and largest finite value that a prepared panel shows along "x" or "y"."""
    limits = getattr(panel, axis).limits
    if limits is not None:
        return limits
    names = _ON_X if axis == "x" else _ON_Y
    values = [np.empty(0)]
    for mark in panel.marks:
        if isinstance(mark, Paths):
            values += [path[axis == "y"] for path in mark.paths]
        else:
            values += [getattr(mark, name) for name in names if hasattr(mark, name)]
    every = np.concatenate(values)
    every = every[np.isfinite(every)]
    return (float(every.min()), float(every.max())) if every.size else (0.0, 1.0)


def is_square(panel: Panel) -> bool:
    """Whether a prepared panel shows a plane whose two directions have one scale: a square matrix,
    or paths, arrows or a map over the same range on both axes."""
    kinds = (Heat, Arrows, Paths)
    if panel.x.log or panel.y.log or not any(isinstance(mark, kinds) for mark in panel.marks):
        return False
    (left, right), (low, high) = extent(panel, "x"), extent(panel, "y")
    wide, tall = right - left, high - low
    alike = abs(wide - tall) <= 0.1 * max(wide, tall)
    return alike and abs(left - low) <= 0.1 * max(wide, tall) and wide > 0


def arrow_ends(mark: Arrows) -> tuple[np.ndarray, np.ndarray]:
    """Tips of the arrows of a field on a grid: the longest is 0.9 grid steps long."""
    step = [float(np.min(np.diff(np.unique(a)), initial=math.inf)) for a in (mark.x, mark.y)]
    dx, dy = (s if math.isfinite(s) else 1.0 for s in step)
    length = np.nanmax(np.hypot(mark.u / dx, mark.v / dy), initial=0.0)
    factor = 0.9 / length if length > 0 else 0.0
    return mark.x + factor * mark.u, mark.y + factor * mark.v


def plotted_numbers(figure: Figure) -> dict[str, Any]:
    """Everything that is drawn, JSON-ready: titles, labels and numbers (None for gaps)."""
    plain = _plain(figure)
    assert isinstance(plain, dict)
    return plain


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        named = {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
        return {"kind": type(value).__name__, **named}
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    array = np.asarray(value)
    return _plain(array.tolist()) if array.dtype.kind in "iufbSU" else str(value)
