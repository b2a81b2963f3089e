"""Where descents from random starts end: the attractors of a risk, their basins, and how long it takes.

Ends are gathered into clusters, each is brought to the stationary point beside it, and that point's
Hessian says whether the cluster has arrived (a minimum) or is only passing by (a saddle). Source:
Section 5 of marion2025 and the claims of global convergence of dohmatob2025;
`docs/theory/stationary-points`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import PRNGKeyArray

from .._core.errors import InvalidArgument, check_flag, check_integer, check_real
from .._core.keys import check_key
from ..students import Overlaps
from ..students.overlaps import NAMES
from ..theory import SingleLocationRisk
from .arguments import check_length, check_risk, check_start
from .dataset import overlaps_of
from .landscape import pictures
from .projected import projected_gradient_descent
from .smoothness import smoothness
from .stability import leaving
from .stationary import classify

if TYPE_CHECKING:
    import xarray

_STRIDES = 200  # saved states of a descent
_NEWTON_STEPS = 30
_ARRIVED = 1e-6  # the Newton step that is left at a stationary point


def basins(
    risk: SingleLocationRisk,
    dim: int,
    *,
    key: PRNGKeyArray,
    runs: int = 256,
    steps: int = 10_000,
    step_size: float | None = None,
    starts: Overlaps | None = None,
    on_manifold: bool = False,
    levels: Sequence[float] = (0.9, 0.5, 0.1, 0.01),
    radius: float = 0.02,
) -> xarray.Dataset:
    """Many projected gradient descents, and the attractors that they end at.

    **Arguments:**

    - `dim` of the task; `runs` starts, uniform on the spheres of `R^dim` or, with `on_manifold`, on
      M; or any `starts`, such as a neighbourhood of the teacher.
    - `steps`, `step_size`: of the descents; by default `1/Λ`, with `Λ` of `smoothness` (that of M
      for starts on an invariant M).
    - `levels`: fractions of the excess over its own end's risk, for the times of arrival.
    - `radius`: ends within this distance in all overlaps are one cluster, and Newton's method has
      to find a stationary point within it too. A small gradient is not enough: on the plateaus of
      softmax attention it is exponentially small everywhere.

    **Returns:** a dataset with

    - on `attractor`, sorted by risk: the dataset of `stationary_points` without `hits` (overlaps,
      `risk`, Hessian signature, `kind`), `excess` over the teacher's risk, `count` of runs, `share`
      of them and `share_error`, its binomial standard error. A `kind` of `"saddle"` collects runs
      that have not left it yet;
    - on `run`: `attractor_of` (-1: none), `end_kind`, the attractor's kind, or else `"flat"` where
      second order does not decide (a plateau) and `"moving"` with no stationary point beside the
      end; `end_risk`, `end_gradient`, `status`; on `(run, overlap)`: `start`, `end`; on `(run, level)`:
      `arrival`, the first saved step at which the excess over the risk of the run's own attractor
      is at most that fraction of what it was (NaN: not yet, or no attractor);
    - on `(attractor, level)`: `arrival_median` over its runs.

    Attributes: `dim`, `teacher_risk`, `step_size`, `steps`, `save_every` (the resolution of
    arrivals), `method`. Raises `InvalidArgument` before any compute; `RunInterrupted` on Ctrl-C.
    """
    check_risk(risk)
    dim = check_integer("dim", dim, minimum=2)
    check_key(key)
    runs = check_integer("runs", runs, minimum=1)
    steps = check_integer("steps", steps, minimum=1)
    check_length(steps, steps, runs)
    check_real("radius", radius, low=0.0, low_open=True, high=1.0)
    fractions = _levels(levels)
    check_flag("on_manifold", on_manifold)
    if step_size is not None:
        step_size = check_real("step_size", step_size, low=0.0, low_open=True)
    if starts is None:
        draw = Overlaps.on_manifold if on_manifold else Overlaps.on_sphere
        starts = draw(key, dim, runs=runs)
    if step_size is None:
        state = check_start(starts)
        along = bool(np.all(state[:, 2:] == 0)) and dim >= 4 and leaving(risk, state) < 1e-12
        step_size = 1 / smoothness(risk, dim, key=key, on_manifold=along).bound
    stride = -(-steps // _STRIDES)
    descent = projected_gradient_descent(
        risk, starts, step_size=step_size, steps=steps, save_every=stride
    )
    return _gathered(risk, dim, descent, fractions, radius).assign_attrs(
        dim=dim,
        teacher_risk=risk.teacher,
        step_size=float(step_size),
        steps=steps,
        save_every=stride,
        method=risk.method,
    )


def binomial_error(count: Any, trials: int) -> Any:
    """Standard error of the share `count/trials`, never below that of one more or less: an estimate
    of exactly 0 or 1 is not certain either."""
    count = np.clip(count, 1, max(trials - 1, 1))
    return np.sqrt(count * (trials - count) / trials**3)


def _gathered(
    risk: SingleLocationRisk,
    dim: int,
    descent: xarray.Dataset,
    fractions: np.ndarray,
    radius: float,
) -> xarray.Dataset:
    ends = np.asarray(overlaps_of(descent, step=-1).stack())
    fine = descent.status.values == "ok"
    pairs = np.stack(Overlaps.unstack(ends).to_vectors(min(dim, 4)), axis=1)
    still = pictures(risk, pairs).gradient
    points = _polished(risk, ends[fine], pairs[fine], still[fine], radius)
    places = classify(risk, points, dim).drop_vars("hits").rename(point="attractor")
    member = _nearest(ends, np.stack([places[name].values for name in NAMES], -1), radius)
    member[~fine] = -1
    count = np.array([(member == index).sum() for index in range(places.sizes["attractor"])], int)
    flat = places.kind.values == "degenerate"
    names = np.append(np.where(flat, "flat", places.kind.values), "moving")[member]
    # a point may have lost all its runs to a neighbour
    kept = np.flatnonzero((count > 0) & ~flat)
    places, count = places.isel(attractor=kept), count[kept]
    place_of = {old: new for new, old in enumerate(kept.tolist())}
    member = np.array([place_of.get(old, -1) for old in member.tolist()], int)
    arrival = _arrivals(descent, member, places.risk.values, fractions)
    medians = np.full((len(kept), len(fractions)), np.nan)
    for index in range(len(kept)):
        reached = np.where(np.isnan(arrival), np.inf, arrival)[member == index]
        medians[index] = np.median(reached, axis=0)
    runs = len(member)
    return places.assign(
        excess=("attractor", places.risk.values - risk.teacher),
        count=("attractor", count),
        share=("attractor", count / runs),
        share_error=("attractor", np.asarray(binomial_error(count, runs))),
        arrival_median=(("attractor", "level"), np.where(np.isfinite(medians), medians, np.nan)),
        attractor_of=("run", member),
        end_kind=("run", names.astype(str)),
        end_risk=("run", descent.risk.values[:, -1]),
        end_gradient=("run", still),
        status=("run", descent.status.values),
        start=(("run", "overlap"), np.asarray(overlaps_of(descent, step=0).stack())),
        end=(("run", "overlap"), ends),
        arrival=(("run", "level"), arrival),
    ).assign_coords(
        run=np.arange(runs),
        overlap=list(NAMES),
        level=fractions,
        attractor=np.arange(len(kept)),
    )


def _polished(
    risk: SingleLocationRisk,
    ends: np.ndarray,
    pairs: np.ndarray,
    still: np.ndarray,
    radius: float,
) -> np.ndarray:
    """The stationary points beside the ends, `(points, 2, near)`: of each cluster the one next to
    its stillest end, if there is one within the radius."""
    chosen: list[int] = []
    for index in np.argsort(still, kind="stable"):
        if all(np.abs(ends[index] - ends[other]).max() > radius for other in chosen):
            chosen.append(int(index))
    seen = pictures(risk, pairs[chosen], newton_steps=_NEWTON_STEPS)
    found, axes = seen.pair, np.eye(2, pairs.shape[2])
    marks = Overlaps.from_vectors(found[:, 0], found[:, 1], axes[0], axes[1]).stack()
    moved = np.abs(np.asarray(marks) - ends[chosen]).max(axis=-1)
    good = np.flatnonzero((seen.newton < _ARRIVED) & (moved <= radius))
    kept: list[int] = []
    for one in good.tolist():
        if all(np.abs(marks[one] - marks[other]).max() > radius for other in kept):
            kept.append(one)
    return found[kept]


def _nearest(ends: np.ndarray, points: np.ndarray, radius: float) -> np.ndarray:
    """For each end the nearest of the points if it is within the radius, else -1."""
    if not len(points):
        return np.full(len(ends), -1)
    distance = np.abs(ends[:, None] - points).max(axis=-1)
    best = np.argmin(np.where(np.isnan(distance), np.inf, distance), axis=1)
    return np.where(distance[np.arange(len(ends)), best] <= radius, best, -1)


def _arrivals(
    descent: xarray.Dataset, member: np.ndarray, risks: np.ndarray, fractions: np.ndarray
) -> np.ndarray:
    """First saved step at which each run's excess is at most each fraction of its first excess."""
    target = np.where(member >= 0, np.append(risks, np.nan)[member], np.nan)[:, None]
    excess = descent.risk.values - target
    below = excess[:, :, None] <= fractions * excess[:, :1, None]
    at = descent.step.values[np.argmax(below, axis=1)].astype(np.float64)
    return np.where(below.any(axis=1), at, np.nan)


def _levels(levels: Any) -> np.ndarray:
    allowed = "a vector of fractions in (0, 1)"
    try:
        found = np.asarray(levels, np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("levels", levels, allowed) from None
    if found.ndim != 1 or not np.all((found > 0) & (found < 1)):
        raise InvalidArgument("levels", levels, allowed)
    return found
