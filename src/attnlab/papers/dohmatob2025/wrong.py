"""Wrong formulas of this paper that are more than a changed number, for `mutations`."""

from __future__ import annotations

from typing import Any

from .._wrong import wrong_risk


def risk_without_symmetry(right: Any) -> Any:
    """A risk with a slope in ρ, which the reflection does not keep."""
    return lambda *settings: wrong_risk(right(*settings), tilt=1e-3)


def mean_field_too_large(right: Any) -> Any:
    """The mean-field risk 20 % too large, the exact one as it is."""

    def risks(places: Any, dim: Any, std: Any, theory: str, link: str) -> Any:
        return right(places, dim, std, theory, link) * (1.2 if theory == "mean field" else 1.0)

    return risks


def whole_risk(places: Any, dim: float, std: float) -> Any:
    """In place of the printed risk: with the bulk's variance that it drops."""
    from .checks_risk import _risks

    return _risks(places, dim, std, "mean field", "linear")


def most_prompts_first(right: Any) -> Any:
    """Training sets in the opposite order: d/n in place of n/d."""
    return lambda config: right(config).isel(ratio=slice(None, None, -1))
