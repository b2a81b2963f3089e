"""The exact risk of unnormalised linear and ReLU attention in context, closed for any weights.

Given the coefficients `β` the tokens `z_i = (x_i, y_i)` are normal with a covariance `S(β)`, and the
scores `z_iᵀ G x_q` too, of variance `s² = x_qᵀ GᵀSG x_q`. With the last row `p = (u, v)` of `P`,
`G = (Q_xx; bᵀ)` the effective columns of `Q`, `k = GᵀSp`, and for `Z ~ N(0, 1)`

    γ = E g'(sZ),    c s² = E g(sZ)²,    h = (E Z²g(sZ)² - E g(sZ)²)/s²

which are constants for an activation `g` that is linear on either side of 0, the risk is

    σ² + E(β·x_q)² + (n(n-1)γ² + nh) E kᵀΣk + n c E[s² pᵀSp] - 2nγ E kᵀΣβ

whose averages over `β` are Gaussian moments of degree four at most.
Source: Theorem 1 of ahn2023 and its note on ReLU attention; `docs/theory/unnormalised-attention`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument
from ..students import MergedAttention, Normalization
from ..students.normalizations import get_normalization
from ..tasks import InContextRegression
from .attention_risk import AttentionRisk, check_single_task, of_task


class Slopes(NamedTuple):
    """`γ`, `c` and `h` of an activation that is linear on either side of 0; see the module."""

    mean: float
    square: float
    excess: float


# by the activation itself: another one may have the same name
_SLOPES = {
    get_normalization("linear").activation: Slopes(1.0, 1.0, 2.0),
    get_normalization("relu").activation: Slopes(0.5, 0.5, 1.0),
}


class ClosedAttentionRisk(AttentionRisk):
    """The risk for activations that are linear on either side of 0; see the module."""

    slopes: Slopes

    @property
    def method(self) -> str:
        return "closed form"

    def evaluated_of(
        self, P: Float[Array, "tokens tokens"], Q: Float[Array, "tokens tokens"]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        terms = jnp.stack(_terms(self, P, Q))
        return jnp.sum(terms), 1e-13 * jnp.sum(jnp.abs(terms))


def _terms(risk: ClosedAttentionRisk, P: Any, Q: Any) -> tuple[Any, ...]:
    """Noise, signal, variance and cross terms, which add up to the risk."""
    sigma, W, n = risk.covariance, risk.prior, risk.length
    gamma, c, h = risk.slopes
    d = len(sigma)
    u, v = risk.factor * P[d, :d], risk.factor * P[d, d]
    block, b = Q[:d, :d], Q[d, :d]
    # ψ = y² given β on average: its mean and second moment over β
    signal = jnp.trace(sigma @ W)
    level = signal + risk.noise_variance
    square = level**2 + 2 * jnp.trace(sigma @ W @ sigma @ W)
    # k = still + moving β + v b ψ
    still = block.T @ sigma @ u
    moving = (v * block.T + jnp.outer(b, u)) @ sigma
    bent = b @ sigma @ b
    direction = (
        still @ sigma @ still
        + jnp.trace(moving.T @ sigma @ moving @ W)
        + v**2 * bent * square
        + 2 * v * level * (still @ sigma @ b)
    )
    # s² = sharp + 2 β·(ΣQ_xxΣb) + bent ψ,   pᵀSp = flat + 2 v β·Σu + v² ψ
    sharp = jnp.trace(sigma @ block.T @ sigma @ block)
    flat = u @ sigma @ u
    spread = (
        sharp * flat
        + (sharp * v**2 + flat * bent) * level
        + bent * v**2 * square
        + 4 * v * (sigma @ block @ sigma @ b) @ W @ (sigma @ u)
    )
    cross = jnp.trace(moving.T @ sigma @ W)
    return (
        jnp.asarray(risk.noise_variance),
        signal,
        (n * (n - 1) * gamma**2 + n * h) * direction,
        n * c * spread,
        -2 * n * gamma * cross,
    )


def closed_risk(task: InContextRegression, layer: MergedAttention) -> ClosedAttentionRisk:
    """The exact risk of linear or ReLU attention on a single task, for any `P` and `Q`.

    Raises `InvalidArgument` for anything else.
    """
    fields = of_task(task, layer)
    risk = ClosedAttentionRisk(**fields, slopes=_slopes(layer.normalization))
    risk.check(layer)
    return risk


def optimal_attention(
    task: InContextRegression, *, normalization: str | Normalization = "linear"
) -> MergedAttention:
    """The layer with the smallest risk among those of Theorem 1's pattern, in closed form.

    With `P` the last entry alone and equal to 1, `Q = blockdiag(A, 0)`, and weights `g(s_ℓ)` that
    are not divided by the length,

        A = γ ( ((n-1)γ² + h) Σ + c (tr(WΣ) + σ²) W⁻¹ )⁻¹

    which is `((n+1)Σ + tr(Σ) I)⁻¹` for linear and `2((n+3)Σ + 2 tr(Σ) I)⁻¹` for ReLU attention with
    `W = I` and no noise: `I/(n+d+1)` and `2I/(n+2d+3)` when `Σ = I`. Divided by the length, `n`
    times as much. Raises `InvalidArgument` as `population_risk`.
    """
    check_single_task(task)
    known = get_normalization(normalization)
    gamma, c, h = _slopes(known)
    sigma, W, n = task.covariance_matrix, task.prior_matrix, task.length
    level = float(np.trace(W @ sigma)) + task.noise_std**2
    curvature = ((n - 1) * gamma**2 + h) * sigma + c * level * np.linalg.inv(W)
    A = gamma * np.linalg.inv((curvature + curvature.T) / 2)
    return MergedAttention.sparse(A * (n if known.over_length else 1), normalization=known)


def has_closed_form(normalization: Normalization) -> bool:
    """Whether `closed_risk` knows it."""
    return normalization.activation in _SLOPES


def _slopes(normalization: Normalization) -> Slopes:
    if normalization.activation not in _SLOPES:
        allowed = "linear or relu, with -sum where not divided by the length, for this theory"
        raise InvalidArgument("normalization", normalization.name, allowed)
    return _SLOPES[normalization.activation]
