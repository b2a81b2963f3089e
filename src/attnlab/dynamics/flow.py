"""The gradient flow of the population risk, in the overlaps or in the parameters of kernel heads.

Source: Section 4 of marion2025 (the limit of small steps), Appendix D of he2025;
`docs/theory/overlap-recursion`, `docs/theory/kernel-head-dynamics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from .._core.errors import check_choice, check_integer, check_real
from .._core.precision import float64, to_float64
from ..students import KernelHeads, Overlaps
from ..theory import SingleLocationRisk
from .arguments import check_risk, check_start, check_times
from .dataset import trajectory_dataset
from .kernel_heads import heads_flow
from .overlap_map import flow_field

if TYPE_CHECKING:
    import xarray


def gradient_flow(
    risk: Any,
    params: Overlaps | KernelHeads,
    *,
    times: Float[ArrayLike, " times"],
    rate: float = 1.0,
    tolerance: float = 1e-9,
    solver: str | None = None,
    max_steps: int = 100_000,
) -> xarray.Dataset:
    """Integrates the gradient flow of `risk` from a batch of starts.

    From `Overlaps`, that of unit vectors: `dk/dt = -P_k^⊥ grad_k R`, `dv/dt = -P_v^⊥ grad_v R`.
    From `KernelHeads`, `dω/dt = -∂R/∂ω`, `dμ/dt = -∂R/∂μ`, each times `rate`.

    **Arguments:**

    - `risk`: from `population_risk`; for heads also an approximation, or any Equinox module with
      `value_of(omega, mu)`.
    - `times`: increasing, at least 0; the flow starts at time 0.
    - `rate`: speed of the clock; Appendix D of he2025 follows half its loss, which is `rate=0.5`.
    - `tolerance`: relative tolerance of the adaptive step; of overlaps also the absolute one, of
      heads 10⁴ times the absolute one.
    - `solver`: `"explicit"` (Tsit5, default of overlaps) or `"implicit"` (Kvaerno5, default of
      heads: for times long enough that the fastest rate would limit the step).

    **Returns:** a dataset as `projected_gradient_descent` or `dynamics.gradient_descent` does, on
    `(run, time)`. `status` says `"diverged"` for a run whose integration failed; others are not
    disturbed. Heads keep what was reached, NaN beyond, and say `"max_steps"` for want of steps.

    With `rate=1` a unit of time is `1/step_size` steps of gradient descent with a small step.
    Raises `InvalidArgument` before any compute.
    """
    if isinstance(params, KernelHeads):
        return heads_flow(
            risk,
            params,
            times=times,
            rate=rate,
            tolerance=tolerance,
            solver="implicit" if solver is None else solver,
            max_steps=max_steps,
        )
    check_risk(risk)
    start = check_start(params)
    at = check_times(times)
    check_real("rate", rate, low=0.0, low_open=True)
    solver = "explicit" if solver is None else solver
    check_real("tolerance", tolerance, low=1e-13, high=1e-2)
    check_choice("solver", solver, ("implicit", "explicit"))
    check_integer("max_steps", max_steps, minimum=1)
    with float64():
        exact, first, grid, speed = to_float64((risk, start, at, rate))
        states, risks, good = _integrate(exact, first, grid, speed, tolerance, solver, max_steps)
        states, risks, good = np.array(states), np.array(risks), np.asarray(good)
    states[:, ~good] = np.nan
    risks[:, ~good] = np.nan
    scale = np.broadcast_to(np.float64(risk.scale), risks.shape)
    return trajectory_dataset("time", at, states, risks, scale, {"method": risk.method})


@eqx.filter_jit
def _integrate(
    risk: SingleLocationRisk,
    start: Any,
    times: Any,
    rate: Any,
    tolerance: Any,
    solver: str,
    max_steps: int,
) -> Any:
    import diffrax

    def field(_: Any, state: Any, args: Any) -> Any:
        exact, speed = args
        return speed * flow_field(state, exact.gradient_of(state))

    method = diffrax.Kvaerno5() if solver == "implicit" else diffrax.Tsit5()

    def one(state: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            method,
            t0=jnp.zeros(()),
            t1=jnp.maximum(times[-1], 1e-12),
            dt0=None,
            y0=state,
            args=(risk, rate),
            saveat=diffrax.SaveAt(ts=times),
            stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),
            max_steps=max_steps,
            throw=False,
        )
        return solution.ys, solution.result == diffrax.RESULTS.successful

    states, good = jax.vmap(one, out_axes=(1, 0))(start)
    return states, risk.value_of(states), good
