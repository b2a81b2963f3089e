"""The population risk of pointwise attention on single-location regression.

Source: Section 4 of marion2025; `docs/theory/pointwise-attention`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument, is_traced
from ..students import PointwiseAttention
from ..tasks import SingleLocation
from .agreement import disagreement
from .pointwise_closed import erf_linear_gradient, erf_linear_moments
from .pointwise_quadrature import Spec, moments, nodes_per_run, spec_of
from .risk import SingleLocationRisk
from .setting import Components, Moments, Setting, assemble, rounding_error

_LARGEST_LOG_LENGTH = 300.0  # the risk grows as L²: beyond, float64 overflows
_BATCH_VALUES = 2**24  # float64 values held at once by a batched quadrature


class PointwiseClosedForm(SingleLocationRisk):
    """Erf activation with linear links: closed form, accurate to rounding."""

    method: ClassVar[str] = "closed form"
    setting: Setting
    scale: Any

    def components_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Components:
        return assemble(self._moments(state, scale), self.setting)

    def gradient_of(
        self, state: Float[Array, "*runs 5"], scale: Any = None
    ) -> Float[Array, "*runs 5"]:
        return erf_linear_gradient(state, self.scale if scale is None else scale, self.setting)

    def error_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Float[Array, "*runs"]:
        return rounding_error(self._moments(state, scale), self.setting)

    def _moments(self, state: Any, scale: Any) -> Moments:
        return erf_linear_moments(state, self.scale if scale is None else scale, self.setting)

    def with_scale(self, scale: float) -> PointwiseClosedForm:
        return PointwiseClosedForm(setting=self.setting, scale=scale)


class PointwiseQuadrature(SingleLocationRisk):
    """Any activation, any links: Gaussian quadrature, its error estimated from two more rules."""

    method: ClassVar[str] = "quadrature"
    setting: Setting
    scale: Any
    specs: tuple[Spec, ...] = eqx.field(static=True)  # the fine rule, and two coarser ones

    def components_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Components:
        return self._in_batches(self._components, state, scale)

    def error_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Float[Array, "*runs"]:
        return self._in_batches(self._error, state, scale)

    def with_scale(self, scale: float) -> PointwiseQuadrature:
        return PointwiseQuadrature(setting=self.setting, scale=scale, specs=self.specs)

    def _components(self, state: Any, scale: Any) -> Components:
        return assemble(self.moments_of(state, scale), self.setting)

    def _error(self, state: Any, scale: Any) -> Any:
        found = [self.moments_of(state, scale, rule) for rule in range(3)]
        gap = disagreement(*(assemble(one, self.setting) for one in found))
        return gap + rounding_error(found[0], self.setting)

    def moments_of(self, state: Any, scale: Any, rule: int = 0) -> Moments:
        """The per-token moments by one of the rules. Pure, float64."""
        return moments(self.specs[rule], state, scale, self.setting, rule=rule)

    def _in_batches(self, function: Any, state: Any, scale: Any) -> Any:
        shape = state.shape[:-1]
        rows = state.reshape(-1, 5)
        scales = jnp.broadcast_to(self.scale if scale is None else scale, shape).reshape(-1)
        size = max(1, min(rows.shape[0], _BATCH_VALUES // nodes_per_run(self.specs[0])))
        if size == rows.shape[0]:
            out = function(rows, scales)
        else:
            out = jax.lax.map(lambda row: function(*row), (rows, scales), batch_size=size)
        return jax.tree.map(lambda part: part.reshape(shape), out)


def pointwise_risk(task: SingleLocation, student: PointwiseAttention) -> SingleLocationRisk:
    """The exact risk of `student` on `task`; closed form for erf with linear links, else
    quadrature. Raises `InvalidArgument` for lengths at which the risk overflows float64."""
    if not is_traced(task.log_length) and task.log_length > _LARGEST_LOG_LENGTH:
        allowed = f"at most {_LARGEST_LOG_LENGTH:g} for pointwise attention, whose risk grows as L²"
        raise InvalidArgument("log_length", task.log_length, allowed)
    setting = Setting.of(task)
    links = student.link.name, task.link.name
    if student.activation.name == "erf" and links == ("linear", "linear"):
        return PointwiseClosedForm(setting=setting, scale=student.scale)
    return pointwise_quadrature(task, student)


def pointwise_quadrature(task: SingleLocation, student: PointwiseAttention) -> PointwiseQuadrature:
    """The same risk by quadrature, also where a closed form exists (to check one by the other)."""
    std = 10.0 if is_traced(task.token_std) else task.token_std
    build = partial(spec_of, student.activation, student.link, task.link, std)
    specs = tuple(build(rule=rule) for rule in range(3))
    return PointwiseQuadrature(setting=Setting.of(task), scale=student.scale, specs=specs)
