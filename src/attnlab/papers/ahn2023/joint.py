"""All of `P` and `Q` together: the minima of the exact risk, and which starts reach which.

The global minimum has the sparse pattern for every covariance (`docs/theory/unnormalised-attention`).
With a covariance that has one large eigenvalue there is another local minimum, in which one direction
of the covariates is read by `P` and weighted by responses in the scores.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, field_validator

from ..._core.interrupt import RunInterrupted
from .._config import Config
from .heatmap import weights_panel
from .trained import LARGEST_LENGTH

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark
    from ...tasks import InContextRegression
    from ...theory import AttentionMinimum, AttentionRisk

ON_PATTERN = 1e-3  # share outside of the pattern below which an end has it


class JointConfig(Config):
    """Settings: `Σ = diag(ratio, 1, ..., 1)`, `w ~ N(0, I)`."""

    dim: int = Field(5, ge=2, le=20, description="dimension d of the covariates")
    length: int = Field(20, ge=1, le=LARGEST_LENGTH, description="number of examples n")
    noise_var: float = Field(0.0, ge=0, le=1e6, description="variance σ² of the label noise")
    ratios: tuple[float, ...] = Field(
        (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0),
        min_length=1,
        description="first eigenvalue of Σ, the others are 1",
    )
    activations: tuple[Literal["linear", "relu"], ...] = Field(
        ("relu", "linear"), min_length=1, description="linear, relu or both"
    )
    starts: int = Field(256, ge=2, le=10_000, description="random starts of each descent")
    max_steps: int = Field(2000, ge=1, le=10**6, description="steps of each descent at most")

    @field_validator("ratios")
    @classmethod
    def _rising(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if list(value) != sorted(set(value)) or not all(0.01 <= ratio <= 1000 for ratio in value):
            raise ValueError("rising numbers from 0.01 to 1000")
        return value

    @field_validator("activations")
    @classmethod
    def _distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError("without repeats")
        return value


def task_at(dim: int, length: int, noise_var: float, ratio: float) -> InContextRegression:
    """`Σ = diag(ratio, 1, ..., 1)`, `w ~ N(0, I)`."""
    from ...tasks import InContextRegression

    sigma = np.eye(dim)
    sigma[0, 0] = ratio
    return InContextRegression(
        dim, length, noise_std=float(np.sqrt(noise_var)), covariance=sigma, prior=np.eye(dim)
    )


def ends(risk: AttentionRisk, starts: int, seed: int, max_steps: int) -> AttentionMinimum:
    """Where descents of the exact risk from random `P` and `Q` end."""
    from ...students import MergedAttention
    from ...theory import minimise_attention

    size = len(risk.covariance) + 1
    rng = np.random.default_rng(seed)
    layers = [
        MergedAttention(*rng.normal(size=(2, size, size)), normalization=risk.normalization)
        for _ in range(starts)
    ]
    return minimise_attention(risk, layers, free="all", max_steps=max_steps)


def least_curvature(risk: AttentionRisk, layer: Any) -> float:
    """The least eigenvalue of the Hessian over all entries with an effect, the direction along
    which a scale moves from `P` to `Q` left out; over the risk of predicting 0."""
    from ..._core.precision import float64, to_float64, to_numpy

    d = layer.dim
    P, Q = np.array(layer.P, np.float64), np.array(layer.Q, np.float64)
    share = np.sqrt(np.linalg.norm(Q[:, :d]) / np.linalg.norm(P[d]))
    both = np.stack([share * P, Q / share])
    places = np.zeros(both.shape, bool)
    places[0, d], places[1, :, :d] = True, True
    at = np.nonzero(places)
    neutral = np.where(np.arange(2)[:, None, None] == 0, both, -both)[at]
    with float64():
        hessian = to_numpy(_hessian()(*to_float64((risk, both)), at))
    neutral /= np.linalg.norm(neutral)
    rest = np.linalg.svd(neutral[None])[2][1:]
    zero = np.trace(risk.covariance @ risk.prior) + risk.noise_variance
    return float(np.linalg.eigvalsh(rest @ hessian @ rest.T)[0] / zero)


@cache
def _hessian() -> Any:
    import equinox as eqx
    import jax

    @eqx.filter_jit
    def hessian(risk: Any, both: Any, at: Any) -> Any:
        return jax.hessian(lambda x: risk.value_of(*both.at[at].set(x)))(both[at])

    return hessian


def run(config: JointConfig) -> xarray.Dataset:
    """On `(activation, ratio, start)` the risk at the end and the share of weights outside of the
    pattern; on `(activation, ratio)` the risk of `A*`, and the lowest end off the pattern: its
    risk (NaN where there is none), least curvature, `P` and `Q`."""
    shape = (len(config.activations), len(config.ratios))
    size = config.dim + 1
    found = {
        "value": np.full((*shape, config.starts), np.nan),
        "off_pattern": np.full((*shape, config.starts), np.nan),
        **{name: np.full(shape, np.nan) for name in ("least", "zero", "other", "curvature")},
        **{name: np.full((*shape, size, size), np.nan) for name in "PQ"},
    }
    try:
        for i, name in enumerate(config.activations):
            for j, ratio in enumerate(config.ratios):
                for key, value in _minima(config, name, ratio).items():
                    found[key][i, j] = value
    except KeyboardInterrupt:
        raise RunInterrupted(_labelled(found, config)) from None
    return _labelled(found, config)


def _minima(config: JointConfig, name: str, ratio: float) -> dict[str, Any]:
    from ... import population_risk
    from ...circuits import block_pattern
    from ...theory import optimal_attention

    task = task_at(config.dim, config.length, config.noise_var, ratio)
    risk = population_risk(task, optimal_attention(task, normalization=name))
    found = ends(risk, config.starts, config.seed, config.max_steps)
    off = np.array([float(block_pattern(layer).off_pattern) for layer in found.layers])
    known = {
        "least": risk.value,
        "zero": ratio + config.dim - 1 + config.noise_var,
        "value": np.where(found.converged, found.value, np.nan),
        "off_pattern": off,
    }
    away = np.flatnonzero(found.converged & (off > ON_PATTERN))
    if not len(away):
        return known
    lowest = found.layers[away[np.argmin(found.value[away])]]
    return known | {
        "other": risk(lowest),
        "curvature": least_curvature(risk, lowest),
        "P": lowest.P,
        "Q": lowest.Q,
    }


_LONG_NAMES = {
    "value": "risk where a descent converged",
    "off_pattern": "share outside of the pattern",
    "least": "risk of A*",
    "zero": "risk of predicting 0",
    "other": "lowest risk off the pattern",
    "curvature": "least curvature there",
    "P": "P there",
    "Q": "Q there",
}
_AXES = {
    "value": ("start",),
    "off_pattern": ("start",),
    "P": ("row", "column"),
    "Q": ("row", "column"),
}


def _labelled(found: dict[str, np.ndarray], config: JointConfig) -> xarray.Dataset:
    import xarray

    return xarray.Dataset(
        {
            key: (("activation", "ratio", *_AXES.get(key, ())), found[key], {"long_name": text})
            for key, text in _LONG_NAMES.items()
        },
        {
            "activation": list(config.activations),
            "ratio": ("ratio", list(config.ratios), {"long_name": "first eigenvalue of Σ"}),
        },
        {
            "setting": f"d = {config.dim}, n = {config.length}, σ² = {config.noise_var:g}, "
            f"w ~ N(0, I), Σ = diag(ratio, 1, ..., 1), {config.starts} random starts"
        },
    )


def figure(dataset: xarray.Dataset) -> Figure:
    """Risks of the two minima, shares of the starts, and the weights of the other minimum."""
    from ...plotting.spec import Axis, Figure, Line, Panel, Points

    ratio = dataset.ratio.values
    risks: list[Mark] = []
    shares: list[Mark] = []
    for role, name in enumerate(dataset.activation.values):
        one = dataset.sel(activation=name)
        risks.append(
            Line(ratio, (one.least / one.zero).values, f"{name}: A*, the global minimum", role)
        )
        risks.append(
            Points(ratio, (one.other / one.zero).values, None, f"{name}: off the pattern", role)
        )
        done = one.least.notnull().values
        share, error = share_of((one.off_pattern <= ON_PATTERN) & one.value.notnull())
        share = np.where(done, share, np.nan)
        shares.append(Points(ratio * (1 + 0.02 * role), share, error, str(name), role))
    ends = ratio[-1] / ratio[0]
    places = [float(r) for r in ratio if ends < 2 or r in (ratio[0], ratio[-1]) or r in (2, 4)]
    across = Axis("first eigenvalue of Σ", log=True, ticks=[(r, f"{r:g}") for r in places])
    panels = [
        Panel("Minima", across,
              Axis("risk over that of predicting 0"), risks),
        Panel("Starts that reach the pattern", across,
              Axis("share of the starts", limits=(-0.03, 1.03)), shares),
    ]  # fmt: skip
    for name in dataset.activation.values:
        one = dataset.sel(activation=name)
        some = np.flatnonzero(one.other.notnull().values)
        if len(some):
            there = one.isel(ratio=some[-1])
            title = f"{name}, off the pattern, ratio {float(there.ratio):g}"
            panels.append(weights_panel(title, there.P.values, there.Q.values))
    return Figure(
        title="P and Q together: the minima of the exact risk",
        panels=panels,
        columns=2,
        caption=(
            f"{dataset.attrs['setting']}. Left: the risk of A* and the lowest other end. Right: "
            "shares of starts with binomial standard errors (drawn side by side). Below: weights at that other end, each "
            "matrix over its largest entry: P reads the covariate of the large eigenvalue, and its "
            "scores contain the response."
        ),
        alt=(
            "With equal eigenvalues every start reaches the sparse pattern; as one grows, a second "
            "local minimum of higher risk takes more and more of the starts."
        ),
    )


def share_of(hits: Any) -> tuple[np.ndarray, np.ndarray]:
    """Share of `hits` along the last axis, and its standard error, which is not 0 at the ends."""
    hits = np.asarray(hits, bool)
    n, k = hits.shape[-1], hits.sum(-1)
    smoothed = (k + 1) / (n + 2)
    return k / n, np.sqrt(smoothed * (1 - smoothed) / n)
