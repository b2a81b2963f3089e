"""Trajectories as labelled datasets: the one layout of all runs in overlap space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from ..students.overlaps import NAMES, Overlaps
from ..theory import SingleLocationRisk

if TYPE_CHECKING:
    import xarray

_LONG_NAMES = {
    "kappa": "overlap k·k*",
    "nu": "overlap v·v*",
    "theta": "overlap v·k*",
    "eta": "overlap k·v*",
    "rho": "overlap k·v",
    "risk": "population risk, label noise included",
    "scale": "activation scale or inverse temperature",
}


def trajectory_dataset(
    axis: str,
    axis_values: np.ndarray,
    states: np.ndarray,
    risk: np.ndarray,
    scale: np.ndarray,
    attrs: dict[str, Any] | None = None,
) -> xarray.Dataset:
    """A dataset of runs.

    **Arguments:** `axis` is `"step"` or `"time"` with `axis_values` `(saves,)`; `states`
    `(saves, runs, 5)`; `risk` and `scale` `(saves, runs)`.

    Variables `kappa, nu, theta, eta, rho, risk, scale` on `(run, axis)`, and `status` on `run`:
    `"ok"`, or `"diverged"` when the run left the finite numbers.
    """
    import xarray

    data: dict[str, Any] = {
        name: (("run", axis), states[..., i].T, {"long_name": _LONG_NAMES[name]})
        for i, name in enumerate(NAMES)
    }
    scale = np.broadcast_to(scale, risk.shape)
    data["risk"] = (("run", axis), risk.T, {"long_name": _LONG_NAMES["risk"]})
    data["scale"] = (("run", axis), scale.T, {"long_name": _LONG_NAMES["scale"]})
    finite = np.isfinite(states).all(axis=(0, 2)) & np.isfinite(risk).all(axis=0)
    data["status"] = ("run", np.where(finite, "ok", "diverged"))
    coords = {"run": np.arange(states.shape[1]), axis: axis_values}
    return xarray.Dataset(data, coords=coords, attrs=dict(attrs or {}))


def risk_shot(risk: SingleLocationRisk, state: Any, scale: Any) -> dict[str, Any]:
    """What every descent saves of a state: itself, its exact risk, and the scale it is taken at
    (None: the risk's own)."""
    value = risk.value_of(state, scale)
    scale = risk.scale if scale is None else scale
    return {"state": state, "risk": value, "scale": jnp.broadcast_to(scale, value.shape)}


def step_dataset(at: np.ndarray, shots: dict[str, np.ndarray], method: str) -> xarray.Dataset:
    """The trajectory that a descent's snapshots make up: `state`, `risk` and `scale` by step."""
    return trajectory_dataset(
        "step", at, shots["state"], shots["risk"], shots["scale"], {"method": method}
    )


def runs_of(overlaps: Overlaps) -> np.ndarray:
    """The starts as one float64 array `(runs, 5)`, batch axes flattened."""
    return np.asarray(overlaps.stack(), np.float64).reshape(-1, 5)


def overlaps_of(dataset: xarray.Dataset, **at: Any) -> Overlaps:
    """The overlaps that a dataset holds, at `isel` indices `at` (e.g. `step=-1`)."""
    part = dataset.isel(at) if at else dataset
    return Overlaps.unstack(np.stack([part[name].values for name in NAMES], -1))


def risk_note(shot: dict[str, np.ndarray]) -> str:
    """The text beside a progress bar."""
    return "" if not shot["risk"].size else f"mean risk {np.mean(shot['risk']):.4g}"
