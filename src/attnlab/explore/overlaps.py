"""Single-location regression: the exact risk over the teacher's overlaps, and descents on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.errors import InvalidArgument, check_integer, check_real
from .view import View, number

if TYPE_CHECKING:
    from ..students import PointwiseAttention, SoftmaxAttention
    from ..tasks import SingleLocation

_CELLS = 61
_MOST_STEPS = 20_000


def overlaps_view(
    task: SingleLocation,
    student: PointwiseAttention | SoftmaxAttention,
    *,
    kappa: float = 1.0,
    nu: float = 1.0,
    starts: int = 12,
    steps: int = 400,
    seed: int = 0,
) -> View:
    """The risk `R(κ, ν)` on the manifold `θ = η = ρ = 0`, with descents from random starts on it,
    and the numbers of the point `(kappa, nu)`.

    **Arguments:** overlaps in [-1, 1]; `starts` descents of so many `steps`.

    Raises `InvalidArgument` for these, and where `population_risk` does. Source: Section 3 of
    marion2025; `docs/theory/single-location`.
    """
    from ..students import Overlaps
    from ..theory import population_risk

    kappa = check_real("kappa", kappa, low=-1.0, high=1.0)
    nu = check_real("nu", nu, low=-1.0, high=1.0)
    starts = check_integer("starts", starts, minimum=0, maximum=200)
    steps = check_integer("steps", steps, minimum=1, maximum=_MOST_STEPS)
    seed = check_integer("seed", seed, minimum=0, maximum=2**32 - 1)
    risk = population_risk(task, student)
    if starts and task.dim < 4:
        raise InvalidArgument("starts", starts, "0 where there are fewer than 4 dimensions")
    if hasattr(risk, "attention") and task.length is not None and task.length < 2:
        raise InvalidArgument("length", task.length, "2 or more for softmax attention")
    edge = np.linspace(-1.0, 1.0, _CELLS)
    across, up = np.meshgrid(edge, edge)
    surface = np.asarray(risk(Overlaps(across, up)))
    run = _descents(risk, task, starts, steps, seed) if starts else None
    point = Overlaps(kappa, nu)
    rows = [
        ("risk R(κ, ν)", number(float(risk(point))), f"{risk.method}, ± {risk.error(point):.1e}"),
        ("risk of the teacher", number(float(risk.teacher)), "κ = ν = 1"),
        *_references(task),
        *_attention(risk, point),
    ]
    return View(_figure(edge, surface, run, kappa, nu), tuple(rows))


def _descents(risk: Any, task: Any, starts: int, steps: int, seed: int) -> Any:
    import jax

    from .. import dynamics
    from ..students import Overlaps

    key, other = jax.random.split(jax.random.key(seed))
    found = dynamics.smoothness(risk, task.dim, key=key, points=32, rounds=4, on_manifold=True)
    start = Overlaps.on_manifold(other, task.dim, starts)
    return dynamics.projected_gradient_descent(
        risk, start, step_size=1 / found.bound, steps=steps, save_every=max(1, steps // 100)
    )


def _references(task: Any) -> list[tuple[str, str, str]]:
    from ..estimators import best_linear_predictor_risk, zero_predictor_risk
    from ..theory import known_location_bayes_risk

    return [
        ("best linear predictor", number(best_linear_predictor_risk(task)), "closed form"),
        ("prediction 0", number(zero_predictor_risk(task)), "closed form"),
        ("told the location", number(known_location_bayes_risk(task)), "the label noise"),
    ]


def _attention(risk: Any, point: Any) -> list[tuple[str, str, str]]:
    if not hasattr(risk, "attention"):
        return []
    found = risk.attention(point)
    return [
        ("mass on the informative token", number(float(found.mass)), "E p, exact"),
        ("participation within the bulk", number(float(found.participation)), "E Σ q², exact"),
    ]


def _figure(edge: np.ndarray, surface: np.ndarray, run: Any, kappa: float, nu: float) -> Any:
    from ..plotting.spec import Axis, Figure, Heat, Line, Mark, Panel, Paths, Points

    marks: list[Mark] = [Heat(edge, edge, surface, "risk R")]
    panels = []
    if run is not None:
        courses = [(run.kappa.values[n], run.nu.values[n]) for n in range(run.sizes["run"])]
        marks.append(Paths(courses, "descents", "reference"))
        lines = [
            Line(run.step.values, row, "risk of a descent" if n == 0 else None, 0)
            for n, row in enumerate(run.risk.values)
        ]
        panels.append(Panel("", Axis("step"), Axis("risk R"), lines))
    marks.append(Points([kappa], [nu], label="the point of the table", role=1))
    limits = (-1.02, 1.02)
    plane = Panel("", Axis("κ = k·k*", limits=limits), Axis("ν = v·v*", limits=limits), marks)
    return Figure(
        "Exact risk and descents",
        [plane, *panels],
        columns=2,
        caption="The risk on the manifold θ = η = ρ = 0, and projected gradient descents on it.",
        alt="A map of the risk over both overlaps with the courses of descents; the risk over steps.",
    )
