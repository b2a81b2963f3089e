"""Four heads from a random small start: gradient flow on both losses, beside a trained layer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import Field

from ..._core.errors import InvalidArgument
from ..._core.interrupt import RunInterrupted
from .training import TrainingConfig, course, setting, shown_run, task_of, trained

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Panel
    from ...tasks import InContextRegression

LOSSES = ("exact", "approximate")
_NODES = 20  # risks of heads as they occur in the flow are then right to about 1e-6


class FourHeadsConfig(TrainingConfig):
    """The start and end of the flows, and the training of the layer beside them."""

    n_heads: int = Field(4, ge=2, le=8, description="number of heads H")
    start_scale: float = Field(0.05, gt=0, le=0.2, description="standard deviation of the start")
    end_time: float = Field(1e5, ge=100, le=1e10, description="time at which the flows end")
    reach: float = Field(0.75, gt=0, le=1.5, description="bound on |ω| during the flow")
    times: int = Field(160, ge=20, le=100_000, description="times at which the flows are saved")


class PairPolynomials(NamedTuple):
    """A risk `1 + σ² - 2 μ·c(ω) + Σ μ μ' q(ω, ω')` with polynomials `c` and `q`, `|ω| <= reach`.

    `cross` `(n,)` and `square` `(n, n)` are their Chebyshev coefficients.
    """

    reach: float
    cross: np.ndarray
    square: np.ndarray
    ground: float

    def risk_and_slope(self, omega: np.ndarray, mu: np.ndarray) -> tuple[float, np.ndarray]:
        """The risk, and half its derivatives in `(ω, μ)`, one after the other."""
        basis, slope = _chebyshev(omega / self.reach, len(self.cross))
        slope = slope / self.reach
        cross = basis @ self.cross
        pulled = self.square @ (basis.T @ mu)
        along = basis @ pulled
        risk = self.ground - 2 * mu @ cross + mu @ along
        by_omega = mu * (slope @ pulled - slope @ self.cross)
        return float(risk), np.concatenate([by_omega, along - cross])


def exact_polynomials(
    task: InContextRegression, reach: float, nodes: int = _NODES
) -> PairPolynomials:
    """The exact risk through nodes at which it is computed."""
    from .exact_heads import heads_quadratic

    x = np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
    noise = task.noise_std**2
    table = heads_quadratic(task, reach * x)
    matrix = np.cos(np.arange(nodes)[:, None] * np.arccos(x)) * 2 / nodes
    matrix[0] /= 2
    square = matrix @ table.matrix(noise) @ matrix.T
    return PairPolynomials(reach, matrix @ table.cross, square, 1 + noise)


def approximate_slope(task: InContextRegression, omega: Any, mu: Any) -> tuple[float, np.ndarray]:
    """`L̃` and half its derivatives in `(ω, μ)`."""
    cost = (1 + task.noise_std**2) / task.length
    kernel = np.exp(task.dim * np.outer(omega, omega))
    rest = 1 - mu @ omega
    risk = 1 + task.noise_std**2 - 1 + rest**2 + cost * mu @ kernel @ mu
    by_omega = cost * task.dim * mu * (kernel @ (mu * omega)) - rest * mu
    return float(risk), np.concatenate([by_omega, cost * kernel @ mu - rest * omega])


def follow(
    slope: Any, start: np.ndarray, times: np.ndarray, reach: float = math.inf
) -> tuple[np.ndarray, np.ndarray]:
    """States `(time, 2H)` of the flow on half the risk from `start = (ω, μ)`, and the risks.

    Raises `InvalidArgument` when some `|ω|` gets to `reach`, beyond which `slope` is not known.
    """
    from scipy.integrate import solve_ivp

    half = len(start) // 2

    def field(tau: float, state: np.ndarray) -> np.ndarray:
        return -math.exp(tau) * slope(state[:half], state[half:])[1]

    def beyond(_: float, state: np.ndarray) -> float:
        return float(np.max(np.abs(state[:half]))) - reach

    beyond.terminal = True  # type: ignore[attr-defined]
    at = np.log1p(times)
    events = beyond if math.isfinite(reach) else None
    found: Any = solve_ivp(
        field, (0.0, at[-1]), start, method="Radau", t_eval=at, rtol=1e-7, atol=1e-10, events=events
    )
    if found.status == 1:
        when = math.expm1(found.t_events[0][0])
        allowed = f"larger: some |ω| gets there at time {when:.3g}"
        raise InvalidArgument("reach", reach, allowed)
    states = found.y.T
    return states, np.array([slope(state[:half], state[half:])[0] for state in states])


def run(config: FourHeadsConfig) -> xarray.Dataset:
    """`omega`, `mu` on `(loss, time, head)`, `risk` on `(loss, time)`; of the shown run of the
    trained layers `layer_omega`, `layer_mu` on `(step, head)`, `layer_risk` and its standard error
    on `step`."""
    import xarray

    training = config.training(n_heads=config.n_heads)
    task = task_of(training)
    rng = np.random.default_rng(config.seed)
    start = config.start_scale * rng.standard_normal(2 * config.n_heads)
    times = np.geomspace(0.5, config.end_time, config.times)
    exact = exact_polynomials(task, config.reach)
    slopes = {
        "exact": exact.risk_and_slope,
        "approximate": lambda omega, mu: approximate_slope(task, omega, mu),
    }
    found = [follow(slopes[loss], start, times, config.reach) for loss in LOSSES]
    states = np.stack([states for states, _ in found])
    axes = ("loss", "time", "head")
    data: dict[str, Any] = {
        "omega": (axes, states[..., : config.n_heads]),
        "mu": (axes, states[..., config.n_heads :]),
        "risk": (axes[:2], np.stack([risk for _, risk in found])),
    }
    attrs = {"setting": setting(training), "course": course(config), "start": config.start_scale}
    flows = xarray.Dataset(data, coords={"loss": list(LOSSES), "time": times}, attrs=attrs)
    try:
        return _beside(flows, trained(training).history)
    except RunInterrupted as interruption:
        partial = interruption.partial
        interruption.partial = flows if partial is None else _beside(flows, partial)
        raise


def _beside(flows: xarray.Dataset, history: xarray.Dataset) -> xarray.Dataset:
    layer = history.isel(run=shown_run(history))
    names = {"omega": ("step", "head"), "mu": ("step", "head"), "risk": ("step",)}
    names["risk_error"] = ("step",)
    data = {f"layer_{name}": (axes, layer[name].values) for name, axes in names.items()}
    return flows.assign_coords(step=history.step.values).assign(data)


def figure(dataset: xarray.Dataset) -> Figure:
    """ω and μ of each head: both flows, and the trained layer."""
    from ...plotting.spec import Figure

    panels = [_panel(dataset, loss, name, sign) for loss in LOSSES for name, sign in _SIGNS.items()]
    trained_too = "layer_omega" in dataset
    if trained_too:
        panels += [_layer(dataset, name, sign) for name, sign in _SIGNS.items()]
    return Figure(
        title="Four heads: exact risk, approximate loss, trained layer",
        panels=panels,
        caption=(
            f"{dataset.attrs['setting']}. The flows start from the same ω and μ, normal with "
            f"standard deviation {dataset.attrs['start']:g}; the exact risk is computed, not sampled."
            + (f" The layer: {dataset.attrs['course']}; a start of its own." if trained_too else "")
        ),
        alt="ω rises to peaks of both signs and falls back, μ keeps growing; flows on both losses "
        "look alike, and like the trained layer.",
    )


_SIGNS = {"omega": "ω", "mu": "μ"}


def _panel(dataset: xarray.Dataset, loss: str, name: str, sign: str) -> Panel:
    from ...plotting.spec import Axis, Line, Panel

    value = dataset[name].sel(loss=loss).values
    marks = [
        Line(dataset.time.values, value[:, head], f"head {head}", head)
        for head in range(value.shape[1])
    ]
    risk = float(dataset.risk.sel(loss=loss)[-1])
    note = "" if name == "omega" else f"Loss at the end: {risk:.4f}."
    return Panel(
        f"{sign}, flow on the {loss} loss", Axis("time t", log=True), Axis(sign), marks, note
    )


def _layer(dataset: xarray.Dataset, name: str, sign: str) -> Panel:
    from ...plotting.spec import Axis, Line, Panel

    value = dataset[f"layer_{name}"].values
    marks = [
        Line(dataset.step.values, value[:, head], f"head {head}", head)
        for head in range(value.shape[1])
    ]
    words = {"omega": "ω (KQ's diagonal)", "mu": "μ (OV's label entry)"}[name]
    risk, error = dataset.layer_risk.values[-1], dataset.layer_risk_error.values[-1]
    note = "" if name == "omega" else f"Sampled risk at the end: {risk:.3f} ± {error:.3f}."
    return Panel(f"{words}, trained layer", Axis("step"), Axis(sign), marks, note)


def _chebyshev(x: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """`T_k(x)` and their derivatives, `(len(x), count)`."""
    value, slope = [np.ones_like(x), x], [np.zeros_like(x), np.ones_like(x)]
    for _ in range(2, count):
        value.append(2 * x * value[-1] - value[-2])
        slope.append(2 * value[-2] + 2 * x * slope[-1] - slope[-2])
    return np.stack(value, -1), np.stack(slope, -1)
