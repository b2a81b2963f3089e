"""The exact in-context risk of scalar heads at two and three examples, for scores of any size.

Of the scores `ω r s_ℓ` only the part of `s` across the direction of equal scores counts, a standard
normal vector of `L - 1` entries: `ρ ŝ` with `ρ` of the law `χ_{L-1}` and a unit vector `ŝ`. Weights
depend on `t = r ρ` and `ŝ` alone. So the average is one over `t`, whose law no head enters, and at
three examples one over an angle, of which a sixth is enough by symmetry. Both are taken on
logarithmic scales, on which a sigmoid looks the same whatever its steepness.
Source: `docs/theory/in-context-loss`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument
from ..students import KernelHeads
from ..tasks import InContextRegression
from .heads_risk import traced
from .in_context_isotropic import HeadAverages, InContextRisk
from .softmax_engine.grids import SHIFT

LONGEST = 3
_STEPS = ((0.21, 0.35), (0.13, 0.22), (0.1, 0.17))  # of log t, and of the logit of the angle
_WIDER = 1.07  # by which steps are wider in the coarser rules of level 0, which has none below
_NEGLIGIBLE = 40.0  # e^-40 is below all rounding errors
_RARE = 1e-19
_LARGEST = 1e100  # of |ω|, so that products stay finite


class ShortRule(NamedTuple):
    """Nodes `t = r ρ` with weights for the averages of `f(t)` and of `ρ² f(t)`; unit vectors `ŝ`,
    sorted downwards, with weights that add up to 1, and how far their entries lie below the first
    and above the last, without cancellation."""

    t: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]
    squares: Float[np.ndarray, " n"]
    unit: Float[np.ndarray, "length m"]
    below_first: Float[np.ndarray, "length m"]
    above_last: Float[np.ndarray, "length m"]
    angles: Float[np.ndarray, " m"]


class ShortPromptRisk(InContextRisk):
    """The exact risk of scalar heads on isotropic prompts of one to three examples."""

    rungs: ClassVar[int] = len(_STEPS)

    def _on_rung(self, rung: int) -> ShortPromptRisk:
        length = len(self.rules[0].unit)
        return replace(self, rung=rung, rules=_rules(int(self.dim), length, rung))

    def check_heads(self, heads: KernelHeads) -> None:
        InContextRisk.check_heads(self, heads)
        if not (traced(heads) or np.max(np.abs(heads.omega)) <= _LARGEST):
            allowed = f"at most {_LARGEST:g} in absolute value"
            raise InvalidArgument("omega", np.asarray(heads.omega), allowed)

    def averages_of(self, omega: Float[Array, " heads"], rule: int) -> HeadAverages:
        nodes = self.rules[rule]
        first, second = np.triu_indices(omega.shape[0], 1)
        if len(nodes.unit) == 1:  # one example: all weights are 1
            none, pairs = 0 * omega, 0 * omega[first]
            return HeadAverages(none, none, pairs, none, pairs)
        # log p up to a constant, 0 for the largest weight: its differences keep all digits
        scores = omega[:, None, None, None] * nodes.t[:, None, None]
        down = jnp.where(scores >= 0, -scores * nodes.below_first, scores * nodes.above_last)
        excess = jnp.expm1(down)
        length = excess.shape[-2]
        total = jnp.sum(excess, axis=-2, keepdims=True)
        beside = (excess - total / length) / (length + total)  # q, (heads, t, length, angles)
        along = jnp.sum(beside * nodes.unit, axis=-2)
        plane = nodes.weights[:, None] * nodes.angles
        bent = nodes.squares[:, None] * nodes.angles
        own = jnp.sum(beside**2 * plane[:, None], axis=(1, 2, 3))
        pairs = jnp.sum(beside[first] * beside[second] * plane[:, None], axis=(1, 2, 3))
        own_square = jnp.sum(along**2 * bent, axis=(1, 2))
        pair_square = jnp.sum(along[first] * along[second] * bent, axis=(1, 2))
        aligned = jnp.sum(along * (plane * nodes.t[:, None]), axis=(1, 2))
        return HeadAverages(
            aligned=aligned / self.dim,
            own=own,
            pairs=pairs,
            own_product=(own_square - own) / self.dim,
            pair_product=(pair_square - pairs) / self.dim,
        )


def short_prompt_risk(task: InContextRegression, heads: KernelHeads) -> ShortPromptRisk:
    """The risk for at most `LONGEST` examples; the caller has checked that covariates are
    isotropic."""
    rung = 1
    return ShortPromptRisk(
        heads=heads,
        noise_variance=task.noise_std**2,
        shares=task.support_mask.mean(axis=1),
        dim=float(task.dim),
        log_length=math.log(task.length),
        rules=_rules(task.dim, task.length, rung),
        rung=rung,
    )


def _rules(dim: int, length: int, rung: int) -> tuple[ShortRule, ...]:
    below = _STEPS[rung - 1] if rung else tuple(_WIDER * step for step in _STEPS[0])
    return (
        short_rule(dim, length, *_STEPS[rung], 0.0),
        short_rule(dim, length, *below, 0.0),
        short_rule(dim, length, *below, SHIFT),
    )


@functools.cache
def short_rule(
    dim: int, length: int, radial: float, angular: float, shift: float = 0.0
) -> ShortRule:
    """The trapezoid rule with these steps of `log t` and of the logit of the angle, moved by
    `shift` steps; `length` is 1, 2 or 3."""
    t, weights, squares = _product_law(dim, length - 1, radial, shift)
    if length < LONGEST:
        unit = np.array([[1.0], [-1.0]])[:length] / math.sqrt(2)
        gap = np.full((1, 1), math.sqrt(2))[: length - 1]
        return ShortRule(t, weights, squares, unit, *_distances(gap), np.ones(1))
    ends = math.ceil(_NEGLIGIBLE / angular)
    y = angular * (np.arange(-ends, ends + 1) + shift)
    share, rest = 1 / (1 + np.exp(-y)), 1 / (1 + np.exp(y))
    phi = share * math.pi / 3
    turn = 2 * math.pi / 3
    unit = math.sqrt(2 / 3) * np.cos(np.stack([phi, phi - turn, phi + turn]))
    gaps = math.sqrt(2) * np.stack([np.sin(rest * math.pi / 3), np.sin(phi)])
    angles = share * rest * angular
    return ShortRule(t, weights, squares, unit, *_distances(gaps), angles / angles.sum())


def _distances(gaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of sorted entries with these gaps: distances below the first and above the last."""
    none = np.zeros((1, gaps.shape[1]))
    below_first = np.concatenate([none, np.cumsum(gaps, axis=0)])
    above_last = np.concatenate([np.cumsum(gaps[::-1], axis=0)[::-1], none])
    return below_first, above_last


