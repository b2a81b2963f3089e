"""Exact risks of heads on a ladder of resolutions, climbed until two rungs agree.

Source: `docs/theory/in-context-loss`.
"""

from __future__ import annotations

import abc
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument, check_integer
from ..students import KernelHeads
from .agreement import disagreement
from .heads_risk import HeadsRisk, traced
from .risk import ErrorEstimate

if TYPE_CHECKING:
    import xarray

ROUNDING = 256 * np.finfo(np.float64).eps
STANDARD_ERRORS = 6  # Student's t of 15 degrees of freedom is beyond with probability 2e-5


class InContextComponents(NamedTuple):
    """The risk split by where it comes from; the fields add up to it. `p̄ = Σ μ_h p_h`.

    - `target`: `E (β·x_q)²`
    - `cross`: `-2 E (β·x_q)(β·Xᵀp̄)`, what the prediction has in common with the target
    - `signal`: `E (β·Xᵀp̄)²`
    - `context_noise`: `σ² E|p̄|²`, from the noise of the examples
    - `label_noise`: `σ²`, from the noise of the query's response

    Of several tasks they are the sums over tasks.
    """

    target: Float[Array, "*batch"]
    cross: Float[Array, "*batch"]
    signal: Float[Array, "*batch"]
    context_noise: Float[Array, "*batch"]
    label_noise: Float[Array, "*batch"]


