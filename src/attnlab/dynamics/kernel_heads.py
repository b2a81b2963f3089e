"""Gradient descent and gradient flow of kernel heads, in their parameters `(omega, mu)`.

The risk is any with a traceable `value_of(omega, mu)`: the exact one, its approximations, or one's
own. Source: Appendices C.4 and D of he2025; `docs/theory/kernel-head-dynamics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .._core.errors import InvalidArgument, check_choice, check_integer, check_real
from .._core.precision import float64, to_float64
from ..students import KernelHeads
from ..theory.heads_risk import HeadsRisk, traced
from .arguments import check_pace, check_times
from .dataset import risk_note
from .loop import Loop, run_loop

if TYPE_CHECKING:
    import xarray

_SMALLEST_SCALE = 1e-4  # of the parameters, below which the tolerance is absolute
_LONG_NAMES = {
    "omega": "score of a head for a product x·x_q",
    "mu": "weight of a head in the prediction",
    "risk": "risk, label noise included",
    "risk_error": "error estimate of the risk at the resolution of the integration",
}


class _Descent(Loop):
    risk: Any
    step_size: Any

    def step(self, carry: Float[Array, "runs 2 heads"], i: Any) -> Float[Array, "runs 2 heads"]:
        return carry - self.step_size * _gradient(self.risk, carry)

    def snapshot(self, carry: Float[Array, "runs 2 heads"], i: Any) -> dict[str, Any]:
        return {"state": carry} | _measured(self.risk, carry)


def gradient_descent(
    risk: Any,
    heads: KernelHeads,
    *,
    step_size: Float[ArrayLike, "*#runs"],
    steps: int,
    save_every: int = 1,
) -> xarray.Dataset:
    """Runs `ω <- ω - s ∂R/∂ω`, `μ <- μ - s ∂R/∂μ` for a batch of starts at once.

    **Arguments:**

    - `risk`: from `population_risk` or `theory.approximate_risk`, or any Equinox module with
      `value_of(omega, mu)`, traceable by JAX.
    - `heads`: the starts, `omega` and `mu` of equal shape `(*batch, H)`; the batch is flattened to
      the dimension `run`.
    - `step_size`: `s > 0`, one number or one per run.
    - `steps`, `save_every`: saved are the steps `0, save_every, 2 save_every, ...` and the last.

    **Returns:** a dataset with `omega`, `mu` on `(run, step, head)`, `risk` on `(run, step)`, with
    `risk_error` where the risk is a quadrature, all of the same step; `status` on `run` is `"ok"`
    or `"diverged"`. Float64.

    Raises `InvalidArgument` before any step is made; `RunInterrupted` on Ctrl-C, with the steps
    saved until then.
    """
    start = _check(risk, heads)
    sizes, steps, save_every, _ = check_pace(step_size, steps, save_every, None, runs=len(start))
    with float64():
        exact, sizes, carry = to_float64((risk, sizes.reshape(-1, 1, 1), start))
    method = {"method": getattr(risk, "method", "")}
    return run_loop(
        _Descent(exact, sizes),
        carry,
        steps=steps,
        save_every=save_every,
        label="gradient descent",
        finish=lambda at, shots: _dataset("step", at, shots, None, method),
        note=risk_note,
    )


def heads_flow(
    risk: Any,
    heads: KernelHeads,
    *,
    times: Any,
    rate: float,
    tolerance: float,
    solver: str,
    max_steps: int,
) -> xarray.Dataset:
    """`gradient_flow` of kernel heads; see there."""
    start = _check(risk, heads)
    at = check_times(times)
    check_real("rate", rate, low=0.0, low_open=True)
    check_real("tolerance", tolerance, low=1e-13, high=1e-2)
    check_choice("solver", solver, ("implicit", "explicit"))
    check_integer("max_steps", max_steps, minimum=1)
    with float64():
        exact, first, grid, speed, goal = to_float64((risk, start, at, rate, tolerance))
        states, measured, outcome = _integrate(exact, first, grid, speed, goal, solver, max_steps)
        shots = {k: np.array(v) for k, v in {"state": states, **measured}.items()}
        outcome = np.asarray(outcome)
    status = np.select([outcome == 0, outcome == 1], ["ok", "max_steps"], "diverged")
    attrs = {"method": getattr(risk, "method", ""), "rate": float(rate), "solver": solver}
    return _dataset("time", at, shots, status, attrs | {"tolerance": float(tolerance)})


@eqx.filter_jit
def _integrate(
    risk: Any, start: Any, times: Any, rate: Any, tolerance: Any, solver: str, max_steps: int
) -> Any:
    import diffrax
    import optimistix

    # Diffrax's own root finder keeps an old Jacobian and rejects half of the steps, here small ones
    root_finder = diffrax.with_stepsize_controller_tols(optimistix.Newton)()

    def field(_: Any, state: Any, args: Any) -> Any:
        exact, speed = args
        return -speed * _gradient(exact, state)

    def one(state: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Kvaerno5(root_finder=root_finder) if solver == "implicit" else diffrax.Tsit5(),
            t0=jnp.zeros(()),
            t1=jnp.maximum(times[-1], 1e-12),
            dt0=None,
            y0=state,
            args=(risk, rate),
            saveat=diffrax.SaveAt(ts=times),
            stepsize_controller=diffrax.PIDController(
                rtol=tolerance, atol=tolerance * _SMALLEST_SCALE
            ),
            max_steps=max_steps,
            throw=False,
        )
        limit = solution.result == diffrax.RESULTS.max_steps_reached
        code = jnp.where(solution.result == diffrax.RESULTS.successful, 0, jnp.where(limit, 1, 2))
        # times that were not reached
        return jnp.where(jnp.isfinite(solution.ys), solution.ys, jnp.nan), code

    states, code = jax.vmap(one, out_axes=(1, 0))(start)
    return states, jax.lax.map(lambda state: _measured(risk, state), states), code


def _gradient(risk: Any, state: Any) -> Any:
    return jax.grad(lambda s: jnp.sum(risk.value_of(s[..., 0, :], s[..., 1, :])))(state)


def _measured(risk: Any, state: Any) -> dict[str, Any]:
    omega, mu = state[..., 0, :], state[..., 1, :]
    if not hasattr(risk, "error_of"):
        return {"risk": risk.value_of(omega, mu)}
    return {"risk": risk.value_of(omega, mu), "risk_error": risk.error_of(omega, mu)}


def _check(risk: Any, heads: Any) -> np.ndarray:
    """The starts as `(runs, 2, heads)`; raises `InvalidArgument`."""
    if not (isinstance(risk, eqx.Module) and callable(getattr(risk, "value_of", None))):
        allowed = "a risk of kernel heads: an Equinox module with value_of(omega, mu)"
        raise InvalidArgument("risk", risk, allowed)
    if not isinstance(heads, KernelHeads):
        raise InvalidArgument("heads", heads, "an attnlab.KernelHeads")
    if traced(heads):
        raise InvalidArgument("heads", heads, "concrete: dynamics run outside of jit")
    omega, mu = (np.asarray(x, np.float64) for x in (heads.omega, heads.mu))
    if omega.shape != mu.shape:
        allowed = f"one number for each head, as omega, whose shape is {omega.shape}"
        raise InvalidArgument("mu", mu, allowed)
    if isinstance(risk, HeadsRisk):
        risk.check_kind(heads)
        risk.check_heads(heads)
    return np.stack([x.reshape(-1, omega.shape[-1]) for x in (omega, mu)], 1)


def _dataset(
    axis: str,
    at: np.ndarray,
    shots: dict[str, np.ndarray],
    status: np.ndarray | None,
    attrs: dict[str, Any],
) -> xarray.Dataset:
    import xarray

    states = np.moveaxis(shots.pop("state"), 0, 1)  # run, axis, 2, head
    data: dict[str, Any] = {
        "omega": (("run", axis, "head"), states[:, :, 0]),
        "mu": (("run", axis, "head"), states[:, :, 1]),
    }
    data |= {name: (("run", axis), value.T) for name, value in shots.items()}
    if status is None:
        good = np.isfinite(states).all(axis=(1, 2, 3)) & np.isfinite(shots["risk"]).all(axis=0)
        status = np.where(good, "ok", "diverged")
    data["status"] = ("run", status)
    dataset = xarray.Dataset(data, {"run": np.arange(len(states)), axis: at}, attrs)
    for name, text in _LONG_NAMES.items():
        if name in dataset:
            dataset[name].attrs["long_name"] = text
    return dataset