def _product_law(
    dim: int, freedom: int, step: float, shift: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes of `t = r ρ`, `r ~ χ_dim` and `ρ ~ χ_freedom`, and weights of `E f(t)`, `E ρ² f(t)`.

    The density is that of a Bessel function `K` of order `(dim - freedom)/2`; the integral over
    `log r` behind it is taken directly, since it cannot overflow. `freedom` 0 has no nodes.
    """
    if freedom == 0:
        return np.zeros(1), np.ones(1), np.zeros(1)
    low_r, high_r = _ends(dim)
    low, high = low_r + _ends(freedom)[0], high_r + _ends(freedom)[1]
    # the Gaussian's strip of analyticity, and the width 1/√(2 dim) of the law of log r
    inner = min(0.1, 0.4 / math.sqrt(2 * dim))
    log_r = low_r + inner * np.arange(math.ceil((high_r - low_r) / inner) + 1)
    log_t = step * (np.arange(math.floor(low / step), math.ceil(high / step) + 1) + shift)
    log_rho = log_t[:, None] - log_r
    law = _log_chi(dim, log_r) + _log_chi(freedom, log_rho)
    weights = np.exp(law).sum(axis=1) * (inner * step)
    squares = np.exp(law + 2 * log_rho).sum(axis=1) * (inner * step)
    kept = weights + squares > _RARE
    return np.exp(log_t[kept]), weights[kept] / weights.sum(), squares[kept]


def _log_chi(freedom: int, log_x: Any) -> Any:
    """`log` of the density of `log x` for `x ~ χ`."""
    constant = (freedom / 2 - 1) * math.log(2) + math.lgamma(freedom / 2)
    with np.errstate(over="ignore"):
        return freedom * log_x - np.exp(2 * log_x) / 2 - constant


def _ends(freedom: int) -> tuple[float, float]:
    """Between which `log x`, `x ~ χ`, all of the mass lies but `e^-40` of it."""
    bulk = math.sqrt(_NEGLIGIBLE / freedom)
    middle = math.log(freedom) / 2
    above = min(bulk, math.log(3 + 100 / freedom) / 2)
    return middle - _NEGLIGIBLE / freedom - bulk, middle + above
