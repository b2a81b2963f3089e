"""The mean spectrum of a real Wishart matrix at any finite size, as a quadrature rule.

`W = XᵀX` with `X` of shape `(m, d)` and standard normal entries. Averages of linear statistics,
`E tr f(W)`, are one-dimensional integrals over the mean density of the singular values of `X`.
The density is a Pfaffian point process's:

    ρ(t) = Σ_jk φ_j(t) (A⁻¹)_kj ψ_k(t),   ψ_k(t) = ∫ sgn(s-t) φ_k(s) ds,   A_jk = ∫ φ_j ψ_k

for any functions `φ_j(t) = p_j(t²) t^|m-d| e^{-t²/2}` whose polynomials span the degrees below
`n = min(m, d)` (for odd `n`, `ψ_n = 1` joins them). Orthonormal ones keep `A` well conditioned.
Source: `docs/theory/wishart-averages`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .._core.errors import InvalidArgument, check_integer
from .agreement import disagreement

_LARGEST_SIZE = 1000
_LARGEST_FREEDOM = 10**9
_ORDERS = (28, 20, 19)  # Gauss-Legendre nodes in a panel; the last two are for comparison
_TAIL = 9.5  # P(a singular value lies so far beyond its edge) < e^{-45}


class MeanSpectrum(NamedTuple):
    """Nodes `x_i` and weights `w_i` with `E tr f(W) = Σ_i w_i f(x_i) + zeros f(0)`.

    `coarse` are two independent rules for the same average, for the error estimate.
    """

    values: Float[np.ndarray, " nodes"]
    weights: Float[np.ndarray, " nodes"]
    zeros: int
    coarse: tuple[tuple[Float[np.ndarray, " few"], Float[np.ndarray, " few"]], ...]

    def average(self, function: Callable[[Any], Any]) -> tuple[float, float]:
        """`E tr f(W)` and an estimate of its error, for a smooth `f` on `[0, ∞)`."""
        terms = self.weights * function(self.values)
        fixed = self.zeros * float(function(np.zeros(1))[0]) if self.zeros else 0.0
        others = [[float(np.sum(w * function(x)))] for x, w in self.coarse]
        value = float(np.sum(terms))
        largest = float(np.max(self.values, initial=0.0))  # of the order of the larger size
        relative = 1e-14 + 4 * np.finfo(float).eps * math.sqrt(largest)
        rounding = relative * (float(np.sum(np.abs(terms))) + abs(fixed))
        return value + fixed, float(disagreement([value], *others) + rounding)


@functools.lru_cache(maxsize=32)
def mean_spectrum(dim: int, freedom: int) -> MeanSpectrum:
    """The mean spectrum of `XᵀX` for a standard normal `X` of shape `(freedom, dim)`.

    Raises `InvalidArgument` for sizes below 1 (`freedom` may be 0), where the larger of the two
    exceeds 10⁹, or the smaller 1000: use the limit of large sizes there
    (`estimators.proportional`).
    """
    dim = check_integer("dim", dim, minimum=1)
    freedom = check_integer("freedom", freedom, minimum=0)
    size = min(dim, freedom)
    if max(dim, freedom) > _LARGEST_FREEDOM:
        raise InvalidArgument("freedom", freedom, f"at most {_LARGEST_FREEDOM}")
    if size > _LARGEST_SIZE:
        raise InvalidArgument("dim", dim, f"such that min(dim, freedom) <= {_LARGEST_SIZE}")
    if size == 0:
        nothing = np.zeros(0)
        return MeanSpectrum(nothing, nothing, dim, ((nothing, nothing),) * 2)
    fine, *coarse = (_rule(size, max(dim, freedom), order) for order in _ORDERS)
    return MeanSpectrum(*fine, dim - size, tuple(coarse))


def _rule(n: int, m: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import roots_legendre

    unit, weight = roots_legendre(order)
    edges = _panels(n, m)
    half = np.diff(edges)[:, None] / 2
    t = (edges[:-1, None] + half * (unit + 1)).ravel()
    w = (half * weight).ravel()
    phi = _orthonormal(n, m - n, t)
    # integrals from 0 to each node: whole panels before it, and a part of its own
    inside = phi.reshape(n, len(half), order) @ _partial_integrals(unit).T * half
    whole = np.sum(phi.reshape(n, len(half), order) * half * weight, -1)
    before = np.cumsum(whole, -1) - whole
    psi = np.sum(whole, -1)[:, None] - 2 * (before[:, :, None] + inside).reshape(n, -1)
    matrix = (phi * w) @ psi.T
    matrix = (matrix - matrix.T) / 2
    if n % 2:
        border = np.sum(phi * w, -1)[:, None]
        matrix = np.block([[matrix, border], [-border.T, np.zeros((1, 1))]])
        psi = np.concatenate([psi, np.ones((1, len(t)))])
    # ρ = Σ φ_j (A⁻¹)_kj ψ_k = -Σ φ_j (A⁻¹ψ)_j, since A⁻¹ is antisymmetric
    density = -np.sum(phi * np.linalg.solve(matrix, psi)[:n], 0)
    return t**2, w * density


def _panels(n: int, m: int) -> np.ndarray:
    """Panels of three quarters of a wavelength, and ever smaller ones towards a hard edge at 0."""
    low = max(0.0, math.sqrt(m) - math.sqrt(n) - _TAIL)
    high = math.sqrt(m) + math.sqrt(n) + _TAIL
    count = max(8, math.ceil((high - low) * math.sqrt(n) / 3))
    edges = np.linspace(low, high, count + 1)
    if low == 0:
        edges = np.concatenate([[0.0], edges[1] * 0.5 ** np.arange(30, 0, -1), edges[1:]])
    return edges


def _orthonormal(n: int, excess: int, t: np.ndarray) -> np.ndarray:
    """`φ_j(t)` for `j < n`, orthogonal on `(0, ∞)` and of equal norm: Laguerre functions of `t²`
    with index `excess - ½`.

    The recurrence runs with a logarithmic scale for each node: where `φ_0` underflows, later ones
    need not.
    """
    alpha, x = excess - 0.5, t**2
    # a common factor of all functions drops out of the density: φ_0 is 1 at its mode √excess, and
    # written relative to it, since k log t and t²/2 would cancel at large sizes
    log_scale = -x / 2
    if excess > 0:
        u = (t - math.sqrt(excess)) / math.sqrt(excess)
        log_scale = excess * (np.log1p(u) - u - u**2 / 2)
    previous, current = np.zeros_like(t), np.ones_like(t)
    functions = np.empty((n, len(t)))
    for j in range(n):
        functions[j] = current * np.exp(log_scale)
        step = math.sqrt((j + 1) * (j + 1 + alpha))
        back = math.sqrt(j * (j + alpha))
        following = ((x - (2 * j + 1 + alpha)) * current - back * previous) / step
        previous, current = current, following
        size = np.maximum(np.abs(current), np.abs(previous))
        shift = np.where(size > 1e100, 1e-100, 1.0)
        previous, current = previous * shift, current * shift
        log_scale = log_scale - np.log(shift)
    return functions


def _partial_integrals(nodes: np.ndarray) -> np.ndarray:
    """`B_ij` with `∫_{-1}^{x_i} f = Σ_j B_ij f(x_j)` for polynomials through the nodes."""
    from numpy.polynomial import legendre

    count = len(nodes)
    values = legendre.legvander(nodes, count)
    degrees = np.arange(count)
    # ∫ P_k = (P_{k+1} - P_{k-1})/(2k+1), which vanishes at -1 for k >= 1; ∫ P_0 = x + 1
    integrals = np.empty((count, count))
    integrals[:, 0] = nodes + 1
    integrals[:, 1:] = (values[:, 2:] - values[:, :-2]) / (2 * degrees[1:] + 1)
    return np.linalg.solve(values[:, :count].T, integrals.T).T
