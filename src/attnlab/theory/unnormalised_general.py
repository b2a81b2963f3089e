"""The exact risk of unnormalised attention in context for any activation, by quadrature.

Where a score compares covariates only (`b = 0`), its variance `q = x_qᵀAΣAᵀx_q` is a quadratic form
of the query, and with `x_q = Fz`, `FFᵀ = Σ`,

    R = σ² + tr WΣ + n E m2(q) (uᵀΣu + v²τ) + tr Fᵀ K F E[(n(n-1)γ² + nh) zzᵀ] - 2n tr Fᵀ C F E[γ zzᵀ]

with `γ = E g'(√q Z)`, `m2 = E g(√q Z)²`, `h = 2 dm2/dq`, `K = AΣ(uuᵀ + v²W)ΣAᵀ`, `C = v AΣW` and
`τ = tr WΣ + σ²`: a Gaussian average for each `q`, and one over the density of `q`.
Source: ahn2023 and its note on ReLU attention; `docs/theory/unnormalised-attention`.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument, is_traced
from ..students import MergedAttention, Normalization, elementwise
from ..tasks import InContextRegression
from ..tasks.links import Link
from .attention_risk import AttentionRisk, of_task
from .gaussian_links import mean, square
from .quadratic_forms import FormAverages, form_averages

_LARGEST_STD = 1e4  # of the scores
_EXP = elementwise("exp").activation


class QuadratureAttentionRisk(AttentionRisk):
    """The risk of a layer whose scores compare covariates only; see the module."""

    @property
    def method(self) -> str:
        return "closed form" if _is_exponential(self.normalization) else "quadrature"

    def check_layer(self, layer: MergedAttention) -> None:
        if is_traced(layer.P, layer.Q):
            return
        d = layer.dim
        Q = np.asarray(layer.Q)
        if np.any(Q[d, :d] != 0):
            allowed = (
                "0 where the responses of examples enter their scores (the last row), for the risk "
                f"with {self.normalization.name}; monte_carlo_risk samples other layers"
            )
            raise InvalidArgument("Q", Q[d, :d], allowed)
        block = np.asarray(Q[:d, :d], np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            root = np.linalg.cholesky(self.covariance)
            spread = root.T @ block @ root
            largest = np.linalg.norm(spread, 2) if np.isfinite(spread).all() else math.inf
        if not largest <= _LARGEST_STD:
            allowed = f"such that scores have a standard deviation up to {_LARGEST_STD:g}"
            raise InvalidArgument("Q", f"one with {largest:.3g}", allowed)
        if _is_exponential(self.normalization) and not largest < 0.5:
            allowed = (
                "such that E exp(2 score) is finite: the largest standard deviation that a "
                "direction of the query gives to scores has to be below 1/2"
            )
            raise InvalidArgument("Q", f"one with {largest:.3g}", allowed)

    def evaluated_of(
        self, P: Float[Array, "tokens tokens"], Q: Float[Array, "tokens tokens"]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        sigma, W, n = self.covariance, self.prior, self.length
        d = len(sigma)
        u, v = self.factor * P[d, :d], self.factor * P[d, d]
        A = Q[:d, :d].T
        F = jnp.linalg.cholesky(sigma)
        turned = F.T @ A @ sigma
        B = turned @ A.T @ F
        if _is_exponential(self.normalization):
            found = _exponential_averages(n, B)
        else:
            found = _averages(self.normalization, n, B)
        signal = jnp.trace(sigma @ W)
        level = u @ sigma @ u + v**2 * (signal + self.noise_variance)
        direct = turned @ (jnp.outer(u, u) + v**2 * W) @ turned.T
        cross = v * turned @ W @ F
        _, second, both = found.mean[0], found.mean[1], found.outer[2]
        value = self.noise_variance + signal + n * level * second
        value = value + jnp.sum(direct * both) - 2 * n * jnp.sum(cross * found.outer[0])
        # a traced layer could not be refused: with responses in the scores this is not its risk
        value = jnp.where(jnp.all(Q[d, :d] == 0), value, jnp.nan)
        errors = found.outer_error
        error = n * level * found.mean_error[1] + jnp.trace(direct) * errors[2]
        # a bound on |tr C E| by the nuclear norm, which is at most √d times the Frobenius norm
        error = error + 2 * n * jnp.sqrt(d * jnp.sum(cross**2)) * errors[0]
        return value, error + 1e-13 * (jnp.abs(value) + n * level * jnp.abs(second))


def quadrature_risk(task: InContextRegression, layer: MergedAttention) -> QuadratureAttentionRisk:
    """The exact risk of a layer with weights `g(s_ℓ)`, divided by the length or not.

    Raises `InvalidArgument` for other normalisations, several tasks, scores that labels enter.
    """
    risk = QuadratureAttentionRisk(**of_task(task, layer))
    if layer.normalization.activation is None:
        allowed = "one that acts on each score alone (students.elementwise), for this theory"
        raise InvalidArgument("normalization", layer.normalization.name, allowed)
    risk.check(layer)
    return risk


def _is_exponential(normalization: Normalization) -> bool:
    return normalization.activation == _EXP


def _exponential_averages(n: Any, B: Any) -> FormAverages:
    """The averages for exp in closed form: `E[e^{τq} zzᵀ] = |I-2τB|^{-1/2} (I-2τB)^{-1}`."""
    eye = jnp.eye(len(B))

    def at(rate: float) -> tuple[Any, Any]:
        root = jnp.linalg.cholesky(eye - 2 * rate * B)  # NaN where the average is infinite
        inverse = jax.scipy.linalg.solve_triangular(root, eye, lower=True)
        mean = jnp.prod(jnp.diag(inverse))
        return mean, mean * inverse.T @ inverse

    (half, first), (one, second), (two, third) = (at(rate) for rate in (0.5, 1.0, 2.0))
    means, outers = (
        (half, two, n * (n - 1) * one + 4 * n * two),
        (first, third, n * (n - 1) * second + 4 * n * third),
    )
    # the condition of what is inverted
    share = 1e-15 * len(B) * jnp.trace(third) / two
    norms = tuple(share * jnp.trace(outer) for outer in outers)
    return FormAverages(means, outers, tuple(share * mean for mean in means), norms)


def _averages(normalization: Normalization, n: Any, B: Any) -> FormAverages:
    moments = _moments(normalization)

    def functions(q: Any) -> Any:
        # the first node is 0, where a limit is needed: the next stands for it
        gamma, second, h = moments(jnp.where(q > 0, q, q[1]))
        return gamma, second, n * (n - 1) * gamma**2 + n * h

    return form_averages(functions, B)


def _moments(normalization: Normalization) -> Any:
    """`q -> γ, m2, h`. Nodes split at the origin, so that they resolve it whatever `q`."""
    activation = normalization.activation
    assert activation is not None
    kinks = tuple(sorted({0.0, *activation.kinks}))
    link = Link(activation.name, activation.function, kinks, activation.width)

    def of(q: Any) -> tuple[Any, Any, Any]:
        zero, one = jnp.zeros_like(q), jnp.ones_like(q)
        gamma = jax.jvp(lambda m: mean(link, m, q, spacing=0.5), (zero,), (one,))[1]
        second, slope = jax.jvp(lambda v: square(link, zero, v, spacing=0.5), (q,), (one,))
        return gamma, second, 2 * slope

    return of
