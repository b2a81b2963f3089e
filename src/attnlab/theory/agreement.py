"""How far a quadrature may be off, from rules of other nodes.

Two rules can agree by chance: their errors have a sign, and cross zero somewhere. So a value is
compared with two coarser rules whose nodes have nothing in common with its own or with each other,
term by term, and the larger difference counts, times a safety factor. The rules converge
exponentially, so that the difference is in effect the error of a coarser rule.
Source: `docs/theory/quadrature`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

SAFETY = 2.0


def disagreement(value: Iterable[Any], *others: Iterable[Any]) -> Any:
    """The error estimate of the sum of the terms `value`, given the same terms by two (or more)
    independent, coarser rules: `SAFETY` times the largest `Σ |value_i - other_i|`.

    Terms are arrays of one shape, NumPy or JAX; so is the result. Rounding is not in it.
    """
    terms = list(value)
    gaps = [sum(abs(x - y) for x, y in zip(terms, other, strict=True)) for other in others]
    largest = gaps[0]
    for gap in gaps[1:]:
        largest = (largest + gap + abs(largest - gap)) / 2  # the maximum; NaN stays NaN
    return SAFETY * largest
