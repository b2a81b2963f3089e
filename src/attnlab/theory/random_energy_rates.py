"""At which exponential rate the informative token's attention vanishes, or what is missing of it.

A typical prompt has the rate of the printed sigmoid, `β|cκ - ψ|`. The mean over prompts is made by
rare ones, in which the informative token's logit lies off its mean by `O(d)` or one token of the
bulk reaches a level that typically no token has; its rate is smaller. With `m = cκ`:

    E p^q       exp -d sup_v { v(ψ - m) - v²γ²/2 },                     0 <= v <= qβ    (dark, m < ψ)
    E (1-p)^q   exp -d min( sup_v { v(m - ψ) - v²γ²/2 },                0 <= v <= qβ
                            sup_u { um - α - u²(1 + γ²)/2 } ),          0 <= u <= qβ    (m > ψ)

the second branch where its `u` is at least `ψ`. Source: `docs/theory/random-energy-model`.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from .random_energy import bulk_free_energy, checked


@checked
def mass_rate(
    kappa: Float[ArrayLike, "*#n"],
    inverse_temperature: Float[ArrayLike, "*#n"],
    signal: Float[ArrayLike, "*#n"],
    token_std: Float[ArrayLike, "*#n"],
    alpha: Float[ArrayLike, "*#n"],
    power: Float[ArrayLike, "*#n"] = 1.0,
) -> Float[Array, "*n"]:
    """`-lim (1/d) log E p^q` for `q = power`; 0 unless `cκ < ψ` (the dark phase).

    Raises `InvalidArgument` for `κ` outside [-1, 1], `β <= 0`, `c < 0`, `γ <= 0`, `α < 0`, `q <= 0`.
    """
    gap = jnp.maximum(bulk_free_energy(inverse_temperature, alpha) - signal * kappa, 0.0)
    return _fluctuating_logit(gap, power * inverse_temperature, token_std)


@checked
def missing_mass_rate(
    kappa: Float[ArrayLike, "*#n"],
    inverse_temperature: Float[ArrayLike, "*#n"],
    signal: Float[ArrayLike, "*#n"],
    token_std: Float[ArrayLike, "*#n"],
    alpha: Float[ArrayLike, "*#n"],
    power: Float[ArrayLike, "*#n"] = 1.0,
) -> Float[Array, "*n"]:
    """`-lim (1/d) log E (1 - p)^q` for `q = power`; 0 unless `cκ > ψ` (retrieval).

    At `κ = 1` and `q = 2` this is the rate at which the oracle's risk falls to the label noise, for
    the linear link. Raises `InvalidArgument` as `mass_rate` does.
    """
    psi, centre = bulk_free_energy(inverse_temperature, alpha), signal * kappa
    cold, spread = power * inverse_temperature, jnp.asarray(1 + token_std**2)
    typical = _fluctuating_logit(jnp.maximum(centre - psi, 0.0), cold, token_std)
    level = jnp.minimum(cold, centre / spread)
    rare = level * centre - alpha - 0.5 * level**2 * spread
    return jnp.where(level >= psi, jnp.minimum(typical, rare), typical)


@checked
def largest_missing_mass_rate(
    kappa: Float[ArrayLike, "*#n"],
    signal: Float[ArrayLike, "*#n"],
    token_std: Float[ArrayLike, "*#n"],
    alpha: Float[ArrayLike, "*#n"],
) -> Float[Array, "*n"]:
    """The rate of `missing_mass_rate` at low temperature, whatever the power: that at which the
    informative token has not the largest score. No `β` does better, for powers of at least 1.

    `(cκ)²/(2(1+γ²)) - α` where `cκ >= (1+γ²)√(2α)`, else `(cκ - √(2α))²/(2γ²)`. Raises
    `InvalidArgument` as `mass_rate` does.
    """
    centre, critical = signal * kappa, jnp.sqrt(2 * alpha)
    gap = jnp.maximum(centre - critical, 0.0)
    spread = jnp.asarray(1 + token_std**2)
    confused = 0.5 * centre**2 / spread - alpha
    return jnp.where(centre >= spread * critical, confused, 0.5 * (gap / token_std) ** 2)


@checked
def typical_rate(
    kappa: Float[ArrayLike, "*#n"],
    inverse_temperature: Float[ArrayLike, "*#n"],
    signal: Float[ArrayLike, "*#n"],
    alpha: Float[ArrayLike, "*#n"],
) -> Float[Array, "*n"]:
    """`β|cκ - ψ|`, the printed sigmoid's: the rate of the median `p` in the dark phase and of the
    median `1 - p` in retrieval. Raises `InvalidArgument` as `mass_rate` does."""
    gap = signal * kappa - bulk_free_energy(inverse_temperature, alpha)
    return jnp.abs(inverse_temperature * gap)


def _fluctuating_logit(gap: Any, cold: Any, token_std: Any) -> Any:
    """`sup_{0 <= v <= cold} { v gap - v²γ²/2 }`."""
    v = jnp.minimum(cold, gap / token_std**2)
    return v * gap - 0.5 * (v * token_std) ** 2
