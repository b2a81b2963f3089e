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
    """For each dimension the share of the way to the Bayes risk against the length, by heads."""
    from ...plotting.spec import Axis, Figure, Line, Panel

    lengths = dataset.length.values
    panels = []
    for dim in dataset.dim.values.tolist():
        here = dataset.sel(dim=dim)
        marks = [
            Line(lengths, here.closed.sel(heads=count).values, f"H = {count}", number)
            for number, count in enumerate(dataset.heads.values.tolist())
        ]
        x, y = Axis("length L", log=True), Axis("share of the way to Bayes", limits=(0.0, 1.0))
        panels.append(Panel(f"d = {dim}", x, y, marks))
    return Figure(
        title="What further heads are good for",
        panels=panels,
        columns=min(3, len(panels)),
        caption=(
            "The least exact risk of H evenly spaced softmax heads: 0 is predicting 0, 1 the Bayes "
            "risk. Computed, not sampled."
        ),
        alt="One panel for each dimension, curves for each number of heads against the length.",
    )