class ClimbingRisk(HeadsRisk):
    """A head risk by quadrature of adjustable resolution, with an error estimate.

    `risk.value` and `risk(heads)` climb until two rungs of the ladder agree. `value_of` and
    `gradient_of`, for use inside JAX's transformations, stay on the rung that the heads at
    construction needed: `error_of` says how good it is elsewhere, `at_rung` takes another, and heads
    that are far too large for it give NaN.
    """

    heads: eqx.AbstractVar[KernelHeads]
    rules: eqx.AbstractVar[tuple[Any, ...]]  # see `evaluated_of`
    rung: eqx.AbstractVar[int]
    rungs: eqx.AbstractClassVar[int]
    tolerance: eqx.AbstractClassVar[float]  # relative: where the climb ends
    refused: eqx.AbstractClassVar[float]  # relative: what the last rung has to reach

    @abc.abstractmethod
    def evaluated_of(
        self, omega: Float[Array, ...], mu: Float[Array, ...], rule: int = 0
    ) -> tuple[InContextComponents, Any]:
        """The split risk and its standard error, 0 where nothing is sampled, by the risk's own rule
        or by one of two for comparison: `rule` 1 is that of the rung below, 2 another of that rung,
        with other nodes. Pure, float64, called inside `float64()`."""

    @abc.abstractmethod
    def _on_rung(self, rung: int) -> Self:
        """The same risk on another rung, which exists."""

    def at_rung(self, rung: int) -> Self:
        """The same risk with `value_of` on another rung, from 0 to `rungs - 1`; nothing is below
        rung 0, so that its error is compared with itself. Raises `InvalidArgument` beyond."""
        return self._on_rung(check_integer("rung", rung, minimum=0, maximum=self.rungs - 1))

    def components_of(self, omega: Float[Array, ...], mu: Float[Array, ...]) -> Any:
        """The split risk, `InContextComponents`, under the same conditions."""
        return self.evaluated_of(omega, mu)[0]

    def value_of(
        self, omega: Float[Array, "*batch heads"], mu: Float[Array, "*batch heads"]
    ) -> Float[Array, "*batch"]:
        """The risk; NaN where this rung cannot resolve the heads (`resolves`)."""
        value = sum(self.components_of(omega, mu))
        return value * jnp.where(self.resolves(omega), 1.0, jnp.nan)

    def resolves(self, omega: Float[Array, ...]) -> Any:
        """Whether this rung is fine enough for heads as large as these, in what is known of it."""
        return jnp.asarray(True)

    def error_of(
        self, omega: Float[Array, "*batch heads"], mu: Float[Array, "*batch heads"]
    ) -> Float[Array, "*batch"]:
        """The error estimate of `value_of`, absolute: what two rules of the rung below differ by,
        rounding, and six standard errors of what is sampled. Under the same conditions."""
        fine, deviation = self.evaluated_of(omega, mu)
        others = [self.evaluated_of(omega, mu, rule)[0] for rule in (1, 2)]
        return _gap(fine, others, omega, mu) + STANDARD_ERRORS * deviation

    def __call__(self, heads: KernelHeads) -> Float[Array, "*batch"]:
        """The risk of `heads`.

        Raises `InvalidArgument` for heads of other kinds, and for scores so large that the finest
        resolution is not enough.
        """
        return self.checked(heads)[0]

    def gradient(self, heads: KernelHeads) -> KernelHeads:
        """Partial derivatives of the risk, in the fields of `KernelHeads`."""
        risk = self if traced(heads) else self.checked(heads)[2]
        return HeadsRisk.gradient(risk, heads)

    def components(self, heads: KernelHeads | None = None) -> xarray.Dataset:
        """Where the risk of `heads` (default: its own) comes from: one variable per field of
        `InContextComponents`, and `total`. Batch axes are named `run` (`run_0, ...` if several)."""
        import xarray

        heads = self.heads if heads is None else heads
        if traced(heads):
            allowed = "concrete: a labelled dataset is made outside of jit (see components_of)"
            raise InvalidArgument("heads", heads, allowed)
        parts = self._climb(heads)[1]
        total = np.sum(np.stack(list(parts)), axis=0)
        dims = ("run",) if total.ndim == 1 else tuple(f"run_{i}" for i in range(total.ndim))
        data = {name: (dims, value) for name, value in parts._asdict().items()}
        data["total"] = (dims, total)
        return xarray.Dataset(data, attrs={"method": self.method})

    @property
    def error(self) -> ErrorEstimate:
        """The error estimate of `risk(heads)`, a function of heads; as a number, of its own."""
        return ErrorEstimate(lambda heads: self.checked(heads)[1], reference=lambda: self.heads)

    def checked(self, heads: KernelHeads) -> tuple[Any, Any, Self]:
        """Value, error estimate, and the risk on the rung that gave them (of tracers: this one).

        Raises `InvalidArgument` as a call does.
        """
        if traced(heads):
            return self._apply("value_of", heads), self._apply("error_of", heads), self
        risk, parts, error = self._climb(heads)
        return sum(parts), error, risk

    def _climb(self, heads: KernelHeads) -> tuple[Self, InContextComponents, Any]:
        risk, below = self, None
        while True:
            parts, gap, deviation = risk.compared(heads, below)
            value, error = sum(parts), gap + STANDARD_ERRORS * deviation
            if (gap <= np.maximum(self.tolerance * value, deviation / 4)).all():
                return risk, parts, error
            if risk.rung + 1 == self.rungs:
                break
            risk, below = risk.at_rung(risk.rung + 1), parts
        if not (gap <= self.refused * value).all():
            worst = np.max(error)
            told = f"the finest quadrature has an estimated error of {worst:.2g}"
            if not np.isfinite(worst):
                told = "the finest quadrature leaves the range of floating point"
            allowed = f"small enough, together with mu, to be resolved: {told}"
            raise InvalidArgument("omega", np.asarray(heads.omega), allowed)
        return risk, parts, error

    def compared(
        self, heads: KernelHeads, below: InContextComponents | None = None
    ) -> tuple[InContextComponents, Any, Any]:
        """The split risk of concrete heads on this rung, what other rules and rounding say of its
        error, and its standard error. `below` is the split risk on the rung below, if it is known;
        one program for each rung serves all that are compared."""
        lower = self.at_rung(max(self.rung - 1, 0))
        if below is None:
            below, _ = lower._with_rule(self.rules[1])._apply("evaluated_of", heads)
        beside, _ = lower._with_rule(self.rules[2])._apply("evaluated_of", heads)
        parts, deviation = self._apply("evaluated_of", heads)
        gap = _gap(parts, [below, beside], np.asarray(heads.omega), np.asarray(heads.mu))
        return parts, gap, deviation

    def _with_rule(self, rule: Any) -> Self:
        """The same risk by another rule of its rung."""
        return replace(self, rules=(rule, *self.rules[1:]))


def _gap(fine: Any, others: Any, omega: Any, mu: Any) -> Any:
    """What other rules differ by, and a bound on rounding; operators of NumPy and JAX alike."""
    size = sum(abs(x) for x in fine)
    rounding = ROUNDING * (size + magnitude(omega, mu) ** 2)
    return disagreement(fine, *others) + rounding


def magnitude(omega: Any, mu: Any) -> Any:
    """`Σ min(|ω_h|, 1) |μ_h|`, the size of what cancels between heads: weights differ from equal ones
    by the order of `ω`, and at most by 1. Of matrices, their largest entries count.

    All axes of `omega` beyond those of heads and batches are reduced, and tasks added up.
    """
    size = abs(omega).clip(None, 1.0)
    if omega.shape == mu.shape:
        return (size * abs(mu)).sum(-1)
    largest = size.reshape(len(omega), -1).max(-1)
    return (largest * abs(mu).reshape(len(mu), -1).T).sum()


def divisor(number: int, most: float) -> int:
    """The largest divisor of `number` that is at most `most`, or 1."""
    return max(k for k in range(1, number + 1) if number % k == 0 and (k <= most or k == 1))
