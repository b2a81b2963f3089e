"""The gradient flow of the population risk, in the overlaps.

Source: Section 4 of marion2025 (the limit of small steps); `docs/theory/overlap-recursion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from .._core.errors import InvalidArgument, check_choice, check_integer, check_real
from .._core.precision import float64, to_float64
from ..students import Overlaps
from ..theory import SingleLocationRisk
from .arguments import check_risk, check_start
from .dataset import trajectory_dataset
from .overlap_map import flow_field

if TYPE_CHECKING:
    import xarray


def gradient_flow(
    risk: SingleLocationRisk,
    params: Overlaps,
    *,
    times: Float[ArrayLike, " times"],
    tolerance: float = 1e-9,
    solver: str = "explicit",
    max_steps: int = 100_000,
) -> xarray.Dataset:
    """Integrates `dk/dt = -P_k^⊥ grad_k R`, `dv/dt = -P_v^⊥ grad_v R` from a batch of starts.

    **Arguments:**

    - `times`: increasing, at least 0; the flow starts at time 0.
    - `tolerance`: relative and absolute tolerance of the adaptive step.
    - `solver`: `"explicit"` (Tsit5) or `"implicit"` (Kvaerno5, for times long enough that the
      fastest rate would limit the step).

    **Returns:** a dataset as `projected_gradient_descent` does, on `(run, time)`. `status` says
    `"diverged"` for a run whose integration failed; others are not disturbed.

    One unit of time is `1/step_size` steps of projected gradient descent with a small step.
    Raises `InvalidArgument` before any compute.
    """
    check_risk(risk)
    start = check_start(params)
    try:
        at = np.asarray(times).astype(
            np.float64, casting="same_kind" if np.size(times) else "unsafe"
        )
    except (TypeError, ValueError):
        allowed = "a vector of increasing finite times >= 0"
        raise InvalidArgument("times", times, allowed) from None
    ordered = at.ndim == 1 and at.size > 0 and np.isfinite(at).all() and (np.diff(at) > 0).all()
    if not ordered or at[0] < 0:
        raise InvalidArgument("times", times, "a vector of increasing finite times >= 0")
    check_real("tolerance", tolerance, low=1e-13, high=1e-2)
    check_choice("solver", solver, ("implicit", "explicit"))
    check_integer("max_steps", max_steps, minimum=1)
    with float64():
        exact, first, grid = to_float64((risk, start, at))
        states, risks, good = _integrate(exact, first, grid, tolerance, solver, max_steps)
        states, risks, good = np.array(states), np.array(risks), np.asarray(good)
    states[:, ~good] = np.nan
    risks[:, ~good] = np.nan
    scale = np.broadcast_to(np.float64(risk.scale), risks.shape)
    return trajectory_dataset("time", at, states, risks, scale, {"method": risk.method})


@eqx.filter_jit
def _integrate(
    risk: SingleLocationRisk, start: Any, times: Any, tolerance: Any, solver: str, max_steps: int
) -> Any:
    import diffrax

    def field(_: Any, state: Any, exact: Any) -> Any:
        return flow_field(state, exact.gradient_of(state, exact.scale))

    method = diffrax.Kvaerno5() if solver == "implicit" else diffrax.Tsit5()

    def one(state: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            method,
            t0=jnp.zeros(()),
            t1=jnp.maximum(times[-1], 1e-12),
            dt0=None,
            y0=state,
            args=risk,
            saveat=diffrax.SaveAt(ts=times),
            stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),
            max_steps=max_steps,
            throw=False,
        )
        return solution.ys, solution.result == diffrax.RESULTS.successful

    states, good = jax.vmap(one, out_axes=(1, 0))(start)
    return states, risk.value_of(states, risk.scale), good
