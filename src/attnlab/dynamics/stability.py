"""Local rates at stationary points, and whether the invariant manifold attracts or repels.

Source: the discussion of general initialisations in Section 5 of marion2025 (left open there);
`docs/theory/stability`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .._core.errors import InvalidArgument, check_integer, check_real
from .._core.precision import float64, to_float64
from ..students import Overlaps
from ..theory import SingleLocationRisk
from .arguments import check_pace, check_risk, check_start
from .dataset import risk_note, risk_shot, step_dataset
from .loop import Schedule, ScheduledLoop, run_loop
from .overlap_map import descend, flow_field
from .stationary import classify

if TYPE_CHECKING:
    import xarray


def convergence_rates(
    risk: SingleLocationRisk, overlaps: Overlaps, dim: int, *, step_size: float
) -> xarray.Dataset:
    """How fast projected gradient descent converges to, or leaves, a stationary point.

    **Arguments:** `overlaps`, stationary points (batch flattened; see `stationary_points`); `dim`
    of the task; `step_size` of the descent.

    **Returns:** the dataset of `stationary_points` (same order of rows: sorted by risk), with

    - `contraction`: largest `|1 - s λ_i|` over modes not forced by symmetry. Below 1 the descent
      converges linearly, the distance shrinking by this factor a step;
    - `halving_steps`: steps that halve the distance (infinite where it does not shrink);
    - `escape_steps`: steps in which a perturbation along the steepest negative mode grows by `e`
      (infinite at minima);
    - `largest_step`: `2/λ_max`, beyond which the point repels.

    Raises `InvalidArgument` for points whose gradient does not vanish.
    """
    check_risk(risk)
    step_size = check_real("step_size", step_size, low=0.0, low_open=True)
    near = min(check_integer("dim", dim, minimum=2), 4)
    start = Overlaps.unstack(check_start(overlaps, some=True))
    out = classify(risk, np.stack(start.to_vectors(near), axis=1), dim)
    worst = float(out.gradient_norm.max())
    if worst > 1e-6 * max(1.0, abs(risk.teacher)):
        raise InvalidArgument("overlaps", overlaps, f"stationary (gradient norm is {worst:.3g})")
    slow, fast = out.smallest_nonzero_eigenvalue, out.largest_eigenvalue
    factor = np.maximum(np.abs(1 - step_size * slow), np.abs(1 - step_size * fast))
    with np.errstate(divide="ignore"):
        halving = np.where(factor < 1, np.log(0.5) / np.log(factor), np.inf)
        escape = np.where(slow < 0, 1 / np.log1p(-step_size * np.minimum(slow, 0)), np.inf)
        largest = np.where(fast > 0, 2 / fast, np.inf)
    return out.assign(
        contraction=("point", factor.values),
        halving_steps=("point", halving),
        escape_steps=("point", escape),
        largest_step=("point", largest),
    )


def leaving(risk: SingleLocationRisk, start: np.ndarray) -> float:
    """The largest velocity off M at starts on M, in units of the largest gradient there."""
    gradient = np.asarray(risk.gradient(Overlaps.unstack(start)).stack())
    with float64():
        velocity = np.asarray(flow_field(*to_float64((start, gradient))))
    worst = float(np.abs(velocity[:, 2:]).max(initial=0.0))
    return worst / max(1.0, float(np.abs(gradient).max(initial=0.0)))


class _Transverse(ScheduledLoop):
    risk: SingleLocationRisk
    step_size: Any

    def step(self, carry: Any, i: Any) -> Any:
        state, propagator, growth = carry
        scale = self.scale_at(i)

        def onward(state: Any) -> Any:
            return descend(state, self.risk.gradient_of(state, scale), self.step_size)

        moved, columns = _transverse_columns(onward, state)
        propagator = columns @ propagator
        size = jnp.sqrt(jnp.sum(propagator**2, axis=(-2, -1)))
        return moved, propagator / size[..., None, None], growth + jnp.log(size)

    def snapshot(self, carry: Any, i: Any) -> dict[str, Any]:
        state, propagator, growth = carry
        scale = self.scale_at(i)

        def velocity(state: Any) -> Any:
            return flow_field(state, self.risk.gradient_of(state, scale))

        _, jacobian = _transverse_columns(velocity, state)
        norm = jnp.linalg.norm(propagator, ord=2, axis=(-2, -1))
        return {
            **risk_shot(self.risk, state, scale),
            "jacobian": jacobian,
            "growth": growth + jnp.log(norm),
        }


def _transverse_columns(
    function: Any, state: Float[Array, "runs 5"]
) -> tuple[Float[Array, "runs 5"], Float[Array, "runs 3 3"]]:
    """`function(state)` and its Jacobian in (theta, eta, rho)."""
    directions = jnp.broadcast_to(jnp.eye(5)[2:, None], (3, *state.shape))
    value, push = jax.linearize(function, state)
    return value, jnp.moveaxis(jax.vmap(push)(directions)[..., 2:], 0, -1)


def transverse_stability(
    risk: SingleLocationRisk,
    overlaps: Overlaps,
    *,
    step_size: Float[ArrayLike, "*#runs"],
    steps: int,
    save_every: int = 1,
    scale_schedule: Schedule | None = None,
) -> xarray.Dataset:
    """Descends on the invariant manifold and watches small perturbations off it.

    **Arguments:** as in `projected_gradient_descent`; the starts must lie on M, and the risk must
    leave M invariant (softmax attention with a link that is not odd does not).

    **Returns:** the trajectory's dataset, with

    - `exponent` on `(run, step, mode)`: real parts of the eigenvalues of the flow's Jacobian in
      (theta, eta, rho), largest first, per unit of time; M attracts locally where all are < 0;
    - `growth` on `(run, step)`: log of the largest factor by which the descent itself has
      stretched a perturbation since step 0 (the exact product of its Jacobians).
    """
    check_risk(risk)
    start = check_start(overlaps, some=True)
    if np.abs(start[:, 2:]).max() > 1e-12:
        raise InvalidArgument("overlaps", overlaps, "on M: theta = eta = rho = 0")
    off = leaving(risk, start)
    if off > 1e-8:
        allowed = (
            f"one that leaves M invariant (there it moves the starts off M at the rate {off:.3g})"
        )
        raise InvalidArgument("risk", risk.method, allowed)
    pace = check_pace(step_size, steps, save_every, scale_schedule, runs=len(start))
    with float64():
        exact, sizes, state = to_float64((pace.resolved(risk), pace.sizes, start))
        loop = _Transverse(schedule=scale_schedule, risk=exact, step_size=sizes)
        carry = (state, jnp.broadcast_to(jnp.eye(3), (len(start), 3, 3)), jnp.zeros(len(start)))
    return run_loop(
        loop,
        carry,
        steps=pace.steps,
        save_every=pace.save_every,
        label="transverse stability",
        finish=lambda at, shots: _stability_dataset(at, shots, risk.method),
        note=risk_note,
    )


def _stability_dataset(at: np.ndarray, shots: dict[str, np.ndarray], method: str) -> xarray.Dataset:
    out = step_dataset(at, shots, method)
    finite = np.where(np.isfinite(shots["jacobian"]), shots["jacobian"], 0.0)
    exponents = -np.sort(-np.linalg.eigvals(finite).real, axis=-1)
    return out.assign(
        exponent=(("run", "step", "mode"), np.moveaxis(exponents, 0, 1)),
        growth=(("run", "step"), shots["growth"].T),
    )
