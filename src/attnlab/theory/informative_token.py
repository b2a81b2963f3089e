"""The informative token of a softmax student's prompt: its value, its label, given its score.

With `(x·k, x·v, x·v*)` Gaussian, `w = x·v` and `u = x·v*` are Gaussian given the standardised score
`z`. What the risk needs is the reading error `D = σ(w) - y` and its product with `σ(w)`, both of
which vanish for a perfect reader: polynomials get them from `δ = w - u`, without cancellation.
Source: `docs/theory/softmax-attention`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..tasks import Link
from . import gaussian_links as links
from .gaussian_nodes import bends
from .setting import Setting


class Reader(NamedTuple):
    """The two links, and the spacing of an inner trapezoid rule where they need one."""

    student: Link
    task: Link
    spacing: float
    bulk_spacing: float

    @property
    def polynomial(self) -> bool:
        """Whether all averages are polynomials in the score."""
        return None not in (self.student.polynomial, self.task.polynomial)

    @property
    def bent(self) -> bool:
        """Whether any link has kinks."""
        return bool(self.student.kinks or self.task.kinks)

    @property
    def kinked(self) -> bool:
        """Whether an average of both links has kinks and no closed form."""
        bent = [link for link in (self.student, self.task) if link.kinks]
        smooth = [link for link in (self.student, self.task) if not link.kinks]
        closed = all(link.name == "relu" for link in bent)
        return bool(bent) and not (closed and all(link.polynomial for link in smooth))


class Informative(NamedTuple):
    """Averages given the score, at nodes `z`.

    - `error`: `E[D | z]`; `product`: `E[D σ(w) | z]`
    - `value`, `square`: `E[σ(w) | z]`, `E[σ(w)² | z]`
    """

    error: Float[Array, " nodes"]
    product: Float[Array, " nodes"]
    value: Float[Array, " nodes"]
    square: Float[Array, " nodes"]


def given_score(
    reader: Reader, state: Float[Array, " 5"], setting: Setting, z: Float[Array, " nodes"]
) -> Informative:
    """The averages of `Informative` at standardised scores `z`."""
    _, nu, theta, eta, rho = state
    s, h = setting.token_std, reader.spacing
    still = 0 * z
    m_w, m_u = setting.shift * theta + s * rho * z, s * eta * z
    v_w, v_u = s**2 * (1 - rho**2) + still, s**2 * (1 - eta**2) + still
    value = links.mean(reader.student, m_w, v_w, spacing=h)
    square = links.square(reader.student, m_w, v_w, spacing=h)
    if _same_polynomial(reader):
        along = s**2 * (1 - nu - rho * (rho - eta))  # Cov(w - u, w)
        both = s**2 * (eta - rho) * (eta + rho)  # Cov(w - u, w + u)
        spread = s**2 * (1 + nu - rho * (rho + eta))  # Cov(w + u, w)
        gap, total = setting.shift * theta + s * (rho - eta) * z, m_w + m_u
        error, product = _difference(reader.student, gap, total, m_w, value, along, both, spread)
        return Informative(error, product, value, square)
    c = s**2 * (nu - rho * eta) + still
    shared = links.product(reader.student, reader.task, m_w, m_u, v_w, v_u, c, spacing=h)
    told = links.mean(reader.task, m_u, v_u, spacing=h)
    return Informative(value - told, square - shared, value, square)


def reading_error(
    reader: Reader, state: Float[Array, " 5"], setting: Setting
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """`E (σ(w) - y)²`, the risk of attention that never misses, without label noise; and the size
    of what cancels in it."""
    _, nu, theta, _, _ = state
    s, h = setting.token_std, reader.spacing
    m_w, m_u = setting.shift * theta, 0 * theta
    v = s**2 + 0 * theta
    if _same_polynomial(reader):
        _, c1, c2 = _coefficients(reader.student)
        total = c1**2 + 2 * c1 * c2 * m_w + c2**2 * (m_w**2 + 2 * s**2 * (1 + nu))
        error = (m_w**2 + 2 * s**2 * (1 - nu)) * total
        return error, error
    own = links.square(reader.student, m_w, v, spacing=h)
    label = links.square(reader.task, m_u, v, spacing=h)
    shared = links.product(reader.student, reader.task, m_w, m_u, v, v, v * nu, spacing=h)
    return own - 2 * shared + label, own + 2 * jnp.abs(shared) + label


def score_bends(
    reader: Reader, state: Float[Array, " 5"], setting: Setting
) -> tuple[Float[Array, ""], ...]:
    """Standardised scores at which averages given the score bend, for links with kinks."""
    _, _, theta, eta, rho = state
    s = setting.token_std
    found = bends(reader.student.kinks, setting.shift * theta, s, rho)
    return found + bends(reader.task.kinks, 0.0, s, eta)


def bulk_polynomials(
    link: Link, rho: Float[Array, ""]
) -> tuple[Float[Array, " 3"], Float[Array, " 5"]]:
    """Coefficients in a bulk token's `x·k` of `E[σ(w) | x·k]` and `E[σ(w)² | x·k]`."""
    c0, c1, c2 = _coefficients(link)
    rest = 1 - rho**2
    powers = jnp.stack(  # of E[w^j | s] in s
        [
            jnp.stack([1 + 0 * rho, 0 * rho, 0 * rho, 0 * rho, 0 * rho]),
            jnp.stack([0 * rho, rho, 0 * rho, 0 * rho, 0 * rho]),
            jnp.stack([rest, 0 * rho, rho**2, 0 * rho, 0 * rho]),
            jnp.stack([0 * rho, 3 * rho * rest, 0 * rho, rho**3, 0 * rho]),
            jnp.stack([3 * rest**2, 0 * rho, 6 * rho**2 * rest, 0 * rho, rho**4]),
        ]
    )
    one = jnp.stack([jnp.float64(c) for c in (c0, c1, c2)])
    two = jnp.stack(
        [jnp.float64(c) for c in (c0**2, 2 * c0 * c1, c1**2 + 2 * c0 * c2, 2 * c1 * c2, c2**2)]
    )
    return one @ powers[:3, :3], two @ powers


def _same_polynomial(reader: Reader) -> bool:
    return reader.polynomial and _coefficients(reader.student) == _coefficients(reader.task)


def _coefficients(link: Link) -> tuple[float, float, float]:
    c = (*(link.polynomial or ()), 0.0, 0.0, 0.0)
    return c[0], c[1], c[2]


def _difference(
    link: Link, gap: Any, total: Any, m_w: Any, value: Any, along: Any, both: Any, spread: Any
) -> tuple[Any, Any]:
    """`E D` and `E[D σ(w)]` for `D = σ(w) - σ(u) = δ (c1 + c2 t)`, `δ = w - u`, `t = w + u`: by
    Stein, each factor `δ` is its mean `gap` and a derivative along its covariances with `w`
    (`along`) and `t` (`both`); `spread = Cov(t, w)`."""
    _, c1, c2 = _coefficients(link)
    slope = c1 + 2 * c2 * m_w  # E σ'(w)
    error = gap * (c1 + c2 * total) + c2 * both
    bent = c1 * value + c2 * (total * value + spread * slope)  # E[(c1 + c2 t) σ(w)]
    turned = (c1 + c2 * total) * slope + 2 * c2**2 * spread  # E[(c1 + c2 t) σ'(w)]
    return error, gap * bent + both * c2 * value + along * turned
