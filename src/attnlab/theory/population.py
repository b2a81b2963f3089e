"""`population_risk`: the one entry to all exact risks."""

from __future__ import annotations

from typing import Any

from .._core.errors import InvalidArgument
from ..students import PointwiseAttention
from ..tasks import SingleLocation
from .pointwise import pointwise_risk
from .risk import SingleLocationRisk


def population_risk(task: Any, student: Any) -> SingleLocationRisk:
    """The exact risk `E (prediction - y)²` of a student on a task, label noise included.

    Picks the most exact method there is and says which: see `risk.method` and `risk.error`.

    Raises `InvalidArgument` for a task or student that has no exact theory here.
    """
    if not isinstance(task, SingleLocation):
        raise InvalidArgument("task", task, "an attnlab.SingleLocation")
    if not isinstance(student, PointwiseAttention):
        raise InvalidArgument("student", student, "an attnlab.PointwiseAttention")
    return pointwise_risk(task, student)
