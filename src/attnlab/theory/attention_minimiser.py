"""Minimisers of the exact risk of unnormalised attention: over `A`, over its value too, over all.

`optimal_attention` has those of linear and ReLU attention in closed form. Here BFGS descends the
exact risk from given layers, which finds minimisers for other activations, and shows which minima
there are when `P` and `Q` are free. Source: Theorem 1 of ahn2023 and the remarks at the end of its
note on ReLU attention; `docs/theory/unnormalised-attention`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._core.errors import InvalidArgument, check_choice, check_integer, check_real
from .._core.precision import float64, to_float64, to_numpy
from ..students import MergedAttention
from .attention_risk import AttentionRisk
from .unnormalised import ClosedAttentionRisk

Free = Literal["A", "A and value", "all"]
_FREE = ("A", "A and value", "all")


@dataclass(frozen=True)
class AttentionMinimum:
    """Where descents of the risk ended, one for each start.

    **Fields:** `layers`; `value`, the risk; `gradient_norm`, Euclidean, over what was free (in the
    units of `minimise_attention`); `converged`, whether it is below the tolerance.
    """

    layers: tuple[MergedAttention, ...]
    value: Float[np.ndarray, " starts"]
    gradient_norm: Float[np.ndarray, " starts"]
    converged: Bool[np.ndarray, " starts"]

    @property
    def best(self) -> MergedAttention:
        """The layer with the smallest risk."""
        return self.layers[int(np.nanargmin(self.value))]


def minimise_attention(
    risk: AttentionRisk,
    layers: MergedAttention | Sequence[MergedAttention] | None = None,
    *,
    free: Free = "A",
    tolerance: float = 1e-6,
    max_steps: int = 500,
) -> AttentionMinimum:
    """Local minimisers of `risk` by BFGS from `layers` (default: that of the risk).

    **Arguments:**

    - `risk`: from `population_risk(task, layer)`, closed or by quadrature.
    - `layers`: where to start, all of the activation of the risk.
    - `free`: `"A"`, the block of `Q` that compares covariates; `"A and value"`, that and the last
      entry of `P`; `"all"`, all entries with an effect: the last row of `P` and the first `d`
      columns of `Q` (linear and ReLU only: other activations have no exact risk there). What is not
      free stays as it is in the start.
    - `tolerance`: on the norm of the gradient, relative to the risk of predicting 0, in units in
      which covariates are white and `A` is divided by the number of examples where the weights are
      not.
    - `max_steps` of the search.

    A start without a slope to follow (`Q = 0`) stays where it is, with an infinite `gradient_norm`.
    With `free="all"` starts are first scaled to `|Q| = 1` in these units, which has no effect on the
    risk with the best `P`.

    A local minimum is not the global one in general; with `free="all"` the risk of linear and ReLU
    attention has others. Raises `InvalidArgument`.
    """
    if not isinstance(risk, AttentionRisk):
        raise InvalidArgument("risk", risk, "population_risk(task, layer) of a MergedAttention")
    check_choice("free", free, _FREE)
    tolerance = check_real("tolerance", tolerance, low=0.0, low_open=True)
    max_steps = check_integer("max_steps", max_steps, minimum=1)
    if free == "all" and not isinstance(risk, ClosedAttentionRisk):
        allowed = f"'A' or 'A and value' for {risk.normalization.name}"
        raise InvalidArgument("free", free, allowed)
    starts = risk.layer if layers is None else layers
    starts = [starts] if isinstance(starts, MergedAttention) else starts
    if not isinstance(starts, list | tuple) or not starts:
        raise InvalidArgument("layers", layers, "a MergedAttention, or a list of at least one")
    for layer in starts:
        risk(layer)  # refuses other layers, and those where the risk is infinite
    P, Q = (np.stack([np.asarray(getattr(x, name), np.float64) for x in starts]) for name in "PQ")
    with float64():
        row, places = _free_entries(risk, free)
        exact, P, Q = to_float64((risk, P, Q))
        found = _search(exact, P, Q, row, places, max_steps)
        P, Q, value, norm = to_numpy(found)
    ends = tuple(
        MergedAttention(p, q, normalization=risk.normalization) for p, q in zip(P, Q, strict=True)
    )
    return AttentionMinimum(ends, value, norm, np.isfinite(value) & (norm <= tolerance))


def _free_entries(risk: AttentionRisk, free: str) -> tuple[np.ndarray, Any]:
    """Which entries of the last row of `P` are free, and which of `Q`."""
    size = len(risk.covariance) + 1
    rows = size if free == "all" else size - 1
    places = np.indices((rows, size - 1)).reshape(2, -1)
    row = {"A": [], "A and value": [size - 1], "all": range(size)}[free]
    return np.array(row, int), (places[0], places[1])


@eqx.filter_jit
def _search(
    risk: Any, P: Array, Q: Array, row: Any, places: Any, max_steps: int
) -> tuple[Array, ...]:
    """All starts in one program, on what is free of `Q`, with the best `P` at each `Q`: the risk is
    quadratic in `P`, and scales of the two that cancel make a narrow valley otherwise."""
    import optimistix

    d = len(risk.covariance)
    size = jnp.sqrt(jnp.append(jnp.diag(risk.covariance), jnp.trace(risk.covariance @ risk.prior)))
    summed = risk.factor * risk.length  # 1 where weights are divided by the length
    scale = jnp.trace(risk.covariance @ risk.prior) + risk.noise_variance
    units = 1 / (jnp.outer(size, size)[places] * summed)

    def value_of(p: Array, x: Array, P: Array, Q: Array) -> Array:
        return risk.value_of(P.at[d, row].set(p), Q.at[places].set(x * units)) / scale

    def best_row(x: Array, P: Array, Q: Array) -> Array:
        """The risk's minimiser over what is free of `P`: its slope there is affine."""
        slope = jax.grad(value_of)
        zero = jnp.zeros(len(row))
        first = slope(zero, x, P, Q)
        form = jax.vmap(lambda p: slope(p, x, P, Q) - first)(jnp.eye(len(row)))
        return -jnp.linalg.solve(form, first)

    def loss(x: Array, start: tuple[Array, Array]) -> Array:
        P, Q = start
        p = P[d, row]
        if len(row):
            # at the best row only the derivative at a fixed row counts
            p = best_row(*jax.lax.stop_gradient((x, P, Q)))
        value = value_of(p, x, P, Q)
        return jnp.where(jnp.isfinite(value), value, jnp.inf)

    solver: Any = optimistix.BFGS(rtol=1e-13, atol=1e-13)
    if len(row) > 1:  # the risk has plateaus, on which the line search of BFGS gives up
        solver = optimistix.NonlinearCG(rtol=1e-13, atol=1e-13)

    def one(P: Array, Q: Array) -> tuple[Array, ...]:
        start = (P, Q)
        x = Q[places] / units
        if len(row) > 1:  # the scale has no effect
            x = x / jnp.linalg.norm(x)
        found: Any = optimistix.minimise(loss, solver, x, start, max_steps=max_steps, throw=False)
        x, last = found.value, found.state.f_info
        p = best_row(x, P, Q) if len(row) else P[d, row]
        ends = P.at[d, row].set(p), Q.at[places].set(x * units)
        norm = jnp.linalg.norm(last.grad)
        good = jnp.isfinite(norm) & jnp.all(jnp.isfinite(jnp.stack(ends)))
        # a start without a slope to follow, such as Q = 0, is left where it is
        return (
            *(jnp.where(good, end, begun) for end, begun in zip(ends, start)),
            jnp.where(good, last.f * scale, scale * value_of(P[d, row], Q[places] / units, P, Q)),
            jnp.where(good, norm, jnp.inf),
        )

    return jax.vmap(one)(P, Q)
