"""Risks of sums of kernel heads, as functions of `omega` and `mu`.

What the exact risk and its approximations share: they are called with `KernelHeads` that have one
number `ω_h` and one `μ_h` each, they have a gradient, and their inner function is traceable.
Source: eq. (3.2) of he2025; `docs/theory/approximate-loss`.
"""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument, is_traced
from .._core.precision import float64, to_float64, to_numpy
from ..students import KernelHeads
from ..tasks import InContextRegression
from ..tasks.in_context import check_in_context


class HeadsRisk(eqx.Module):
    """A population risk of scalar kernel heads, label noise included.

    `risk.value` is the risk of the heads it was made with, `risk(heads)` that of others: NumPy
    float64 of the heads' batch shape (a JAX value inside the caller's own `jit`, `grad`, `vmap`).
    """

    method: eqx.AbstractClassVar[str]
    heads: eqx.AbstractVar[KernelHeads]

    @abc.abstractmethod
    def value_of(
        self, omega: Float[Array, "*batch heads"], mu: Float[Array, "*batch heads"]
    ) -> Float[Array, "*batch"]:
        """The risk. Pure, float64, called inside `float64()`."""

    def check_kind(self, heads: Any) -> None:
        """Raises `InvalidArgument` for heads of other kinds than the risk is for."""
        check_scalar_heads(heads)

    def check_heads(self, heads: KernelHeads) -> None:
        """Raises `InvalidArgument` for concrete heads at which the risk is not defined."""

    def gradient_of(
        self, omega: Float[Array, "*batch heads"], mu: Float[Array, "*batch heads"]
    ) -> tuple[Array, Array]:
        """Partial derivatives in `omega` and `mu`, under the conditions of `value_of`."""
        return jax.grad(lambda w, m: jnp.sum(self.value_of(w, m)), argnums=(0, 1))(omega, mu)

    @property
    def value(self) -> Float[Array, "*batch"]:
        """The risk of the heads that it was made with."""
        return self(self.heads)

    def __call__(self, heads: KernelHeads) -> Float[Array, "*batch"]:
        """The risk of `heads`, whose `omega` and `mu` have the shape `(*batch, H)`.

        Raises `InvalidArgument` for heads of other kinds or outside of where the risk is defined.
        """
        return self._apply("value_of", heads)

    def gradient(self, heads: KernelHeads) -> KernelHeads:
        """Partial derivatives of the risk, in the fields of `KernelHeads`."""
        return KernelHeads(*self._apply("gradient_of", heads))

    def _apply(self, function: str, heads: KernelHeads) -> Any:
        self.check_kind(heads)
        self.check_heads(heads)
        if function == "value_of" and traced(heads):
            return self._traced_value(heads.omega, heads.mu)
        with float64():
            # numbers become arrays, so that a new value is a new argument and not a new program
            risk, omega, mu = to_float64((self, heads.omega, heads.mu))
            return to_numpy(_evaluate(risk, function, omega, mu))

    def _traced_value(self, omega: Any, mu: Any) -> Any:
        """The value for a caller's own transformations. Its derivative is taken here, in float64: a
        reverse pass would run after this scope is left, in the caller's precision."""

        def at(omega: Any, mu: Any) -> HeadsRisk:
            """The risk; heads at construction that are traced too are these, and not closed over."""
            if not traced(self.heads):
                return self
            return eqx.tree_at(lambda risk: (risk.heads.omega, risk.heads.mu), self, (omega, mu))

        @jax.custom_jvp
        def value(omega: Any, mu: Any) -> Any:
            with float64():
                risk, omega, mu = to_float64((at(omega, mu), omega, mu))
                return _evaluate(risk, "value_of", omega, mu)

        @value.defjvp
        def derivative(place: Any, along: Any) -> Any:
            with float64():
                risk, points, tangents = to_float64((at(*place), place, along))
                slopes = _evaluate(risk, "gradient_of", *points)
                batch = points[0].ndim - 1 if points[0].shape == points[1].shape else 0
                terms = [
                    jnp.sum(slope * tangent, axis=tuple(range(batch, slope.ndim)))
                    for slope, tangent in zip(slopes, tangents)
                ]
                return _evaluate(risk, "value_of", *points), sum(terms)

        return value(omega, mu)


@eqx.filter_jit
def _evaluate(risk: HeadsRisk, function: str, omega: Any, mu: Any) -> Any:
    return getattr(risk, function)(omega, mu)


def traced(heads: KernelHeads) -> bool:
    """Whether the heads are abstract, so that no decision can depend on them."""
    return is_traced(heads.omega, heads.mu)


def check_one_reading(heads: Any, *, dim: int, n_outputs: int) -> None:
    """Raises `InvalidArgument` for heads that could be a batch of scalar heads as well as diagonal
    heads of several tasks, which happens when there are as many tasks as coordinates."""
    omega, mu = jnp.shape(heads.omega), jnp.shape(heads.mu)
    if len(omega) == 2 and omega == mu and omega[1] == dim == n_outputs:
        allowed = (
            f"of one meaning: with mu of the same shape {mu} it is a batch of scalar heads or one "
            "set of diagonal heads; give diagonal heads as matrices (heads, dim, dim), and a batch "
            "with one axis more"
        )
        raise InvalidArgument("omega", heads.omega, allowed)


def check_scalar_heads(heads: Any) -> KernelHeads:
    """`heads` if they are softmax heads with one `ω_h` and one `μ_h` each; raises
    `InvalidArgument`."""
    check_softmax_heads(heads)
    if jnp.shape(heads.omega) != jnp.shape(heads.mu):
        allowed = f"one number for each head and task, of mu's shape {jnp.shape(heads.mu)}"
        raise InvalidArgument("omega", heads.omega, allowed)
    return heads


def check_softmax_heads(heads: Any) -> KernelHeads:
    """`heads` if they are `KernelHeads` with softmax; raises `InvalidArgument`."""
    if not isinstance(heads, KernelHeads):
        raise InvalidArgument("heads", heads, "an attnlab.KernelHeads")
    if heads.normalization.name != "softmax":
        name = heads.normalization.name
        raise InvalidArgument("normalization", name, "softmax, the only one with this theory")
    return heads


def check_isotropic(task: Any) -> InContextRegression:
    """`task` if it is one task on isotropic covariates; raises `InvalidArgument`."""
    check_in_context(task)
    if task.covariance is not None:
        raise InvalidArgument("covariance", task.covariance, "the identity (None) for this theory")
    if task.supports is not None:
        raise InvalidArgument("supports", task.supports, "None, a single task, for this theory")
    return task
