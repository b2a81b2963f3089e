"""The exact risk of scalar softmax heads on isotropic in-context regression, at any `(d, L)`.

Given `r = |x_q|` the scores of head `h` are `ω_h r s_ℓ` with standard normal `s_ℓ`, so that the
softmax engine gives every moment, and `r` is averaged by Gauss quadrature. With `Q = E p·p'`:

    R = 1 + σ² - 2 Σ μ_h ω_h E[r²/d (1 - Q_hh)]
        + Σ μ_h μ_h' { (1+σ²) E Q + E[r²/d (ω_h ω_h' c - 2 ω_h² c' - 2 ω_h'² c'')] }

with `c, c', c''` moments of the weights (`product_coefficients`). `Q - 1/L` and `(Σ μ_h)²/L` enter
apart, so that opposite heads of tiny `ω` and huge `μ` keep their digits. A task that reads a part
of the coordinates has that share of every term but the noise.
Source: Appendix E.2 of he2025; `docs/theory/in-context-loss`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument
from ..students import KernelHeads
from ..tasks import InContextRegression
from ..tasks.in_context import check_in_context
from .climbing_risk import ClimbingRisk, InContextComponents, divisor
from .heads_risk import check_one_reading, check_softmax_heads, traced
from .radial import RadialRule, radial_rule
from .softmax_engine import (
    LADDER,
    HeadMoments,
    PairMoments,
    at_index,
    certain_moments,
    moments,
    own_terms,
    pair_term,
)

RADII = (12, 16, 24, 36, 52, 72, 100)  # radial nodes beside the rungs of the engine's ladder
# its true error is below 1e-9 up to ω√d = 1.2, where the estimate is the rung below's
_FIRST_RUNG = 1
_TRACED_RUNG = 2  # where heads at construction are abstract, so that nothing can be compared
_RESOLVED = (1.0, 1.7, 2.4, 4.0)  # largest |ω|√d for each rung; its relative error is 1e-6 there
_LARGEST_SCORE = 40.0  # of |ω|√d: beyond no rung is enough at any length
_CHUNK_BYTES = 2**22  # of the tables that exist at once: beyond, caches make derivatives slow
_TABLES = 12  # for each pair of heads


class InContextRisk(ClimbingRisk):
    """The exact risk of scalar heads on isotropic covariates; see the module for the formula.

    `omega` is `(*batch, H)` and `mu` likewise, or `(H,)` and `(H, N)` for `N` tasks (one `mu`
    serves all of them otherwise).
    """

    method: ClassVar[str] = "quadrature"
    rungs: ClassVar[int] = len(RADII)
    tolerance: ClassVar[float] = 1e-9
    refused: ClassVar[float] = 1e-6
    heads: KernelHeads
    noise_variance: Any
    shares: Any  # of the coordinates that each task reads
    dim: Any
    log_length: Any
    fine: RadialRule
    coarse: RadialRule
    trivial: bool = eqx.field(static=True)  # one example: all weights are 1
    rung: int = eqx.field(static=True)

    def _on_rung(self, rung: int) -> InContextRisk:
        fine, coarse = (radial_rule(int(self.dim), RADII[k]) for k in (rung, max(rung - 1, 0)))
        return replace(self, rung=rung, fine=fine, coarse=coarse)

    def resolves(self, omega: Any) -> Any:
        known = _RESOLVED[self.rung] if self.rung < len(_RESOLVED) else math.inf
        own = 1.1 * jnp.max(jnp.abs(self.heads.omega))  # the rung was found for these
        largest = jnp.max(jnp.abs(omega), axis=-1)
        return self.trivial | (largest <= jnp.maximum(known / jnp.sqrt(self.dim), own))

    def check_heads(self, heads: KernelHeads) -> None:
        largest = _LARGEST_SCORE / math.sqrt(self.dim)
        if not (traced(heads) or self.trivial or np.max(np.abs(heads.omega)) <= largest):
            allowed = f"at most {largest:.3g} in absolute value, so that scores can be resolved"
            raise InvalidArgument("omega", np.asarray(heads.omega), allowed)

    def check_kind(self, heads: Any) -> None:
        check_softmax_heads(heads)
        check_one_reading(heads, dim=int(self.dim), n_outputs=len(self.shares))
        omega, mu, tasks = jnp.shape(heads.omega), jnp.shape(heads.mu), len(self.shares)
        if omega != mu and not (len(omega) == 1 and mu == (*omega, tasks)):
            allowed = f"of omega's shape {omega}, or (H, {tasks}) for omega of shape (H,)"
            raise InvalidArgument("mu", heads.mu, allowed)

    def evaluated_of(
        self,
        omega: Float[Array, "*batch heads"],
        mu: Float[Array, "*batch heads"],
        coarse: bool = False,
    ) -> tuple[InContextComponents, Any]:
        rule, rung = (self.coarse, self.rung - 1) if coarse else (self.fine, self.rung)
        parts = self._in_batches(lambda w, m: self._components(w, m, rule, rung), omega, mu)
        return parts, jnp.zeros_like(parts.target)

    def _in_batches(self, function: Any, omega: Any, mu: Any) -> Any:
        batch, heads = omega.shape[:-1], omega.shape[-1]
        if not batch:
            return function(omega, mu)
        rows = omega.reshape(-1, heads), mu.reshape(-1, heads)
        values = jax.lax.map(jax.checkpoint(lambda row: function(*row)), rows)
        return jax.tree.map(lambda leaf: leaf.reshape(batch), values)

    def _components(self, omega: Any, mu: Any, radii: RadialRule, rung: int) -> InContextComponents:
        """One set of heads, `(H,)`."""
        first, second = np.triu_indices(omega.shape[0], 1)
        w, v = omega[first], omega[second]
        mu = jnp.broadcast_to(mu.reshape(len(omega), -1), (len(omega), len(self.shares)))

        def at(r: Any) -> Any:
            own, pairs = self._moments(omega * r, rung)
            aligned, same = own_terms(omega, own)
            product = pair_term(w, v, pairs, at_index(own, first), at_index(own, second))
            square = r**2 / self.dim
            return square * aligned, own.excess, pairs.excess, square * same, square * product

        aligned, own, pairs, same, product = self._radial_mean(at, radii, len(first), rung)

        def quadratic(diagonal: Any, beside: Any) -> Any:
            return mu.T**2 @ diagonal + 2 * (mu[first] * mu[second]).T @ beside

        spread = quadratic(own, pairs) + jnp.sum(mu, axis=0) ** 2 * jnp.exp(-self.log_length)
        tasks = len(self.shares)
        return InContextComponents(
            target=jnp.sum(self.shares),
            cross=-2 * jnp.sum(self.shares * (mu.T @ aligned)),
            signal=jnp.sum(self.shares * (spread + quadratic(same, product))),
            context_noise=self.noise_variance * jnp.sum(spread),
            label_noise=jnp.asarray(tasks * self.noise_variance, jnp.float64),
        )

    def _radial_mean(self, at: Any, radii: RadialRule, pairs: int, rung: int) -> Any:
        """Averages over `r`, in chunks that are computed again for derivatives."""

        def mean(rule: RadialRule) -> list[Any]:
            return [rule.weights @ f for f in jax.vmap(at)(rule.r)]

        table = 8 * _TABLES * LADDER[rung].laplace ** 2 * (pairs + 1)
        chunk = divisor(len(radii.r), _CHUNK_BYTES / table)
        if chunk == len(radii.r):
            return mean(radii)
        grouped = jax.tree.map(lambda x: x.reshape(-1, chunk), radii)
        return [jnp.sum(x, axis=0) for x in jax.lax.map(jax.checkpoint(mean), grouped)]

    def _moments(self, scales: Any, rung: int) -> tuple[HeadMoments, PairMoments]:
        if self.trivial:
            return certain_moments(len(scales))
        found = moments(scales, self.log_length, LADDER[rung])
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
    fine, coarse = (radial_rule(task.dim, RADII[k]) for k in (rung, rung - 1))
    risk = InContextRisk(
        heads=heads,
        noise_variance=task.noise_std**2,
        shares=task.support_mask.mean(axis=1),
        dim=float(task.dim),
        log_length=math.log(task.length),
        fine=fine,
        coarse=coarse,
        trivial=task.length == 1,
        rung=rung,
    )
    risk.check_kind(heads)
    return risk if traced(heads) else risk.checked(heads)[2]
