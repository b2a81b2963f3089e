"""Activations: the scalar functions that pointwise attention applies to a scaled score `λ x·k`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .._core.errors import InvalidArgument, check_choice
from ..tasks.links import check_scalar_function


@dataclass(frozen=True)
class Activation:
    """A scalar function of the scaled score.

    **Fields:** `name`; `function` (elementwise, traceable by JAX); `kinks`, the points where the
    function or its slope jumps (a step is allowed: risks differentiate the Gaussian density,
    never the activation); `width`, the scale over which the function varies around the origin.
    """

    name: str
    function: Callable[[Any], Any]
    kinks: tuple[float, ...] = ()
    width: float = 1.0

    def __call__(self, x: Any) -> Any:
        return self.function(x)


_ACTIVATIONS: dict[str, Activation] = {}


def register_activation(
    name: str,
    function: Callable[[Any], Any],
    *,
    kinks: tuple[float, ...] = (),
    width: float = 1.0,
    overwrite: bool = False,
) -> Activation:
    """Makes a plain JAX function usable as `activation="name"`; see `Activation`.

    Raises `InvalidArgument` when the name is taken and `overwrite` is False.
    """
    check_scalar_function("activation", name, function, kinks, width)
    if name in _ACTIVATIONS and not overwrite:
        allowed = "a name not yet taken, or pass overwrite=True"
        raise InvalidArgument("activation name", name, allowed)
    activation = Activation(name, function, tuple(kinks), float(width))
    _ACTIVATIONS[name] = activation
    return activation


def get_activation(activation: str | Activation) -> Activation:
    """The activation of that name, or `activation` itself when it is one already."""
    if isinstance(activation, Activation):
        return activation
    return _ACTIVATIONS[check_choice("activation", activation, _ACTIVATIONS)]


def activation_names() -> tuple[str, ...]:
    """Names of all registered activations."""
    return tuple(sorted(_ACTIVATIONS))


def _sigmoid_centred(x: Any) -> Any:
    return jnp.tanh(x / 2)


def _softsign(x: Any) -> Any:
    return x / (1 + jnp.abs(x))


register_activation("erf", jax.scipy.special.erf)
register_activation("tanh", jnp.tanh)
register_activation("sigmoid-centred", _sigmoid_centred, width=2.0)
register_activation("arctan", jnp.arctan)
register_activation("softsign", _softsign, kinks=(0.0,))
register_activation("hard-tanh", lambda x: jnp.clip(x, -1.0, 1.0), kinks=(-1.0, 1.0))
register_activation("sign", jnp.sign, kinks=(0.0,))
register_activation("linear", lambda x: x)
register_activation("relu", jax.nn.relu, kinks=(0.0,))
register_activation("gelu", lambda x: jax.nn.gelu(x, approximate=False))
