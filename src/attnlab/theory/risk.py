"""Population risks as objects: a value, its gradient, its method and its error.

`population_risk(task, student)` picks the method; this module holds what all risks of the
single-location task share. Source: `docs/theory/risks`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from numpy.lib.mixins import NDArrayOperatorsMixin

from .._core.errors import InvalidArgument, check_real, is_traced
from .._core.precision import float64, to_float64, to_numpy
from ..students import Overlaps
from .setting import Components

if TYPE_CHECKING:
    import xarray


class ErrorEstimate(NDArrayOperatorsMixin):
    """How far a risk may be from the exact one: quadrature and rounding together, absolute.

    `error(overlaps)` is the estimate at these overlaps, in the risk's own units. `float(error)` is
    its largest value over a fixed set of realisable overlaps (corners, M, random ones), one number
    for the whole risk, and in arithmetic and comparisons the estimate is that number. Risks of
    other parameters than overlaps bring their own `reference` parameters.
    """

    def __init__(self, pointwise: Callable[[Any], Any], reference: Callable[[], Any] | None = None):
        self._pointwise = pointwise
        self._reference = reference_overlaps if reference is None else reference

    def __call__(self, overlaps: Any) -> Float[np.ndarray, "*runs"]:
        return self._pointwise(overlaps)

    def __float__(self) -> float:
        return float(np.max(np.asarray(self._pointwise(self._reference()))))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(float(self), dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        numbers = [float(x) if isinstance(x, ErrorEstimate) else x for x in inputs]
        return getattr(ufunc, method)(*numbers, **kwargs)

    def __repr__(self) -> str:
        return f"ErrorEstimate({float(self):.3g})"


def reference_overlaps() -> Overlaps:
    """64 realisable overlaps: the corners of M, aligned pairs, and random points of both kinds."""
    corners = [(k, n, 0, 0, 0) for k in (-1, 0, 1) for n in (-1, 0, 1)]
    aligned = [
        (0, 0, 1, 0, 0),
        (1, 0, 1, 0, 1),
        (0, 1, 0, 1, 1),
        (0, 0, 1, 1, 0),
        (0.6, 0.8, 0.6, 0.8, 1),
    ]
    key = jax.random.key(0)
    random = [
        Overlaps.on_sphere(jax.random.fold_in(key, dim), dim, runs=10).stack() for dim in (4, 6, 20)
    ]
    manifold = Overlaps.on_manifold(key, 5, runs=20).stack()
    return Overlaps.unstack(np.concatenate([np.array(corners + aligned, float), *random, manifold]))


class SingleLocationRisk(eqx.Module):
    """A population risk of a single-location student, a function of its overlaps.

    Call it with `Overlaps` of any batch shape: it returns float64, whatever the caller's
    precision (NumPy for numbers; a JAX value inside the caller's own `jit`, `grad`, `vmap`).

    The functions of stacked overlaps take a scale too: None is the risk's own `scale`, for which a
    subclass may have prepared tables; any other is worked out anew.
    """

    method: eqx.AbstractClassVar[str]
    scale: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def components_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Components:
        """The split risk at stacked overlaps. Pure, float64, called inside `float64()`."""

    @abc.abstractmethod
    def error_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Float[Array, "*runs"]:
        """The error estimate at stacked overlaps, under the same conditions."""

    @abc.abstractmethod
    def with_scale(self, scale: Any) -> SingleLocationRisk:
        """The same risk for another, checked scale."""

    def at_scale(self, scale: Float[ArrayLike, "*#runs"]) -> SingleLocationRisk:
        """The same risk for another scale `λ` (or inverse temperature `β`): a positive number, or
        one per run. Raises `InvalidArgument` for anything else."""
        return self.with_scale(scale if is_traced(scale) else positive("scale", scale))

    def resolving(self, scales: Float[ArrayLike, " scales"]) -> SingleLocationRisk:
        """The risk in a form that is accurate at all these scales when they are passed to its
        functions: what a loop with a schedule uses. Most risks are so as they are."""
        return self

    def value_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Float[Array, "*runs"]:
        """The risk at stacked overlaps, under the conditions of `components_of`."""
        return sum(self.components_of(state, scale))  # type: ignore[return-value]

    def gradient_of(
        self, state: Float[Array, "*runs 5"], scale: Any = None
    ) -> Float[Array, "*runs 5"]:
        """Partial derivatives in the five overlaps, under the conditions of `components_of`."""
        return jax.grad(lambda s: jnp.sum(self.value_of(s, scale)))(state)

    def __call__(
        self, overlaps: Overlaps, scale: Float[ArrayLike, "*#runs"] | None = None
    ) -> Float[Array, "*runs"]:
        """The risk, label noise included. `scale` overrides the student's and may be a batch.

        Raises `InvalidArgument` when `overlaps` are not `Overlaps`.
        """
        return self._apply("value_of", overlaps, scale)

    def gradient(self, overlaps: Overlaps) -> Overlaps:
        """Partial derivatives of the risk in the five overlaps, in the fields of an `Overlaps`."""
        return Overlaps.unstack(self._apply("gradient_of", overlaps, None))

    def components(self, overlaps: Overlaps) -> xarray.Dataset:
        """Where the risk comes from: a dataset with one variable per field of `Components`,
        and `total`. Batch axes are named `run` (or `run_0, run_1, ...` when several)."""
        import xarray

        if is_traced(overlaps.kappa):
            allowed = "concrete: a labelled dataset is made outside of jit (see components_of)"
            raise InvalidArgument("overlaps", overlaps, allowed)
        parts = self._apply("components_of", overlaps, None)
        rank = len(overlaps.shape)
        dims = ("run",) if rank == 1 else tuple(f"run_{i}" for i in range(rank))
        data = {name: (dims, value) for name, value in parts._asdict().items()}
        data["total"] = (dims, np.sum(np.stack(list(parts)), axis=0))
        return xarray.Dataset(data, attrs={"method": self.method})

    @property
    def error(self) -> ErrorEstimate:
        """The error estimate; see `ErrorEstimate`."""
        return ErrorEstimate(lambda overlaps: self._apply("error_of", overlaps, None))

    @property
    def teacher(self) -> float:
        """The oracle risk: that of the parameters `(k*, v*)`."""
        return float(self(Overlaps.teacher()))

    def _apply(self, function: str, overlaps: Overlaps, scale: Any) -> Any:
        if not isinstance(overlaps, Overlaps):
            raise InvalidArgument("overlaps", overlaps, "an attnlab.Overlaps")
        if scale is not None and not is_traced(scale):
            scale = _checked_scale(scale, overlaps.shape)
        elif scale is None and not is_traced(self.scale):
            _check_fits(self.scale, overlaps.shape)
        given = (self, overlaps.stack(), scale)
        if function == "value_of" and is_traced(*jax.tree.leaves(given)):
            return _traced_value(given)
        with float64():
            # numbers become arrays, so that a new value is a new argument and not a new program
            risk, state, scale = to_float64(given)
            return to_numpy(_evaluate(risk, function, state, scale))


def _traced_value(given: tuple[SingleLocationRisk, Any, Any]) -> Any:
    """The value for a caller's own transformations. Its derivatives are taken here, in float64: a
    reverse pass would run after this scope is left, in the caller's precision."""
    moving, still = eqx.partition(given, is_traced)
    leaves, tree = jax.tree.flatten(moving)

    def whole(leaves: Any) -> Any:
        return to_float64(eqx.combine(jax.tree.unflatten(tree, leaves), still))

    @jax.custom_jvp
    def value(*leaves: Any) -> Any:
        with float64():
            risk, state, scale = whole(leaves)
            return _evaluate(risk, "value_of", state, scale)

    @value.defjvp
    def derivative(at: Any, along: Any) -> Any:
        with float64():
            risk, state, scale = whole(at)
            answer = _evaluate(risk, "value_of", state, scale)
            slopes = _slopes(to_float64(list(at)), to_float64(still), tree)
            total = jnp.zeros_like(answer)
            for slope, tangent in zip(slopes, to_float64(along), strict=True):
                product = slope * tangent
                total = total + jnp.sum(product, axis=tuple(range(answer.ndim, product.ndim)))
            return answer, total

    return value(*leaves)


@eqx.filter_jit
def _slopes(leaves: list[Any], still: Any, tree: Any) -> list[Any]:
    """Derivatives of the value in each leaf: by run for leaves with one entry a run, such as the
    overlaps, and of all runs for numbers that they share."""

    def value(leaf: Any, index: int) -> Any:
        changed = [*leaves[:index], leaf, *leaves[index + 1 :]]
        risk, state, scale = eqx.combine(jax.tree.unflatten(tree, changed), still)
        return risk.value_of(state, scale)

    slopes = []
    for index, leaf in enumerate(leaves):
        if leaf.ndim:
            slopes.append(jax.grad(lambda x, i=index: jnp.sum(value(x, i)))(leaf))
        else:
            slopes.append(jax.jvp(lambda x, i=index: value(x, i), (leaf,), (jnp.ones(()),))[1])
    return slopes


def _checked_scale(scale: Any, shape: tuple[int, ...]) -> np.ndarray:
    values = positive("scale", scale)
    _check_fits(values, shape)
    return values


def _check_fits(scale: Any, shape: tuple[int, ...]) -> None:
    try:
        np.broadcast_to(scale, shape)
    except ValueError:
        allowed = f"one number, or an array that broadcasts to the overlaps' shape {shape}"
        raise InvalidArgument("scale", scale, allowed) from None


def positive(name: str, value: Any) -> np.ndarray:
    """`value` as an array of positive numbers; raises `InvalidArgument` naming it."""
    array = np.asarray(value)
    if array.size == 0:
        raise InvalidArgument(name, value, "a positive number, or a non-empty array of them")
    for entry in array.ravel():
        check_real(name, entry, low=0.0, low_open=True)
    return array.astype(np.float64)


@eqx.filter_jit
def _evaluate(risk: SingleLocationRisk, function: str, state: Any, scale: Any) -> Any:
    return getattr(risk, function)(state, scale)
