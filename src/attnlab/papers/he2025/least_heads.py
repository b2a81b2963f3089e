"""The least exact risk of up to four heads, as an infimum: with two of them coalescing if need be.

A scan over all choices from a wide grid of `ω` finds where to look, and how the least risk rises
with the largest `|ω|`. Around a choice the risk is a polynomial in the `ω`, exactly differentiable,
in which a search ends. Two heads that coalesce are taken in the limit (`theory.coalescing_heads`),
and opened again to see whether that lowers the risk. Source: `docs/theory/coalescing-heads`.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from ..._core.errors import check_integer
from ..._core.search import GridMinimum, interior_minimum
from ...tasks import InContextRegression
from .exact_heads import FINE, ROUGH, USUAL, heads_quadratic, pair_terms

MOST = 4
# of |ω|√d, beside 0; small ones stand for pairs that are nearly one
GRID = np.array([0.08, 0.25, 0.5, 0.8, 1.2, 1.7, 2.3, 3.0, 3.8, 4.8, 6.0])
_CLOSE = 0.4  # of |ω - ω'|√d in a choice, below which two heads may be about to coalesce
_ROUNDS = 8
_WIDTHS = {
    ROUGH: 0.3,
    USUAL: 0.08,
}  # half-widths of the polynomials: relative for heads, of ω√d for a pair
_NODES = 6
_LARGE = 3.5  # of |ω|√d, beyond which two heads need a finer resolution
_WORST = 1e10  # condition of heads that a scan takes


class LeastHeads(NamedTuple):
    """The least risk found, and where.

    - `omega`: heads that stay apart; `pair`: where two more coalesce, None if none do
    - `coefficients`: of `p(ω_h)`, and of `p` and `p'` at the pair
    - `slope`: the largest derivative of the risk in an `ω√d`, at the best coefficients
    - `curvature`: the least eigenvalue of the second derivatives in `ω√d` and, with a pair, the
      derivative in `ε²d` when it opens to `±ε`: both are positive at a minimum
    - `reach`: the scan's least risk over the largest `|ω|√d`. Where that does not rise again beyond
      its least (`reach.inside`), `risk` is no more than a bound
    """

    risk: float
    omega: np.ndarray
    pair: float | None
    coefficients: np.ndarray
    slope: float
    curvature: float
    opening: float
    reach: GridMinimum
    profile: np.ndarray

    @property
    def minimal(self) -> bool:
        """Whether all conditions of a minimum hold: inside of what was searched and nowhere above the
        scan, no slope, and up in all directions."""
        up = self.curvature > 0 and (self.pair is None or self.opening > 0)
        below = self.risk <= np.nanmin(self.profile)
        return bool(self.reach.inside and below and up and abs(self.slope) < 1e-7)


def least_heads(task: InContextRegression, heads: int, starts: int = 2) -> LeastHeads:
    """The infimum of the exact risk over all `ω` and `μ` of so many heads, 1 to 4; the search begins
    at the best `starts` choices of the scan that are not neighbours."""
    heads = check_integer("heads", heads, minimum=1, maximum=MOST)
    places, profile = _scan(task, heads, starts)
    found = [end for place in places for end in _ends(task, place)]
    best = min(found, key=lambda one: one.risk)
    # heads that are all 0 predict no more than the mean of the labels
    reach = interior_minimum(np.append(0.0, GRID), np.append(1 + task.noise_std**2, profile))
    return best._replace(reach=reach, profile=profile)


@functools.lru_cache(maxsize=2)
def _table(task: InContextRegression) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The grid of `ω`, `c` on it, and the matrix of the form, by the symmetry under `ω -> -ω`."""
    share, root, count = 1 + task.noise_std**2, math.sqrt(task.dim), len(GRID)
    i, j = np.triu_indices(count)
    i, j, sign = np.tile(i, 2), np.tile(j, 2), np.repeat([1, -1], len(i))
    values, first = np.empty(len(i)), np.empty(len(i))
    large = GRID[i] > _LARGE  # and so is the other
    for at, resolution in ((large, FINE), (~large, USUAL)):
        if at.any():
            pairs = np.stack([GRID[i], sign * GRID[j]], -1)[at] / root
            terms = pair_terms(task, pairs, resolution)
            values[at] = terms[4] + share * (terms[2] + 1 / task.length)
            first[at] = terms[0][:, 0]
    form = np.full((2 * count + 1, 2 * count + 1), share / task.length)  # with ω = 0 in the middle
    cross = np.zeros(2 * count + 1)
    for side in (1, -1):
        one, other = count + side * (i + 1), count + side * sign * (j + 1)
        form[one, other] = form[other, one] = values
        cross[one] = side * first
    omega = np.concatenate([-GRID[::-1], [0.0], GRID]) / root
    return omega, cross, form


