"""The exact risk of scalar softmax heads on isotropic in-context regression, at any `(d, L)`.

Given `r = |x_q|` the scores of head `h` are `ω_h r s_ℓ` with standard normal `s_ℓ`, so that the
softmax engine gives every moment, and `r` is averaged by Gauss quadrature. With `Q = E p·p'`:

    R = 1 + σ² - 2 Σ μ_h ω_h E[r²/d (1 - Q_hh)]
        + Σ μ_h μ_h' { (1+σ²) E Q + E[r²/d (ω_h ω_h' c - 2 ω_h² c' - 2 ω_h'² c'')] }

with `c, c', c''` moments of the weights (`product_coefficients`). `Q - 1/L` and `(Σ μ_h)²/L` enter
apart, so that opposite heads of tiny `ω` and huge `μ` keep their digits.
Source: Appendix E.2 of he2025; `docs/theory/in-context-loss`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument, is_traced
from ..students import KernelHeads
from ..tasks import InContextRegression
from .heads_risk import HeadsRisk, check_isotropic, check_scalar_heads
from .radial import RadialRule, radial_rule
from .risk import ErrorEstimate
from .softmax_engine import LADDER, HeadMoments, PairMoments, moments, product_coefficients
from .softmax_engine.moments import at_index

if TYPE_CHECKING:
    import xarray

RADII = (12, 16, 24, 36, 52, 72, 100)  # radial nodes beside each rung of the engine's ladder
_DEFAULT_RUNG = 2
_TOLERANCE = 1e-9  # relative: a call climbs until two rungs agree so well
_REFUSED = 1e-6
_ROUNDING = 256 * np.finfo(np.float64).eps
_CHUNK_BYTES = 2**22  # of the tables that exist at once: beyond, caches make derivatives slow
_TABLES = 12  # for each pair of heads


class InContextComponents(NamedTuple):
    """The risk split by where it comes from; the fields add up to it. `p̄ = Σ μ_h p_h`.

    - `target`: `E (β·x_q)²`
    - `cross`: `-2 E (β·x_q)(β·Xᵀp̄)`, what the prediction has in common with the target
    - `signal`: `E (β·Xᵀp̄)²`
    - `context_noise`: `σ² E|p̄|²`, from the noise of the examples
    - `label_noise`: `σ²`, from the noise of the query's response
    """

    target: Float[Array, "*batch"]
    cross: Float[Array, "*batch"]
    signal: Float[Array, "*batch"]
    context_noise: Float[Array, "*batch"]
    label_noise: Float[Array, "*batch"]


class InContextRisk(HeadsRisk):
    """The exact risk of scalar heads on isotropic covariates; see the module for the formula.

    `risk.value` and `risk(heads)` climb a ladder of resolutions until two rungs agree; `value_of`
    and `gradient_of`, for use inside JAX's transformations, stay on the rung that the heads at
    construction needed (at least the default one): compare with `error_of` where scores grow.
    """

    method: ClassVar[str] = "quadrature"
    heads: KernelHeads
    noise_variance: Any
    dim: Any
    log_length: Any
    fine: RadialRule
    coarse: RadialRule
    trivial: bool = eqx.field(static=True)  # one example: all weights are 1
    rung: int = eqx.field(static=True)
    static_dim: int = eqx.field(static=True)

    def at_rung(self, rung: int) -> InContextRisk:
        """The same risk with `value_of` on another rung, `1 <= rung < len(LADDER)`."""
        rules = (radial_rule(self.static_dim, RADII[k]) for k in (rung, rung - 1))
        fine, coarse = rules
        return replace(self, rung=rung, fine=fine, coarse=coarse)

    def components_of(
        self, omega: Float[Array, "*batch heads"], mu: Float[Array, "*batch heads"]
    ) -> InContextComponents:
        """The split risk. Pure, float64, called inside `float64()`."""
        return self._in_batches(
            lambda w, m: self._components(w, m, self.fine, self.rung), omega, mu
        )

    def value_of(
        self, omega: Float[Array, "*batch heads"], mu: Float[Array, "*batch heads"]
    ) -> Float[Array, "*batch"]:
        return sum(self.components_of(omega, mu))  # type: ignore[return-value]

    def error_of(
        self, omega: Float[Array, "*batch heads"], mu: Float[Array, "*batch heads"]
    ) -> Float[Array, "*batch"]:
        """The error estimate of `value_of`, absolute: what the rung below differs by, and
        rounding. Under the same conditions."""
        return self.checked_of(omega, mu)[1]

    def checked_of(
        self, omega: Float[Array, "*batch heads"], mu: Float[Array, "*batch heads"]
    ) -> tuple[Float[Array, "*batch"], Float[Array, "*batch"]]:
        """Value and error estimate together."""

        def both(w: Any, m: Any) -> Any:
            fine = self._components(w, m, self.fine, self.rung)
            coarse = self._components(w, m, self.coarse, self.rung - 1)
            gap = sum(jnp.abs(x - y) for x, y in zip(fine, coarse, strict=True))
            size = 1 + jnp.abs(fine.cross) + fine.signal + fine.context_noise + fine.label_noise
            size += jnp.sum(jnp.abs(w * m)) ** 2
            return sum(fine), gap + _ROUNDING * size

        return self._in_batches(both, omega, mu)

    def __call__(self, heads: KernelHeads) -> Float[Array, "*batch"]:
        """The risk of `heads`, whose `omega` and `mu` have the shape `(*batch, H)`.

        Raises `InvalidArgument` for heads of other kinds, and for scores so large that the finest
        resolution is not enough.
        """
        return self._checked(heads)[0]

    def gradient(self, heads: KernelHeads) -> KernelHeads:
        """Partial derivatives of the risk, in the fields of `KernelHeads`."""
        risk = self if _traced(heads) else self._checked(heads)[2]
        return HeadsRisk.gradient(risk, heads)

    def components(self, heads: KernelHeads | None = None) -> xarray.Dataset:
        """Where the risk of `heads` (default: its own) comes from: one variable per field of
        `InContextComponents`, and `total`. Batch axes are named `run` (`run_0, ...` if several)."""
        import xarray

        heads = self.heads if heads is None else heads
        if _traced(heads):
            allowed = "concrete: a labelled dataset is made outside of jit (see components_of)"
            raise InvalidArgument("heads", heads, allowed)
        parts = self._checked(heads)[2]._apply("components_of", heads)
        rank = jnp.ndim(heads.omega) - 1
        dims = ("run",) if rank == 1 else tuple(f"run_{i}" for i in range(rank))
        data = {name: (dims, value) for name, value in parts._asdict().items()}
        data["total"] = (dims, np.sum(np.stack(list(parts)), axis=0))
        return xarray.Dataset(data, attrs={"method": self.method})

    @property
    def error(self) -> ErrorEstimate:
        """The error estimate of `risk(heads)`, a function of heads; as a number, of its own."""
        return ErrorEstimate(lambda heads: self._checked(heads)[1], reference=lambda: self.heads)

    def _checked(self, heads: KernelHeads) -> tuple[Any, Any, InContextRisk]:
        """Value, error and the rung that gave them; for tracers, this rung's."""
        risk = self
        while True:
            value, error = risk._apply("checked_of", heads)
            if _traced(heads) or (error <= _TOLERANCE * value).all():
                return value, error, risk
            if risk.rung + 1 == len(LADDER):
                break
            risk = risk.at_rung(risk.rung + 1)
        if not (error <= _REFUSED * value).all():
            allowed = f"small enough to be resolved: the estimated error is {np.max(error):.2g}"
            raise InvalidArgument("omega", np.asarray(heads.omega), allowed)
        return value, error, risk

    def _in_batches(self, function: Any, omega: Any, mu: Any) -> Any:
        batch, heads = omega.shape[:-1], omega.shape[-1]
        if not batch:
            return function(omega, mu)
        rows = omega.reshape(-1, heads), mu.reshape(-1, heads)
        values = jax.lax.map(jax.checkpoint(lambda row: function(*row)), rows)
        return jax.tree.map(lambda leaf: leaf.reshape(batch), values)

    def _components(self, omega: Any, mu: Any, radii: RadialRule, rung: int) -> InContextComponents:
        """One set of heads, `(H,)`."""
        first, second = np.triu_indices(omega.shape[0], 1)
        both = mu[first] * mu[second]
        w, v = omega[first], omega[second]

        def at(r: Any) -> Any:
            own, pairs = self._moments(omega * r, rung)
            mixed, left, right = product_coefficients(
                pairs, at_index(own, first), at_index(own, second)
            )
            square = r**2 / self.dim
            cross = square * jnp.sum(mu * omega * (1 - own.square))
            spread = jnp.sum(mu**2 * own.excess) + 2 * jnp.sum(both * pairs.excess)
            # a head with itself: p = p' in the formula of a pair
            same = 1 - own.square - 6 * own.cubic + 6 * own.quartic
            signal = jnp.sum((mu * omega) ** 2 * same)
            signal += 2 * jnp.sum(both * (w * v * mixed - 2 * w**2 * left - 2 * v**2 * right))
            return cross, spread, square * signal

        cross, spread, signal = self._radial_mean(at, radii, len(first), rung)
        spread = spread + jnp.sum(mu) ** 2 * jnp.exp(-self.log_length)
        return InContextComponents(
            jnp.ones(()),
            -2 * cross,
            spread + signal,
            self.noise_variance * spread,
            jnp.asarray(self.noise_variance, jnp.float64),
        )

    def _radial_mean(self, at: Any, radii: RadialRule, pairs: int, rung: int) -> Any:
        """Averages over `r`, in chunks that are computed again for derivatives."""

        def mean(rule: RadialRule) -> list[Any]:
            return [rule.weights @ f for f in jax.vmap(at)(rule.r)]

        table = 8 * _TABLES * LADDER[rung].laplace ** 2 * (pairs + 1)
        chunk = _divisor(len(radii.r), _CHUNK_BYTES / table)
        if chunk == len(radii.r):
            return mean(radii)
        grouped = jax.tree.map(lambda x: x.reshape(-1, chunk), radii)
        return [jnp.sum(x) for x in jax.lax.map(jax.checkpoint(mean), grouped)]

    def _moments(self, scales: Any, rung: int) -> tuple[HeadMoments, PairMoments]:
        if self.trivial:
            one = jnp.ones_like(scales)
            pairs = jnp.ones(len(scales) * (len(scales) - 1) // 2)
            return HeadMoments(one, 0 * one, one, one), PairMoments(pairs, 0 * pairs, *(pairs,) * 6)
        return moments(scales, self.log_length, LADDER[rung])


def in_context_risk(task: InContextRegression, heads: KernelHeads) -> InContextRisk:
    """The exact risk of softmax heads with one `ω_h` and one `μ_h` each on an isotropic task.

    Raises `InvalidArgument` for anything else, or scores too large for the finest resolution.
    """
    check_isotropic(task)
    check_scalar_heads(heads)
    rules = (radial_rule(task.dim, RADII[k]) for k in (_DEFAULT_RUNG, _DEFAULT_RUNG - 1))
    fine, coarse = rules
    risk = InContextRisk(
        heads=heads,
        noise_variance=task.noise_std**2,
        dim=float(task.dim),
        log_length=math.log(task.length),
        fine=fine,
        coarse=coarse,
        trivial=task.length == 1,
        rung=_DEFAULT_RUNG,
        static_dim=task.dim,
    )
    return risk if _traced(heads) else risk._checked(heads)[2]


def _traced(heads: KernelHeads) -> bool:
    return is_traced(heads.omega, heads.mu)


def _divisor(number: int, most: float) -> int:
    return max(k for k in range(1, number + 1) if number % k == 0 and (k <= most or k == 1))
