"""The risk on M for the linear link, which two functions of `κ` determine.

On M the value `w = x·v` is independent of the scores, so

    R = γ² (1 - 2ν E p + E p²) + E Σ_bulk p² + ε² .

Slopes along the edges `ν = ±1` then decide all of the dynamics on M. Source:
`docs/theory/softmax-landscape`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .exact import Sizes, Theory, over_sizes

_POINTS = 256


class ManifoldFunctions(NamedTuple):
    """Arrays `(size, kappa)`, but for `share` and `token_variance`, `(size,)`.

    - `rise`: `R_ν / γ² = -2 E p`;
    - `upper_slope`, `lower_slope`: `R_κ` on `ν = 1` and on `ν = -1`;
    - `share`: bulk's `E Σ q²`, from `R` at `κ = -1`, where attention is all on the bulk;
    - `token_variance`: `γ²`.
    """

    rise: Any
    upper_slope: Any
    lower_slope: Any
    share: Any
    token_variance: Any


def edges(sizes: Sizes, kappa: np.ndarray, theory: Theory = "exact") -> tuple[Any, Any]:
    """The risk on `ν = 1` and on `ν = -1`, `(size, kappa)` each."""
    count = len(kappa)
    states = np.zeros((2 * count, 5))
    states[:, 0] = np.tile(kappa, 2)
    states[:, 1] = np.repeat([1.0, -1.0], count)
    rows = sizes.rows()
    everywhere = np.broadcast_to(states, (len(rows), *states.shape))
    values = over_sizes("value_of", rows, everywhere, theory)
    return values[:, :count], values[:, count:]


def manifold_functions(sizes: Sizes, kappa: np.ndarray) -> ManifoldFunctions:
    """The slopes of the exact risk on M at all `sizes` and `kappa`, good to 1e-9: those of its
    values at Chebyshev points."""
    from numpy.polynomial import chebyshev

    points = np.cos(np.pi * (np.arange(_POINTS) + 0.5) / _POINTS)
    # orthogonality of the polynomials inverts the transform
    basis = chebyshev.chebvander(points, _POINTS - 1) * 2 / _POINTS
    basis[:, 0] /= 2
    upper, lower = (_chopped(values @ basis) for values in edges(sizes, points))
    variance = sizes.rows()[:, 3] ** 2

    def at(series: np.ndarray, where: Any) -> np.ndarray:
        return np.asarray(chebyshev.chebval(where, series.T))

    return ManifoldFunctions(
        rise=at((upper - lower) / 2, kappa) / variance[:, None],
        upper_slope=at(chebyshev.chebder(upper, axis=1), kappa),
        lower_slope=at(chebyshev.chebder(lower, axis=1), kappa),
        share=at((upper + lower) / 2, -1.0) - variance,
        token_variance=variance,
    )


def _chopped(series: np.ndarray) -> np.ndarray:
    """Series without their tails of rounding, which a derivative would multiply by up to `n²`."""
    counts = np.abs(series) > 2e-13 * np.abs(series).max(axis=1, keepdims=True)
    last = series.shape[1] - 1 - np.argmax(counts[:, ::-1], axis=1)
    return np.where(np.arange(series.shape[1]) <= last[:, None], series, 0.0)


def escape_times(functions: ManifoldFunctions, kappa: np.ndarray, level: float = 0.5) -> np.ndarray:
    """Time of the exact flow on M from `κ = ν = 0` until `ν = level`, for each size; infinite
    where rounding hides the slopes or it exceeds 1e12."""
    from scipy.integrate import solve_ivp

    def reached(_: float, state: np.ndarray) -> float:
        return state[1] - level

    reached.terminal = True  # type: ignore[attr-defined]
    found = []
    for rise, upper, lower, _, variance in zip(*functions, strict=True):

        def flow(_: float, state: np.ndarray, edges: Any = (rise, upper, lower, variance)) -> Any:
            k, n = state
            lift, high, low = (np.interp(k, kappa, part) for part in edges[:3])
            slope = 0.5 * ((1 + n) * high + (1 - n) * low)  # R is linear in ν
            return [-(1 - k**2) * slope, -(1 - n**2) * edges[3] * lift]

        hidden = -np.interp(0.0, kappa, rise) < 1e-12
        end = None
        if not hidden:
            end = solve_ivp(
                flow, (0, 1e12), [0.0, 0.0], "LSODA", events=reached, rtol=1e-5, atol=1e-8
            )
        events: Any = [] if end is None else end.t_events
        found.append(events[0][0] if len(events) and events[0].size else np.inf)
    return np.array(found)
