"""The exact risk of scalar softmax heads on isotropic in-context regression: what it is made of.

With `q_h = p_h - 1/L` the weights of a head beside equal ones and `r = |x_q|`, five averages over
prompts, two for each head and pair and one for each head, give the risk of any read-outs:

    R = 1 + σ² - 2 Σ μ_h E[x_qᵀXᵀq_h]/d
        + Σ μ_h μ_h' { (1+σ²) E q_h·q_h' + E[q_hᵀXXᵀq_h' - d q_h·q_h']/d } + (1+σ²) (Σ μ_h)²/L

Opposite heads of tiny `ω` and huge `μ` keep their digits, since `q_h` and `(Σ μ_h)²/L` are apart. A
task that reads a part of the coordinates has that share of every term but the noise. How the
averages are computed depends on the length: `in_context`, `in_context_short`.
Source: Appendix E.2 of he2025; `docs/theory/in-context-loss`.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument
from ..students import KernelHeads
from .climbing_risk import ClimbingRisk, InContextComponents
from .heads_risk import check_one_reading, check_softmax_heads, traced

_SMALLEST = 1e-100  # of |ω|, so that products do not underflow, and of 1/|μ|


class HeadAverages(NamedTuple):
    """Averages over prompts, with `q_h = p_h - 1/L`; pairs `h < h'` as in `numpy.triu_indices`.

    - `aligned`: `E x_qᵀXᵀq_h / d`
    - `own`, `pairs`: `E q_h·q_h'`
    - `own_product`, `pair_product`: `E[q_hᵀXXᵀq_h'] / d - E q_h·q_h'`
    """

    aligned: Float[Array, " heads"]
    own: Float[Array, " heads"]
    pairs: Float[Array, " pairs"]
    own_product: Float[Array, " heads"]
    pair_product: Float[Array, " pairs"]


class InContextRisk(ClimbingRisk):
    """The exact risk of scalar heads on isotropic covariates; see the module for the formula.

    `omega` is `(*batch, H)` and `mu` likewise, or `(H,)` and `(H, N)` for `N` tasks (one `mu`
    serves all of them otherwise).
    """

    method: ClassVar[str] = "quadrature"
    tolerance: ClassVar[float] = 1e-9
    refused: ClassVar[float] = 1e-6
    heads: KernelHeads
    noise_variance: Any
    shares: Any  # of the coordinates that each task reads
    dim: Any
    log_length: Any
    rules: tuple[Any, ...]  # its own, that of the rung below, and another of that rung
    rung: int = eqx.field(static=True)

    @abc.abstractmethod
    def averages_of(self, omega: Float[Array, " heads"], rule: int) -> HeadAverages:
        """The averages for one set of heads, by one of the rules of `evaluated_of`."""

    def check_kind(self, heads: Any) -> None:
        check_softmax_heads(heads)
        check_one_reading(heads, dim=int(self.dim), n_outputs=len(self.shares))
        omega, mu, tasks = jnp.shape(heads.omega), jnp.shape(heads.mu), len(self.shares)
        if omega != mu and not (len(omega) == 1 and mu == (*omega, tasks)):
            allowed = f"of omega's shape {omega}, or (H, {tasks}) for omega of shape (H,)"
            raise InvalidArgument("mu", heads.mu, allowed)

    def check_heads(self, heads: KernelHeads) -> None:
        if traced(heads):
            return
        omega, mu = np.abs(np.asarray(heads.omega)), np.abs(np.asarray(heads.mu))
        if np.any((omega > 0) & (omega < _SMALLEST)):
            allowed = f"0, or at least {_SMALLEST:g} in absolute value: squares have to be numbers"
            raise InvalidArgument("omega", np.asarray(heads.omega), allowed)
        if np.max(mu) > 1 / _SMALLEST:
            allowed = f"at most {1 / _SMALLEST:g} in absolute value, so that risks are numbers"
            raise InvalidArgument("mu", np.asarray(heads.mu), allowed)

    def evaluated_of(
        self,
        omega: Float[Array, "*batch heads"],
        mu: Float[Array, "*batch heads"],
        rule: int = 0,
    ) -> tuple[InContextComponents, Any]:
        parts = self._in_batches(lambda w, m: self._components(w, m, rule), omega, mu)
        return parts, jnp.zeros_like(parts.target)

    def _in_batches(self, function: Any, omega: Any, mu: Any) -> Any:
        batch, heads = omega.shape[:-1], omega.shape[-1]
        if not batch:
            return function(omega, mu)
        rows = omega.reshape(-1, heads), mu.reshape(-1, heads)
        values = jax.lax.map(jax.checkpoint(lambda row: function(*row)), rows)
        return jax.tree.map(lambda leaf: leaf.reshape(batch), values)

    def _components(self, omega: Any, mu: Any, rule: int) -> InContextComponents:
        """One set of heads, `(H,)`."""
        first, second = np.triu_indices(omega.shape[0], 1)
        mu = jnp.broadcast_to(mu.reshape(len(omega), -1), (len(omega), len(self.shares)))
        found = self.averages_of(omega, rule)

        def quadratic(diagonal: Any, beside: Any) -> Any:
            return mu.T**2 @ diagonal + 2 * (mu[first] * mu[second]).T @ beside

        spread = quadratic(found.own, found.pairs)
        spread = spread + jnp.sum(mu, axis=0) ** 2 * jnp.exp(-self.log_length)
        product = quadratic(found.own_product, found.pair_product)
        tasks = len(self.shares)
        return InContextComponents(
            target=jnp.sum(self.shares),
            cross=-2 * jnp.sum(self.shares * (mu.T @ found.aligned)),
            signal=jnp.sum(self.shares * (spread + product)),
            context_noise=self.noise_variance * jnp.sum(spread),
            label_noise=jnp.asarray(tasks * self.noise_variance, jnp.float64),
        )
