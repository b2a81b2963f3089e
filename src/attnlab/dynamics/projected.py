"""Projected gradient descent on the population risk, in the overlaps: exact, O(1) a step.

Source: eq. (9) of marion2025; `docs/theory/overlap-recursion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from .._core.precision import float64, to_float64
from ..students import Overlaps
from ..theory import SingleLocationRisk
from .arguments import check_pace, check_risk, check_start
from .dataset import risk_note, risk_shot, step_dataset
from .loop import Schedule, ScheduledLoop, run_loop
from .overlap_map import descend

if TYPE_CHECKING:
    import xarray


class _Descent(ScheduledLoop):
    risk: SingleLocationRisk
    step_size: Any

    def step(self, carry: Float[Array, "5 runs"], i: Any) -> Float[Array, "5 runs"]:
        state = jnp.moveaxis(carry, 0, -1)
        gradient = self.risk.gradient_of(state, self.scale_at(i))
        return jnp.moveaxis(descend(state, gradient, self.step_size), -1, 0)

    def snapshot(self, carry: Float[Array, "5 runs"], i: Any) -> dict[str, Any]:
        state, scale = jnp.moveaxis(carry, 0, -1), self.scale_at(i)
        return risk_shot(self.risk, state, scale)


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
    pace = check_pace(step_size, steps, save_every, scale_schedule, runs=len(start))
    with float64():
        exact, sizes, carry = to_float64((pace.resolved(risk), pace.sizes, start.T))
        loop = _Descent(schedule=scale_schedule, risk=exact, step_size=sizes)
    return run_loop(
        loop,
        carry,
        steps=pace.steps,
        save_every=pace.save_every,
        label="projected gradient descent",
        finish=lambda at, shots: step_dataset(at, shots, risk.method),
        note=risk_note,
    )
