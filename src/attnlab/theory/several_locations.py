"""The population risk of one pointwise head on prompts with several informative tokens.

Tokens stay independent given their roles, and the errors `e_j = a(λ x_j·k) σ(x_j·v) - w σ(x_j·v*)`
of the informative tokens are independent copies of one variable when they share their direction:

    R = s Var e + (s E e + (L-s) E b)² + (L-s) Var b + ε²,       b = a σ of any other token.

Source: Lemma 6 of marion2025, extended to `s > 1`; `docs/theory/several-locations`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument
from ..students import PointwiseAttention
from ..tasks import Link, SeveralLocations
from .agreement import disagreement
from .erf_moments import erf_squared_curvature, erf_squared_mean, erf_squared_slope
from .pointwise import PointwiseQuadrature
from .pointwise_closed import erf_linear_moments
from .pointwise_quadrature import spec_of
from .risk import SingleLocationRisk
from .setting import Components, Moments, Setting, rounding_error


class SeveralClosedForm(SingleLocationRisk):
    """Erf activation with linear links: closed form."""

    method: ClassVar[str] = "closed form"
    setting: Setting  # its `others` counts the L - s uninformative tokens
    scale: Any
    weight: Any
    copies: int = eqx.field(static=True)

    def components_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Components:
        return assemble(self._moments(state, scale), self.setting, self.copies)

    def error_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Float[Array, "*runs"]:
        return jnp.asarray(
            self.copies**2 * rounding_error(self._moments(state, scale), self.setting)
        )

    def with_scale(self, scale: float) -> SeveralClosedForm:
        return replace(self, scale=scale)

    def _moments(self, state: Any, scale: Any) -> Moments:
        scale = self.scale if scale is None else scale
        one = erf_linear_moments(state, scale, self.setting)
        # E(u - w y)² = w E(u - y)² + (1-w) (E u² - w E y²), with E y² = γ²
        w = self.weight
        square = _informative_square(state, scale, self.setting)
        error = w * one.error + (1 - w) * (square - w * self.setting.token_std**2)
        magnitude = one.magnitude + square + self.setting.token_std**2
        return one._replace(error=error, magnitude=magnitude)  # E y = 0: the bias has no weight


class SeveralQuadrature(SingleLocationRisk):
    """Any activation, any links: quadrature, with the task's link multiplied by the weight."""

    method: ClassVar[str] = "quadrature"
    single: PointwiseQuadrature  # one informative token among L - s + 1
    scale: Any
    copies: int = eqx.field(static=True)

    def components_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Components:
        return self._in_batches(self._components, state, scale)

    def error_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Float[Array, "*runs"]:
        return self._in_batches(self._error, state, scale)

    def with_scale(self, scale: float) -> SeveralQuadrature:
        return replace(self, scale=scale)

    def _in_batches(self, function: Any, state: Any, scale: Any) -> Any:
        return self.single._in_batches(function, state, self.scale if scale is None else scale)

    def _components(self, state: Any, scale: Any) -> Components:
        setting = self.single.setting
        return assemble(self.single.moments_of(state, scale), setting, self.copies)

    def _error(self, state: Any, scale: Any) -> Any:
        setting = self.single.setting
        found = [self.single.moments_of(state, scale, rule) for rule in range(3)]
        gap = disagreement(*(assemble(one, setting, self.copies) for one in found))
        return gap + self.copies**2 * rounding_error(found[0], setting)


def assemble(moments: Moments, setting: Setting, copies: int) -> Components:
    """The risk from per-token moments, for `s = copies` informative tokens of one direction."""
    error, bias, mean, square, _ = moments
    n = setting.others
    return Components(
        informative=copies * error + copies * (copies - 1) * bias**2,
        bulk_variance=n * (square - mean**2),
        bulk_mean=(n * mean) ** 2,
        cross=2 * copies * n * bias * mean,
        label_noise=jnp.broadcast_to(setting.noise_std**2, jnp.shape(error)),
    )


def several_locations_risk(
    task: SeveralLocations, student: PointwiseAttention
) -> SingleLocationRisk:
    """The exact risk of one pointwise head, a function of its five overlaps with the shared `k*`.

    Raises `InvalidArgument` for tasks whose informative tokens have their own directions: a head
    then has more than five overlaps, and `sampled_risk` is the way.
    """
    if task.own_directions:
        allowed = "False for an exact risk; use attnlab.dynamics.sampled_risk for own directions"
        raise InvalidArgument("own_directions", task.own_directions, allowed)
    setting = setting_of(task)
    links = student.link.name, task.link.name
    if student.activation.name == "erf" and links == ("linear", "linear"):
        return SeveralClosedForm(
            setting=setting, scale=student.scale, weight=task.weight, copies=task.n_informative
        )
    return several_locations_quadrature(task, student)


def several_locations_quadrature(
    task: SeveralLocations, student: PointwiseAttention
) -> SeveralQuadrature:
    """The same risk by quadrature, also where a closed form exists."""
    build = partial(spec_of, student.activation, student.link, _weighted(task), task.token_std)
    specs = tuple(build(rule=rule) for rule in range(3))
    single = PointwiseQuadrature(setting=setting_of(task), scale=student.scale, specs=specs)
    return SeveralQuadrature(single=single, scale=student.scale, copies=task.n_informative)


def setting_of(task: SeveralLocations) -> Setting:
    """The scalars of the task; `others` is `L - s`."""
    others = float(task.length - task.n_informative)
    return Setting(task.signal * task.dim**0.5, task.token_std, others, task.noise_std)


def _weighted(task: SeveralLocations) -> Link:
    """The label's link times `w`, so that one informative token's share of the label is `w σ`."""
    w, link = task.weight, task.link
    if w == 1:
        return link
    polynomial = None if link.polynomial is None else tuple(w * c for c in link.polynomial)
    mean, square = link.gaussian_mean, link.gaussian_square
    return Link(
        f"{w:g} {link.name}",
        lambda x: w * link.function(x),
        link.kinks,
        link.width,
        polynomial,
        None if mean is None else lambda m, v: w * mean(m, v),
        None if square is None else lambda m, v: w**2 * square(m, v),
    )


def _informative_square(state: Any, scale: Any, setting: Setting) -> Any:
    """`E[erf² w²]_*`; see `erf_linear_moments`."""
    kappa, _, theta, _, rho = jnp.moveaxis(state, -1, 0)
    gamma2, m = setting.token_std**2, setting.shift * theta
    t, g = scale * setting.shift * kappa, scale * setting.token_std
    f = erf_squared_mean(t, g)
    f1 = scale * erf_squared_slope(t, g)
    f2 = scale**2 * erf_squared_curvature(t, g)
    return (m**2 + gamma2) * f + 2 * m * rho * gamma2 * f1 + (rho * gamma2) ** 2 * f2
