"""Wrong formulas of this paper that are more than a changed number, for `mutations`."""

from __future__ import annotations

from typing import Any

from .._wrong import wrong_risk


def risk_too_large(right: Any) -> Any:
    """A risk that is 5 % too large, in all its parts."""
    return lambda *settings: wrong_risk(right(*settings), times=1.05)


def risk_without_symmetry(right: Any) -> Any:
    """A risk with a slope in ρ, however small, which the reflection does not keep."""

    def risk_at(*settings: Any) -> tuple[Any, Any]:
        task, risk = right(*settings)
        return task, wrong_risk(risk, tilt=1e-6)

    return risk_at


def swapped_beside(right: Any) -> Any:
    """A swapped point with θ 1 % off."""

    def swapped_minimum(risk: Any, *sizes: Any) -> Any:
        from ...students import Overlaps

        point = right(risk, *sizes)
        return Overlaps(0.0, 0.0, 0.99 * point.theta, 1.0, 0.0)

    return swapped_minimum


def barely_trained(right: Any) -> Any:
    """Training that stops after a tenth of its steps."""

    def train(config: Any, *how: Any, **more: Any) -> Any:
        return right(config.model_copy(update={"steps": config.steps // 10}), *how, **more)

    return train


def cls_at_chance(right: Any) -> Any:
    """Probes of [CLS] that guess."""

    def probed(config: Any) -> Any:
        found = right(config)
        found["accuracy"] = found.accuracy.where(found.place != "[CLS]", 0.5)
        return found

    return probed


def control_is_trained(right: Any) -> Any:
    """A control that is the trained network itself."""

    def probed(config: Any) -> Any:
        found = right(config)
        found["accuracy"] = found.accuracy.where(
            found.network != "untrained", found.accuracy.sel(network="trained", drop=True)
        )
        return found

    return probed


def next_token(right: Any) -> Any:
    """The first word in place of [CLS]."""

    def weights(*where: Any) -> Any:
        selected = right(*where)
        selected[0] = selected[0, [-1, *range(selected.shape[1] - 1)]]
        return selected

    return weights
