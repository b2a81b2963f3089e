"""The figure of the two-head gradient flow: its three phases, and how ϱ decays in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .flow_phases import EARLY
from .theory_setting import in_words

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Panel

_ROLES: dict[str, Any] = {"approximate": 1, "exact": "theory"}


def figure(dataset: xarray.Dataset) -> Figure:
    """All four parameters; the early stage; loss and ratio; φϱ and φ*; decay and its exponent."""
    from ...plotting.spec import Figure

    losses = [str(loss) for loss in dataset.loss.values]
    panels = [
        _parameters(dataset, losses),
        _early(dataset, losses),
        _loss(dataset, losses),
        _product(dataset, losses),
        _decay(dataset, losses),
        _exponent(dataset, losses),
    ]
    attrs = dataset.attrs
    end = "" if len(losses) < 2 else (
        f" The exact loss has its minimum at ω = {attrs['minimum']:.4f}, where its flow ends."
    )  # fmt: skip
    return Figure(
        title=f"Gradient flow of two heads, d = {attrs['dim']}",
        panels=panels,
        caption=(
            f"Flow on half the loss from ω = μ = (α, −α), α = {attrs['start']:g}, "
            f"{in_words(attrs)}; φ = μ₁, ϱ = ω₁. Under the approximate loss ϱ decays like t^(−1/6), "
            "not like t^(−1/2) as printed: φ is the slow variable, not ϱ." + end
        ),
        alt="ω and μ grow together, ω peaks and decays while μ grows on; the loss falls to its "
        "floor; the local exponent of the decay tends to -1/6, and to 0 under the exact loss.",
    )


def _times(dataset: xarray.Dataset, *, early: bool = False) -> Any:
    from ...plotting.spec import Axis

    if early:
        return Axis("time t", limits=(0.0, EARLY))
    return Axis("time t", log=True, limits=(1.0, float(dataset.time[-1])))


def _parameters(dataset: xarray.Dataset, losses: list[str]) -> Panel:
    from ...plotting.spec import Axis, Line, Panel

    time = dataset.time.values
    marks: list[Any] = []
    for number, (name, words) in enumerate((("rho", "ω"), ("phi", "μ"))):
        for loss in losses:
            value = dataset[name].sel(loss=loss).values
            dash = loss == "exact"
            label = f"{words}, {loss}"
            marks.append(Line(time, value, label, number, dash))
            marks.append(Line(time, -value, None, number, dash))
    return Panel("ω and μ of both heads", _times(dataset), Axis("ω, μ"), marks)


def _early(dataset: xarray.Dataset, losses: list[str]) -> Panel:
    from ...plotting.spec import Axis, Line, Panel, Rule

    shown = dataset.sel(time=dataset.time <= EARLY)
    marks: list[Any] = []
    for number, (name, words) in enumerate((("rho", "ϱ"), ("phi", "φ"))):
        for loss in losses:
            value = shown[name].sel(loss=loss).values
            marks.append(
                Line(shown.time.values, value, f"{words}, {loss}", number, loss == "exact")
            )
    first = dataset.sel(loss=losses[0])
    for name in ("growth_end", "peak_time"):
        if np.isfinite(first[name]):
            marks.append(Rule(float(first[name]), "x"))
    peaks = ", ".join(f"{float(dataset.peak.sel(loss=loss)):.3f} ({loss})" for loss in losses)
    note = f"Peak of ϱ: {peaks}. Upright lines: ends of phases I and II ({losses[0]})."
    return Panel("Early stage", _times(dataset, early=True), Axis("ϱ, φ"), marks, note)


def _loss(dataset: xarray.Dataset, losses: list[str]) -> Panel:
    from ...plotting.spec import Axis, Line, Panel

    time = dataset.time.values
    marks: list[Any] = []
    for loss in losses:
        row = dataset.sel(loss=loss)
        marks.append(Line(time, row.risk.values, f"loss, {loss}", _ROLES[loss]))
        ratio = row.phi.values / row.rho.values
        marks.append(Line(time, ratio, f"φ/ϱ, {loss}", _ROLES[loss], dash=True))
    return Panel("Loss, and φ/ϱ", _times(dataset), Axis("loss, ratio", log=True), marks)


def _product(dataset: xarray.Dataset, losses: list[str]) -> Panel:
    from ...plotting.spec import Axis, Line, Panel, Rule

    time = dataset.time.values
    marks: list[Any] = []
    for loss in losses:
        row = dataset.sel(loss=loss)
        eta = 2 * row.phi.values * row.rho.values
        marks.append(Line(time, eta, f"2φϱ, {loss}", _ROLES[loss]))
        best = 2 * row.phi_star.values * row.rho.values
        marks.append(Line(time, best, f"2φ*(ϱ)ϱ, {loss}", _ROLES[loss], dash=True))
    step = dataset.attrs["step"]
    marks.append(Rule(step, label=f"η* = {step:.3f}"))
    return Panel("The product, and its best value at ϱ", _times(dataset), Axis("2φϱ"), marks)


def _decay(dataset: xarray.Dataset, losses: list[str]) -> Panel:
    from ...plotting.spec import Axis, Line, Panel, Rule

    late = dataset.sel(time=dataset.time >= EARLY)
    marks: list[Any] = [
        Line(late.time.values, late.rho.sel(loss=loss).values, loss, _ROLES[loss])
        for loss in losses
    ]
    marks.append(Line(late.time.values, late.slow_decay.values, "(4λd³t)^(−1/6)", 2, dash=True))
    printed = late.printed_decay.values
    marks.append(Line(late.time.values, printed, "printed: √3(1+dλ)/√(λd³t)", 3, dash=True))
    marks.append(Rule(dataset.attrs["minimum"], label="exact minimum"))
    low = 0.5 * float(np.nanmin(late.rho.values))
    x = Axis("time t", log=True)
    return Panel("Decay of ϱ", x, Axis("ϱ", log=True, limits=(low, 1.0), ticks=_SIZES), marks)


_SIZES = tuple((value, f"{value:g}") for value in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5))


def _exponent(dataset: xarray.Dataset, losses: list[str]) -> Panel:
    from ...plotting.spec import Axis, Line, Panel, Rule

    late = dataset.sel(time=dataset.time >= 2 * EARLY)
    marks: list[Any] = [
        Line(late.time.values, late.exponent.sel(loss=loss).values, loss, _ROLES[loss])
        for loss in losses
    ]
    marks += [Rule(-0.5, label="printed: −1/2", role=3), Rule(-1 / 6, label="−1/6", role=2)]
    y = Axis("d log ϱ / d log t", limits=(-0.6, 0.05))
    return Panel("Local exponent of the decay", Axis("time t", log=True), y, marks)
