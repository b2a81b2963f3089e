"""Other activations in place of erf, on the manifold, by their exact risks."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, field_validator

from ...plotting.marks import spread
from .._config import Config

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark
    from ...students import Activation

_SAVES = 100
NAMES = ("erf", "tanh", "sigmoid-centred", "arctan", "softsign", "2 erf", "half erf")
# the largest value that each reaches; arctan's is π/2
BOUNDED_BY_ONE = ("erf", "tanh", "sigmoid-centred", "softsign", "half erf")


def activation(name: str) -> Activation:
    """The activation of that name: a registered one, or a multiple of erf."""
    from jax.scipy.special import erf

    from ...students import Activation, get_activation

    if name == "2 erf":
        return Activation(name, _twice(erf))
    if name == "half erf":
        return Activation(name, _half(erf))
    return get_activation(name)


def _twice(function: Any) -> Any:
    return lambda x: 2 * function(x)


def _half(function: Any) -> Any:
    return lambda x: function(x) / 2


class ActivationsConfig(Config):
    """Settings of the comparison of activations."""

    dim: int = Field(400, ge=2, description="token dimension d")
    length: int = Field(10, ge=1, description="number of tokens L")
    runs: int = Field(30, ge=1, description="number of random starts on M, the same for all")
    scale: float = Field(0.1, ge=1e-4, le=100, description="λ")
    step_size: float = Field(4e-3, gt=0, description="step size of the descent")
    steps: int = Field(25_000, ge=0, description="number of steps")
    activations: tuple[str, ...] = Field(
        ("erf", "tanh", "sigmoid-centred", "arctan", "softsign", "2 erf"),
        min_length=1,
        description=f"which to compare, of {', '.join(NAMES)}",
    )

    @field_validator("activations")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in value if name not in NAMES]
        if unknown or len(set(value)) < len(value):
            raise ValueError(f"different names of {', '.join(NAMES)}")
        return value


def run(config: ActivationsConfig) -> xarray.Dataset:
    """`kappa`, `nu`, `risk` on `(activation, run, step)`, and the `teacher` risk of each.

    `bound` is the largest absolute value of the activation at λ times the largest score of use,
    taken at 10 standard deviations.
    """
    import xarray

    names = list(config.activations)
    parts, teachers = zip(
        *(_descent(config.model_copy(update={"activations": (name,)})) for name in names)
    )
    data = xarray.concat(parts, xarray.Variable("activation", names))
    told = {"long_name": "risk of (k*, v*) with this activation"}
    data["teacher"] = ("activation", list(teachers), told)
    data.attrs.update(dim=config.dim, length=config.length, scale=config.scale)
    return data


@lru_cache(maxsize=16)
def _descent(config: ActivationsConfig) -> tuple[xarray.Dataset, float]:
    """Trajectories with the only activation of `config`, and the risk of its teacher; once a process
    for equal settings, of experiment or claim."""
    import jax

    from ... import dynamics
    from ...students import Overlaps, PointwiseAttention
    from ...tasks import SingleLocation
    from ...theory import population_risk

    risk = population_risk(
        SingleLocation(config.dim, config.length),
        PointwiseAttention(activation(config.activations[0]), config.scale),
    )
    out = dynamics.projected_gradient_descent(
        risk,
        Overlaps.on_manifold(jax.random.key(config.seed), config.dim, runs=config.runs),
        step_size=config.step_size,
        steps=config.steps,
        save_every=max(1, config.steps // _SAVES),
    )
    return out[["kappa", "nu", "risk", "status"]], risk.teacher


def figure(dataset: xarray.Dataset) -> Figure:
    """Excess risk over each activation's own teacher, |κ| and |ν|."""
    from ...plotting.spec import Axis, Figure, Panel

    x = dataset.step.values / 1000
    risk: list[Mark] = []
    kappa: list[Mark] = []
    nu: list[Mark] = []
    for role, name in enumerate(dataset.activation.values):
        one = dataset.sel(activation=name)
        label = str(name)
        risk += spread(x, one.risk.values - float(one.teacher), label, role)
        kappa += spread(x, np.abs(one.kappa.values), label, role)
        nu += spread(x, np.abs(one.nu.values), label, role)
    step = Axis("step / 1000")
    lines = [
        f"{name}: |κ| {np.abs(dataset.sel(activation=name).kappa.values[:, -1]).mean():.3f}"
        for name in dataset.activation.values
    ]
    return Figure(
        title=f"Activations in place of erf, on M, λ = {dataset.attrs['scale']:g}",
        panels=[
            Panel("Risk against the teacher's", step, Axis("R − R(k*, v*)"), risk),
            Panel("Where it looks", step, Axis("|κ|", limits=(-0.02, 1.05)), kappa),
            Panel("What it reads", step, Axis("|ν|", limits=(-0.02, 1.05)), nu),
        ],
        columns=3,
        caption=(
            f"d = {dataset.attrs['dim']}, L = {dataset.attrs['length']}, "
            f"{dataset.sizes['run']} runs each; medians with 10-90 % bands. At the end "
            f"{'; '.join(lines)}. An activation that rises above 1 stops short of k*, where its "
            "mean is 1, and beats its own teacher."
        ),
        alt="Three panels: excess risk, |κ| and |ν| against steps, one colour per activation.",
    )
