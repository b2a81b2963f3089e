"""Links: the scalar functions that a task or a student applies to a projection `x·v`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .._core.errors import InvalidArgument, check_choice, check_real

ScalarFunction = Callable[[Any], Any]


@dataclass(frozen=True)
class Link:
    """A scalar function `σ` of a projection, and what is known of its Gaussian averages.

    **Fields:**

    - `name`: how it is looked up.
    - `function`: elementwise, traceable by JAX.
    - `kinks`: the points where the function or its slope jumps; quadrature splits there.
    - `width`: distance from the real axis to the nearest singularity of the function, in units
      of its argument (π/2 for tanh). It sets how fine the quadrature grid is.
    - `polynomial`: coefficients `(c0, c1, ...)` when the function is a polynomial of degree at
      most 2, for closed-form averages.
    - `gaussian_mean`: `(m, v) -> E σ(m + √v Z)` when known in closed form, else None.
    - `gaussian_square`: `(m, v) -> E σ(m + √v Z)²` when known in closed form, else None.

    The averages must be differentiable in both arguments, the variance `v = 0` included.
    """

    name: str
    function: ScalarFunction
    kinks: tuple[float, ...] = ()
    width: float = 1.0
    polynomial: tuple[float, ...] | None = None
    gaussian_mean: Callable[[Any, Any], Any] | None = None
    gaussian_square: Callable[[Any, Any], Any] | None = None

    def __call__(self, x: Any) -> Any:
        return self.function(x)


_LINKS: dict[str, Link] = {}


def check_scalar_function(kind: str, name: Any, function: Any, kinks: Any, width: Any) -> None:
    """Shared argument check of links and activations; raises `InvalidArgument`."""
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"{kind} name", name, "a non-empty string")
    if not callable(function):
        raise InvalidArgument(f"{kind} function", function, "an elementwise function of an array")
    check_real(f"{kind} width", width, low=0.0, low_open=True)
    for kink in kinks:
        check_real(f"{kind} kinks", kink)


def register_link(
    name: str,
    function: ScalarFunction,
    *,
    kinks: tuple[float, ...] = (),
    width: float = 1.0,
    polynomial: tuple[float, ...] | None = None,
    gaussian_mean: Callable[[Any, Any], Any] | None = None,
    gaussian_square: Callable[[Any, Any], Any] | None = None,
    overwrite: bool = False,
) -> Link:
    """Makes a plain JAX function usable as `link="name"`; see `Link` for the fields.

    Raises `InvalidArgument` when the name is taken and `overwrite` is False.
    """
    check_scalar_function("link", name, function, kinks, width)
    if name in _LINKS and not overwrite:
        raise InvalidArgument("link name", name, "a name not yet taken, or pass overwrite=True")
    if polynomial is not None and not 1 <= len(polynomial) <= 3:
        raise InvalidArgument("link polynomial", polynomial, "one to three coefficients")
    link = Link(
        name, function, tuple(kinks), float(width), polynomial, gaussian_mean, gaussian_square
    )
    _LINKS[name] = link
    return link


def get_link(link: str | Link) -> Link:
    """The link of that name, or `link` itself when it is one already."""
    if isinstance(link, Link):
        return link
    return _LINKS[check_choice("link", link, _LINKS)]


def link_names() -> tuple[str, ...]:
    """Names of all registered links."""
    return tuple(sorted(_LINKS))


register_link("linear", lambda x: x, polynomial=(0.0, 1.0))
register_link("quadratic", lambda x: x * x, polynomial=(0.0, 0.0, 1.0))
register_link("tanh", jnp.tanh, width=jnp.pi / 2)
register_link("relu", jax.nn.relu, kinks=(0.0,))
register_link("erf", jax.scipy.special.erf, width=1.5)
