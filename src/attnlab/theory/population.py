"""`population_risk`: the one entry to all exact risks."""

from __future__ import annotations

from typing import Any, overload

from .._core.errors import InvalidArgument
from ..students import KernelHeads, MergedAttention, PointwiseAttention, SoftmaxAttention
from ..tasks import InContextRegression, SeveralLocations, SingleLocation
from .attention_risk import AttentionRisk
from .climbing_risk import ClimbingRisk
from .heads_risk import check_one_reading
from .in_context import in_context_risk
from .in_context_general import general_in_context_risk
from .pointwise import pointwise_risk
from .risk import SingleLocationRisk
from .several_locations import several_locations_risk
from .softmax_risk import softmax_risk
from .unnormalised import closed_risk, has_closed_form
from .unnormalised_general import quadrature_risk


@overload
def population_risk(
    task: SingleLocation | SeveralLocations, student: PointwiseAttention | SoftmaxAttention
) -> SingleLocationRisk: ...


@overload
def population_risk(task: InContextRegression, student: KernelHeads) -> ClimbingRisk: ...


@overload
def population_risk(task: InContextRegression, student: MergedAttention) -> AttentionRisk: ...


def population_risk(task: Any, student: Any) -> Any:
    """The exact risk `E (prediction - y)²` of a student on a task, label noise included.

    Picks the most exact method there is and says which: see `risk.method` and `risk.error`. The
    risk of a single-location student is a function of overlaps, that of `KernelHeads` one of heads,
    that of `MergedAttention` one of such layers.

    Raises `InvalidArgument` for a task or student that has no exact theory here.
    """
    if isinstance(task, InContextRegression):
        if isinstance(student, MergedAttention):
            closed = has_closed_form(student.normalization)
            return (closed_risk if closed else quadrature_risk)(task, student)
        if not isinstance(student, KernelHeads):
            allowed = (
                "an attnlab.KernelHeads or students.MergedAttention for this task; sample others"
            )
            raise InvalidArgument("student", student, allowed)
        check_one_reading(student, dim=task.dim, n_outputs=task.n_outputs)
        scalar = student.omega.ndim == 1 or student.omega.shape == student.mu.shape
        if task.covariance is None and scalar:
            return in_context_risk(task, student)
        return general_in_context_risk(task, student)
    if not isinstance(task, SingleLocation | SeveralLocations):
        allowed = "an attnlab.SingleLocation, SeveralLocations or InContextRegression"
        raise InvalidArgument("task", task, allowed)
    if isinstance(student, SoftmaxAttention) and isinstance(task, SingleLocation):
        return softmax_risk(task, student)
    if not isinstance(student, PointwiseAttention):
        softmax = "" if isinstance(task, SeveralLocations) else " or SoftmaxAttention"
        raise InvalidArgument("student", student, f"an attnlab.PointwiseAttention{softmax}")
    if isinstance(task, SeveralLocations):
        return several_locations_risk(task, student)
    return pointwise_risk(task, student)
