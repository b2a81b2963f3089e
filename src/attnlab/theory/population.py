"""`population_risk`: the one entry to all exact risks."""

from __future__ import annotations

from typing import Any

from .._core.errors import InvalidArgument
from ..students import PointwiseAttention
from ..tasks import SeveralLocations, SingleLocation
from .pointwise import pointwise_risk
from .risk import SingleLocationRisk
from .several_locations import several_locations_risk


def population_risk(task: Any, student: Any) -> SingleLocationRisk:
    """The exact risk `E (prediction - y)²` of a student on a task, label noise included.

    Picks the most exact method there is and says which: see `risk.method` and `risk.error`.

    Raises `InvalidArgument` for a task or student that has no exact theory here.
    """
    if not isinstance(task, SingleLocation | SeveralLocations):
        raise InvalidArgument("task", task, "an attnlab.SingleLocation or SeveralLocations")
    if not isinstance(student, PointwiseAttention):
        raise InvalidArgument("student", student, "an attnlab.PointwiseAttention")
    if isinstance(task, SeveralLocations):
        return several_locations_risk(task, student)
    return pointwise_risk(task, student)
