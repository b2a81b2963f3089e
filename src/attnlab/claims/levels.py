"""How small a p-value must be before a claim counts as refuted.

An audit tests many claims at once, each with one or several random samples. Testing each at 5 %
would refute a handful of true ones in every run. So the *family* of all claims has one level:

- `FAMILY_LEVEL = 1 %` bounds the probability that a run over up to `FAMILY_SIZE = 100` claims, all
  of them true, refutes any (Bonferroni: no independence is assumed).
- A claim gets an equal share, `CLAIM_LEVEL = 1e-4`, whichever other claims run beside it: the
  verdict on a claim does not depend on the selection.
- Within a claim the share is split evenly over its checks that have a p-value (`level_per_test`), and a
  check that compares n values at once counts as n tests (its `p_value` is already n times the
  smallest one). With one test a claim is refuted 3.9 standard errors away, with 200 at 5.0.

The price of a small level is paid by precision, not by false confirmations: a check passes only when
its error bar is also narrow enough to have seen a deviation that matters; else it is `undecided`.
"Narrow enough" uses `CONFIDENCE_WIDTH = 2` standard errors.
"""

from __future__ import annotations

FAMILY_LEVEL = 0.01
FAMILY_SIZE = 100
CLAIM_LEVEL = FAMILY_LEVEL / FAMILY_SIZE
CONFIDENCE_WIDTH = 2.0


def level_per_test(tests: int) -> float:
    """Level of each of `tests >= 0` tests of one claim."""
    return CLAIM_LEVEL / max(1, tests)


def family_level(claims: int) -> float:
    """Bound on the probability that `claims` true claims give any false refutation."""
    return min(1.0, claims * CLAIM_LEVEL)
