"""Data with a covariance: the preconditioner that trained layers find, linear and ReLU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, field_validator

from .trained import (
    NAMES,
    Spectrum,
    TrainingConfig,
    course,
    known,
    of_dimension,
    one_by_one,
    task_of,
    trained,
)

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Mark

SPECTRUM = (2.0, 1.0, 1.0, 0.5, 0.25)
ON_PATTERN = 0.1  # share outside of the pattern below which a trained layer has it


class PreconditionerConfig(TrainingConfig):
    """Settings: the spectrum of the covariance, and which activations."""

    spectrum: Spectrum = Field(
        SPECTRUM,
        validate_default=True,
        description="eigenvalues of the covariance, rotated at random",
    )
    activations: tuple[str, ...] = Field(
        ("linear", "relu"), min_length=1, description=f"which, each once, {NAMES}"
    )

    @field_validator("activations")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        names = known(value)
        if not {name.removesuffix("-sum") for name in names} <= {"linear", "relu"}:
            raise ValueError("linear, relu, linear-sum, relu-sum: those with a known minimiser")
        return names

    _sizes = field_validator("spectrum")(of_dimension)


def run(config: PreconditionerConfig) -> xarray.Dataset:
    """On `(activation, run, direction)` what `v A` does along the eigenvectors of the covariance,
    with `predicted`; on `(activation, run)` distances of `v A` from the predicted preconditioner,
    from multiples of `I` and of `Σ⁻¹`, and exact risks; the least risks of these three."""
    return one_by_one(
        config.activations,
        lambda name: _described(config, name),
        lambda rows: _together(rows, config),
    )


def _described(config: PreconditionerConfig, name: str) -> dict[str, Any]:
    from ... import population_risk
    from ...circuits import block_pattern
    from ...theory import optimal_attention

    own = config.training(normalization=name, spectrum=config.spectrum)
    task, found = task_of(own), trained(own)
    pattern = block_pattern(found.layer)
    best = optimal_attention(task, normalization=name)
    sigma, A = task.covariance_matrix, np.asarray(best.A)
    values, vectors = np.linalg.eigh(sigma)
    risk = population_risk(task, best)

    def along(matrix: Any) -> Any:
        return np.einsum("id,...ij,jd->...d", vectors, matrix, vectors)

    eye, inverse = np.eye(len(sigma)), np.linalg.inv(sigma)
    return {
        "eigenvalue": values,
        "predicted": along(A),
        "effective": along(pattern.effective),
        "to_prediction": pattern.distance(A),
        "to_identity": pattern.distance(eye),
        "to_inverse": pattern.distance(inverse),
        "off_pattern": pattern.off_pattern,
        "risk": np.array([risk(found.layer_of(i)) for i in range(config.runs)]),
        "least": np.array([risk.value, _least(risk, eye), _least(risk, inverse)]),
    }


def _least(risk: Any, matrix: np.ndarray) -> float:
    """The least risk among the multiples of `matrix`, on which the risk is quadratic."""
    from ...students import MergedAttention

    name = risk.normalization
    at = [
        float(risk(MergedAttention.sparse(t * matrix, normalization=name)))
        for t in (0.0, 1.0, -1.0)
    ]
    slope, curve = (at[1] - at[2]) / 2, (at[1] + at[2]) / 2 - at[0]
    return at[0] - slope**2 / (4 * curve)


_LONG_NAMES = {
    "predicted": "eigenvalue of the minimiser A*",
    "effective": "v A along the eigenvector",
    "to_prediction": "distance of v A from multiples of A*, over its size",
    "to_identity": "distance of v A from multiples of I, over its size",
    "to_inverse": "distance of v A from multiples of Σ⁻¹, over its size",
    "off_pattern": "share of the weights outside of the pattern",
    "risk": "exact risk of the trained layer",
    "least": "least risk",
}
_AXES = {
    "predicted": ("direction",),
    "effective": ("run", "direction"),
    "least": ("matrix",),
}


def _together(rows: list[dict[str, Any]], config: PreconditionerConfig) -> xarray.Dataset:
    import xarray

    variables = {
        key: (
            ("activation", *_AXES.get(key, ("run",))),
            np.stack([row[key] for row in rows]),
            {"long_name": text},
        )
        for key, text in _LONG_NAMES.items()
    }
    names = list(config.activations[: len(rows)])
    coords = {
        "activation": names,
        "matrix": ["A*", "I", "Σ⁻¹"],
        "eigenvalue": ("direction", rows[0]["eigenvalue"], {"long_name": "eigenvalue of Σ"}),
    }
    attrs = {
        "course": course(config),
        "length": config.length,
        "trace": float(sum(config.spectrum)),
        "noise_var": config.noise_var,
    }
    return xarray.Dataset(variables, coords, attrs)


def figure(dataset: xarray.Dataset) -> Figure:
    """Eigenvalues of the preconditioner against those of the covariance, and the risks."""
    from ...plotting.spec import Axis, Bars, Figure, Line, Panel, Points

    marks: list[Mark] = []
    risks, distances, counts = [], [], []
    eigenvalue = dataset.eigenvalue.values
    grid = np.geomspace(eigenvalue.min() / 1.5, eigenvalue.max() * 1.5, 60)
    kinds = [str(kind) for kind in dataset.matrix.values]
    for role, name in enumerate(map(str, dataset.activation.values)):
        one = dataset.sel(activation=name)
        reached = one.off_pattern.values <= ON_PATTERN
        marks.append(Line(grid, curve_of(name, grid, dataset.attrs), f"{name}, A*", role))
        counts.append(f"{int(reached.sum())} of {len(reached)} ({name})")
        good = one.isel(run=reached if reached.any() else slice(None))
        error = None
        if good.sizes["run"] > 1:
            error = good.effective.std("run", ddof=1).values / np.sqrt(good.sizes["run"])
        mean = good.effective.mean("run").values
        mean = np.where(mean > 0, mean, np.nan)
        marks.append(Points(eigenvalue, mean, error, f"{name}, trained", role))
        values = [*one.least.values, float(good.risk.mean())]
        risks.append(Bars([*kinds, "trained"], values, None, name, role))
        values = [float(good[f"to_{key}"].mean()) for key in ("prediction", "identity", "inverse")]
        distances.append(Bars(kinds, values, None, name, role))
    return Figure(
        title="The preconditioner of a trained layer",
        panels=[
            Panel(
                "Along the eigenvectors of Σ",
                Axis("eigenvalue of Σ", log=True, ticks=_ticks(grid)),
                Axis("eigenvalue of v A", log=True, ticks=_ticks(dataset.predicted.values)), marks,
            ),
            Panel("Risk", Axis("best multiple of, and trained"), Axis("exact risk"), risks),
            Panel(
                "Distance of the trained v A", Axis("from multiples of"),
                Axis("share of the norm"), distances,
            ),
        ],
        columns=3,
        caption=(
            f"{dataset.attrs['course']} Σ has the eigenvalues "
            f"{', '.join(f'{value:g}' for value in eigenvalue)} in a random basis. Lines: the exact "
            "minimiser; points: means with standard errors over the starts that end in the sparse "
            f"pattern, {' and '.join(counts)}, or over all where none does; the others end in another "
            "local minimum (ahn2023/joint-pq)."
        ),
        alt=(
            "Eigenvalues of v A fall with those of the covariance; trained points lie on the "
            "curves of the exact minimisers for linear and for ReLU attention."
        ),
    )  # fmt: skip


def curve_of(name: str, eigenvalue: np.ndarray, attrs: Any) -> np.ndarray:
    """The eigenvalue of `A*` that belongs to one of `Σ`, for `w ~ N(0, I)`."""
    n, level = attrs["length"], attrs["trace"] + attrs["noise_var"]
    scale = 1.0 if name.endswith("-sum") else float(n)
    if name.startswith("linear"):
        return np.asarray(scale / ((n + 1) * eigenvalue + level))
    return np.asarray(2 * scale / ((n + 3) * eigenvalue + 2 * level))


def _ticks(values: np.ndarray) -> tuple[tuple[float, str], ...]:
    """1, 2 and 5 times the powers of ten in the range of `values`."""
    decades = 10.0 ** np.arange(-12, 13)
    places = np.outer(decades, [1.0, 2.0, 5.0]).ravel()
    inside = (places >= values.min()) & (places <= values.max())
    return tuple((float(place), f"{place:g}") for place in places[inside])
