"""Standard normals in bulk: random bits from a counter, and the normal quantile of each word.

`jax.random.normal` costs more than the attention layer that reads the numbers. Here a word costs
one Threefry-2x32 block of 13 rounds (the fewest that Salmon, Moraes, Dror and Shaw, "Parallel random
numbers: as easy as 1, 2, 3", found to pass all of BigCrush) and a normal one rational function.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

GENERATOR = "Threefry-2x32 of 13 rounds by counter, normal quantile by a rational function"

_F, _U = np.float32, np.uint32
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_ROUNDS = 13
_BLOCKS = 8

# log2(1 + f) / f on [0, 1], to 3e-7
_LOGARITHM = (
    1.44266783, -0.720585467, 0.4735534, -0.325901939, 0.194294271, -0.0795576926, 0.0155299062,
)  # fmt: skip
# quantile / (1 - 2u) as a function of w = -log2(4u(1 - u)) on [0, 31], to 1.2e-7, relatively
_TOP = (1.25331428, 0.313790386, 0.0432057806, 0.00396025796, 0.000231138276, 4.67869064e-06)
_BOTTOM = (1.0, 0.0689049486, 0.0157028045, 0.000761607678, 3.91876269e-05, 1.60894992e-07)


def standard_normals(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, ...]:
    """Independent `N(0, 1)` numbers in float32, for a key of any implementation.

    Number `i` is a function of the key and of `i` alone. The largest is 6.3 in absolute value,
    where the tail has probability 2^-32. At most 2^32 numbers from one key.
    """
    words = seed_words(key)
    width = shape[-1] if shape else 1
    rows = math.prod(shape[:-1])
    each = -(-rows // _BLOCKS)

    def block(first: Any) -> Any:
        # rows stay rows: indices that have to be divided out again would not be vectorised
        row = jax.lax.broadcasted_iota(jnp.uint32, (each, width), 0) + first
        count = row * _U(width) + jax.lax.broadcasted_iota(jnp.uint32, (each, width), 1)
        bits, _ = threefry(words[0], words[1], count, jnp.zeros_like(count), _ROUNDS)
        return _quantile(bits)

    # a loop is a wall to fusion: without it XLA draws all numbers anew for each of their uses
    starts = jnp.arange(_BLOCKS, dtype=jnp.uint32) * _U(each)
    drawn = jax.lax.map(block, starts).reshape(_BLOCKS * each, width)
    return drawn[:rows].reshape(shape)


def threefry(k0: Any, k1: Any, x0: Any, x1: Any, rounds: int) -> tuple[Any, Any]:
    """The Threefry-2x32 block of counter `(x0, x1)` under key `(k0, k1)`.

    Written out, since JAX's own is a loop on the CPU, of far more overhead than work.
    """
    schedule = (k0, k1, k0 ^ k1 ^ _U(0x1BD11BDA))
    x0, x1 = x0 + schedule[0], x1 + schedule[1]
    for i in range(rounds):
        rotation = _ROTATIONS[i // 4 % 2][i % 4]
        x0 = x0 + x1
        x1 = ((x1 << _U(rotation)) | (x1 >> _U(32 - rotation))) ^ x0
        if i % 4 == 3:
            j = i // 4 + 1
            x0, x1 = x0 + schedule[j % 3], x1 + schedule[(j + 1) % 3] + _U(j)
    return x0, x1


def seed_words(key: PRNGKeyArray) -> Any:
    """Two words that stand for a key: its own if it is a Threefry key, else its first bits."""
    if is_threefry(key):
        typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
        return jax.random.key_data(key) if typed else key
    return jax.random.bits(key, (2,), jnp.uint32)


def is_threefry(key: PRNGKeyArray) -> bool:
    """Whether a key is of JAX's default implementation."""
    return str(jax.random.key_impl(key)) == "threefry2x32"


def _quantile(bits: Any) -> Any:
    """The normal quantile: one bit is the sign, the other 31 the tail probability `u < 1/2`."""
    tail = (bits & _U(0x7FFFFFFF)).astype(jnp.int32).astype(jnp.float32)
    four_u = tail * _F(2**-30) + _F(2**-31)
    centred = 1 - four_u * _F(0.5)
    product = jax.lax.bitcast_convert_type(four_u * (1 - four_u * _F(0.25)), jnp.uint32)
    exponent = _F(127) - (product >> _U(23)).astype(jnp.int32).astype(jnp.float32)
    mantissa = (product & _U(0x7FFFFF)) | _U(0x3F800000)
    f = jax.lax.bitcast_convert_type(mantissa, jnp.float32) - 1
    w = exponent - f * _horner(_LOGARITHM, f)
    size = centred * _horner(_TOP, w) / _horner(_BOTTOM, w)
    signed = jax.lax.bitcast_convert_type(size, jnp.uint32) ^ (bits & _U(0x80000000))
    return jax.lax.bitcast_convert_type(signed, jnp.float32)


def _horner(coefficients: tuple[float, ...], x: Any) -> Any:
    value: Any = _F(coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * x + _F(c)
    return value
