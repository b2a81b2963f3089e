"""Gradient flow of two heads from a small opposite start, on the approximate and the exact loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from ..._core.search import interior_minimum
from .theory_setting import SizeConfig, swept

if TYPE_CHECKING:
    import xarray

    from .two_head_flow import Valley

LOSSES = ("approximate", "exact")
EARLY = 20.0  # the time that early panels show
_NODES = (
    32  # of the polynomials that stand for the exact loss: relative errors about 1e-9 at d = 10
)


class FlowConfig(SizeConfig):
    """The flow from ω = μ = (α, -α), on half the loss; nothing here is sampled."""

    start: float = Field(1e-3, gt=0, lt=0.1, description="α")
    end_time: float = Field(1e6, ge=100, le=1e14, description="time at which the flow ends")
    points: int = Field(
        400, ge=50, le=100_000, description="times until 20, and from there to the end"
    )


def run(config: FlowConfig) -> xarray.Dataset:
    """`phi`, `rho`, `phi_star`, `risk`, `exponent` on `(loss, time)`; peaks, ends of phases and
    minimisers on `loss`; both laws of decay on `time`."""
    import xarray

    from .least_risk import best_opposite
    from .two_head_flow import approximate_valley, exact_valley, follow, printed_decay, slow_decay

    task = config.own_task()
    late = np.geomspace(EARLY * 1.02, config.end_time, config.points)
    time = np.concatenate([EARLY * np.arange(1, config.points + 1) / config.points, late])

    def at(loss: str) -> dict[str, Any]:
        valley = (
            approximate_valley(task) if loss == "approximate" else exact_valley(task, nodes=_NODES)
        )
        phi, rho = follow(valley, (config.start, config.start), time)[1:]
        return _along(valley, config, time, phi, rho)

    def together(found: list[dict[str, Any]]) -> xarray.Dataset:
        data: dict[str, Any] = {
            name: (("loss", "time")[: np.ndim(found[0][name]) + 1], [each[name] for each in found])
            for name in found[0]
        }
        data["slow_decay"] = ("time", slow_decay(task, time))
        data["printed_decay"] = ("time", printed_decay(task, time))
        step = 1 / (1 + (1 + config.noise_var) * config.dim / config.length)
        attrs = {"dim": config.dim, "length": config.length, "noise_var": config.noise_var}
        attrs |= {"start": config.start, "step": step}
        best = best_opposite(task)
        attrs |= {"minimum": best.gamma, "minimum_step": best.eta}
        coords = {"loss": list(LOSSES[: len(found)]), "time": time}
        return xarray.Dataset(data, coords=coords, attrs=attrs)

    return swept("gradient flow", LOSSES, at, together)


def _along(
    valley: Valley, config: FlowConfig, time: np.ndarray, phi: np.ndarray, rho: np.ndarray
) -> dict[str, Any]:
    """What the figure shows of one flow."""
    terms = np.array([valley.terms(u)[:2] for u in (rho**2).tolist()])
    c, q = terms.T
    eta = 2 * phi * rho
    peak = interior_minimum(time, -rho)  # NaN where ϱ still grows at the end
    # phase I ends when dϱ² = 1/4, eq. (D.10), phase II with the peak
    grown = rho >= 0.5 / np.sqrt(config.dim)
    return {
        "phi": phi,
        "rho": rho,
        "phi_star": c / q / (2 * rho),
        "risk": 1 + config.noise_var - 2 * eta * c + eta**2 * q,
        "exponent": np.gradient(np.log(rho), np.log(time)),
        "peak": -peak.value if peak.inside else np.nan,
        "peak_time": peak.at,
        "growth_end": time[int(np.argmax(grown))] if grown.any() else np.nan,
    }
