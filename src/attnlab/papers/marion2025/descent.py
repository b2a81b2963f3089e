"""Projected gradient descent from M or from the spheres: one computation, four experiments."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from ..._core.interrupt import RunInterrupted
from .._config import Config

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark, Panel

_SAVES = 400
_FLOOR = 1e-18  # where a log axis shows a distance of exactly 0
# Runs that end at the teacher and at its mirror image are the same predictor: one group in figures.
_GROUPS = (
    ("teacher", ("teacher", "mirrored teacher"), "end at ±teacher"),
    ("swapped", ("swapped roles",), "end swapped"),
    ("other", ("tilted", "moving"), "end elsewhere"),
)


class DescentConfig(Config):
    """Settings of a descent in the overlaps."""

    dim: int = Field(400, ge=2, description="token dimension d")
    length: int = Field(10, ge=1, description="number of tokens L")
    token_std: float = Field(0.5**0.5, gt=0, le=1, description="γ of the informative token")
    noise_std: float = Field(0.0, ge=0, description="label noise ε")
    runs: int = Field(30, ge=1, description="number of random starts")
    start: Literal["manifold", "sphere"] = Field("manifold", description="where runs start")
    scale: float = Field(0.1, ge=1e-4, le=100, description="λ at step 0")
    scale_decay: float = Field(0.0, ge=0, description="λ is scale / (1 + scale_decay · step)")
    step_size: float = Field(4e-3, gt=0, description="step size of the descent")
    steps: int = Field(20_000, ge=0, description="number of steps")


@cache  # a new function object would be a new compiled program
def schedule(scale: float, decay: float) -> Any:
    """`step -> scale / (1 + decay · step)`."""
    return lambda step: scale / (1 + decay * step)


def run(config: DescentConfig) -> xarray.Dataset:
    """The trajectories, with `excess_risk`, `teacher_excess`, `distance` and the `kind` of end.

    The excess is over the Bayes risk `ε²` of an oracle that knows the informative token, which no
    predictor can beat; the teacher's own excess at the scale of the step is beside it.
    """
    import jax

    from ... import dynamics
    from ...students import Overlaps, PointwiseAttention
    from ...tasks import SingleLocation
    from ...theory import population_risk

    task = SingleLocation(
        config.dim, config.length, token_std=config.token_std, noise_std=config.noise_std
    )
    risk = population_risk(task, PointwiseAttention("erf", config.scale))
    draw = Overlaps.on_manifold if config.start == "manifold" else Overlaps.on_sphere
    start = draw(jax.random.key(config.seed), config.dim, runs=config.runs)
    try:
        dataset = dynamics.projected_gradient_descent(
            risk,
            start,
            step_size=config.step_size,
            steps=config.steps,
            save_every=max(1, config.steps // _SAVES),
            scale_schedule=schedule(config.scale, config.scale_decay)
            if config.scale_decay
            else None,
        )
    except RunInterrupted as interruption:
        interruption.partial = complete(interruption.partial, risk, task, config)
        raise
    return complete(dataset, risk, task, config)


def complete(dataset: Any, risk: Any, task: Any, config: DescentConfig) -> xarray.Dataset:
    """A trajectory dataset with what the figures and claims read off it; see `run`."""
    from ...dynamics.dataset import overlaps_of
    from ...students import Overlaps
    from ...theory import known_location_bayes_risk
    from .end_states import end_states

    bayes = known_location_bayes_risk(task)
    scale = dataset.scale.values[0]
    ones, zeros = np.ones_like(scale), np.zeros_like(scale)
    teacher = np.asarray(risk(Overlaps(ones, ones, zeros, zeros, zeros), scale))
    last = np.asarray(overlaps_of(dataset, step=-1).stack())
    distance = np.asarray(overlaps_of(dataset).distance_to_manifold)
    told = {"long_name": "risk minus the Bayes risk of an oracle that knows the location"}
    out = dataset.assign(
        excess_risk=(("run", "step"), dataset.risk.values - bayes, told),
        teacher_excess=("step", teacher - bayes, {"long_name": "excess risk of (k*, v*)"}),
        distance=(("run", "step"), distance, {"long_name": "distance to M"}),
        kind=("run", end_states(risk.at_scale(float(scale[-1])), last)),
    )
    out.attrs.update(
        bayes_risk=bayes, dim=config.dim, length=config.length, start=config.start,
        scale0=config.scale, scale_decay=config.scale_decay, step_size=config.step_size,
    )  # fmt: skip
    return out


def scale_text(dataset: xarray.Dataset) -> str:
    """The scale in words: `λ = 0.1`, or the schedule."""
    scale, decay = float(dataset.attrs["scale0"]), float(dataset.attrs["scale_decay"])
    return f"λ = {scale:g}/(1 + {decay:g}·step)" if decay else f"λ = {scale:g}"


def figure(dataset: xarray.Dataset) -> Figure:
    """Excess risk, |κ| and |ν|, the paths in the (κ, ν) plane, and the distance to M."""
    from ...plotting.spec import Figure

    where = "on M" if dataset.attrs["start"] == "manifold" else "uniformly on the spheres"
    counts = {name: int(np.isin(dataset.kind.values, kinds).sum()) for name, kinds, _ in _GROUPS}
    runs = dataset.sizes["run"]
    shares = ", ".join(f"{counts[name]} {label}" for name, _, label in _GROUPS if counts[name])
    return Figure(
        title=f"Descent started {where}, {scale_text(dataset)}",
        panels=[_risk(dataset), _overlaps(dataset), _paths(dataset), _distance(dataset)],
        caption=(
            f"d = {dataset.attrs['dim']}, L = {dataset.attrs['length']}, step size "
            f"{dataset.attrs['step_size']:g}, {runs} runs: {shares}. Lines are medians of the runs "
            "with the same end, bands their 10-90 % range. Excess risk: risk minus that of an "
            "oracle that knows the informative token."
        ),
        alt=f"Four panels of {runs} descents started {where}; {shares}.",
    )


def _groups(dataset: xarray.Dataset) -> list[tuple[str, str, Any]]:
    found = []
    for name, kinds, label in _GROUPS:
        chosen = np.isin(dataset.kind.values, kinds) & (dataset.status.values == "ok")
        if chosen.any():
            found.append((name, label, dataset.isel(run=np.flatnonzero(chosen))))
    return found


def _step_axis() -> Any:
    from ...plotting.spec import Axis

    return Axis("step / 1000")


def _risk(dataset: xarray.Dataset) -> Panel:
    from ...plotting.marks import spread
    from ...plotting.spec import Axis, Line, Panel

    x = dataset.step.values / 1000
    marks: list[Mark] = []
    for name, label, group in _groups(dataset):
        marks += spread(x, group.excess_risk.values, label, name)
    marks.append(Line(x, dataset.teacher_excess.values, "teacher itself", "theory", dash=True))
    return Panel("Excess risk", _step_axis(), Axis("R − ε²", log=True), marks)


def _overlaps(dataset: xarray.Dataset) -> Panel:
    from ...plotting.marks import spread
    from ...plotting.spec import Axis, Panel

    x = dataset.step.values / 1000
    groups = _groups(dataset)
    marks: list[Mark] = []
    for number, (_, label, group) in enumerate(groups):
        for symbol, name, role in (("|κ|", "kappa", 3), ("|ν|", "nu", 2)):
            text = symbol if len(groups) == 1 else f"{symbol}, {label}"
            marks += spread(x, np.abs(group[name].values), text, role, dash=number > 0)
    return Panel(
        "Overlaps with the teacher", _step_axis(), Axis("|κ|, |ν|", limits=(-0.02, 1.05)), marks
    )


def _paths(dataset: xarray.Dataset) -> Panel:
    from ...plotting.spec import Axis, Panel, Paths, Points

    marks: list[Mark] = []
    for name, label, group in _groups(dataset):
        pairs = [(k, n) for k, n in zip(group.kappa.values, group.nu.values)]
        marks.append(Paths(pairs, label=label, role=name))
    marks.append(Points([1, -1], [1, -1], label="±teacher", role="theory"))
    square = (-1.08, 1.08)
    return Panel("Paths", Axis("κ", limits=square), Axis("ν", limits=square), marks)


def _distance(dataset: xarray.Dataset) -> Panel:
    from ...plotting.marks import spread
    from ...plotting.spec import Axis, Panel

    x = dataset.step.values / 1000
    exact = bool((dataset.distance.values == 0).all())
    hidden = bool((dataset.distance.values < _FLOOR).any())
    marks: list[Mark] = []
    for name, label, group in _groups(dataset):
        marks += spread(x, np.maximum(group.distance.values, _FLOOR), label, name)
    note = f"distances below {_FLOOR:g} are drawn there" if hidden else ""
    if exact:
        note = f"exactly 0 at every step (drawn at {_FLOOR:g})"
    limits = (_FLOOR / 10, 1.0) if exact else None
    axis = Axis("√(θ² + η² + ρ²)", log=True, limits=limits)
    return Panel("Distance to M", _step_axis(), axis, marks, note)
