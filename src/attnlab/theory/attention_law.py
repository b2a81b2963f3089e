"""Where softmax attention goes: the weight on the informative token, its law, and the bulk's share.

All exact at finite size, exponentially small weights included: `p` and `q = 1 - p` are integrals of
positive functions, each taken where it is the small one. Source: `docs/theory/attention-mass`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.errors import InvalidArgument, is_traced
from .._core.precision import float64, to_float64, to_numpy
from ..students import Overlaps
from .gaussian_nodes import REACH, density
from .informative_token import Reader
from .softmax_engine.bulk import (
    LEAST_SPREAD,
    Plan,
    Range,
    all_beyond,
    bulk_factors,
    log_partition,
    plan,
)
from .softmax_engine.lattice import FIRST, SECOND, STEP, SURVIVAL, dense_sums
from .softmax_moments import Window, from_window, window

if TYPE_CHECKING:
    import xarray

    from .softmax_risk import SoftmaxRisk

_DEPTH = 350.0
_POINTS = 257  # of the law's grid
_LEAST_WIDTH = 0.3  # of the informative logit, for its law to be resolved
_NODES = 1024  # of the informative score, times a power of 2
_FINEST = 0.5  # distance of these nodes, in units of the score
_FARTHEST = 1e4  # informative scores that a grid can hold
_EMPTY = -1e6  # a score that takes no weight


class AttentionMass(NamedTuple):
    """Averages over prompts; `p` is the weight on the informative token, `q = 1 - p`.

    - `mass`, `mass_square`: `E p`, `E p²`; `missed`, `missed_square`: `E q`, `E q²`
    - `participation`: `E Σ q_ℓ²` of the weights within the bulk, which add up to 1
    - `bulk_mean`, `bulk_square`: first and second moment of `Σ q_ℓ σ(w_ℓ)`
    - `log_partition`: `E log Z` of the bulk
    """

    mass: Float[Array, "*runs"]
    mass_square: Float[Array, "*runs"]
    missed: Float[Array, "*runs"]
    missed_square: Float[Array, "*runs"]
    participation: Float[Array, "*runs"]
    bulk_mean: Float[Array, "*runs"]
    bulk_square: Float[Array, "*runs"]
    log_partition: Float[Array, "*runs"]


def attention(risk: SoftmaxRisk, overlaps: Overlaps) -> xarray.Dataset:
    """What `SoftmaxRisk.attention` returns."""
    import xarray

    if not isinstance(overlaps, Overlaps) or is_traced(*overlaps.stack().ravel()):
        raise InvalidArgument("overlaps", overlaps, "a concrete attnlab.Overlaps")
    if np.ndim(risk.scale) or is_traced(risk.scale) or risk.plans[0].window == 0:
        allowed = "that of a prompt of several tokens at one concrete inverse temperature"
        raise InvalidArgument("risk", risk, allowed)
    shape = overlaps.shape
    rows = np.asarray(overlaps.stack(), np.float64).reshape(-1, 5)
    with float64():
        exact, rows_, scale = to_float64((risk, np.clip(rows, -1, 1), np.asarray(risk.scale)))
        size = exact._size(scale)
        fixed = plan(
            Range(*(float(part) for part in size)),
            depth=_DEPTH,
            shared=float(size.spread) >= LEAST_SPREAD,
            informative=False,
            step=_step(float(size.wide)),
        )
        center = scale * exact.root_dim * exact.setting.shift
        if not center + REACH * size.wide <= _FARTHEST:
            allowed = f"such that informative scores, bounded by {float(center):.3g}, stay below {_FARTHEST:g}"
            raise InvalidArgument("signal", risk.setting.shift / risk.root_dim, allowed)
        made = _window(fixed, size)
        span = _span(to_numpy(made), Range(*to_numpy(tuple(size))), float(center))
        means = _averages(fixed, size, made, risk.readers[0], rows_, center, *span)
        means, made, size, center = to_numpy((means, made, size, center))
    law = np.array([_law(made, size, center * row[0]) for row in rows])
    logit, dens, below = np.moveaxis(law.reshape(-1, 3, _POINTS), 1, 0)
    runs = ("run",) if len(shape) == 1 else tuple(f"run_{i}" for i in range(len(shape)))
    found: Any = AttentionMass(*(part.reshape(shape) for part in means))
    small = found.missed < 0.5
    variance = np.where(
        small, found.missed_square - found.missed**2, found.mass_square - found.mass**2
    )
    data: dict[str, Any] = {
        "mass": found.mass,
        "mass_missing": found.missed,
        "mass_square": found.mass_square,
        "mass_missing_square": found.missed_square,
        "mass_variance": variance,
        "participation": found.participation,
        "bulk_mean": found.bulk_mean,
        "bulk_variance": found.bulk_square - found.bulk_mean**2,
        "log_partition": found.log_partition,
    }
    variables: dict[str, Any] = {name: (runs, value) for name, value in data.items()}
    grid = {"logit": logit, "density": dens, "distribution": below}
    for name, value in grid.items():
        variables[name] = ((*runs, "point"), value.reshape(*shape, _POINTS))
    return xarray.Dataset(variables, attrs={"method": risk.method})


def _step(wide: float) -> float:
    """Of the lattice, such that what a sampled law of `log Z + G` aliases stays below e^-25 when it
    is freed from its Gumbel variable, for a logit of this width."""
    width = max(wide, _LEAST_WIDTH)
    return min(STEP, math.pi**2 / (25 + math.pi**2 / (2 * width**2)))


def _span(made: Window, size: Range, center: float) -> tuple[int, float, float]:
    """Nodes and ends of the informative score: its Gaussian law for every `κ` in `[-1, 1]`, and as
    far beyond as the transition of the weights may draw it."""
    counted = made.tau[made.first * made.power > 0]
    held = counted if counted.size else made.tau
    low, high = float(held[0]), float(held[-1])
    wide = float(size.wide)
    tilt = 2 * wide**2
    bottom = -center - REACH * wide - min(tilt, max(0.0, center - low))
    top = center + REACH * wide + min(tilt, max(0.0, center + high))
    step = min(_FINEST, 0.5 * wide)
    count = _NODES
    while (top - bottom) / step > count - 1:
        count *= 2
    return count, bottom, top


@eqx.filter_jit
def _window(fixed: Plan, size: Range) -> Window:
    return window(fixed, size)


@eqx.filter_jit
def _averages(
    fixed: Plan,
    size: Range,
    made: Window,
    reader: Reader,
    rows: Float[Array, "runs 5"],
    center: Any,
    count: int,
    bottom: Any,
    top: Any,
) -> AttentionMass:
    score = bottom + (top - bottom) * np.linspace(0.0, 1.0, count)
    step = (top - bottom) / (count - 1)
    plain = made.first * made.root
    bulk = bulk_factors(fixed, size)
    whole = all_beyond(bulk)[fixed.before :]
    kernels = (
        (SURVIVAL, made.first * made.power),
        (SURVIVAL, made.second * made.power + plain**2),
        (FIRST, whole),
        (SECOND, whole),
    )
    missed, missed_square, mass, mass_square = (
        jax.lax.map(
            lambda part, k=kernel, v=values: dense_sums(k, v, -made.tau, -part),
            score.reshape(-1, 64),
        ).ravel()
        for kernel, values in kernels
    )
    # beyond the lattice all of the weight is on the informative token
    sure = missed < 0.5
    mass = jnp.where(sure, 1 - missed, mass)
    mass_square = jnp.where(sure, 1 - 2 * missed + missed_square, mass_square)
    tables = jnp.stack([mass, mass_square, missed, missed_square])
    participation = jnp.sum(made.second * made.power)

    def one(row: Any) -> Any:
        z = (score - center * row[0]) / size.wide
        weights = density(z) * step / size.wide
        given = from_window(made, fixed, size, reader, row[4], jnp.full(1, _EMPTY))
        return tuple(tables @ weights), given.bulk[0], given.bulk_square[0]

    masses, mean, square = jax.lax.map(one, rows)
    runs = jnp.zeros_like(mean)
    p, p_square, q, q_square = masses
    shared = participation + runs, mean, square, log_partition(fixed, bulk) + runs
    return AttentionMass(p, p_square, q, q_square, *shared)


def _law(made: Window, size: Range, mean: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Density and distribution function of the informative logit `log(p/(1-p)) = T - log Z`.

    `log Z + G` with a standard Gumbel `G` has the distribution function `B0^N`: its characteristic
    function over that of `G` is that of `log Z`. The Gaussian `T` damps what the division amplifies.
    """
    from scipy.special import loggamma

    wide = float(size.wide)
    weights = made.first * made.power
    weights = weights / weights.sum()
    location = float(weights @ made.tau)
    variance = float(weights @ (made.tau - location) ** 2) - math.pi**2 / 6
    place, std = mean - location + np.euler_gamma, math.sqrt(max(variance, 0.0) + wide**2)
    grid = place + std * np.linspace(-10.0, 10.0, _POINTS)
    if wide < _LEAST_WIDTH:
        return grid, np.full(_POINTS, np.nan), np.full(_POINTS, np.nan)
    top = (math.pi / 2 + math.sqrt(math.pi**2 / 4 + 80 * wide**2)) / wide**2
    gap = 2 * math.pi / (60 * std)
    omega = (np.arange(math.ceil(top / gap)) + 0.5) * gap
    turned = np.exp(-1j * omega[:, None] * (made.tau - location)) @ weights
    log_rest = -0.5 * (omega * wide) ** 2 - loggamma(1 + 1j * omega)
    phi = turned * np.exp(log_rest + 1j * omega * (mean - location))
    wave = np.exp(-1j * omega * grid[:, None]) * phi
    inside = np.sum(wave.real, axis=1) * gap / math.pi
    below = 0.5 - np.sum(wave.imag / omega, axis=1) * gap / math.pi
    return grid, np.maximum(inside, 0.0), np.clip(below, 0.0, 1.0)
