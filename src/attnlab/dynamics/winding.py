"""A descent whose steps tend to 0 and whose squares add up, and which still does not converge.

On the sphere, for `z > 0`, with the longitude `φ` (`√(1-z²) sin(φ - 1/z) = y cos(1/z) - x sin(1/z)`),

    f = e^{-1/z} (1 - q √(1-z²) sin(φ - 1/z)),      1/√2 < q < 1,

and `f = 0` for `z <= 0`: smooth everywhere, since all its derivatives vanish at the equator, but not
analytic there. Its descents fall into a valley that winds round the sphere, `φ = 1/z + const`, ever
closer to the equator, and follow it for ever. So "the steps tend to 0, hence the iterates
converge", an inference of dohmatob2025, is none; descents on the risks of this library converge
because those are analytic. After Absil, Mahony and Andrews (2005), whose example is in the plane;
`docs/theory/descent-lemma`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.errors import check_integer, check_real
from .._core.precision import float64, to_float64
from .arguments import check_length
from .loop import Loop, run_loop

if TYPE_CHECKING:
    import xarray

_DEPTH = 0.8


def winding_risk(x: Float[Array, " 3"]) -> Float[Array, ""]:
    """`f` of a unit vector, with `q = 0.8`."""
    up = x[2] > 1e-3  # e^{-1000} is 0
    w = 1 / jnp.where(up, x[2], 1.0)
    value = jnp.exp(-w) * (1 - _DEPTH * (x[1] * jnp.cos(w) - x[0] * jnp.sin(w)))
    return jnp.where(up, value, 0.0)


class _Winding(Loop):
    """Carries the point, the longitude without jumps, the path's length, its squares: `(6,)`."""

    step_size: Any

    def step(self, carry: Float[Array, " 6"], i: Any) -> Float[Array, " 6"]:
        x = carry[:3]
        raw = jax.grad(winding_risk)(x)
        moved = x - self.step_size * (raw - (raw @ x) * x)
        moved = moved / jnp.sqrt(moved @ moved)
        turn = jnp.arctan2(x[0] * moved[1] - x[1] * moved[0], x[:2] @ moved[:2])
        square = jnp.sum((moved - x) ** 2)
        sums = carry[3:] + jnp.stack([turn, jnp.sqrt(square), square])
        return jnp.concatenate([moved, sums])

    def snapshot(self, carry: Float[Array, " 6"], i: Any) -> dict[str, Any]:
        x = carry[:3]
        raw = jax.grad(winding_risk)(x)
        tangent = raw - (raw @ x) * x
        return {"carry": carry, "risk": winding_risk(x), "gradient_norm": jnp.linalg.norm(tangent)}


def winding_descent(
    *, step_size: float = 0.2, steps: int, height: float = 0.5, save_every: int = 1
) -> xarray.Dataset:
    """Projected gradient descent on `f`, from the point of the valley at `z = height`.

    **Returns:** on `step`: `x`, `y`, `z`; `longitude`, counted on through whole turns, which grows
    as `log(step)` without bound; `path_length`, which grows with it; `path_squares`, which stays
    bounded; `risk`, `gradient_norm`. Raises `InvalidArgument`.
    """
    size = check_real("step_size", step_size, low=0.0, low_open=True)
    height = check_real("height", height, low=0.05, high=0.95)
    steps = check_integer("steps", steps, minimum=0)
    save_every = check_integer("save_every", save_every, minimum=1)
    check_length(steps, save_every)
    radius = np.sqrt(1 - height**2)
    angle = 1 / height + np.pi / 2
    first = [radius * np.cos(angle), radius * np.sin(angle), height, angle, 0.0, 0.0]
    with float64():
        loop, carry = _Winding(step_size=to_float64(size)), to_float64(np.array(first))
    return run_loop(
        loop,
        carry,
        steps=steps,
        save_every=save_every,
        label="winding descent",
        finish=_dataset,
    )


def _dataset(at: np.ndarray, shots: dict[str, np.ndarray]) -> xarray.Dataset:
    import xarray

    names = ("x", "y", "z", "longitude", "path_length", "path_squares")
    data: dict[str, Any] = {
        name: ("step", shots["carry"][:, index]) for index, name in enumerate(names)
    }
    data |= {name: ("step", shots[name]) for name in ("risk", "gradient_norm")}
    return xarray.Dataset(data, coords={"step": at})
