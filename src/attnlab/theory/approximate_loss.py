"""Approximations of the risk of kernel heads at large lengths, in elementary functions.

Three of them, each keeping more than the one before; with `a = μ·ω`, `c = (1+σ²)/L`:

    "he2025"    (1-a)² + σ² + c μᵀ exp(d ωωᵀ) μ                   eq. (4.1), Prop. 4.1 of he2025
    "radial"    (1-a)² + σ² + c μᵀ F(ωωᵀ) μ                       averages over |x_q| correctly
    "expansion" "radial" + μᵀ [ωωᵀ G(ωωᵀ)] μ / L + 2 (1-a) Σ μ_h ω_h G(ω_h²) / L    exact to O(1/L)

`F(u) = E e^{u r²} = (1-2u)^{-d/2}` and `G(u) = E[r² e^{u r²}]/d = (1-2u)^{-d/2-1}` with `r² ~ χ²_d`;
the functions of matrices are entrywise. Source: `docs/theory/approximate-loss`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument, check_choice, is_traced
from ..students import KernelHeads
from ..tasks import InContextRegression
from .heads_risk import HeadsRisk, check_isotropic, check_scalar_heads
from .in_context import in_context_risk
from .risk import ErrorEstimate

Form = Literal["he2025", "radial", "expansion"]
_LARGEST_EXPONENT = 600.0


class ApproximateLoss(HeadsRisk):
    """An approximation of the risk of kernel heads; see the module for its three forms.

    It is not the risk: `method` says so, `error` by how much, and at small lengths or large `ω`
    that is of the order of the risk itself. It is called like the exact one.
    """

    method: ClassVar[str] = "approximation"
    heads: KernelHeads
    dim: Any
    length: Any
    noise_variance: Any
    form: Form = eqx.field(static=True)

    def value_of(
        self, omega: Float[Array, "*batch heads"], mu: Float[Array, "*batch heads"]
    ) -> Float[Array, "*batch"]:
        product = omega[..., :, None] * omega[..., None, :]
        aligned = jnp.sum(mu * omega, -1)
        rest = 1 - aligned
        # K - 1 and (Σμ)² apart: opposite heads of small ω would cancel all digits of μᵀKμ
        if self.form == "he2025":
            kernel = jnp.expm1(self.dim * product)
        else:
            kernel = jnp.expm1(-self.dim / 2 * jnp.log1p(-2 * product))
        spread = _quadratic(kernel, mu) + jnp.sum(mu, -1) ** 2
        value = rest**2 + self.noise_variance + (1 + self.noise_variance) / self.length * spread
        if self.form == "expansion":
            own = jnp.sum(mu * omega * _radial_slope(omega**2, self.dim), -1)
            pairs = _quadratic(product * _radial_slope(product, self.dim), mu)
            value = value + (pairs + 2 * rest * own) / self.length
        return value

    @property
    def error(self) -> ErrorEstimate:
        """How far the approximation is from the exact risk: their difference at given heads (as a
        number: at its own), with the exact risk's own error estimate added."""
        task = InContextRegression(
            round(float(self.dim)),
            round(float(self.length)),
            noise_std=float(self.noise_variance) ** 0.5,
        )

        def distance(heads: KernelHeads) -> Any:
            exact = in_context_risk(task, heads)
            return np.abs(self(heads) - exact.value) + exact.error(heads)

        return ErrorEstimate(distance, reference=lambda: self.heads)

    def check_heads(self, heads: KernelHeads) -> None:
        if is_traced(heads.omega, self.dim):
            return
        square = float(np.max(np.asarray(heads.omega, np.float64) ** 2))
        if self.form != "he2025" and not 2 * square < 1:
            allowed = "of absolute value below √½, beyond which the average over |x_q| diverges"
            raise InvalidArgument("omega", heads.omega, allowed)
        if self.form == "he2025":
            exponent = self.dim * square
        else:
            exponent = -(self.dim / 2 + 1) * np.log1p(-2 * square)
        if exponent > _LARGEST_EXPONENT:
            allowed = f"small enough that exp(d ω²) stays finite: d ω² <= {_LARGEST_EXPONENT:g}"
            raise InvalidArgument("omega", heads.omega, allowed)


def approximate_risk(
    task: InContextRegression, heads: KernelHeads, *, form: Form = "he2025"
) -> ApproximateLoss:
    """The approximate risk of `heads`, called like the exact `population_risk(task, heads)`.

    **Arguments:** a single isotropic `task`; `heads` with one `ω_h` and one `μ_h` each; `form`,
    one of `"he2025"` (their `L̃`), `"radial"`, `"expansion"` (correct to the order `1/L`).

    Raises `InvalidArgument` for anything else. Source: Prop. 4.1 of he2025;
    `docs/theory/approximate-loss`.
    """
    check_isotropic(task)
    check_choice("form", form, ("he2025", "radial", "expansion"))
    variance = task.noise_std**2
    risk = ApproximateLoss(heads, float(task.dim), float(task.length), variance, form)
    risk.check_heads(check_scalar_heads(heads))
    return risk


def large_length_risk(task: InContextRegression, heads: KernelHeads) -> ApproximateLoss:
    """The risk up to and including the order `1/L`: `approximate_risk(..., form="expansion")`.

    Needs `2 ω_h² < 1`; beyond, long queries make the correction larger than any `1/L`.
    """
    return approximate_risk(task, heads, form="expansion")


def _quadratic(matrix: Any, vector: Any) -> Any:
    return jnp.einsum("...g,...gh,...h->...", vector, matrix, vector)


def _radial_slope(u: Any, dim: Any) -> Any:
    return jnp.exp(-(dim / 2 + 1) * jnp.log1p(-2 * u))
