"""Gauss quadrature for the length `r = |z|` of a standard Gaussian vector in `R^d`.

`n` nodes integrate polynomials of `r` up to degree `2n - 1` against the density of `χ_d`. The
classical Gauss-Laguerre rule in `r²` spreads its nodes far into the tail; these lie where functions
of `r` that grow no faster than powers have their mass. Source: `docs/theory/in-context-loss`.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

RADII = (12, 16, 24, 36, 52, 72, 100)  # nodes beside the rungs of the softmax engine's ladder
_RARE = 1e-20
_REACH = 12.0  # around the mode, beyond which less than e^-72 of the mass lies


class RadialRule(NamedTuple):
    """Nodes `r` of `|z|`, `z ~ N(0, I_d)`, and weights that add up to 1."""

    r: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]


@functools.cache
def radial_rule(dim: int, count: int) -> RadialRule:
    """The Gauss rule of `count` nodes for `χ_d`, by the Lanczos process on a fine discretisation."""
    mode = math.sqrt(max(dim - 1, 0))
    low, high = max(0.0, mode - _REACH), mode + _REACH
    x, fine = _fine_nodes()
    x = low + (high - low) * (x + 1) / 2
    log_density = (dim - 1) * np.log(x) - x**2 / 2
    mass = fine * np.exp(log_density - log_density.max())
    start = np.sqrt(mass / mass.sum())
    basis, diagonal, off = [start], [], []
    for _ in range(count):
        vector = (x - mode) * basis[-1]
        diagonal.append(vector @ basis[-1])
        for _ in range(2):  # in full, twice: the recurrence alone loses orthogonality
            for known in basis:
                vector = vector - (known @ vector) * known
        off.append(np.linalg.norm(vector))
        basis.append(vector / off[-1])
    jacobi = np.diag(diagonal) + np.diag(off[:-1], 1) + np.diag(off[:-1], -1)
    nodes, vectors = np.linalg.eigh(jacobi)
    r, weights = nodes + mode, vectors[0] ** 2
    # a radius that rare counts for nothing, and its scores would be the hardest of all
    return RadialRule(np.minimum(r, r[weights > _RARE].max()), weights)


def raised_rule(dim: int, count: int) -> RadialRule:
    """Another rule of as many nodes, unrelated to the first, for averages of `f(r) = O(r²)`: the
    Gauss rule of `χ_{d+2}`, whose density is `r²/d` times that of `χ_d`."""
    above = radial_rule(dim + 2, count)
    return RadialRule(above.r, above.weights * dim / above.r**2)


@functools.cache
def _fine_nodes(panels: int = 20, order: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on `[-1, 1]`, to rounding (a single rule of many nodes loses digits)."""
    x, weights = np.polynomial.legendre.leggauss(order)
    starts = -1 + 2 * np.arange(panels)[:, None] / panels
    return (starts + (x + 1) / panels).ravel(), np.tile(weights / panels, panels)
