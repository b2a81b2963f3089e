"""Kernel heads of which two coalesce: what `a ± ε` with `μ = m/2 ± ν/2ε` tend to, and their risk.

With the scores `s_ℓ = x_ℓ·x_q` and `p(ω) = softmax(ω s)` a pair of heads tends to

    m p(a)·y + ν p'(a)·y,   p'_ℓ(a) = p_ℓ (s_ℓ - Σ p_k s_k),

at `a = 0` to the mean of the labels and a step of debiased gradient descent. No heads are that
predictor; its risk is a limit of risks, and where it is least of all, an infimum that no heads
reach. The risk is quadratic in `μ`, `m`, `ν`. Its matrix holds derivatives of `K(ω, ω')`, the mean
product of two heads' predictions: they are taken of the engine's integrals, whose grids carry none,
so that no small differences are formed. Source: `docs/theory/coalescing-heads`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .._core.errors import InvalidArgument, check_real
from .._core.precision import float64, to_float64, to_numpy
from ..tasks import InContextRegression
from .agreement import disagreement
from .heads_risk import check_isotropic
from .radial import RADII, radial_rule, raised_rule
from .softmax_engine import LADDER, SHIFT, moments, own_terms, pair_term

_FIRST, _TOLERANCE, _REFUSED = 2, 1e-7, 1e-6
_LARGEST_SCORE = 12.0  # of |ω|√d


class CoalescingHeads(NamedTuple):
    """`R(b) = ground - 2 cross·b + bᵀ matrix b`, quadratic in the coefficients `b`.

    They belong to `p(ω_1), ..., p(ω_k), p(a), p'(a)`: `cross` `(k+2,)`, `matrix` `(k+2, k+2)`.
    `error`: estimated, of the least risk.
    """

    ground: float
    cross: Float[np.ndarray, " functions"]
    matrix: Float[np.ndarray, "functions functions"]
    error: float

    def risk(self, coefficients: Float[ArrayLike, " functions"]) -> float:
        """The population risk, label noise included."""
        b = np.asarray(coefficients, np.float64)
        return float(self.ground - 2 * self.cross @ b + b @ self.matrix @ b)

    def least(self) -> tuple[float, Float[np.ndarray, " functions"]]:
        """The least risk over the coefficients, and these."""
        scale = 1 / np.sqrt(np.diag(self.matrix))
        b = scale * np.linalg.solve(self.matrix * np.outer(scale, scale), scale * self.cross)
        return float(self.ground - self.cross @ b), b


def coalescing_heads(
    task: InContextRegression, omega: Float[ArrayLike, " heads"] | tuple[()] = (), at: float = 0.0
) -> CoalescingHeads:
    """The risk of heads `omega` beside a pair that has coalesced at `at`.

    **Arguments:** `omega`: `(k,)`, different from each other and from `at`; none leaves the pair.

    Raises `InvalidArgument` for one example, other covariates than isotropic ones, several tasks,
    heads that coincide, or scores `|ω|√d` beyond 12. Source: `docs/theory/coalescing-heads`.
    """
    check_isotropic(task)
    if task.length < 2:
        raise InvalidArgument(
            "length", task.length, "at least 2: with one example all weights are 1"
        )
    nodes = np.append(np.asarray(omega, np.float64).reshape(-1), check_real("at", at))
    largest = _LARGEST_SCORE / math.sqrt(task.dim)
    if not np.all(np.abs(nodes) <= largest):
        raise InvalidArgument("omega", nodes, f"at most {largest:.3g} in absolute value")
    if len(set(nodes.tolist())) < len(nodes):
        raise InvalidArgument("omega", nodes, "different from each other and from `at`")
    below = _on_rung(task, nodes, _FIRST - 1).least()[0]
    for rung in range(_FIRST, len(RADII)):
        beside = _on_rung(task, nodes, rung - 1, moved=True).least()[0]
        found = _on_rung(task, nodes, rung)
        value = found.least()[0]
        error = disagreement([value], [below], [beside])
        if error <= _TOLERANCE:
            break
        below = value
    if not error <= _REFUSED:
        raise InvalidArgument("omega", nodes, f"smaller: the error estimate is {error:.2g}")
    return found._replace(error=error)


def _on_rung(
    task: InContextRegression, nodes: np.ndarray, rung: int, *, moved: bool = False
) -> CoalescingHeads:
    """With the pair at `nodes[-1]`; `moved`: by another rule of this rung, with other nodes."""
    rule = (raised_rule if moved else radial_rule)(task.dim, RADII[rung])
    share = 1 + task.noise_std**2
    shift = SHIFT if moved else 0.0
    about = (rule.r, rule.weights, float(task.dim), share, math.log(task.length), shift)
    count = len(nodes)
    first, second = np.triu_indices(count)
    with float64():
        rows = [
            _terms(to_float64((w, v)), to_float64(about), rung)
            for w, v in zip(nodes[first], nodes[second], strict=True)
        ]
        c, dc, k, slope, mixed = np.array([to_numpy(row) for row in rows]).T
    last = second == count - 1  # the pairs with `a`, in the order of the first of them
    matrix = np.empty((count + 1, count + 1))
    matrix[first, second] = matrix[second, first] = k
    matrix[-1] = matrix[:, -1] = np.append(slope[last], mixed[last][-1])
    return CoalescingHeads(share, np.append(c[last], dc[last][-1]), matrix, math.inf)


@eqx.filter_jit
def _terms(pair: tuple[Array, Array], about: tuple[Array, ...], rung: int) -> tuple[Array, ...]:
    """`c(w)`, `c'(w)`, `K(w, v)`, `∂K/∂v`, `∂²K/∂w∂v`: `c` is the mean product with the target.

    One program for each pair of heads, whatever their number."""
    (w, v), (r, weights, dim, share, log_length, shift) = pair, about

    def product(w: Any, v: Any, radius: Any) -> tuple[Array, Array]:
        """At one length of the query; of `K` what is more than `share/L`."""
        own, pairs = moments(jnp.stack([w, v]) * radius, log_length, LADDER[rung], shift)
        both = jax.tree.map(lambda x: x[0], pairs)
        left, right = (jax.tree.map(lambda x, k=k: x[k], own) for k in (0, 1))
        square = radius**2 / dim
        form = square * pair_term(w, v, both, left, right) + share * both.excess
        return square * own_terms(w, left)[0], form

    def by_v(w: Any, radius: Any) -> tuple[Array, Array, Array]:
        (c, k), (_, slope) = jax.jvp(lambda v: product(w, v, radius), (v,), (jnp.ones_like(v),))
        return c, k, slope

    def at(radius: Any) -> tuple[Array, ...]:
        along = jnp.ones_like(w)
        (c, k, slope), (dc, _, mixed) = jax.jvp(lambda w: by_v(w, radius), (w,), (along,))
        return c, dc, k, slope, mixed

    c, dc, k, slope, mixed = (weights @ x for x in jax.lax.map(at, r))
    return c, dc, k + share * jnp.exp(-log_length), slope, mixed
