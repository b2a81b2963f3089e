"""The exact risk for linear links as a table in `κ`, for thousands of descents at a time.

With linear links the risk is a quadratic form in the value vector, so that

    R = a0 + a1 ρ² + 2 a2 ρθ + a3 θ² - 2 (b0 ν + b1 ηρ + b2 ηθ) + γ² + ε²

with seven functions of `κ` alone, entire and as smooth as `c√d κ/γ`. They are read off the exact risk
at Chebyshev points and kept as polynomials of degree 7 on even pieces. All tables have one shape,
so that all settings share their programs.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._core.precision import float64, to_float64, to_numpy
from ...students import Overlaps
from ...theory import SingleLocationRisk
from ...theory.setting import Components
from .exact import Sizes, at_size, resolving_risk

_PIECES = 256
_DEGREE = 7
_POINTS = 257  # Chebyshev points of the fit
# values of (ν, θ, η, ρ) at which the seven functions are read off
_PROBES = np.array(
    [
        [0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.5],
        [0.0, 0.5, 0.0, 0.5],
        [0.0, 0.5, 0.0, 0.0],
        [0.5, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.5, 0.5],
        [0.0, 0.5, 0.5, 0.0],
    ]
)


def _monomials(nu: Any, theta: Any, eta: Any, rho: Any) -> list[Any]:
    """What the seven functions of `κ` multiply."""
    one = 1.0 + 0.0 * nu
    return [one, rho**2, 2 * rho * theta, theta**2, -2 * nu, -2 * eta * rho, -2 * eta * theta]


class TabulatedRisk(SingleLocationRisk):
    """An exact risk with linear links, its value and gradient from a table."""

    method: ClassVar[str] = "interpolation"
    exact: SingleLocationRisk
    pieces: Float[Array, "pieces order functions"]
    scale: Any

    def value_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Float[Array, "*runs"]:
        if scale is not None:
            return self.exact.value_of(state, scale)
        kappa, nu, theta, eta, rho = jnp.moveaxis(state, -1, 0)
        place = 0.5 * (kappa + 1) * _PIECES
        piece = jnp.clip(jnp.floor(place), 0, _PIECES - 1).astype(int)
        within = 2 * (place - piece) - 1
        rows = self.pieces[piece]
        total = rows[..., -1, :]
        for order in range(_DEGREE - 1, -1, -1):
            total = total * within[..., None] + rows[..., order, :]
        return jnp.sum(total * jnp.stack(_monomials(nu, theta, eta, rho), -1), axis=-1)

    def components_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Components:
        return self.exact.components_of(state, scale)

    def error_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Float[Array, "*runs"]:
        gap = jnp.abs(self.value_of(state, scale) - self.exact.value_of(state, scale))
        return self.exact.error_of(state, scale) + gap

    def with_scale(self, scale: Any) -> TabulatedRisk:
        return tabulated(self.exact.with_scale(scale))


def tabulated(exact: SingleLocationRisk) -> TabulatedRisk:
    """The table of an exact risk with linear links (unchecked: others are no quadratic forms)."""
    kappa = np.cos(np.pi * (np.arange(_POINTS) + 0.5) / _POINTS)
    rows = np.empty((_POINTS, len(_PROBES), 5))
    rows[..., 0] = kappa[:, None]
    rows[..., 1:] = _PROBES
    values = np.asarray(exact(Overlaps.unstack(rows)))
    functions = np.linalg.solve(np.array(_monomials(*_PROBES.T)).T, values.T).T
    fine = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    centres = (np.arange(_PIECES) + 0.5) * 2 / _PIECES - 1
    nodes = _interpolate(kappa, (centres[:, None] + fine / _PIECES).ravel()) @ functions
    local = np.linalg.inv(np.vander(fine, increasing=True))
    pieces = local @ nodes.reshape(_PIECES, _DEGREE + 1, -1)
    return TabulatedRisk(exact=exact, pieces=pieces, scale=np.float64(np.asarray(exact.scale)))


def _interpolate(points: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The matrix that takes values at Chebyshev points to those at other places."""
    whole, onto = (np.polynomial.chebyshev.chebvander(x, _POINTS - 1) for x in (points, places))
    return onto @ np.linalg.inv(whole)


def tables(sizes: Sizes) -> list[TabulatedRisk]:
    """The tables of all `sizes` (flattened), through one program of the exact risk."""
    rows = sizes.rows()
    with float64():
        risk = to_float64(resolving_risk(rows, "exact", "linear"))
        sized = [to_numpy(at_size(risk, row)) for row in rows]
    return [tabulated(each) for each in sized]
