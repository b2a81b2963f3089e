"""Exact risks of many sets of heads at many sizes, from one compiled program for a pair of heads.

The risk is quadratic in `μ` with matrices over pairs of heads: `population_risk` computes them for
one set of heads at one size and climbs until its error estimate is met; the checks here sweep over
thousands of pairs, dimensions and lengths, for which one fixed resolution and one program do.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...tasks import InContextRegression

# the engine's resolution and the number of radii: relative errors below 1e-9 for scores up to about
# 5; a quarter of the time, errors of 1e-6 there; and for scores beyond
USUAL, ROUGH, FINE = (3, 24), (2, 16), (4, 36)
_ROWS = 4  # pairs in one call, always as many, so that nothing is compiled again


class HeadsQuadratic(NamedTuple):
    """`R = 1 + σ² - 2 cross·μ + μᵀ (signal + (1+σ²) overlap) μ` of heads with fixed `ω`.

    `cross` `(H,)`; `overlap` and `signal` `(H, H)`: `E p·p'`, and what else enters the mean square
    of the prediction. None depends on `σ²`.
    """

    cross: np.ndarray
    overlap: np.ndarray
    signal: np.ndarray

    def matrix(self, noise: float) -> np.ndarray:
        """That of the quadratic form in `μ`."""
        return self.signal + (1 + noise) * self.overlap

    def risk(self, mu: np.ndarray, noise: float) -> float:
        """The risk of these heads."""
        return float(1 + noise - 2 * self.cross @ mu + mu @ self.matrix(noise) @ mu)

    def take(self, heads: Any) -> HeadsQuadratic:
        """The same for some of the heads."""
        at = np.asarray(heads)
        return HeadsQuadratic(
            self.cross[at], self.overlap[np.ix_(at, at)], self.signal[np.ix_(at, at)]
        )

    def least(self, noise: float) -> tuple[float, np.ndarray]:
        """The least risk over `μ`, and the `μ` that has it; directions lost to rounding are left."""
        matrix = self.matrix(noise)
        scale = 1 / np.sqrt(np.diag(matrix))
        values, vectors = np.linalg.eigh(matrix * scale * scale[:, None])
        kept = values > 1e-12 * values[-1]
        along = (vectors.T @ (scale * self.cross))[kept]
        mu = scale * (vectors[:, kept] @ (along / values[kept]))
        return float(1 + noise - np.sum(along**2 / values[kept])), mu


def heads_quadratic(
    task: InContextRegression, omega: Any, resolution: tuple[int, int] = USUAL
) -> HeadsQuadratic:
    """All pairs of heads with these `ω` `(H,)`."""
    omega = np.asarray(omega, np.float64)
    count = len(omega)
    if count == 1:
        cross, overlap, signal = single_heads(task, omega)
        return HeadsQuadratic(cross, overlap[:, None], signal[:, None])
    first, second = np.triu_indices(count, 1)
    rows = pair_terms(task, np.stack([omega[first], omega[second]], -1), resolution)
    cross = np.empty(count)
    overlap, signal = np.empty((count, count)), np.empty((count, count))
    for side, at in enumerate((first, second)):
        cross[at] = rows[0][:, side]
        overlap[at, at], signal[at, at] = rows[1][:, side], rows[3][:, side]
    overlap[first, second] = overlap[second, first] = rows[2]
    signal[first, second] = signal[second, first] = rows[4]
    return HeadsQuadratic(cross, overlap + 1 / task.length, signal)


def single_heads(
    task: InContextRegression, omega: Any, resolution: tuple[int, int] = USUAL
) -> tuple[np.ndarray, ...]:
    """`cross`, `overlap` and `signal` of many single heads, each `(n,)`."""
    omega = np.asarray(omega, np.float64)
    # a pair is what the program takes: a second head beside, left out again
    rows = pair_terms(task, np.stack([omega, np.zeros_like(omega)], -1), resolution)
    return rows[0][:, 0], rows[1][:, 0] + 1 / task.length, rows[3][:, 0]


class OppositeHeads(NamedTuple):
    """The exact risk of `ω = (γ, -γ)`, `μ = (η/2γ)(1, -1)` at each `γ`: `1 + σ² - 2ηc + η² q`."""

    cross: np.ndarray
    square: np.ndarray

    def least(self, noise: float) -> tuple[np.ndarray, np.ndarray]:
        """The least risk over `η`, and `η`."""
        eta = self.cross / self.square
        return 1 + noise - eta * self.cross, eta


def opposite_heads(task: InContextRegression, gamma: Any) -> OppositeHeads:
    """`c` and `q` at each `γ > 0`. Smooth functions of `γ²`, also at 0."""
    gamma = np.asarray(gamma, np.float64)
    cross, own, pair, own_signal, pair_signal = pair_terms(task, np.stack([gamma, -gamma], -1))
    # the two overlaps apart from 1/L, which cancels between opposite heads
    spread = own.sum(-1) - 2 * pair
    signal = own_signal.sum(-1) - 2 * pair_signal
    share = 1 + task.noise_std**2
    return OppositeHeads(
        (cross[:, 0] - cross[:, 1]) / (2 * gamma), (signal + share * spread) / (2 * gamma) ** 2
    )


def score_moments(length: int, scales: Any) -> tuple[np.ndarray, np.ndarray]:
    """`E |p|²` and `E (Σ p t)²` of softmax weights `p` of `length` scores `s t`, `t` standard normal,
    for each `s > 0` of `scales`; `E Σ p t` is `s (1 - E |p|²)`."""
    from ..._core.precision import float64

    scales = np.asarray(scales, np.float64)
    rows = np.tile([1.0, 0.0], (_ROWS, 1))
    with float64():
        found = _program(USUAL[0])(rows, scales, np.eye(scales.size), 1.0, math.log(length))
        overlap = np.asarray(found[1])[0, :, 0] + 1 / length
        return overlap, np.asarray(found[3])[0, :, 0] + overlap


def pair_terms(
    task: InContextRegression, omega: np.ndarray, resolution: tuple[int, int] = USUAL
) -> list[np.ndarray]:
    """For each pair `(n, 2)`: `cross` of both heads, their overlaps and that of the pair (each minus 1/L),
    and the signals of both and of the pair."""
    from ..._core.precision import float64
    from ...theory.radial import radial_rule

    r, weights = radial_rule(task.dim, resolution[1])
    size = -(-len(omega) // _ROWS) * _ROWS
    padded = np.concatenate([omega, np.broadcast_to(omega[:1], (size - len(omega), 2))])
    parts = []
    with float64():
        program = _program(resolution[0])
        for rows in padded.reshape(-1, _ROWS, 2):
            found = program(rows, r, weights, float(task.dim), math.log(task.length))
            parts.append([np.asarray(x) for x in found])
    return [np.concatenate(x)[: len(omega)] for x in zip(*parts, strict=True)]


@functools.cache
def _program(rung: int) -> Any:
    import jax
    import jax.numpy as jnp

    from ...theory.softmax_engine import LADDER, moments, own_terms, pair_term

    def at(omega: Any, r: Any, dim: Any, log_length: Any) -> tuple[Any, ...]:
        own, pairs = moments(omega * r, log_length, LADDER[rung])
        pair = jax.tree.map(lambda x: x[0], pairs)
        left, right = (jax.tree.map(lambda x, k=k: x[k], own) for k in (0, 1))
        cross, same = own_terms(omega, own)
        other = pair_term(omega[0], omega[1], pair, left, right)
        square = r**2 / dim
        return square * cross, own.excess, pair.excess, square * same, square * other

    def row(omega: Any, r: Any, weights: Any, dim: Any, log_length: Any) -> list[Any]:
        values = jax.lax.map(lambda x: at(omega, x, dim, log_length), r)
        return [jnp.tensordot(weights, x, 1) for x in values]

    @jax.jit
    def program(omega: Any, r: Any, weights: Any, dim: Any, log_length: Any) -> list[Any]:
        return jax.lax.map(lambda w: row(w, r, weights, dim, log_length), omega)

    return program
