"""Correlated covariates: the matrix that two heads learn, against the inverses it could be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .dynamics import caption, described
from .heatmaps import circuits_at
from .training import TrainedConfig, partial_as, task_of, trained

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Panel

REFERENCES = {"sigma": "Σ", "gamma": "Γ̃"}  # as figures call them


def run(config: TrainedConfig) -> xarray.Dataset:
    """The history of the training with the matrices `sigma`, `gamma` (the best preconditioner of
    one gradient step, (B.6)) and `gamma_debiased`; `distance` `(run, head, reference)` of the last
    `KQ` from the nearest multiple of each inverse, over the norm of `KQ`."""
    with partial_as(lambda partial: _described(partial, config)):
        history = trained(config).history
    return _described(history, config)


def _described(history: xarray.Dataset, config: TrainedConfig) -> xarray.Dataset:
    from ...estimators import optimal_preconditioner

    task = task_of(config)
    data = described(history, config)
    matrices = {
        "sigma": task.covariance_matrix,
        "gamma": optimal_preconditioner(task),
        "gamma_debiased": optimal_preconditioner(task, debiased=True),
    }
    blocks = data.kq.isel(step=-1).values[..., : config.dim, : config.dim].astype(np.float64)
    told = {"long_name": "distance from the nearest multiple, over the norm"}
    return data.assign(
        {name: (("row_x", "column_x"), matrix) for name, matrix in matrices.items()}
    ).assign(
        distance=(
            ("run", "head", "reference"),
            np.stack([distance(blocks, np.linalg.inv(matrix)) for matrix in matrices.values()], -1),
            told,
        ),
        reference=list(matrices),
    )


def distance(blocks: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """`min_c |B - cM| / |B|` for each of the matrices `B` in `blocks` `(..., d, d)`."""
    inner = np.sum(blocks * matrix, axis=(-1, -2))
    square = np.sum(blocks**2, axis=(-1, -2))
    cosine = inner**2 / np.where(square > 0, square, 1.0) / np.sum(matrix**2)
    return np.sqrt(np.maximum(1 - cosine, 0.0))


def figure(dataset: xarray.Dataset) -> Figure:
    """Figure 11: the circuits beside Σ⁻¹ and Γ̃⁻¹, and the distances from their multiples."""
    from ...circuits import diagnose
    from ...plotting.circuits import circuit_panels
    from ...plotting.spec import Axis, Bars, Figure, Panel

    one = dataset.isel(run=int(dataset.attrs["shown"]))
    names = ["sigma", "gamma"]
    bars = [
        Bars(["Σ⁻¹", "Γ̃⁻¹"], values, label=f"head {head}", role=head)
        for head, values in enumerate(one.distance.sel(reference=names).values)
    ]
    inverses = {name: np.linalg.inv(dataset[name].values) for name in ("sigma", "gamma")}
    corners = ", ".join(
        f"{label} {_second(matrix):.3f}"
        for label, matrix in (
            ("Σ⁻¹", inverses["sigma"]),
            ("Γ̃⁻¹", inverses["gamma"]),
            *((f"head {head}", block) for head, block in enumerate(_blocks(dataset))),
        )
    )
    return Figure(
        title="Circuits of two heads on correlated covariates",
        panels=[
            *circuit_panels(diagnose(circuits_at(dataset))),
            _matrix("Σ⁻¹", inverses["sigma"]),
            _matrix("Γ̃⁻¹", inverses["gamma"]),
            Panel("Distance of KQ from multiples", Axis(""), Axis("|KQ − cM| / |KQ|"), bars),
        ],
        columns=3,
        caption=(
            f"{caption(dataset)} Γ̃ is the best preconditioner of one gradient step. Mean of the "
            f"entries (i, i+2), over the mean diagonal: {corners}."
        ),
        alt="Circuits of two heads, Σ⁻¹ and Γ̃⁻¹ as heatmaps, and bars of distances.",
    )


def figure_inverse(dataset: xarray.Dataset) -> Figure:
    """Figure 14: the inverses of KQ beside Σ and Γ̃, all over their mean diagonals."""
    from ...plotting.spec import Figure

    shown = {
        f"KQ⁻¹, head {head}": np.linalg.inv(block) for head, block in enumerate(_blocks(dataset))
    }
    shown |= {REFERENCES[name]: dataset[name].values for name in ("sigma", "gamma")}
    unit = {name: matrix / np.mean(np.diag(matrix)) for name, matrix in shown.items()}
    limit = max(float(np.abs(matrix).max()) for matrix in unit.values())
    return Figure(
        title="Inverse KQ of two heads on correlated covariates",
        panels=[_matrix(name, matrix, limit) for name, matrix in unit.items()],
        columns=4,
        caption=f"{caption(dataset)} Each matrix over its mean diagonal, which hides the sign.",
        alt="Heatmaps of the inverses of KQ of both heads, of Σ and of Γ̃.",
    )


def _blocks(dataset: xarray.Dataset) -> np.ndarray:
    return circuits_at(dataset).kq_covariates


def _second(matrix: np.ndarray) -> float:
    """Mean of the second diagonals over the mean of the diagonal."""
    beside = np.concatenate([np.diag(matrix, 2), np.diag(matrix, -2)])
    return float(np.mean(beside) / np.mean(np.diag(matrix)))


def _matrix(title: str, matrix: np.ndarray, limit: float | None = None) -> Panel:
    from ...plotting.spec import Axis, Heat, Panel

    limit = float(np.abs(matrix).max()) if limit is None else limit
    places = np.arange(len(matrix))
    ticks = tuple((float(place), str(place)) for place in places)
    edges = -0.5, len(matrix) - 0.5
    heat = Heat(places, places, matrix, "entry", diverging=True, limits=(-limit, limit))
    return Panel(
        title,
        Axis("column", limits=edges, ticks=ticks),
        Axis("row", limits=edges[::-1], ticks=ticks),
        [heat],
    )
