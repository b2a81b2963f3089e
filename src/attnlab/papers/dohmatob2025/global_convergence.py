"""Where descents end, from M and from anywhere, against β, the dimension and the length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from .._config import Config

if TYPE_CHECKING:
    import xarray

ENDS = ("teacher", "swapped", "other minimum", "on the way")
_CLOSE = 0.02
_HOME = 0.05  # an end as near to the teacher as this counts as there, though κ may still creep

_Spread = Annotated[float, Field(ge=1.5, le=50)]


class GlobalConfig(Config):
    """Three sweeps through one base setting; starts on M and uniform on the spheres."""

    dim: int = Field(20, ge=4, description="dimension d of the base setting")
    length: int = Field(100, ge=2, description="number of tokens L of the base setting")
    spread: float = Field(1.5, ge=1.5, le=50, description="spread β√d of the scores, base setting")
    spreads: tuple[_Spread, ...] = Field((1.5, 2.0, 3.0, 6.0), description="sweep of β√d")
    dims: tuple[Annotated[int, Field(ge=4)], ...] = Field((5, 10, 20, 50), description="sweep of d")
    lengths: tuple[Annotated[int, Field(ge=2)], ...] = Field(
        (5, 20, 100, 1000, 10_000), description="sweep of L"
    )
    runs: int = Field(200, ge=8, description="starts of each kind per setting")
    steps: int = Field(20_000, ge=100, description="steps of size 1/Λ that a descent gets")


Setting = tuple[int, int, float]  # d, L, β√d


def settings_of(config: GlobalConfig) -> dict[str, list[Setting]]:
    """The settings of each sweep."""
    base = (config.dim, config.length, config.spread)
    return {
        "spread": [(base[0], base[1], spread) for spread in config.spreads],
        "dim": [(dim, base[1], base[2]) for dim in config.dims],
        "length": [(base[0], length, base[2]) for length in config.lengths],
    }


def survey(
    settings: Sequence[Setting], *, runs: int, steps: int, seed: int, manifold: bool
) -> list[dict[str, Any]]:
    """For each setting: how many runs ended in which way, the swapped minimum if one was found,
    Hessian signatures, and the time at which half of the arrivals had lost 90 % of their excess."""
    import jax

    from ...dynamics import basins
    from .exact import Sizes
    from .tabulated import tables

    dim, length, spread = (np.array(part, float) for part in zip(*settings, strict=True))
    risks = tables(Sizes(dim, np.log(length) / dim, spread / np.sqrt(dim)))
    out = []
    for setting, risk in zip(settings, risks, strict=True):
        key = jax.random.fold_in(jax.random.key(seed), setting[0])
        found = basins(
            risk,
            setting[0],
            key=key,
            runs=runs,
            steps=steps,
            on_manifold=manifold,
            levels=(0.1,),
        )
        out.append(_summary(found, risk, manifold))
    return out


def _summary(found: xarray.Dataset, risk: Any, manifold: bool) -> dict[str, Any]:
    ends = found.end.values
    names = np.full(len(ends), "on the way", dtype="<U13")
    names[np.abs(ends - [1, 1, 0, 0, 0]).max(axis=1) < _HOME] = "teacher"
    minima = np.flatnonzero(found.kind.values == "minimum")
    places = np.stack([found[n].values for n in ("kappa", "nu", "theta", "eta", "rho")], -1)
    # roles are swapped where k has more of v* than of k* and v more of k* than of v*
    turned = [
        i for i in minima
        if abs(places[i, 3]) > abs(places[i, 0]) and abs(places[i, 2]) > abs(places[i, 1])
    ]  # fmt: skip
    member = found.attractor_of.values
    at_minimum = np.isin(member, minima) & (names != "teacher")
    names[at_minimum] = np.where(np.isin(member[at_minimum], turned), "swapped", "other minimum")
    names[found.status.values != "ok"] = "on the way"
    time = found.arrival.values[names == "teacher", 0] * found.attrs["step_size"]
    state = places[turned[0]] if turned else np.full(5, np.nan)
    excess = np.nan
    if turned:
        from ...students import Overlaps

        excess = float(risk.exact(Overlaps.unstack(state))) - float(risk.exact(Overlaps.teacher()))
    return {
        "count": np.array([int((names == end).sum()) for end in ENDS]),
        "swapped_at": state,
        "swapped_excess": excess,
        "negative": [int(found.n_negative[i]) for i in minima],
        "eigenvalue": float(found.smallest_nonzero_eigenvalue[turned[0]]) if turned else np.nan,
        "teacher_risk": float(found.attrs["teacher_risk"]),
        "arrival_time": float(np.nanmedian(time)) if np.isfinite(time).any() else np.nan,
        "end": ends,
        "end_risk": found.end_risk.values,
        "end_name": names,
        "horizon": config_time(found),
    }


def config_time(found: xarray.Dataset) -> float:
    """The time that the descents were given."""
    return float(found.attrs["step_size"] * found.attrs["steps"])


def named(row: dict[str, Any]) -> dict[str, int]:
    """The counts of a row of `survey` by name."""
    return dict(zip(ENDS, row["count"].tolist(), strict=True))


def run(config: GlobalConfig) -> xarray.Dataset:
    """Shares of the ends on (start, setting, end), swapped minima, arrival times, all end states."""
    import xarray

    from ...dynamics import binomial_error

    sweeps = settings_of(config)
    listed = [(name, s) for name, group in sweeps.items() for s in group]
    distinct = sorted({s for _, s in listed})
    how = {"runs": config.runs, "steps": config.steps, "seed": config.seed}
    rows: list[list[dict[str, Any]]] = []
    for manifold in (True, False):
        by_setting = dict(zip(distinct, survey(distinct, manifold=manifold, **how), strict=True))
        rows.append([by_setting[s] for _, s in listed])
    both = ("start", "setting")

    def gather(name: str) -> np.ndarray:
        return np.array([[row[name] for row in part] for part in rows])

    count = gather("count")
    data: dict[str, Any] = {
        "count": ((*both, "end"), count, {"long_name": "number of runs"}),
        "share": ((*both, "end"), count / config.runs),
        "share_error": ((*both, "end"), binomial_error(count, config.runs)),
        "arrival_time": (both, gather("arrival_time"), {"long_name": "median time to the teacher"}),
        "horizon": (both, gather("horizon"), {"long_name": "time that a descent was given"}),
        "teacher_risk": ("setting", gather("teacher_risk")[1]),
        "swapped_excess": ("setting", gather("swapped_excess")[1]),
        "swapped_eigenvalue": ("setting", gather("eigenvalue")[1]),
        "swapped_at": (("setting", "overlap"), gather("swapped_at")[1]),
        "end_state": ((*both, "run", "overlap"), gather("end")),
        "end_risk": ((*both, "run"), gather("end_risk")),
        "end_name": ((*both, "run"), gather("end_name")),
        "sweep": ("setting", [name for name, _ in listed]),
    }
    for index, name in enumerate(("dim", "length", "spread")):
        data[name] = ("setting", [s[index] for _, s in listed])
    coords = {
        "start": ["M", "spheres"],
        "end": list(ENDS),
        "overlap": ["kappa", "nu", "theta", "eta", "rho"],
    }
    attrs: dict[str, Any] = {"runs": config.runs, "steps": config.steps, "base_dim": config.dim}
    attrs |= {"base_length": config.length, "base_spread": config.spread}
    return xarray.Dataset(data, coords=coords, attrs=attrs)
