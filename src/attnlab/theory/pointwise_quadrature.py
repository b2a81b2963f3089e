"""Moments of pointwise attention for any activation and any links, by Gaussian quadrature.

The outer integral runs over the scaled score `B = λ x·k`; given it, the values `x·v` and `x·v*`
are Gaussian and their averages come from `gaussian_links`. Derivatives fall on the Gaussian
density, so an activation may have kinks and steps. Source: `docs/theory/quadrature`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..students import Activation
from ..tasks import Link
from . import gaussian_links as links
from .gaussian_nodes import attached, bends, resolving_nodes
from .setting import Moments, Setting


class Spec(NamedTuple):
    """What is fixed at compile time: the functions, and the grid spacing of each token kind."""

    activation: Activation
    student_link: Link
    task_link: Link
    informative_spacing: float
    bulk_spacing: float


def spec_of(
    activation: Activation, student_link: Link, task_link: Link, token_std: float, *, rule: int
) -> Spec:
    """The compile-time part, its spacings rounded so that nearby settings share a compilation."""
    if student_link.polynomial is not None and task_link.polynomial is not None:
        return Spec(activation, student_link, task_link, 0.5, 0.5)  # no inner grid at all
    width = min(student_link.width, task_link.width)
    rounded = 1.0
    while rounded < token_std:
        rounded *= 2
    informative = links.uniform_spacing(width, rounded, rule=rule)
    bulk = links.uniform_spacing(student_link.width, 1.0, rule=rule)
    return Spec(activation, student_link, task_link, informative, bulk)


def moments(
    spec: Spec,
    state: Float[Array, "*runs 5"],
    scale: Any,
    setting: Setting,
    *,
    rule: int = 0,
) -> Moments:
    """The per-token moments of `Moments`, for overlaps `state` and activation scale `λ`; `rule` 1
    and 2 are coarser, independent rules."""
    kappa, nu, theta, eta, rho = jnp.moveaxis(state, -1, 0)
    error, bias, magnitude = _informative(spec, (kappa, nu, theta, eta, rho), scale, setting, rule)
    mean, square = _bulk(spec, rho, scale, rule)
    return Moments(error, bias, mean, square, magnitude)


def _scaled_nodes(
    activation: Activation, mean: Any, std: Any, rule: int, edges: tuple[Any, ...] = ()
) -> Any:
    """Nodes in the scaled score, and the activation on them, resolving its own width and the
    places `edges` (standardised scores) where a kinked link bends."""
    width = activation.width
    kinks = tuple(kink / width for kink in activation.kinks)
    if not edges:
        nodes = resolving_nodes(mean / width, std / width, kinks, rule=rule)
    else:
        kinks += tuple((mean + std * edge) / width for edge in edges)
        nodes = resolving_nodes(mean / width, std / width, kinks, rule=rule, panels=8, order=20)
    return nodes, activation.function(nodes.b * width)


def _informative(spec: Spec, state: Any, scale: Any, setting: Setting, rule: int) -> Any:
    kappa, nu, theta, eta, rho = state
    s, h = jnp.asarray(setting.token_std), spec.informative_spacing
    mean, std = scale * setting.shift * kappa, jnp.broadcast_to(scale * s, jnp.shape(kappa))
    edges = bends(spec.student_link.kinks, setting.shift * theta, s, rho)
    edges += bends(spec.task_link.kinks, 0.0, s, eta)
    nodes, a = _scaled_nodes(spec.activation, mean, std, rule, edges)
    z, weights = attached(nodes, mean, std)

    def wide(x: Any) -> Any:
        return jnp.asarray(x)[..., None] + 0 * z

    m_w = wide(setting.shift * theta) + wide(s * rho) * z
    m_u = wide(s * eta) * z
    v_w, v_u = wide(s**2 * (1 - rho**2)), wide(s**2 * (1 - eta**2))
    c = wide(s**2 * (nu - rho * eta))
    student, task = spec.student_link, spec.task_link
    own = a**2 * links.square(student, m_w, v_w, spacing=h)
    shared = a * links.product(student, task, m_w, m_u, v_w, v_u, c, spacing=h)
    label = links.square(task, m_u, v_u, spacing=h)
    tilt = a * links.mean(student, m_w, v_w, spacing=h) - links.mean(task, m_u, v_u, spacing=h)
    error = jnp.sum((own - 2 * shared + label) * weights, axis=-1)
    magnitude = jnp.sum((jnp.abs(own) + 2 * jnp.abs(shared) + label) * weights, axis=-1)
    return error, jnp.sum(tilt * weights, axis=-1), magnitude


def _bulk(spec: Spec, rho: Any, scale: Any, rule: int) -> Any:
    std = jnp.broadcast_to(jnp.asarray(scale), jnp.shape(rho))
    mean = jnp.zeros_like(std)
    edges = bends(spec.student_link.kinks, 0.0, 1.0, rho)
    nodes, a = _scaled_nodes(spec.activation, mean, std, rule, edges)
    z, weights = attached(nodes, mean, std)
    m_w = rho[..., None] * z
    v_w = (1 - rho**2)[..., None] + 0 * z
    link, h = spec.student_link, spec.bulk_spacing
    first = jnp.sum(a * links.mean(link, m_w, v_w, spacing=h) * weights, axis=-1)
    second = jnp.sum(a**2 * links.square(link, m_w, v_w, spacing=h) * weights, axis=-1)
    return first, second


def nodes_per_run(spec: Spec) -> int:
    """Largest number of float64 values that one run holds at a time, to size batches."""
    outer = 257 if not spec.activation.kinks else 240 * (1 + len(spec.activation.kinks))
    links_used = (spec.student_link, spec.task_link)
    if None not in [link.polynomial for link in links_used]:
        return outer
    bends = sum(len(link.kinks) for link in links_used)
    if bends:
        return 160 * (1 + len(spec.activation.kinks) + 2 * bends) * 2000
    return outer * (int(2 * 9 / min(spec.informative_spacing, spec.bulk_spacing)) + 1)
