"""The figure of where descents end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Panel

_LABELS = {"spread": "β√d", "dim": "dimension d", "length": "length L"}


def figure(dataset: xarray.Dataset) -> Figure:
    """Shares of the ends by sweep and kind of start, excess of the swapped minima, arrival times."""
    from ...plotting.spec import Figure

    at = dataset.attrs
    panels = [_shares(dataset, start, sweep) for start in ("spheres", "M") for sweep in _LABELS] + [
        _excess(dataset),
        _times(dataset),
        _scatter(dataset),
    ]
    return Figure(
        title="Where descents from M and from anywhere end",
        panels=panels,
        columns=3,
        caption=(
            f"Exact risk, linear link; sweeps through d = {at['base_dim']}, L = {at['base_length']}, β√d = "
            f"{at['base_spread']:g}. {at['runs']} starts of each kind, {at['steps']} steps of 1/Λ; bars are binomial standard "
            "errors. Swapped: a minimum, by its Hessian in R^d, at which k has most of v* and v most of k*. "
            "On the way: no stationary point near, most of them on the plateau where attention has lost the token."
        ),
        alt="Shares of the ends against β√d, d and L for starts off and on M, the swapped minima's excess "
        "risk, arrival times, and end states.",
    )  # fmt: skip


def _shares(dataset: xarray.Dataset, start: str, sweep: str) -> Panel:
    from ...plotting.spec import Axis, Mark, Panel, Points

    part = dataset.isel(setting=np.flatnonzero(dataset.sweep.values == sweep)).sel(start=start)
    marks: list[Mark] = []
    for number, end in enumerate(dataset.end.values):
        count = part["count"].sel(end=end).values
        if count.any():
            error = part.share_error.sel(end=end).values
            shift = 1 + 0.03 * number  # so that equal shares stay apart
            share = part.share.sel(end=end).values
            marks.append(Points(part[sweep].values * shift, share, error, str(end), number))
    return Panel(
        "Starts on M" if start == "M" else "Uniform starts",
        Axis(_LABELS[sweep], log=sweep != "spread"),
        Axis("share", limits=(-0.03, 1.03)),
        marks,
    )


def _excess(dataset: xarray.Dataset) -> Panel:
    from ...plotting.spec import Axis, Mark, Panel, Points

    marks: list[Mark] = []
    for number, (sweep, label) in enumerate(_LABELS.items()):
        part = dataset.isel(setting=np.flatnonzero(dataset.sweep.values == sweep))
        gap = part.swapped_excess.values
        if np.isfinite(gap).any():
            order = np.arange(1, len(gap) + 1)
            marks.append(Points(order, gap, None, f"by {label}", number))
    return Panel(
        "Swapped minima above the teacher",
        Axis("setting of the sweep, from its smallest"),
        Axis("R − R(teacher)"),
        marks,
        "gaps: no run ended there",
    )


def _times(dataset: xarray.Dataset) -> Panel:
    from ...plotting.spec import Axis, Line, Mark, Panel

    part = dataset.isel(setting=np.flatnonzero(dataset.sweep.values == "length"))
    marks: list[Mark] = [
        Line(part.length.values, part.arrival_time.sel(start=start).values, f"from {name}", i)
        for i, (start, name) in enumerate((("M", "M"), ("spheres", "the spheres")))
    ]
    marks.append(
        Line(part.length.values, part.horizon.sel(start="M").values, "time given, M", 0, dash=True)
    )
    return Panel(
        "Median time until 90 % is learned",
        Axis("length L", log=True),
        Axis("time (steps × size)", log=True),
        marks,
    )


def _scatter(dataset: xarray.Dataset) -> Panel:
    from ...plotting.spec import Axis, Mark, Panel, Points

    base = np.flatnonzero(
        (dataset.dim.values == dataset.attrs["base_dim"])
        & (dataset.length.values == dataset.attrs["base_length"])
        & (dataset.spread.values == dataset.attrs["base_spread"])
    )
    where = int(base[0]) if base.size else 0
    part = dataset.isel(setting=where).sel(start="spheres")
    kappa, eta = (part.end_state.sel(overlap=name).values for name in ("kappa", "eta"))
    marks: list[Mark] = []
    for number, end in enumerate(dataset.end.values):
        chosen = part.end_name.values == end
        if chosen.any():
            marks.append(Points(kappa[chosen], eta[chosen], None, str(end), number))
    box = (-1.08, 1.08)
    return Panel("Ends, base setting", Axis("κ", limits=box), Axis("η = k·v*", limits=box), marks)
