"""How far more heads go: the infimum of the exact risk at one size, for sweeps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .least_heads import least_heads

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure

_LEAST_GAIN = 1e-7  # of risks that is more than what is left of quadrature


def least_risk(heads: int, length: int, dim: int, noise_var: float = 0.1) -> dict[str, float]:
    """The infimum of the exact risk over all `ω` and `μ` of 1 to 4 softmax heads.

    **Returns:** `risk`; `gamma`, the largest `|ω|`; `attained`, 0 where two heads coalesce and no
    heads have that risk; the risk of any predictor, `bayes`; and `closed`, the share of the way from
    predicting 0 to the Bayes risk. NaN where the search ends at an edge of what it covers.
    """
    from ...estimators import bayes_risk
    from ...tasks import InContextRegression

    task = InContextRegression(dim, length, noise_std=math.sqrt(noise_var))
    found = least_heads(task, heads)
    risk = found.risk if found.minimal else math.nan
    gamma = max(*np.abs(found.omega), 0.0 if found.pair is None else abs(found.pair))
    bayes, zero = float(bayes_risk(task)), 1 + noise_var
    return {
        "risk": risk,
        "gamma": float(gamma) if found.minimal else math.nan,
        "attained": float(found.pair is None) if found.minimal else math.nan,
        "bayes": bayes,
        "closed": (zero - risk) / (zero - bayes),
    }


def figure(dataset: xarray.Dataset) -> Figure:
    """The share of the way to the Bayes risk of one head and of two; what further heads gain."""
    from ...plotting.spec import Axis, Figure, Line, Mark, Panel

    lengths, dims = dataset.length.values, dataset.dim.values.tolist()
    counts = dataset.heads.values.tolist()
    pair = 2 if 2 in counts else counts[0]
    more = [count for count in counts if count > pair]
    x = Axis("length L", log=True)

    def gained(count: int, dim: int) -> np.ndarray:
        risk = dataset.risk.sel(dim=dim)
        gain = (risk.sel(heads=pair) - risk.sel(heads=count)).values
        return np.where(gain > _LEAST_GAIN, gain, np.nan)

    shares: list[Mark] = []
    for number, dim in enumerate(dims):
        here = dataset.closed.sel(dim=dim)
        shares.append(Line(lengths, here.sel(heads=pair).values, f"H = {pair}, d = {dim}", number))
        if 1 in counts and pair > 1:
            shares.append(Line(lengths, here.sel(heads=1).values, None, number, dash=True))
    panels = [Panel("One head (dashed), two", x, Axis("share of the way to Bayes"), shares)]
    y = Axis(f"risk of {pair} heads − risk of H", log=True)
    if more:
        by_count: list[Mark] = [
            Line(lengths, gained(count, dims[0]), f"H = {count}", number)
            for number, count in enumerate(more)
            if np.isfinite(gained(count, dims[0])).any()
        ]
        by_dim: list[Mark] = [
            Line(lengths, gained(more[-1], dim), f"d = {dim}", number)
            for number, dim in enumerate(dims)
        ]
        panels += [Panel(f"Further heads, d = {dims[0]}", x, y, by_count)]
        panels += [Panel(f"H = {more[-1]}", x, y, by_dim)]
    return Figure(
        title="What further heads are good for",
        panels=panels,
        columns=3,
        caption=(
            "The infimum of the exact risk over all ω and μ of H softmax heads; of three and more no "
            "heads may reach it, as two of them coalesce. Share: 0 is predicting 0, 1 the Bayes risk. "
            "Gains below 1e-7 are not drawn. Computed, not sampled."
        ),
        alt="Shares of one head and two against the length; gains of further heads on a logarithmic "
        "axis.",
    )
