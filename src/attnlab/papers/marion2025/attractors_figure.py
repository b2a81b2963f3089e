"""The figure of the attractors: shares, risks, and the map of the swapped minimum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Panel

_GROUPS = (
    ("±teacher", ("teacher", "mirrored teacher"), 0),
    ("swapped roles", ("swapped roles",), 1),
    ("tilted", ("tilted",), 2),
    ("still moving", ("moving",), 3),
)


def figure(dataset: xarray.Dataset) -> Figure:
    """Shares against λ, d and L; risks against the teacher's; where the swapped minimum exists."""
    from ...plotting.spec import Axis, Figure, Heat, Panel

    at = dataset.attrs
    base = {"scale": f"λ = {at['base_scale']:g}", "dim": f"d = {at['base_dim']}"}
    base["length"] = f"L = {at['base_length']}"
    scales, dims = dataset.map_scale.values, dataset.map_dim.values
    where = Axis("scale λ", log=True), Axis("dimension d", log=True)
    gain = 100 * dataset.swapped_gain.values
    # one deep corner (small λ, large d) would wash out the rest
    ceiling = max(1.0, float(np.quantile(np.abs(gain), 0.8)))
    curvature = np.clip(dataset.swapped_curvature.values, -0.5, 0.5)
    return Figure(
        title="Where random starts end",
        panels=[
            _shares(dataset, "scale", "scale λ", f"{base['dim']}, {base['length']}"),
            _risks(dataset, f"{base['dim']}, {base['length']}"),
            _shares(dataset, "dim", "dimension d", f"{base['scale']}, {base['length']}"),
            _shares(dataset, "length", "length L", f"{base['scale']}, {base['dim']}"),
            Panel(
                f"Swapped point: risk, {base['length']}", *where,
                [Heat(scales, dims, np.clip(gain, -ceiling, ceiling), "excess over teacher (%)", diverging=True)],
                f"colours end at ±{ceiling:.3g} %",
            ),
            Panel(
                f"Swapped point: curvature, {base['length']}", *where,
                [Heat(scales, dims, curvature, "smallest eigenvalue", diverging=True)],
                "a minimum where positive; colours end at ±0.5",
            ),
        ],
        caption=(
            f"{at['runs']} starts per setting, uniform on the spheres, followed for time "
            f"{at['horizon']:g}; bars are binomial standard errors. Swapped roles: k = ±v*, and v "
            "reads k*. Tilted: a minimum off both invariant manifolds, below the teacher's risk."
        ),
        alt="Six panels: shares of end states against scale, dimension and length; relative risks; "
        "two maps of the swapped point over scale and dimension.",
    )  # fmt: skip


def _shares(dataset: xarray.Dataset, sweep: str, label: str, fixed: str) -> Panel:
    from ...plotting.spec import Axis, Mark, Panel, Points

    part = dataset.isel(setting=np.flatnonzero(dataset.sweep.values == sweep))
    runs = int(dataset.attrs["runs"])
    marks: list[Mark] = []
    for number, (name, kinds, role) in enumerate(_GROUPS):
        count = part["count"].sel(kind=list(kinds)).sum("kind").values
        if not count.any():
            continue
        bounded = np.clip(count, 1, runs - 1)
        error = np.sqrt(bounded * (runs - bounded) / runs**3)
        if number > 1:  # rare kinds are drawn where they occur
            count = np.where(count > 0, count, np.nan)
        shift = 1 + 0.012 * (number - 1)  # so that equal shares stay apart
        marks.append(Points(part[sweep].values * shift, count / runs, error, name, role))
    return Panel(
        f"Shares of the ends, {fixed}",
        Axis(label, log=True),
        Axis("share", limits=(-0.03, 1.03)),
        marks,
    )


def _risks(dataset: xarray.Dataset, fixed: str) -> Panel:
    from ...plotting.spec import Axis, Mark, Panel, Points, Rule

    part = dataset.isel(setting=np.flatnonzero(dataset.sweep.values == "scale"))
    marks: list[Mark] = [Rule(0.0, label="teacher")]
    for name, kinds, role in _GROUPS[1:3]:
        gain = 100 * (part.risk.sel(kind=kinds[0]).values / part.teacher_risk.values - 1)
        if np.isfinite(gain).any():
            marks.append(Points(part["scale"].values, gain, None, name, role))
    return Panel(
        f"Risk of the ends, {fixed}",
        Axis("scale λ", log=True),
        Axis("R / R(k*, v*) − 1 (%)"),
        marks,
    )
