"""The risk of an estimator: a number, how it was computed, and how accurate it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class EstimatorRisk:
    """A population risk, label noise included; `float(risk)` is its value.

    - `method`: `"closed form"`, `"quadrature"`, or `"monte carlo"`;
    - `error`: an estimate of the absolute error that does not understate it, or for Monte Carlo
      the standard error.
    """

    value: float
    method: Literal["closed form", "quadrature", "monte carlo"]
    error: float

    def __float__(self) -> float:
        return self.value


def closed_form(*terms: float) -> EstimatorRisk:
    """The sum of a few terms, with a bound on its rounding error."""
    if not all(math.isfinite(term) for term in terms):
        return EstimatorRisk(math.inf, "closed form", 0.0)
    rounding = 1e-14 * sum(abs(term) for term in terms)
    return EstimatorRisk(math.fsum(terms), "closed form", rounding)
