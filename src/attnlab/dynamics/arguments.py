"""Checks of what all descents take, before the first step is made."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from .._core.errors import InvalidArgument, check_amount, check_integer, check_real, is_traced
from .._core.precision import float64
from ..students import Overlaps, PointwiseAttention, SoftmaxAttention
from ..students.overlaps import NAMES
from ..theory import SingleLocationRisk
from .dataset import runs_of
from .loop import Schedule

# what single-location training takes: students that predict from scores and values of tokens
Student = PointwiseAttention | SoftmaxAttention

_MOST_STEPS = 10**11
_MOST_SAVED, _STATE = 10**9, 100  # states of one run, and bytes of one: five overlaps, risk, scale


class Pace(NamedTuple):
    """Step sizes (one, or one per run), number of steps, steps between saved states, and values
    that the schedule takes, None without one."""

    sizes: np.ndarray
    steps: int
    save_every: int
    scales: np.ndarray | None

    def resolved(self, risk: SingleLocationRisk) -> SingleLocationRisk:
        """The risk in a form that is accurate at all scales of the run."""
        return risk if self.scales is None else risk.resolving(self.scales)


def check_pace(
    step_size: Any, steps: Any, save_every: Any, schedule: Schedule | None, *, runs: int
) -> Pace:
    """The checked arguments that set how a descent moves; raises `InvalidArgument`."""
    sizes = check_step_size(step_size, runs)
    steps = check_integer("steps", steps, minimum=0)
    save_every = check_integer("save_every", save_every, minimum=1)
    check_length(steps, save_every, runs)
    return Pace(sizes, steps, save_every, check_schedule(schedule, steps))


def check_length(steps: int, save_every: int, runs: int = 1, *, seconds: float = 1e-6) -> None:
    """Raises `InvalidArgument` for more `steps` (each takes so many `seconds` at least) than anybody
    can wait for, and for more saved states of all runs than a memory holds."""
    check_amount("steps", steps, _MOST_STEPS, seconds=seconds)
    saved = (steps // save_every + 2) * runs
    check_amount("steps / save_every · runs", saved, _MOST_SAVED, size=_STATE)


def check_start(overlaps: Any, *, some: bool = False) -> np.ndarray:
    """The starts as `(runs, 5)`, with `some` at least one; raises `InvalidArgument` for NaN or for
    anything else."""
    if not isinstance(overlaps, Overlaps):
        raise InvalidArgument("overlaps", overlaps, "an attnlab.Overlaps")
    if is_traced(*(getattr(overlaps, name) for name in NAMES)):
        raise InvalidArgument("overlaps", overlaps, "concrete: descents run outside of jit")
    start = runs_of(overlaps)
    if some and not len(start):
        raise InvalidArgument("overlaps", overlaps, "one point at least")
    if not np.isfinite(start).all():
        raise InvalidArgument("overlaps", overlaps, "finite")
    return start


def check_step_size(step_size: Any, runs: int) -> np.ndarray:
    """`step_size` as an array that broadcasts against the runs."""
    sizes = np.asarray(step_size)
    if sizes.ndim > 1 or (sizes.ndim == 1 and sizes.shape[0] not in (1, runs)):
        raise InvalidArgument("step_size", step_size, f"one number or {runs}, one per run")
    for size in sizes.ravel():
        check_real("step_size", size, low=0.0, low_open=True)
    return sizes.astype(np.float64)


def check_schedule(schedule: Any, steps: int) -> np.ndarray | None:
    """Evaluates the schedule over the whole run, so that a broken one fails before it.

    Looks at up to 257 steps from the first to the last, in one traced call, and returns the values
    there.
    """
    if schedule is None:
        return None
    allowed = "a function of the step, traceable by JAX, whose values are positive numbers"
    if not callable(schedule):
        raise InvalidArgument("scale_schedule", schedule, allowed)
    grid = np.unique(np.linspace(0, steps, 257).round().astype(np.int64))
    try:
        with float64():
            values = np.asarray(jax.jit(jax.vmap(schedule))(grid))
    except Exception as error:  # whatever the caller's function raises, it is no schedule
        shown = f"{schedule!r}, which raises {type(error).__name__}"
        raise InvalidArgument("scale_schedule", shown, allowed) from error
    good = values.shape == grid.shape and values.dtype.kind in "fiu"
    if not good:
        raise InvalidArgument("scale_schedule", schedule, allowed)
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InvalidArgument("scale_schedule", f"{values[at]} at step {grid[at]}", allowed)
    return values.astype(np.float64)


def check_risk(risk: Any) -> None:
    """Raises `InvalidArgument` for anything but an exact single-location risk."""
    if not isinstance(risk, SingleLocationRisk):
        raise InvalidArgument("risk", risk, "a risk from attnlab.population_risk")


def check_times(times: Any) -> np.ndarray:
    """`times` as a float64 vector, increasing and at least 0; raises `InvalidArgument`."""
    allowed = "a vector of increasing finite times >= 0"
    try:
        casting: Any = "same_kind" if np.size(times) else "unsafe"
        at = np.asarray(times).astype(np.float64, casting=casting)
    except (TypeError, ValueError):
        raise InvalidArgument("times", times, allowed) from None
    ordered = at.ndim == 1 and at.size > 0 and np.isfinite(at).all() and (np.diff(at) > 0).all()
    if not ordered or at[0] < 0:
        raise InvalidArgument("times", times, allowed)
    return at
