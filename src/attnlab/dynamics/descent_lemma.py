"""The descent lemma of projected gradient descent on two spheres, checked step by step.

A step `k̃ = k - s t_k`, `ṽ = v - s t_v` along the projected gradients `g = (t_k, t_v)`, brought back
by normalisation, cannot change `r(k, v) = R(k/|k|, v/|v|)` by the second half of it. With `Λ` of
`smoothness`, for every `s > 0`,

    R_{k+1} <= R_k - s (1 - sΛ/2) |g_k|²                     (so <= R_k - (s/2) |g_k|² for s <= 1/Λ)
    1 <= |k̃| <= 1 + s²|t_k|²/2,      |k_{k+1} - k_k| <= arctan(s|t_k|) <= s|t_k|,     v alike.

The lemma of dohmatob2025 has `s Λ/4` where these have a pure number times `s`; that cannot hold for
small steps when `Λ > 4`. Source: `docs/theory/descent-lemma`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .._core.errors import InvalidArgument
from .._core.precision import float64, to_float64
from ..students import Overlaps
from ..theory import SingleLocationRisk
from .arguments import check_pace, check_risk, check_start
from .dataset import risk_note, risk_shot, step_dataset
from .loop import Loop, run_loop
from .overlap_map import descend, gradient_norm, tangents
from .smoothness import Smoothness

if TYPE_CHECKING:
    import xarray

_RESOLVED = 1e4  # a decrease counts from this many roundings of the risk on

_LONG_NAMES = {
    "gradient_norm": "norm of the Riemannian gradient g",
    "gradient_k": "norm of its part on the sphere of k",
    "gradient_v": "norm of its part on the sphere of v",
    "decrease": "risk of this step minus risk of the next",
    "ratio": "decrease / (s |g|²)",
    "needed": "2 (1 - ratio) / s: the smoothness that this step shows",
    "resolved": "whether rounding leaves the decrease four digits",
    "contraction": "|g| of the next step / |g| of this one",
    "norm_k": "length of k before normalisation",
    "norm_v": "length of v before normalisation",
    "move_k": "distance of k to the next k",
    "move_v": "distance of v to the next v",
    "path_length": "sum of the distances moved before this step, in both vectors together",
    "path_squares": "sum of their squares",
}


class _Checked(Loop):
    """Carries the overlaps, the path's length and the sum of its squares: one array `(7, runs)`."""

    risk: SingleLocationRisk
    step_size: Any

    def step(self, carry: Float[Array, "7 runs"], i: Any) -> Float[Array, "7 runs"]:
        state = jnp.moveaxis(carry[:5], 0, -1)
        gradient = self.risk.gradient_of(state)
        moved = self._moves(state, gradient)
        square = moved["move_k"] ** 2 + moved["move_v"] ** 2
        after = jnp.moveaxis(descend(state, gradient, self.step_size), -1, 0)
        return jnp.concatenate([after, jnp.stack([carry[5] + jnp.sqrt(square), carry[6] + square])])

    def snapshot(self, carry: Float[Array, "7 runs"], i: Any) -> dict[str, Any]:
        def onward(state: Any, _: Any) -> Any:
            gradient = self.risk.gradient_of(state)
            shot = risk_shot(self.risk, state, None) | self._moves(state, gradient)
            shot["gradient_norm"] = gradient_norm(state, gradient)
            return descend(state, gradient, self.step_size), shot

        # a scan over this step and the next: one program for both
        two = jax.lax.scan(onward, jnp.moveaxis(carry[:5], 0, -1), None, length=2)[1]
        first, second = ({name: part[at] for name, part in two.items()} for at in (0, 1))
        return {
            **first,
            "decrease": first["risk"] - second["risk"],
            "contraction": second["gradient_norm"] / first["gradient_norm"],
            "path_length": carry[5],
            "path_squares": carry[6],
        }

    def _moves(self, state: Any, gradient: Any) -> dict[str, Any]:
        t = tangents(state, gradient)
        found: dict[str, Any] = {}
        for name, square in (("k", t.k_norm2), ("v", t.v_norm2)):
            shift = self.step_size * jnp.sqrt(square)
            norm = jnp.sqrt(1 + shift**2)
            found |= {f"gradient_{name}": jnp.sqrt(square), f"norm_{name}": norm}
            # |k/|k̃| - k|² = 2 (1 - 1/|k̃|), without the cancellation
            found[f"move_{name}"] = shift * jnp.sqrt(2 / (norm * (norm + 1)))
        return found


