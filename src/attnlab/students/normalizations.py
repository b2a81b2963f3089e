"""Normalisations: how a head turns its scores into weights on the context.

Source: eq. (2.2), Appendices B.1 (linear against softmax) and B.2 (`f/Σf`) of he2025;
`docs/theory/multi-head-attention`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core.errors import InvalidArgument, check_choice, check_flag, check_real
from .activations import Activation, get_activation

_GRID = np.linspace(-50.0, 50.0, 20_001, dtype=np.float32)
_USUAL = 10.0  # scores beyond are rare enough that an f may underflow there


@dataclass(frozen=True)
class Normalization:
    """A map from the scores of one query to the weights of the context.

    **Fields:** `name`; `function`, `(scores, axis) -> weights`; `slope`, the first-order coefficient
    `C_f` in `weights ≈ (1 + C_f (score - mean score)) / L` at small scores, None where the weights
    have no such expansion; `sums_to_one`, whether the weights of a query add up to 1; `activation`,
    the function `g` of one score of which the weights are `g(s_ℓ)/L`, or `g(s_ℓ)` as it is unless
    `over_length`; None for other weights; `logarithm`, `log f` of one score for weights `f/Σf` that
    are computed as the softmax of it, None for those that are not.
    """

    name: str
    function: Callable[[Any, int], Any]
    slope: float | None = None
    sums_to_one: bool = True
    activation: Activation | None = None
    over_length: bool = True
    logarithm: Callable[[Any], Any] | None = None

    def weights(self, scores: Any, axis: int = -1, where: Any = None) -> Any:
        """Weights for `scores`; entries where the mask `where` is False get weight 0.

        A query that may look at nothing has weights 0 throughout, with zero gradients.
        """
        if where is None:
            return self.function(scores, axis)
        return _masked(self, scores, axis, where)


def _masked(normalization: Normalization, scores: Any, axis: int, where: Any) -> Any:
    """Scores are masked before the function sees them, logarithms by -∞; a fully masked query is
    computed on zeros and then set to 0, which keeps its gradients finite."""
    some = jnp.any(where, axis=axis, keepdims=True)
    if normalization.logarithm is not None:
        logarithms = normalization.logarithm(jnp.where(where, scores, 0.0))
        hidden = jnp.where(where | ~some, logarithms, -jnp.inf)
        return jnp.where(where & some, jax.nn.softmax(hidden, axis=axis), 0.0)
    seen = jnp.where(where, scores, 0.0)
    if not normalization.sums_to_one:
        # the mean is over what can be seen
        count = jnp.maximum(jnp.sum(where, axis=axis, keepdims=True), 1)
        share = jnp.shape(scores)[axis] / count if normalization.over_length else 1.0
        return jnp.where(where, normalization.function(seen, axis) * share, 0.0)
    raw = jnp.where(where, normalization.function(seen, axis), 0.0)
    total = jnp.sum(raw, axis=axis, keepdims=True)
    return jnp.where(where & some, raw / jnp.where(some, total, 1.0), 0.0)


def normalized_activation(
    function: Callable[[Any], Any],
    *,
    name: str | None = None,
    sum_can_vanish: bool = False,
) -> Normalization:
    """Weights `f(s_ℓ) / Σ_k f(s_k)` for a plain JAX function `f` of one score.

    `f` has to be positive, so that the sum cannot vanish: it is looked at between -50 and 50. An
    `f` that does take other values, such as `1 + Cx`, is accepted with `sum_can_vanish=True`; its
    predictions have no second moment then, since `1/Σf` is not square-integrable where the sum
    passes through zero, however rarely that is seen in samples.

    Raises `InvalidArgument` otherwise, and when `f(0)` is not positive.
    """
    if not callable(function):
        raise InvalidArgument("function", function, "a function of one score, traceable by JAX")
    name = getattr(function, "__name__", "activation") if name is None else name
    with jax.ensure_compile_time_eval():  # numbers, also where a caller is being traced
        values, at_zero, slope = _looked_at(function, name)
    least = int(np.argmin(values))
    # an isolated zero is met with probability 0, a stretch of them is not
    stretch = np.count_nonzero(values[np.abs(_GRID) <= _USUAL] == 0.0) > 2
    cannot_vanish = values[least] >= 0.0 and (at_zero == 0.0 or not stretch)
    if not cannot_vanish and not sum_can_vanish:
        allowed = (
            f"positive, so that Σf cannot vanish; f({_GRID[least]:.3g}) = {values[least]:.3g} "
            "(sum_can_vanish=True accepts it)"
        )
        raise InvalidArgument("function", name, allowed)
    if not at_zero > 0:
        raise InvalidArgument("function", name, f"positive at 0; f(0) = {at_zero:.3g}")

    def weights(scores: Any, axis: int) -> Any:
        raw = function(scores)
        return raw / jnp.sum(raw, axis=axis, keepdims=True)

    return Normalization(name, weights, slope / at_zero)


def _looked_at(function: Callable[[Any], Any], name: str) -> tuple[np.ndarray, float, float]:
    """Values on the grid, value at 0 and slope at 0; raises `InvalidArgument`."""
    zero = jnp.zeros(())
    try:
        values = np.asarray(jax.vmap(function)(jnp.asarray(_GRID)))
        if values.shape != _GRID.shape or np.isnan(values).any():
            raise InvalidArgument("function", name, "finite, and a number for each score")
        return values, float(function(zero)), float(jax.grad(lambda x: function(x))(zero))
    except InvalidArgument:
        raise
    except (TypeError, ValueError, IndexError) as error:  # what JAX raises for other functions
        told = f"a function of one score, traceable by JAX; calling it raised: {error}"
        raise InvalidArgument("function", name, told.splitlines()[0]) from error


def affine(C: float) -> Normalization:
    """`f(x) = 1 + C x`, `C > 0`; the sum can vanish (see `normalized_activation`)."""
    return _affine(check_real("C", C, low=0.0, low_open=True))


def squared_affine(C: float) -> Normalization:
    """`f(x) = (1 + C x)²`, `C > 0`."""
    return _squared_affine(check_real("C", C, low=0.0, low_open=True))


@cache
def _affine(C: float) -> Normalization:
    return normalized_activation(lambda x: 1 + C * x, name=f"1 + {C:g}x", sum_can_vanish=True)


@cache
def _squared_affine(C: float) -> Normalization:
    return normalized_activation(lambda x: (1 + C * x) ** 2, name=f"(1 + {C:g}x)²")


@cache
def one_plus_tanh() -> Normalization:
    """`f(x) = 1 + tanh x`, by its logarithm, which never underflows: `log sigmoid(2x) + log 2`."""

    def logarithm(scores: Any) -> Any:
        return jax.nn.log_sigmoid(2 * scores)

    plain = normalized_activation(lambda x: 2 * jax.nn.sigmoid(2 * x), name="1 + tanh x")
    return replace(
        plain,
        function=lambda s, axis: jax.nn.softmax(logarithm(s), axis=axis),
        logarithm=logarithm,
    )


def elementwise(activation: str | Activation, *, over_length: bool = True) -> Normalization:
    """Weights `g(s_ℓ)/L` for an activation `g`, or `g(s_ℓ)` without the `1/L` of the length.

    **Arguments:** `activation`: a registered name, `"exp"`, or an `Activation`; `over_length`.
    Raises `InvalidArgument`. Source: ahn2023 (`1/n`), its note on ReLU attention (without).
    """
    if not isinstance(activation, str | Activation):
        raise InvalidArgument("activation", activation, "a name or an Activation")
    known = _EXP if activation == "exp" else get_activation(activation)
    return _elementwise(known, check_flag("over_length", over_length))


@cache
def _elementwise(activation: Activation, over_length: bool) -> Normalization:
    def weights(scores: Any, axis: int) -> Any:
        raw = activation(scores)
        return raw / jnp.shape(scores)[axis] if over_length else raw

    name = activation.name if over_length else f"{activation.name}-sum"
    return Normalization(
        name, weights, sums_to_one=False, activation=activation, over_length=over_length
    )


_EXP = Activation("exp", jnp.exp)  # no activation of a risk on overlaps: its tails are too heavy

# One object each: a new function would be a new compiled program.
_SOFTMAX = Normalization(
    "softmax", lambda s, axis: jax.nn.softmax(s, axis=axis), 1.0, logarithm=lambda s: s
)
_NORMALIZATIONS: dict[str, Callable[[], Normalization]] = {
    "softmax": lambda: _SOFTMAX,
    "one-plus-tanh": one_plus_tanh,
}
for _name in ("linear", "relu", "tanh", "exp", "gelu"):
    _NORMALIZATIONS[_name] = partial(elementwise, _name)
    _NORMALIZATIONS[f"{_name}-sum"] = partial(elementwise, _name, over_length=False)


def get_normalization(normalization: str | Normalization) -> Normalization:
    """The normalisation of that name, or `normalization` itself when it is one already.

    Raises `InvalidArgument` for an unknown name.
    """
    if isinstance(normalization, Normalization):
        return normalization
    return _NORMALIZATIONS[check_choice("normalization", normalization, _NORMALIZATIONS)]()


def normalization_names() -> tuple[str, ...]:
    """Names that `get_normalization` knows."""
    return tuple(sorted(_NORMALIZATIONS))
