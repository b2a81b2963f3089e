"""How far more heads go: the least exact risk of evenly spaced heads at one size, for sweeps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .exact_heads import heads_quadratic
from .least_risk import best_opposite, best_single, long_prompt_gamma

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure

_LEAST_GAIN = 1e-9  # of risks that is more than rounding
_LARGEST_SCORE = 4.0  # of |ω|√d, up to which the fixed resolution of the table is good


def least_risk(heads: int, length: int, dim: int, noise_var: float = 0.1) -> dict[str, float]:
    """The least exact risk of `heads` softmax heads, and of any predictor.

    One head is free in `ω` and `μ`; more have `ω` evenly spaced in `[-γ, γ]`, any `μ`, and the best
    `γ`. **Returns:** `risk`, `gamma` (the largest `|ω|`), `bayes`, and `closed`: the share of the way
    from predicting 0 to the Bayes risk.
    """
    from ...estimators import bayes_risk
    from ...tasks import InContextRegression

    task = InContextRegression(dim, length, noise_std=math.sqrt(noise_var))
    if heads == 1:
        single = best_single(task)
        risk, gamma = single.risk, abs(single.omega)
    elif heads == 2:
        pair = best_opposite(task)
        risk, gamma = pair.risk, pair.gamma
    else:
        risk, gamma = _spaced(task, heads)
    bayes, zero = float(bayes_risk(task)), 1 + noise_var
    closed = (zero - risk) / (zero - bayes)
    return {"risk": risk, "gamma": gamma, "bayes": bayes, "closed": closed}


def _spaced(task: object, heads: int) -> tuple[float, float]:
    from scipy.optimize import minimize_scalar

    pattern, noise = np.linspace(-1, 1, heads), task.noise_std**2  # type: ignore[attr-defined]

    def risk(log_gamma: float) -> float:
        return heads_quadratic(task, math.exp(log_gamma) * pattern).least(noise)[0]  # type: ignore[arg-type]

    start = long_prompt_gamma(task)  # type: ignore[arg-type]
    most = _LARGEST_SCORE / math.sqrt(task.dim)  # type: ignore[attr-defined]
    bounds = (math.log(min(start, most) / 2), math.log(most))
    found = minimize_scalar(risk, bounds=bounds, method="bounded", options={"xatol": 0.02})
    return float(found.fun), math.exp(float(found.x))


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
            "The least exact risk of H evenly spaced softmax heads. Share: 0 is predicting 0, 1 the "
            "Bayes risk. Gains below 1e-9 are not drawn. Computed, not sampled."
        ),
        alt="Shares of one head and two against the length; gains of further heads on a logarithmic "
        "axis.",
    )
