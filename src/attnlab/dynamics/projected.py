"""Projected gradient descent on the population risk, in the overlaps: exact, O(1) a step.

Source: eq. (9) of marion2025; `docs/theory/overlap-recursion`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .._core.errors import InvalidArgument, check_integer, check_real
from .._core.precision import float64, to_float64
from ..students import Overlaps
from ..theory import SingleLocationRisk
from .dataset import runs_of, trajectory_dataset
from .loop import Loop, run_loop
from .overlap_map import descend

if TYPE_CHECKING:
    import xarray

Schedule = Callable[[Any], Any]


class ScheduledLoop(Loop):
    """A loop whose scale follows a schedule, or stays that of `constant_scale`."""

    constant_scale: Any
    schedule: Schedule | None = eqx.field(static=True)

    def scale_at(self, i: Any) -> Any:
        """The scale in force at step `i`."""
        if self.schedule is None:
            return self.constant_scale
        return jnp.asarray(self.schedule(i)).astype(jnp.float64)


class _Descent(ScheduledLoop):
    risk: SingleLocationRisk
    step_size: Any

    def step(self, carry: Float[Array, "5 runs"], i: Any) -> Float[Array, "5 runs"]:
        state = jnp.moveaxis(carry, 0, -1)
        gradient = self.risk.gradient_of(state, self.scale_at(i))
        return jnp.moveaxis(descend(state, gradient, self.step_size), -1, 0)

    def snapshot(self, carry: Float[Array, "5 runs"], i: Any) -> dict[str, Any]:
        state, scale = jnp.moveaxis(carry, 0, -1), self.scale_at(i)
        risk = self.risk.value_of(state, scale)
        return {"state": state, "risk": risk, "scale": jnp.broadcast_to(scale, risk.shape)}


def projected_gradient_descent(
    risk: SingleLocationRisk,
    overlaps: Overlaps,
    *,
    step_size: Float[ArrayLike, "*#runs"],
    steps: int,
    save_every: int = 1,
    scale_schedule: Schedule | None = None,
) -> xarray.Dataset:
    """Runs `k <- (k - s P_k^⊥ grad_k R)/|·|`, `v` alike, for a batch of starts at once.

    **Arguments:**

    - `risk`: an exact risk, from `population_risk`.
    - `overlaps`: the starts; any batch shape, flattened to the dimension `run`.
    - `step_size`: `s > 0`, one number or one per run.
    - `steps`, `save_every`: saved are the steps `0, save_every, 2 save_every, ...` and the last.
    - `scale_schedule`: a function `step -> λ` (or `β`) in place of the student's; traceable by JAX.

    **Returns:** a dataset with `kappa, nu, theta, eta, rho, risk, scale` on `(run, step)`, state,
    scale and risk of the same step, and `status` on `run`. A run that leaves the finite numbers
    is marked `"diverged"` and disturbs no other.

    Raises `InvalidArgument` before any step is made; `RunInterrupted` on Ctrl-C, with the steps
    saved until then.
    """
    check_risk(risk)
    start = check_start(overlaps)
    sizes = check_step_size(step_size, len(start))
    steps = check_integer("steps", steps, minimum=0)
    save_every = check_integer("save_every", save_every, minimum=1)
    check_schedule(scale_schedule)
    with float64():
        exact, sizes, carry = to_float64((risk, sizes, start.T))
        loop = _Descent(
            constant_scale=exact.scale, schedule=scale_schedule, risk=exact, step_size=sizes
        )
    return run_loop(
        loop,
        carry,
        steps=steps,
        save_every=save_every,
        label="projected gradient descent",
        finish=lambda at, shots: trajectory_dataset(
            "step", at, shots["state"], shots["risk"], shots["scale"], {"method": risk.method}
        ),
        note=risk_note,
    )


def risk_note(shot: dict[str, np.ndarray]) -> str:
    """The text beside a progress bar."""
    return f"mean risk {np.mean(shot['risk']):.4g}"


def check_start(overlaps: Any) -> np.ndarray:
    """The starts as `(runs, 5)`; raises `InvalidArgument` for NaN or for anything else."""
    if not isinstance(overlaps, Overlaps):
        raise InvalidArgument("overlaps", overlaps, "an attnlab.Overlaps")
    start = runs_of(overlaps)
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


def check_schedule(schedule: Any) -> None:
    """Calls the schedule once, so that a broken one fails before the run."""
    if schedule is None:
        return
    allowed = "a function of the step, traceable by JAX, whose values are positive numbers"
    if not callable(schedule):
        raise InvalidArgument("scale_schedule", schedule, allowed)
    value = np.asarray(schedule(0))
    if value.ndim or not np.isfinite(value) or value <= 0:
        raise InvalidArgument("scale_schedule", f"{value} at step 0", allowed)


def check_risk(risk: Any) -> None:
    if not isinstance(risk, SingleLocationRisk):
        raise InvalidArgument("risk", risk, "a risk from attnlab.population_risk")
