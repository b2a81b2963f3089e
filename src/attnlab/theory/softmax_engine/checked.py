"""The engine's moments as numbers with an error estimate, at a resolution found by climbing.

Each rung of a ladder of resolutions is compared with the one below and with that one on moved
grids, which have nothing in common with its own. The climb ends when they agree; what they differ
by is the error estimate. It is that of the lower rung, so it does not understate the error of the
value, which is the upper rung's. Source: `docs/theory/softmax-engine`.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from ..._core.errors import InvalidArgument, check_real
from ..._core.precision import float64, to_float64, to_numpy
from ..agreement import disagreement
from .grids import LADDER, SHIFT, Resolution
from .moments import HeadMoments, PairMoments, at_index, moments

_ROUNDING = 64 * np.finfo(np.float64).eps
_LARGEST_LOG_LENGTH = 600.0


class Values(NamedTuple):
    """Four moments of `p(a) = softmax(a s)` and `p(b)` on the same `L` standard normal scores `s`.

    - `overlap`: `Q(a, b) = E p(a)·p(b)`; `excess`: the same minus `1/L`, with its own digits
    - `mean`: `M1(a) = E Σ p_ℓ(a) s_ℓ`
    - `second`: `M11(a, b) = E (Σ p_ℓ(a) s_ℓ)(Σ p_ℓ(b) s_ℓ)`
    """

    overlap: Float[ArrayLike, "*shape"]
    excess: Float[ArrayLike, "*shape"]
    mean: Float[ArrayLike, "*shape"]
    second: Float[ArrayLike, "*shape"]


class SoftmaxMoments(NamedTuple):
    """The moments of `Values`, NumPy float64, and `error`: their absolute error estimates."""

    overlap: Float[np.ndarray, "*shape"]
    excess: Float[np.ndarray, "*shape"]
    mean: Float[np.ndarray, "*shape"]
    second: Float[np.ndarray, "*shape"]
    error: Values


class ProductCoefficients(NamedTuple):
    """`E[pᵀXXᵀp'] = tr Σ · Q + w·w' mixed - 2 |w|² left - 2 |w'|² right` (see `product_terms`)."""

    mixed: Float[ArrayLike, "*shape"]
    left: Float[ArrayLike, "*shape"]
    right: Float[ArrayLike, "*shape"]


def product_coefficients(
    pair: PairMoments, left: HeadMoments, right: HeadMoments
) -> ProductCoefficients:
    """The moments by which Stein's lemma turns `E[pᵀXXᵀp']` into inner products of the scores'
    directions: Lemma E.2 of he2025 for any covariance; `docs/theory/softmax-engine`."""
    mixed = 1 - left.square - right.square + pair.squares
    mixed += pair.product - pair.left_cubic - pair.right_cubic + pair.product_squared
    return ProductCoefficients(
        mixed, pair.left_cubic - pair.left_quartic, pair.right_cubic - pair.right_quartic
    )


def own_terms(omega: Any, own: HeadMoments) -> tuple[Any, Any]:
    """Of heads with scores `ω x_q·x`, isotropic `x`: `E x_qᵀXᵀp` and `E|Xᵀp|² - d E|p|²`, each over
    `|x_q|²`. Source: `docs/theory/in-context-loss`."""
    # a head with itself: p = p' in the formula of a pair
    return omega * (1 - own.square), omega**2 * (1 - own.square - 6 * own.cubic + 6 * own.quartic)


def pair_term(w: Any, v: Any, pair: PairMoments, left: HeadMoments, right: HeadMoments) -> Any:
    """Of two heads, with `w x_q·x` and `v x_q·x`: `E pᵀXXᵀp' - d E p·p'` over `|x_q|²`."""
    mixed, first, second = product_coefficients(pair, left, right)
    return w * v * mixed - 2 * w**2 * first - 2 * v**2 * second


def softmax_moments(
    a: Float[ArrayLike, "*#shape"],
    b: Float[ArrayLike, "*#shape"],
    log_length: float,
    *,
    rtol: float = 1e-10,
) -> SoftmaxMoments:
    """The moments for scores `a s` and `b s`, float64 with error estimates.

    `a`, `b` are real, of either sign and any broadcastable shapes; `log_length` is `log L`, of
    any `L >= 2`. Raises `InvalidArgument` when no resolution reaches the relative accuracy `rtol`
    in `Q` and `M11`, as happens for scores far beyond 10 at a small length.
    """
    log_length = check_real(
        "log_length", log_length, low=math.log(2) * (1 - 1e-15), high=_LARGEST_LOG_LENGTH
    )
    rtol = check_real("rtol", rtol, low=1e-13)
    a, b = _scores("a", a), _scores("b", b)
    try:
        a, b = np.broadcast_arrays(a, b)
    except ValueError:
        raise InvalidArgument("b", b, f"of a shape that broadcasts to a's, {a.shape}") from None
    shape = a.shape
    with float64():
        a_rows, b_rows, log_l = to_float64((a.ravel(), b.ravel(), log_length))
        shifts = to_float64((0.0, SHIFT))
        below, _ = to_numpy(_evaluate(a_rows, b_rows, log_l, LADDER[0], shifts[0]))
        for lower, resolution in itertools.pairwise(LADDER):
            beside, _ = to_numpy(_evaluate(a_rows, b_rows, log_l, lower, shifts[1]))
            value, sizes = to_numpy(_evaluate(a_rows, b_rows, log_l, resolution, shifts[0]))
            error = jax.tree.map(
                lambda x, y, z, size: disagreement([x], [y], [z]) + _ROUNDING * size,
                value, below, beside, sizes,
            )  # fmt: skip
            scale = np.abs(value.second) + math.exp(-log_length)
            good = (error.overlap <= rtol * value.overlap) & (error.second <= rtol * scale)
            if good.all():
                break
            below = value
    if not good.all():
        worst = int(np.argmin(good))
        allowed = f"a score scale that the finest grids resolve to rtol = {rtol:g} at log L = "
        allowed += f"{log_length:g}, which they do not beside b = {b.ravel()[worst]:g}"
        raise InvalidArgument("a", float(a.ravel()[worst]), allowed)
    return jax.tree.map(
        lambda x: np.asarray(x).reshape(shape), SoftmaxMoments(error=error, **value._asdict())
    )


@eqx.filter_jit
def _evaluate(a: Any, b: Any, log_length: Any, resolution: Resolution, shift: Any) -> Any:
    """The moments, and the sizes of the terms they are made of, to which rounding is relative."""

    def one(row: Any) -> tuple[Values, Values]:
        a, b = row
        heads, pairs = moments(row, log_length, resolution, shift)
        left, right, pair = at_index(heads, 0), at_index(heads, 1), at_index(pairs, 0)
        mixed, first, other = product_coefficients(pair, left, right)
        second = pair.product + a * b * mixed - 2 * a**2 * first - 2 * b**2 * other
        size = pair.product + jnp.abs(a * b)
        size += 2 * a**2 * pair.left_cubic + 2 * b**2 * pair.right_cubic
        value = Values(pair.product, pair.excess, a * (1 - left.square), second)
        return value, Values(pair.product, jnp.abs(pair.excess), jnp.abs(a), size)

    return jax.lax.map(one, jnp.stack([a, b], axis=-1))


def _scores(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value, np.float64)
        good = bool(np.isfinite(array).all()) and array.size > 0
    except (TypeError, ValueError):
        good = False
    if not good:
        raise InvalidArgument(name, value, "finite numbers")
    return array
