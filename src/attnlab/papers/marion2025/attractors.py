"""Where random starts off M end, against the scale, the dimension and the length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from .._config import Config
from .end_states import KINDS, end_states, gradient_norm, stable_step, swapped_minimum

if TYPE_CHECKING:
    import xarray

    from ...theory import SingleLocationRisk

_Scale = Annotated[float, Field(ge=1e-4, le=100)]
_Size = Annotated[int, Field(ge=2)]
_CLOSE = 0.02  # nearness to a point that then has to be a minimum


class AttractorsConfig(Config):
    """Three sweeps through one base setting, each over one quantity."""

    dim: int = Field(400, ge=4, description="dimension of the base setting")
    length: int = Field(10, ge=2, description="length of the base setting")
    scale: float = Field(0.1, ge=1e-4, le=100, description="λ of the base setting")
    token_std: float = Field(0.5**0.5, gt=0, lt=1, description="γ of the informative token")
    runs: int = Field(256, ge=2, description="random starts per setting, uniform on the spheres")
    scales: tuple[_Scale, ...] = Field(
        (0.03, 0.1, 0.3, 0.6, 0.8, 0.88, 1.0), description="sweep of λ"
    )
    dims: tuple[_Size, ...] = Field((20, 100, 400), description="sweep of d")
    lengths: tuple[_Size, ...] = Field((2, 10, 50), description="sweep of L")
    horizon: float = Field(60.0, gt=0, description="time s·steps that each run gets")
    search_starts: int = Field(0, ge=0, description="starts of a full search for stationary points")
    map_points: int = Field(9, ge=2, le=100, description="points a side of the (λ, d) map")


class _Setting(NamedTuple):
    sweep: str
    scale: float
    dim: int
    length: int


def _settings(config: AttractorsConfig) -> list[_Setting]:
    base = _Setting("scale", config.scale, config.dim, config.length)
    found = [base._replace(scale=scale) for scale in config.scales]
    found += [base._replace(sweep="dim", dim=dim) for dim in config.dims]
    return found + [base._replace(sweep="length", length=length) for length in config.lengths]


def risk_at(
    dim: int, length: int, token_std: float, scale: float
) -> tuple[Any, SingleLocationRisk]:
    """The task of these sizes and the erf student's risk on it."""
    from ...students import PointwiseAttention
    from ...tasks import SingleLocation
    from ...theory import population_risk

    task = SingleLocation(dim, length, token_std=token_std)
    return task, population_risk(task, PointwiseAttention("erf", scale))


def random_ends(
    task: Any, risk: SingleLocationRisk, key: Any, runs: int, horizon: float
) -> tuple[np.ndarray, np.ndarray]:
    """End states `(runs, 5)` of descents from uniform starts after time `horizon`, and risks."""
    from ... import dynamics
    from ...dynamics.dataset import overlaps_of
    from ...students import Overlaps

    size = stable_step(task, float(risk.scale))
    steps = int(np.ceil(horizon / size))
    start = Overlaps.on_sphere(key, task.dim, runs=runs)
    dataset = dynamics.projected_gradient_descent(
        risk, start, step_size=size, steps=steps, save_every=steps
    )
    last = np.asarray(overlaps_of(dataset, step=-1).stack())
    return last, dataset.risk.values[:, -1]


def signature(risk: SingleLocationRisk, states: np.ndarray, dim: int) -> xarray.Dataset:
    """Gradient norm and Hessian signature at each of `states` `(points, 5)`, in their order."""
    import xarray

    from ...dynamics.stationary import classify
    from ...students import Overlaps

    near = min(dim, 4)
    rows = []
    for state in states:
        pair = np.stack(Overlaps.unstack(state).to_vectors(near))[None]
        rows.append(classify(risk, pair, dim))
    return xarray.concat(rows, "point")


def run(config: AttractorsConfig) -> xarray.Dataset:
    """Shares, risks and Hessian signatures of the ends on (setting, kind), and the (λ, d) map."""
    import jax
    import xarray

    from ...dynamics import binomial_error

    key = jax.random.key(config.seed)
    settings = _settings(config)
    rows = [
        _one(setting, config, jax.random.fold_in(key, number))
        for number, setting in enumerate(settings)
    ]
    dims: dict[str, tuple[str, ...]] = dict.fromkeys(("count", "risk"), ("setting", "kind"))
    dims |= dict.fromkeys(_SIGNS, ("setting", "kind"))
    dims |= {"teacher_risk": ("setting",), "other_minima": ("setting",)}
    dims |= {"end": ("setting", "run", "overlap"), "end_kind": ("setting", "run")}
    data: dict[str, Any] = {
        name: (axes, np.stack([row[name] for row in rows])) for name, axes in dims.items()
    }
    data["share"] = (("setting", "kind"), data["count"][1] / config.runs)
    data["share_error"] = (("setting", "kind"), binomial_error(data["count"][1], config.runs))
    for name in _Setting._fields:
        data[name] = ("setting", [getattr(setting, name) for setting in settings])
    data |= _map(config)
    coords = {"kind": list(KINDS), "overlap": ["kappa", "nu", "theta", "eta", "rho"]}
    attrs = {"runs": config.runs, "horizon": config.horizon, "base_dim": config.dim}
    attrs |= {"base_length": config.length, "base_scale": config.scale}
    return xarray.Dataset(data, coords=coords, attrs=attrs)