def descent_check(
    risk: SingleLocationRisk,
    overlaps: Overlaps,
    constants: Smoothness,
    *,
    step_size: Float[ArrayLike, "*#runs"],
    steps: int,
    save_every: int = 1,
) -> xarray.Dataset:
    """Descends, and compares what each saved step does with the descent lemma.

    **Arguments:** as in `projected_gradient_descent`; `constants` from `smoothness` (of M for starts
    on an invariant M).

    **Returns:** the trajectory's dataset, with on `(run, step)`, for the step that begins there,

    - `gradient_norm` (`gradient_k`, `gradient_v`), `decrease`, `ratio` to `s|g|²`, and `needed`,
      the smallest `Λ` under which the lemma allows this step;
    - `holds`: `decrease >= s (1 - sΛ/2) |g|²`; `half`: `decrease >= 11/16 s |g|²`, what dohmatob2025
      derives for `s <= 1/(2Λ)`; `printed_middle` and `printed`: `decrease >= 11/16 sΛ |g|²` and
      `>= sΛ/4 |g|²`, as printed there. Judged up to rounding; see `resolved`;
    - `norm_k`, `norm_v` and `move_k`, `move_v` of the retraction, `path_length`, `path_squares`;
    - `contraction`, which tends to `max |1 - sλ_i|` over the modes that the run excites, until the
      gradient is down at what overlaps resolve, some 1e-8.

    On `run`, `step_size`. Attributes: `smoothness` (`Λ`), `gradient_bound` (`M`), `largest_step`
    (`2/Λ`), and the two bounds that dohmatob2025 gives for the step, `min(1/(2Λ), 1/M)` in its
    derivation and `min(1/(2Λ), M)` in its lemma.

    Raises `InvalidArgument`; `RunInterrupted` on Ctrl-C.
    """
    check_risk(risk)
    if not isinstance(constants, Smoothness):
        raise InvalidArgument("constants", constants, "what attnlab.dynamics.smoothness returns")
    start = check_start(overlaps)
    pace = check_pace(step_size, steps, save_every, None, runs=len(start))
    with float64():
        exact, sizes, carry = to_float64((risk, pace.sizes, np.pad(start.T, ((0, 2), (0, 0)))))
        loop = _Checked(risk=exact, step_size=sizes)
    return run_loop(
        loop,
        carry,
        steps=pace.steps,
        save_every=pace.save_every,
        label="descent lemma",
        finish=lambda at, shots: _judged(
            step_dataset(at, shots, risk.method), shots, pace.sizes, constants
        ),
        note=risk_note,
    )


def _judged(
    dataset: xarray.Dataset, shots: dict[str, Any], sizes: np.ndarray, constants: Smoothness
) -> xarray.Dataset:
    data = {name: shots[name].T for name in shots if name not in ("state", "risk", "scale")}
    s = np.broadcast_to(sizes, (dataset.sizes["run"],))[:, None]
    bound, steepest = constants.bound, constants.gradient
    square = data["gradient_norm"] ** 2
    rounding = np.finfo(np.float64).eps * np.maximum(np.abs(dataset.risk.values), 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        data["ratio"] = data["decrease"] / (s * square)
        data["needed"] = 2 * (1 - data["ratio"]) / s
        data["resolved"] = s * square > _RESOLVED * rounding
    least = {
        "holds": s * (1 - s * bound / 2),
        "half": 11 / 16 * s,
        "printed_middle": 11 / 16 * s * bound,
        "printed": s * bound / 4,
    }
    for name, factor in least.items():
        data[name] = data["decrease"] >= factor * square - 16 * rounding
    told = {name: {"long_name": text} for name, text in _LONG_NAMES.items()}
    out = dataset.assign(
        {name: (("run", "step"), value, told.get(name, {})) for name, value in data.items()}
    )
    out["step_size"] = ("run", np.array(s[:, 0]))
    return out.assign_attrs(
        smoothness=bound,
        gradient_bound=steepest,
        largest_step=2 / bound,
        step_bound_derived=min(1 / (2 * bound), 1 / steepest),
        step_bound_printed=min(1 / (2 * bound), steepest),
    )
