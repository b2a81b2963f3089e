"""The exact risk of scalar softmax heads on isotropic in-context regression, at any `(d, L)`.

Given `r = |x_q|` the scores of head `h` are `ω_h r s_ℓ` with standard normal `s_ℓ`, so that the
softmax engine gives every moment, and `r` is averaged by Gauss quadrature. At three examples and
fewer an integral of lower dimension takes over (`in_context_short`).
Source: Appendix E.2 of he2025; `docs/theory/in-context-loss`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument
from ..students import KernelHeads
from ..tasks import InContextRegression
from ..tasks.in_context import check_in_context
from .climbing_risk import divisor
from .heads_risk import traced
from .in_context_isotropic import HeadAverages, InContextRisk
from .in_context_short import LONGEST, short_prompt_risk
from .radial import RADII, RadialRule, radial_rule, raised_rule
from .softmax_engine import (
    LADDER,
    SHIFT,
    HeadMoments,
    PairMoments,
    at_index,
    moments,
    own_terms,
    pair_term,
)

# its true error is below 1e-9 up to ω√d = 1.2, where the estimate is that of the rung below
_FIRST_RUNG = 1
_TRACED_RUNG = 2  # where heads at construction are abstract, so that nothing can be compared
_RESOLVED = (1.0, 1.7, 2.4, 4.0)  # largest |ω|√d for each rung; its relative error is 1e-6 there
_LARGEST_SCORE = 40.0  # of |ω|√d: beyond no rung is enough at any length
_CHUNK_BYTES = 2**22  # of the tables that exist at once: beyond, caches make derivatives slow
_TABLES = 12  # for each pair of heads


class Rule(NamedTuple):
    """Nodes of `r`, and by which part of their steps the engine's grids are moved."""

    radii: RadialRule
    shift: Any


class EngineRisk(InContextRisk):
    """The exact risk of scalar heads on isotropic covariates by the softmax engine."""

    rungs: ClassVar[int] = len(RADII)

    def _on_rung(self, rung: int) -> EngineRisk:
        return replace(self, rung=rung, rules=_rules(int(self.dim), rung))

    def resolves(self, omega: Any) -> Any:
        known = _RESOLVED[self.rung] if self.rung < len(_RESOLVED) else math.inf
        own = 1.1 * jnp.max(jnp.abs(self.heads.omega))  # the rung was found for these
        largest = jnp.max(jnp.abs(omega), axis=-1)
        return largest <= jnp.maximum(known / jnp.sqrt(self.dim), own)

    def check_heads(self, heads: KernelHeads) -> None:
        InContextRisk.check_heads(self, heads)
        largest = _LARGEST_SCORE / math.sqrt(self.dim)
        if not (traced(heads) or np.max(np.abs(heads.omega)) <= largest):
            allowed = f"at most {largest:.3g} in absolute value, so that scores can be resolved"
            raise InvalidArgument("omega", np.asarray(heads.omega), allowed)

    def averages_of(self, omega: Float[Array, " heads"], rule: int) -> HeadAverages:
        first, second = np.triu_indices(omega.shape[0], 1)
        w, v = omega[first], omega[second]
        nodes, rung = self.rules[rule], max(self.rung - (rule > 0), 0)

        def at(r: Any) -> HeadAverages:
            own, pairs = self._moments(omega * r, rung, nodes.shift)
            aligned, same = own_terms(omega, own)
            product = pair_term(w, v, pairs, at_index(own, first), at_index(own, second))
            square = r**2 / self.dim
            return HeadAverages(
                square * aligned, own.excess, pairs.excess, square * same, square * product
            )

        return self._radial_mean(at, nodes.radii, len(first), rung)

    def _radial_mean(self, at: Any, radii: RadialRule, pairs: int, rung: int) -> HeadAverages:
        """Averages over `r`, in chunks that are computed again for derivatives."""

        def mean(rule: RadialRule) -> HeadAverages:
            return HeadAverages(*(rule.weights @ f for f in jax.vmap(at)(rule.r)))

        table = 8 * _TABLES * LADDER[rung].laplace ** 2 * (pairs + 1)
        chunk = divisor(len(radii.r), _CHUNK_BYTES / table)
        if chunk == len(radii.r):
            return mean(radii)
        grouped = jax.tree.map(lambda x: x.reshape(-1, chunk), radii)
        found = jax.lax.map(jax.checkpoint(mean), grouped)
        return HeadAverages(*(jnp.sum(x, axis=0) for x in found))

    def _moments(self, scales: Any, rung: int, shift: Any) -> tuple[HeadMoments, PairMoments]:
        found = moments(scales, self.log_length, LADDER[rung], shift)
        # all are means of products of weights: a rare radius that the rung cannot resolve is kept
        # from mattering more than it does
        return _kept_within(found[0], self.log_length), _kept_within(found[1], self.log_length)


Kind = TypeVar("Kind", HeadMoments, PairMoments)


def _kept_within(found: Kind, log_length: Any) -> Kind:
    """The moments, cut to where they can be: from 0 (the excess: from `-1/L`) to 1."""
    least = {"excess": -jnp.exp(-log_length)}
    cut = {n: jnp.clip(x, least.get(n, 0.0), 1.0) for n, x in found._asdict().items()}
    return found._replace(**cut)


def in_context_risk(task: InContextRegression, heads: KernelHeads) -> InContextRisk:
    """The exact risk of softmax heads with a number `ω_h` each on isotropic covariates.

    Raises `InvalidArgument` for anything else, or scores too large for the finest resolution.
    """
    check_in_context(task)
    if task.covariance is not None:
        raise InvalidArgument("covariance", task.covariance, "the identity (None) for this theory")
    rung = _TRACED_RUNG if traced(heads) else _FIRST_RUNG
    risk: InContextRisk
    if task.length <= LONGEST:
        risk = short_prompt_risk(task, heads)
    else:
        risk = EngineRisk(
            heads=heads,
            noise_variance=task.noise_std**2,
            shares=task.support_mask.mean(axis=1),
            dim=float(task.dim),
            log_length=math.log(task.length),
            rules=_rules(task.dim, rung),
            rung=rung,
        )
    risk.check_kind(heads)
    return risk if traced(heads) else risk.checked(heads)[2]


def _rules(dim: int, rung: int) -> tuple[Rule, ...]:
    below = RADII[max(rung - 1, 0)]
    return (
        Rule(radial_rule(dim, RADII[rung]), 0.0),
        Rule(radial_rule(dim, below), 0.0),
        Rule(raised_rule(dim, below), SHIFT),
    )
