"""Where descents from a two-parameter family of starts end, at one scale, for sweeps.

`k` has the length `reach` in the plane of `k*`, `v*`, turned from `k*` by `angle_k`; `v` likewise
from `v*`; the rest of each lies along an axis of its own, so that no start is on a symmetric set.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .end_states import KINDS, end_states, stable_step

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure

_CLOSE = 0.02


def ends(
    scale: float,
    angle_k: Any,
    angle_v: Any,
    dim: int = 400,
    length: int = 10,
    token_std: float = 0.5**0.5,
    reach: float = 0.5,
    horizon: float = 60.0,
) -> dict[str, Any]:
    """`kind` of the end of each descent, its `risk`, its excess over the teacher's, its overlaps.

    Descents have a stable step size and last for the time `horizon`; kinds are those of
    `end_states`.
    """
    from ... import dynamics
    from ...dynamics.dataset import overlaps_of
    from ...students import Overlaps, PointwiseAttention
    from ...tasks import SingleLocation
    from ...theory import population_risk

    task = SingleLocation(dim, length, token_std=token_std)
    risk = population_risk(task, PointwiseAttention("erf", scale))
    a, b = np.asarray(angle_k, np.float64), np.asarray(angle_v, np.float64)
    start = Overlaps(
        reach * np.cos(a),
        reach * np.cos(b),
        reach * np.sin(b),
        reach * np.sin(a),
        reach**2 * np.sin(a + b),
    )
    size = stable_step(task, scale)
    steps = math.ceil(horizon / size)
    run = dynamics.projected_gradient_descent(
        risk, start, step_size=size, steps=steps, save_every=steps
    )
    state = np.asarray(overlaps_of(run, step=-1).stack())
    last = run.risk.values[:, -1]
    return {
        "kind": end_states(risk, state, close=_CLOSE).astype(np.str_),
        "risk": last,
        "excess": last - risk.teacher,
        **{name: state[:, i] for i, name in enumerate(("kappa", "nu", "theta", "eta", "rho"))},
    }


def figure(dataset: xarray.Dataset) -> Figure:
    """The square of starts, coloured by where they end, at up to six scales."""
    from ...plotting.spec import Axis, Figure, Heat, Line, Panel

    scales = dataset.scale.values
    shown = np.unique(np.linspace(0, len(scales) - 1, min(5, len(scales))).round().astype(int))
    code = np.full(dataset.kind.shape, np.nan)
    for number, kind in enumerate(KINDS):
        code[dataset.kind.values == kind] = number
    x, y = dataset.angle_k.values, dataset.angle_v.values
    ticks = ((-math.pi / 2, "−π/2"), (0.0, "0"), (math.pi / 2, "π/2"))
    across, up = Axis("angle of k from k*", ticks=ticks), Axis("angle of v from v*", ticks=ticks)
    label = ", ".join(KINDS)
    panels = []
    for index in shown.tolist():
        heat = Heat(x, y, code[index].T, "end", names=KINDS)
        panels.append(Panel(f"λ = {scales[index]:.2g}", across, up, [heat]))
    shares = [
        Line(scales, [float(np.mean(row == n)) for row in code], kind, n)
        for n, kind in enumerate(KINDS)
        if np.any(code == n)
    ]
    panels.append(
        Panel("Shares", Axis("scale λ", log=True), Axis("share of starts", limits=(0, 1)), shares)
    )
    return Figure(
        title="Which starts find the teacher",
        panels=panels,
        columns=3,
        caption=(
            f"Starts with k and v turned from k*, v* by two angles, and where they end: {label}."
        ),
        alt="Maps of the ends over the two angles at several scales, and the shares against λ.",
    )