def _one(setting: _Setting, config: AttractorsConfig, key: Any) -> dict[str, Any]:
    task, risk = risk_at(setting.dim, setting.length, config.token_std, setting.scale)
    ends, _ = random_ends(task, risk, key, config.runs, config.horizon)
    kinds = end_states(risk, ends, close=_CLOSE)
    moved = gradient_norm(risk, ends)
    out: dict[str, Any] = {name: np.full(len(KINDS), np.nan) for name in ("risk", *_SIGNS)}
    for index, kind in enumerate(KINDS):
        chosen = np.flatnonzero(kinds == kind)
        if not chosen.size or kind == "moving":
            continue
        nearest = ends[chosen[np.argmin(moved[chosen])]]
        place = signature(risk, _exact(risk, kind, nearest)[None], setting.dim).isel(point=0)
        if int(place.n_negative):  # a saddle: these runs are about to leave it
            kinds[chosen] = "moving"
            continue
        out["risk"][index] = float(place.risk)
        out["smallest_eigenvalue"][index] = float(place.smallest_nonzero_eigenvalue)
        out["n_negative"][index] = float(place.n_negative)
        out["residual"][index] = float(place.gradient_norm)
    out["count"] = np.array([(kinds == kind).sum() for kind in KINDS])
    out["teacher_risk"] = risk.teacher
    out["other_minima"] = _other_minima(risk, out, setting, config, key)
    return out | {"end": ends, "end_kind": kinds}


_SIGNS = ("smallest_eigenvalue", "n_negative", "residual")


def _exact(risk: SingleLocationRisk, kind: str, end: np.ndarray) -> np.ndarray:
    """The stationary point that an end of this kind tends to."""
    if kind in ("teacher", "mirrored teacher"):
        sign = 1.0 if kind == "teacher" else -1.0
        return np.array([sign, sign, 0.0, 0.0, 0.0])
    if kind == "swapped roles":
        return np.asarray(swapped_minimum(risk).stack())
    return end


def _other_minima(
    risk: SingleLocationRisk, found: Any, setting: _Setting, config: AttractorsConfig, key: Any
) -> float:
    """Local minima that a full search finds and no run has ended at; NaN without a search.

    Minima are compared by their risk. On the plateau of a saturated score (`λ c√d >> 1`) every
    `(κ, ±1)` has the teacher's risk to rounding and counts as the teacher.
    """
    if not config.search_starts:
        return np.nan
    from ...dynamics import stationary_points

    points = stationary_points(risk, setting.dim, key=key, starts=config.search_starts)
    minima = points.risk.values[points.kind.values == "minimum"]
    known = [value for value in found["risk"] if np.isfinite(value)]
    fresh = [m for m in minima if all(abs(m - k) > 1e-4 * abs(k) for k in known)]
    return float(len(np.unique(np.round(fresh, 8))))


def _map(config: AttractorsConfig) -> dict[str, Any]:
    """Over (λ, d): the swapped minimum's risk against the teacher's, and whether it is stable."""
    scales = np.geomspace(0.01, 2.0, config.map_points)
    dims = np.unique(np.rint(np.geomspace(10, 10_000, config.map_points)).astype(int))
    gain, lowest = np.empty((len(dims), len(scales))), np.empty((len(dims), len(scales)))
    for i, dim in enumerate(dims.tolist()):
        for j, scale in enumerate(scales.tolist()):
            _, risk = risk_at(dim, config.length, config.token_std, scale)
            point = swapped_minimum(risk)
            place = signature(risk, np.asarray(point.stack())[None], dim).isel(point=0)
            gain[i, j] = float(place.risk) / risk.teacher - 1
            lowest[i, j] = float(place.smallest_nonzero_eigenvalue)
    axes = ("map_dim", "map_scale")
    return {
        "map_scale": ("map_scale", scales),
        "map_dim": ("map_dim", dims),
        "swapped_gain": (axes, gain, {"long_name": "risk of the swapped point / teacher's - 1"}),
        "swapped_curvature": (axes, lowest, {"long_name": "its smallest Hessian eigenvalue"}),
    }
