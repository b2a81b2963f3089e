"""The random energy model: what softmax attention does to tokens that carry nothing.

The bulk's logits are `β√d g` with `L = e^{αd}` standard normals `g`. Up to `β_c = √(2α)`
exponentially many tokens share the weight; beyond it the few highest carry all of it
(condensation). Functions of numbers or of arrays that broadcast; float64 whatever the caller's
precision, differentiable by JAX. Source: Section 4.1 of dohmatob2025;
`docs/theory/random-energy-model`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .._core.errors import InvalidArgument, check_real, is_traced
from .._core.precision import float64, to_float64, to_numpy
from .random_energy_levels import bulk_law, node_count

_LARGEST_LOG_NUMBER = 5000.0
_LIMITS: dict[str, dict[str, Any]] = {
    "inverse_temperature": {"low": 0.0, "low_open": True},
    "alpha": {"low": 0.0},
    "kappa": {"low": -1.0, "high": 1.0},
    "signal": {"low": 0.0},
    "token_std": {"low": 0.0, "low_open": True},
    "power": {"low": 0.0, "low_open": True},
    "dim": {"low": 1.0},
    "log_number": {"low": 0.0, "high": _LARGEST_LOG_NUMBER},
}


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Checks arguments by their names, computes in float64, returns NumPy for concrete input."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names):
            raise TypeError(f"{function.__name__} takes {', '.join(names)}")
        given = dict(zip(names, args, strict=False)) | kwargs
        given = {name: check_numbers(name, value) for name, value in given.items()}
        try:
            np.broadcast_shapes(*(np.shape(value) for value in given.values()))
        except ValueError:
            shapes = {name: np.shape(value) for name, value in given.items()}
            raise InvalidArgument("arguments", shapes, "arrays whose shapes broadcast") from None
        with float64():
            return to_numpy(function(**to_float64(given)))

    return wrapper


def check_numbers(name: str, value: Any) -> Any:
    """Every entry of an array argument against the limits of its name; tracers pass."""
    if is_traced(value):
        return value
    if isinstance(value, str | bytes) or np.asarray(value).dtype == object:
        raise InvalidArgument(name, value, "a number or an array of numbers")
    array = np.asarray(value)
    for entry in array.ravel():
        check_real(name, entry, **_LIMITS.get(name, {}))
    return array.astype(np.float64)


@checked
def critical_inverse_temperature(alpha: Float[ArrayLike, "*n"]) -> Float[Array, "*n"]:
    """`β_c = √(2α)`, above which the bulk condenses, for `α = log L / d`.

    Raises `InvalidArgument` for `α < 0`.
    """
    return jnp.sqrt(2 * alpha)


@checked
def free_energy(
    inverse_temperature: Float[ArrayLike, "*#n"], alpha: Float[ArrayLike, "*#n"]
) -> Float[Array, "*n"]:
    """`ψ(β) = lim log Z / (βd)`: `α/β + β/2` up to `β_c`, then `β_c`.

    An informative token is found when its logit exceeds `βdψ`. Raises `InvalidArgument` for
    `β <= 0` or `α < 0`.
    """
    return bulk_free_energy(inverse_temperature, alpha)


@checked
def thermal_average(
    inverse_temperature: Float[ArrayLike, "*#n"], alpha: Float[ArrayLike, "*#n"]
) -> Float[Array, "*n"]:
    """`r(β) = min(β, β_c) = lim ∂_β log Z / d`: the tokens that carry the weight have
    `x·k = r√d`. Raises `InvalidArgument` as `free_energy` does."""
    return jnp.minimum(inverse_temperature, jnp.sqrt(2 * alpha))


@checked
def participation_ratio(
    inverse_temperature: Float[ArrayLike, "*#n"], alpha: Float[ArrayLike, "*#n"]
) -> Float[Array, "*n"]:
    """`lim E Σ q²` of the bulk's weights: `1 - β_c/β` where it is condensed, 0 else.

    The inverse is the number of tokens that share the weight. How fast it vanishes: see
    `participation_rate`. Raises `InvalidArgument` as `free_energy` does.
    """
    return jnp.maximum(1 - jnp.sqrt(2 * alpha) / inverse_temperature, 0.0)


@checked
def participation_rate(
    inverse_temperature: Float[ArrayLike, "*#n"], alpha: Float[ArrayLike, "*#n"]
) -> Float[Array, "*n"]:
    """`-lim (1/d) log E Σ q²`: `α - β²` up to `β_c/√3`, then `(α/β - β/2)²/2` up to `β_c`, then 0.

    In the middle stretch the mean is made by prompts with one rare token as heavy as all others.
    Raises `InvalidArgument` as `free_energy` does.
    """
    beta: Any = inverse_temperature
    b2, rare = beta**2, 0.5 * (alpha / beta - beta / 2) ** 2
    alpha = jnp.asarray(alpha)
    return jnp.where(3 * b2 <= 2 * alpha, alpha - b2, jnp.where(b2 < 2 * alpha, rare, 0.0))


@checked
def typical_participation_rate(
    inverse_temperature: Float[ArrayLike, "*#n"], alpha: Float[ArrayLike, "*#n"]
) -> Float[Array, "*n"]:
    """The same rate of the median `Σ q²`: `α - β²` up to `β_c/2`, then `(β_c - β)²` up to `β_c`,
    then 0. Raises `InvalidArgument` as `free_energy` does."""
    critical = jnp.sqrt(2 * alpha)
    frozen = jnp.maximum(critical - inverse_temperature, 0.0) ** 2
    return jnp.where(2 * inverse_temperature <= critical, alpha - inverse_temperature**2, frozen)


def phase(inverse_temperature: float, alpha: float) -> str:
    """`"uncondensed"` for `β < β_c`, else `"condensed"`.

    Raises `InvalidArgument` for anything but two concrete numbers `β > 0`, `α >= 0`.
    """
    beta = check_real("inverse_temperature", inverse_temperature, low=0.0, low_open=True)
    alpha = check_real("alpha", alpha, low=0.0)
    return "uncondensed" if beta < math.sqrt(2 * alpha) else "condensed"


def learnable(signal: float, alpha: float) -> bool:
    """Whether the oracle finds the informative token as `d → ∞`, at the best `β`: `c > √(2α)`.

    With `c² = 1 - γ²` this reads `1 - γ² > 2α`. The best are all `β >= β_c`, where `ψ` is least.
    Raises `InvalidArgument` for `c < 0` or `α < 0`.
    """
    signal = check_real("signal", signal, low=0.0)
    return signal > math.sqrt(2 * check_real("alpha", alpha, low=0.0))


@checked
def attention_mass(
    kappa: Float[ArrayLike, "*#n"],
    inverse_temperature: Float[ArrayLike, "*#n"],
    signal: Float[ArrayLike, "*#n"],
    alpha: Float[ArrayLike, "*#n"],
    dim: Float[ArrayLike, "*#n"],
) -> Float[Array, "*n"]:
    """`p = 1/(1 + e^{-(cκ - ψ)βd})`, the informative token's typical share at leading order.

    Several places of dohmatob2025 print the exponent with the other sign. Raises `InvalidArgument`
    for `κ` outside [-1, 1], `β <= 0`, `c < 0`, `α < 0`, `d < 1`.
    """
    psi = bulk_free_energy(inverse_temperature, alpha)
    return jax.nn.sigmoid((signal * kappa - psi) * inverse_temperature * dim)


@checked
def typical_maximum(log_number: Float[ArrayLike, "*n"]) -> Float[Array, "*n"]:
    """`a_N` with `N φ(a_N) = a_N`: where the largest of `N` standard normals typically lies.

    `log_number = log N` in [0, 5000]; `a_N² + log a_N² = 2 log N - log 2π`, so `a_N²` is a Lambert
    function. Raises `InvalidArgument` outside.
    """
    return jnp.sqrt(_square_of_maximum(2 * log_number - math.log(2 * math.pi)))


class FiniteRandomEnergy(NamedTuple):
    """A random energy model of finite size; arrays of the arguments' shape.

    - `free_energy`: `E log Z / (βd)`
    - `thermal_average`: `E Σ q_ℓ x_ℓ·k / √d`, which is `β (1 - participation)` exactly
    - `participation`: `E Σ q_ℓ²`
    """

    free_energy: Float[Array, "*n"]
    thermal_average: Float[Array, "*n"]
    participation: Float[Array, "*n"]


def finite_random_energy(
    inverse_temperature: Float[ArrayLike, "*#n"],
    dim: Float[ArrayLike, "*#n"],
    log_number: Float[ArrayLike, "*#n"],
) -> FiniteRandomEnergy:
    """The model of `N = e^{log_number}` levels in closed form, uniformly through the transition.

    One expansion in `1/(β²d)` is cut after its first correction, so that what is left is
    `O(d^-2)` for `log Z` and `O(d^-3)` for the participation, and 1e-3 at worst, for a few levels. Not traceable. Raises `InvalidArgument` for `β <= 0`, `d < 1` or `log N < 0`.
    """
    beta = check_numbers("inverse_temperature", inverse_temperature)
    sizes = check_numbers("dim", dim), check_numbers("log_number", log_number)
    beta, dim, log_number = np.broadcast_arrays(beta, *sizes)
    steepness = beta * np.sqrt(dim)
    each = [node_count(b, n) for b, n in zip(steepness.ravel(), log_number.ravel(), strict=True)]
    with float64():
        parts = _finite(*to_float64((steepness, log_number)), nodes=max(each, default=128))
    mean, participation = to_numpy(parts)
    return FiniteRandomEnergy(mean / (beta * dim), beta * (1 - participation), participation)


@eqx.filter_jit
def _finite(steepness: Any, log_number: Any, *, nodes: int) -> Any:
    law = bulk_law(steepness, log_number, nodes)
    centred = jnp.sum(law.single * (law.tau - law.centre[..., None]), axis=-1)
    return law.centre + centred - np.euler_gamma, jnp.sum(law.double, axis=-1)


def bulk_free_energy(beta: Any, alpha: Any) -> Any:
    """`free_energy` inside a program: no checks."""
    critical = jnp.sqrt(2 * alpha)
    return jnp.where(beta < critical, alpha / beta + beta / 2, critical)


@jax.custom_jvp
def _square_of_maximum(x: Any) -> Any:
    """`w > 0` with `w + log w = x`: Newton in `log w`, which converges from everywhere."""

    def newton(_: Any, u: Any) -> Any:
        return u - (jnp.exp(u) + u - x) / (jnp.exp(u) + 1)

    return jnp.exp(
        jax.lax.fori_loop(0, 12, newton, jnp.where(x > 1, jnp.log(jnp.maximum(x, 1.0)), x))
    )


@_square_of_maximum.defjvp
def _(primals: Any, tangents: Any) -> Any:
    w = _square_of_maximum(*primals)
    return w, w / (1 + w) * tangents[0]
