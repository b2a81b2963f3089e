"""Whether a link has a Gaussian second moment at all: without one no risk is finite.

Quadrature on a finite range gives some number for any link. Here the integrand `σ² φ` is followed,
in logarithms, out to where the density underflows. Source: `docs/theory/gaussian-averages`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .._core.errors import InvalidArgument
from .._core.precision import float64
from ..tasks import Link

_REACH = 37.0  # standard deviations; the normal density is 1e-298 there
_WITHIN = 9.0  # those that quadrature sees
_LEAKED = 1e-3


def check_square_integrable(link: Link, std: float) -> None:
    """Raises `InvalidArgument` where `E σ(std Z)²` is infinite, or lives beyond nine standard
    deviations."""
    if not _is_square_integrable(link, float(std)):
        allowed = f"one whose square has a finite average under N(0, {std:g}²)"
        raise InvalidArgument("link", link.name, allowed)


@lru_cache(maxsize=256)
def _is_square_integrable(link: Link, std: float) -> bool:
    z = np.linspace(-_REACH, _REACH, 4001)
    with float64(), np.errstate(all="ignore"):
        values = np.abs(np.asarray(link.function(std * z), np.float64))
        logs = 2 * np.log(values) - 0.5 * z**2
    inside = np.abs(z) <= _WITHIN
    if not np.all(np.isfinite(values)):
        return False
    top = np.max(logs[inside])
    if top == -np.inf:
        return bool(np.all(values == 0))
    mass = np.exp(np.clip(logs - top, -745.0, 700.0))
    return bool(np.sum(mass[~inside]) <= _LEAKED * np.sum(mass[inside]))
