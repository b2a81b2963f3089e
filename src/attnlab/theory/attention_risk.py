"""Risks of one head with merged weights on in-context tasks: what all of them share.

Source: eq. (3) of ahn2023; `docs/theory/unnormalised-attention`.
"""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument, is_traced
from .._core.precision import float64, to_float64, to_numpy
from ..students import MergedAttention, Normalization
from ..tasks.in_context import check_in_context


class AttentionRisk(eqx.Module):
    """The population risk of `MergedAttention` on an in-context task, label noise included.

    `risk.value` is that of the layer that it was made with, `risk(layer)` that of another with the
    same activation; `risk.gradient(layer)` has the derivatives in `P` and `Q` (zero where an entry
    is without effect). NumPy float64; a JAX value inside the caller's own transformations.
    """

    layer: MergedAttention
    covariance: Any
    prior: Any
    noise_variance: Any
    length: Any
    factor: Any  # of the weights: 1/n where they are divided by the length
    normalization: Normalization = eqx.field(static=True)

    @property
    @abc.abstractmethod
    def method(self) -> str:
        """How it is computed."""

    @abc.abstractmethod
    def evaluated_of(
        self, P: Float[Array, "tokens tokens"], Q: Float[Array, "tokens tokens"]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The risk and an estimate of its error. Pure, float64, called inside `float64()`."""

    def check_layer(self, layer: MergedAttention) -> None:
        """Raises `InvalidArgument` for layers at which this risk is not known."""

    @property
    def value(self) -> Float[np.ndarray, ""]:
        """The risk of the layer that it was made with."""
        return self(self.layer)

    @property
    def error(self) -> float:
        """An estimate of the error of `value` that does not understate it."""
        with float64():
            return float(_evaluated(*to_float64((self._bare, self.layer.P, self.layer.Q)))[1])

    def __call__(self, layer: MergedAttention) -> Float[np.ndarray, ""]:
        """The risk of `layer`. Raises `InvalidArgument` for another kind, size or activation."""
        self.check(layer)
        if is_traced(layer.P, layer.Q):
            return self._traced(layer.P, layer.Q)
        with float64(), np.errstate(over="ignore"):
            value = to_numpy(_evaluated(*to_float64((self._bare, layer.P, layer.Q)))[0])
        if not np.isfinite(value):
            allowed = "such that the risk is within the range of floating point"
            raise InvalidArgument("layer", f"one with risk {value}", allowed)
        return value

    def gradient(self, layer: MergedAttention) -> MergedAttention:
        """The derivatives of the risk in the fields `P` and `Q` of a `MergedAttention`."""
        self.check(layer)
        with float64():
            P, Q = to_numpy(_gradient(*to_float64((self._bare, layer.P, layer.Q))))
        return MergedAttention(P, Q, normalization=layer.normalization)

    def value_of(
        self, P: Float[Array, "tokens tokens"], Q: Float[Array, "tokens tokens"]
    ) -> Float[Array, ""]:
        """The risk. Pure, float64, called inside `float64()`."""
        return self.evaluated_of(P, Q)[0]

    def check(self, layer: Any) -> None:
        """Raises `InvalidArgument` for another kind, size or activation."""
        if not isinstance(layer, MergedAttention):
            raise InvalidArgument("layer", layer, "an attnlab.students.MergedAttention")
        size = len(self.covariance) + 1
        if jnp.shape(layer.P) != (size, size) or layer.n_outputs != 1:
            shown = f"{jnp.shape(layer.P)} of P, n_outputs = {layer.n_outputs}"
            raise InvalidArgument("layer", shown, f"of shape {(size, size)} and one output")
        if layer.normalization != self.normalization:
            name = layer.normalization.name
            raise InvalidArgument("normalization", name, f"{self.normalization.name}, as at first")
        self.check_layer(layer)

    @property
    def _bare(self) -> AttentionRisk:
        """Without the layer it was made with, which may be traced and is no part of the numbers."""
        return eqx.tree_at(lambda risk: risk.layer, self, None, is_leaf=lambda leaf: leaf is None)

    def _traced(self, P: Any, Q: Any) -> Any:
        """For a caller's own transformations; derivatives are taken here, in float64."""

        bare = self._bare

        @jax.custom_jvp
        def value(P: Any, Q: Any) -> Any:
            with float64():
                return _evaluated(*to_float64((bare, P, Q)))[0]

        @value.defjvp
        def derivative(at: Any, along: Any) -> Any:
            with float64():
                risk, points, tangents = to_float64((bare, at, along))
                slopes = _gradient(risk, *points)
                return _evaluated(risk, *points)[0], sum(
                    jnp.sum(slope * tangent) for slope, tangent in zip(slopes, tangents)
                )

        return value(P, Q)


@eqx.filter_jit
def _evaluated(risk: AttentionRisk, P: Any, Q: Any) -> Any:
    return risk.evaluated_of(P, Q)


@eqx.filter_jit
def _gradient(risk: AttentionRisk, P: Any, Q: Any) -> Any:
    return jax.grad(risk.value_of, argnums=(0, 1))(P, Q)


def check_single_task(task: Any) -> None:
    """Raises `InvalidArgument` for anything but in-context regression of one task."""
    check_in_context(task, any_prior=True)
    if task.supports is not None:
        raise InvalidArgument("supports", task.supports, "None, a single task, for this theory")


def of_task(task: Any, layer: Any) -> dict[str, Any]:
    """The fields of the risk of `layer` on `task`. Raises `InvalidArgument`."""
    check_single_task(task)
    if not isinstance(layer, MergedAttention):
        raise InvalidArgument("student", layer, "an attnlab.students.MergedAttention")
    return {
        "layer": layer,
        "covariance": task.covariance_matrix,
        "prior": task.prior_matrix,
        "noise_variance": task.noise_std**2,
        "length": float(task.length),
        "factor": 1 / task.length if layer.normalization.over_length else 1.0,
        "normalization": layer.normalization,
    }
