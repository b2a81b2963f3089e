"""What no student of single-location regression can beat.

Source: Theorem 1 of marion2025; `docs/theory/baselines`.
"""

from __future__ import annotations

from ..tasks import SingleLocation
from ..tasks.single_location import check_single_location


def known_location_bayes_risk(task: SingleLocation) -> float:
    """Bayes risk of an oracle that is told the informative token: the label noise `ε²`.

    Given `x_informative`, the label is `σ(x·v*) + ε ξ` and the oracle reads the first term off. No
    predictor of the prompt alone can do better; marion2025 shows that attention reaches it as
    `d -> ∞`.
    """
    return float(check_single_location(task).noise_std) ** 2