def _scan(task: InContextRegression, heads: int, count: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Different choices from the grid with the least risks, and the least over the largest `|ω|`."""
    omega, cross, form = _table(task)
    scale = 1 / np.sqrt(np.diag(form))
    form, cross = form * np.outer(scale, scale), cross * scale
    chosen = np.array(list(itertools.combinations(range(len(omega)), heads)))
    matrices, sides = form[chosen[:, :, None], chosen[:, None, :]], cross[chosen]
    values = np.linalg.eigvalsh(matrices)
    good = values[:, 0] > values[:, -1] / _WORST
    chosen, matrices, sides = chosen[good], matrices[good], sides[good]
    solved = np.linalg.solve(matrices, sides[..., None])[..., 0]
    risk = 1 + task.noise_std**2 - np.sum(sides * solved, -1)
    largest = np.abs(chosen - len(GRID)).max(-1)
    profile = [risk[largest == k + 1].min(initial=math.inf) for k in range(len(GRID))]
    starts: list[np.ndarray] = []
    for at in np.argsort(risk):
        place = np.sort(chosen[at])
        mirror = np.sort(2 * len(GRID) - place)
        # neighbours on the grid lead to the same place
        apart = [np.abs(known - p).max() > 2 for known in starts for p in (place, mirror)]
        if all(apart):
            starts.append(place)
        if len(starts) == count:
            break
    return [omega[start] for start in starts], np.where(np.isinf(profile), np.nan, profile)


def _ends(task: InContextRegression, start: np.ndarray) -> list[LeastHeads]:
    """Where searches end that begin there, with the closest two heads as a pair and apart."""
    start = np.sort(start)
    ends, root = [], math.sqrt(task.dim)
    gaps = np.diff(start) * root
    if len(gaps) and gaps.min() < _CLOSE:
        at = int(np.argmin(gaps))
        rest = np.delete(start, [at, at + 1])
        one = _search(task, rest, float(start[at : at + 2].mean()))
        if one is not None:
            ends.append(one)
        if one is None or one.opening > 0:
            return ends
        half = max(gaps[at], 0.15) / (2 * root)
        start = np.sort(np.concatenate([one.omega, one.pair + half * np.array([1, -1])]))
    apart = _search(task, start, None)
    return ends if apart is None else [*ends, apart]


class _Pieces(NamedTuple):
    """The risk near some heads: Chebyshev nodes of each, and `c` and the form at all nodes."""

    centres: np.ndarray
    halves: np.ndarray
    paired: bool
    ground: float
    cross: np.ndarray
    form: np.ndarray

    def rows(self, omega: np.ndarray, order: int) -> np.ndarray:
        """For each head the weights of all nodes in its `p(ω)`, or in a derivative."""
        eye = np.linalg.inv(chebyshev.chebvander(_cosines(), _NODES - 1))
        rows = np.zeros((len(omega), len(self.cross)))
        for h, w in enumerate((omega - self.centres) / self.halves):
            series = chebyshev.chebder(eye, order) if order else eye
            rows[h, h * _NODES : (h + 1) * _NODES] = chebyshev.chebval(w, series)
            rows[h] /= self.halves[h] ** order
        return rows

    def look(self, omega: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, float]:
        """The risk at the best coefficients, these, its gradient, and its slope in `ε²`."""
        rows = [self.rows(omega, order) for order in range(4 if self.paired else 2)]
        functions, last = rows[0], len(omega) - 1
        if self.paired:
            functions = np.vstack([functions, rows[1][last]])
        form, cross = functions @ self.form @ functions.T, functions @ self.cross
        scale = 1 / np.sqrt(np.diag(form))
        b = scale * np.linalg.solve(form * np.outer(scale, scale), scale * cross)
        # at the best coefficients only the change of the functions counts
        rest = -2 * (self.cross - self.form @ (functions.T @ b))
        slope = b[: last + 1] * (rows[1] @ rest)
        opening = math.nan
        if self.paired:
            m, nu = b[last], b[last + 1]
            slope[last] += nu * (rows[2][last] @ rest)
            opening = float((m / 2 * rows[2][last] + nu / 6 * rows[3][last]) @ rest)
        return float(self.ground - cross @ b), b, slope, opening


def _cosines() -> np.ndarray:
    return np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)


def _pieces(
    task: InContextRegression, omega: np.ndarray, paired: bool, resolution: tuple[int, int]
) -> _Pieces:
    root = math.sqrt(task.dim)
    halves = _WIDTHS[resolution] * np.maximum(np.abs(omega), 1 / root)
    nodes = (omega[:, None] + halves[:, None] * _cosines()).ravel()
    table = heads_quadratic(task, nodes, resolution)
    noise = task.noise_std**2
    return _Pieces(omega, halves, paired, 1 + noise, table.cross, table.matrix(noise))


def _in_units(x: np.ndarray, pieces: Any, root: float) -> tuple[float, np.ndarray]:
    """The risk and its gradient in `x = ω√d`."""
    value, _, slope, _ = pieces.look(x / root)
    return value, slope / root


def _search(task: InContextRegression, free: np.ndarray, pair: float | None) -> LeastHeads | None:
    """A minimum near these heads; None where it runs away or two heads meet that are no pair."""
    from scipy.optimize import minimize

    root, paired = math.sqrt(task.dim), pair is not None
    omega = np.append(free, pair) if pair is not None else free
    options: Any = {"ftol": 1e-16, "gtol": 1e-10, "maxiter": 500}
    resolution = ROUGH
    for _ in range(_ROUNDS):
        pieces = _pieces(task, omega, paired, resolution)
        limits: Any = np.stack([omega - pieces.halves, omega + pieces.halves], -1) * root
        found: Any = minimize(
            _in_units, omega * root, (pieces, root), jac=True, method="L-BFGS-B", bounds=limits,
            options=options,
        )  # fmt: skip
        moved = np.abs(found.x / root - omega) / pieces.halves
        omega = found.x / root
        if (moved < 0.9).all():
            if resolution == USUAL:
                break
            resolution = USUAL
    else:
        return None
    others = np.sort(omega)
    if np.min(np.diff(others), initial=math.inf) * root < 0.02:
        return None
    value, b, slope, opening = pieces.look(omega)
    step = 1e-4
    hessian = np.array([
        (_in_units(found.x + move, pieces, root)[1] - _in_units(found.x - move, pieces, root)[1])
        / (2 * step)
        for move in step * np.eye(len(omega))
    ])  # fmt: skip
    return LeastHeads(
        value, omega[: len(free)], float(omega[-1]) if paired else None, b,
        float(np.abs(slope).max() / root), float(np.linalg.eigvalsh((hessian + hessian.T) / 2)[0]),
        opening / task.dim, interior_minimum(np.zeros(1), np.zeros(1)), np.empty(0),
    )  # fmt: skip
