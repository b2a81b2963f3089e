"""The exact risk of softmax heads with any circuits, covariance and number of tasks.

Given `x_q` the scores of the heads on one token are jointly Gaussian, and the engine for correlated
scores gives every moment. Of the average over `x_q ~ N(0, Σ)` the quadratic forms, which are all
there is as `L → ∞`, are known exactly; what is left, smaller by `1/L` or by the fourth order of the
scores, is averaged over scrambled Sobol points, whose independent scramblings give its standard
error. Source: Appendices B.3, B.4 and E.2 of he2025; `docs/theory/in-context-loss`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

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
from .heads_risk import check_softmax_heads, traced
from .softmax_engine import (
    LADDER,
    SHIFT,
    at_index,
    certain_moments,
    correlated_moments,
    product_coefficients,
)

# many scramblings of few points: the error estimate has as many degrees of freedom, less one
_SCRAMBLINGS = 16
_POINTS = 64
_DEFAULT_RUNG = 1
_CHUNK_BYTES = 2**22
_TABLES = 20
_FLOOR = (
    1e-10  # variance of an independent part of each score: a head of zero scores has a gradient
)


class Query(NamedTuple):
    """What one query gives, for heads `h` and tasks `n`; the exactly known parts are taken out.

    - `cross`: of `x_qᵀ P_n Xᵀ p_h`, `(N, H)`
    - `own`, `pairs`: of `E p·p' - 1/L`, `(H,)` and `(pairs,)`
    - `own_product`, `pair_product`: of `E[pᵀ X P_n Xᵀ p'] - tr(P_n Σ) E p·p'`, `(N, ...)`
    """

    cross: Any
    own: Any
    pairs: Any
    own_product: Any
    pair_product: Any


class GeneralInContextRisk(ClimbingRisk):
    """The exact risk of heads whose scores are correlated; see the module.

    `omega` is `(H,)`, `(H, d)` or `(H, d, d)` as in `KernelHeads`, `mu` is `(H,)` or `(H, N)`; no
    batch axes. The error counts six standard errors of the quasi-Monte Carlo average; `finer` has
    more points.
    """

    method: ClassVar[str] = "quadrature and quasi-Monte Carlo"
    rungs: ClassVar[int] = 4
    tolerance: ClassVar[float] = 1e-8
    refused: ClassVar[float] = 1e-5
    heads: KernelHeads
    noise_variance: Any
    covariance: Any
    factor: Any  # Σ = factor factorᵀ
    masks: np.ndarray  # of the coordinates that each task reads, (N, d)
    log_length: Any
    points: Any  # standard normal, (scramblings, points, d)
    rules: tuple[Any, ...]  # by which part of their steps the engine's grids are moved
    trivial: bool = eqx.field(static=True)
    rung: int = eqx.field(static=True)

    def _on_rung(self, rung: int) -> GeneralInContextRisk:
        return replace(self, rung=rung)

    def finer(self, factor: int = 4) -> GeneralInContextRisk:
        """The same risk with `factor` (a power of two) times as many points."""
        count, dim = self.points.shape[1:]
        return replace(self, points=_sobol(dim, count * factor))

    def check_kind(self, heads: Any) -> None:
        check_softmax_heads(heads)
        tasks, dim = self.masks.shape
        omega, mu = np.shape(heads.omega), np.shape(heads.mu)
        if omega[1:] not in ((), (dim,), (dim, dim)):
            allowed = f"of shape (H,), (H, {dim}) or (H, {dim}, {dim}) for this task"
            raise InvalidArgument("omega", heads.omega, allowed)
        if mu[0] != omega[0] or mu[1:] not in ((), (tasks,)):
            raise InvalidArgument("mu", heads.mu, f"of shape (H,) or (H, {tasks}), H = {omega[0]}")

    def evaluated_of(
        self, omega: Float[Array, "heads ..."], mu: Float[Array, "heads ..."], rule: int = 0
    ) -> tuple[InContextComponents, Any]:
        kq = _matrices(omega, self.masks.shape[1])
        mu = jnp.broadcast_to(mu.reshape(len(mu), -1), (len(mu), self.masks.shape[0]))
        means = self._query_means(kq, max(self.rung - (rule > 0), 0), self.rules[rule])
        parts = jax.vmap(lambda query: self._assemble(kq, mu, query))(means)
        totals: Any = sum(parts)
        deviation = jnp.std(totals, ddof=1) / math.sqrt(self.points.shape[0])
        return jax.tree.map(lambda x: jnp.mean(x, axis=0), parts), deviation

    def _assemble(self, kq: Any, mu: Any, query: Query) -> InContextComponents:
        """The components from averages over queries and the parts known exactly."""
        first, second = np.triu_indices(len(kq), 1)
        sigma, dim = self.covariance, self.masks.shape[1]
        share = jnp.exp(-self.log_length)
        read = sigma @ kq  # Σ Ω_h
        # E w_hᵀ Σ P_n Σ w_h' = tr(Ω_hᵀ Σ P_n Σ Ω_h' Σ), and with Σ in place of Σ P_n Σ
        forms = jnp.einsum("had,na,gab,bd->nhg", read, self.masks, read, sigma)
        gram = jnp.einsum("had,gab,bd->hg", kq, read, sigma)
        aligned = jnp.einsum("na,hab,ba->nh", self.masks, read, sigma)

        def quadratic(own: Any, pairs: Any) -> Any:
            """`Σ μ_hn μ_gn (...)` of each task, from diagonal and upper triangle."""
            beside = mu[first] * mu[second] * jnp.broadcast_to(pairs, (len(mu.T), len(first))).T
            alone = mu**2 * jnp.broadcast_to(own, mu.T.shape).T
            return jnp.sum(alone, axis=0) + 2 * jnp.sum(beside, axis=0)

        shrink = share * (1 - share)
        spread = share * jnp.sum(mu, axis=0) ** 2
        spread += quadratic(
            query.own + shrink * jnp.diagonal(gram), query.pairs + shrink * gram[first, second]
        )
        product = quadratic(
            query.own_product + jnp.diagonal(forms, axis1=1, axis2=2),
            query.pair_product + forms[:, first, second],
        )
        traces = self.masks @ jnp.diagonal(sigma)
        cross = jnp.sum(mu.T * (aligned - query.cross)) / dim
        return InContextComponents(
            target=jnp.sum(traces) / dim,
            cross=-2 * cross,
            signal=jnp.sum(traces * spread + product) / dim,
            context_noise=self.noise_variance * jnp.sum(spread),
            label_noise=jnp.asarray(self.masks.shape[0] * self.noise_variance, jnp.float64),
        )

    def _query_means(self, kq: Any, rung: int, shift: Any) -> Query:
        """Averages over the points of each scrambling, `(scramblings, ...)`."""
        first, _ = np.triu_indices(len(kq), 1)
        count = self.points.shape[1]
        table = 8 * _TABLES * LADDER[rung].laplace ** 2 * (len(first) + 1)
        chunk = divisor(count, _CHUNK_BYTES / table)
        groups = self.points.reshape(-1, chunk, self.points.shape[-1])
        at = jax.vmap(lambda z: self._at(kq, self.factor @ z, rung, shift))
        mean = jax.checkpoint(lambda z: jax.tree.map(lambda x: jnp.mean(x, axis=0), at(z)))
        values = jax.lax.map(mean, groups)
        split = len(self.points)
        return jax.tree.map(lambda x: x.reshape(split, -1, *x.shape[1:]).mean(axis=1), values)

    def _at(self, kq: Any, x: Any, rung: int, shift: Any) -> Query:
        """One query."""
        first, second = np.triu_indices(len(kq), 1)
        w = kq @ x
        read = w @ self.covariance
        gram = read @ w.T
        scales = jnp.sqrt(jnp.diagonal(gram) + _FLOOR)
        if self.trivial:
            own, pairs = certain_moments(len(kq))
        else:
            correlations = gram / (scales[:, None] * scales)
            own, pairs = correlated_moments(
                scales, correlations, self.log_length, LADDER[rung], shift
            )
        mixed, left, right = product_coefficients(
            pairs, at_index(own, first), at_index(own, second)
        )
        forms = jnp.einsum("ha,na,ga->nhg", read, self.masks, read)
        diagonal = jnp.diagonal(forms, axis1=1, axis2=2)
        share = jnp.exp(-self.log_length)
        shrink = share * (1 - share)
        pair_product = forms[:, first, second] * (mixed - 1)
        pair_product -= 2 * diagonal[:, first] * left + 2 * diagonal[:, second] * right
        return Query(
            cross=((self.masks * x) @ read.T) * own.square,
            own=own.excess - shrink * jnp.diagonal(gram),
            pairs=pairs.excess - shrink * gram[first, second],
            own_product=diagonal * (6 * own.quartic - 6 * own.cubic - own.square),
            pair_product=pair_product,
        )


def general_in_context_risk(task: InContextRegression, heads: KernelHeads) -> GeneralInContextRisk:
    """The exact risk for any covariance, circuits and tasks, by quadrature and quasi-Monte Carlo.

    Raises `InvalidArgument` for heads that do not fit the task, or are too large to be resolved.
    """
    sigma = check_in_context(task).covariance_matrix
    risk = GeneralInContextRisk(
        heads=heads,
        noise_variance=task.noise_std**2,
        covariance=sigma,
        factor=np.linalg.cholesky(sigma),
        masks=task.support_mask,
        log_length=math.log(task.length),
        points=_sobol(task.dim, _POINTS),
        rules=(0.0, 0.0, SHIFT),
        trivial=task.length == 1,
        rung=_DEFAULT_RUNG,
    )
    risk.check_kind(heads)
    return risk if traced(heads) else risk.checked(heads)[2]


def _matrices(omega: Any, dim: int) -> Any:
    if omega.ndim == 3:
        return omega
    diagonal = omega if omega.ndim == 2 else omega[:, None]
    return diagonal[..., None] * jnp.eye(dim)


@functools.cache
def _sobol(dim: int, count: int) -> np.ndarray:
    """Standard normal points of independent scramblings, the same in every process."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    clouds = [
        qmc.Sobol(dim, scramble=True, seed=seed).random(count) for seed in range(_SCRAMBLINGS)
    ]
    return ndtri(np.clip(np.stack(clouds), 1e-15, 1 - 1e-15))
