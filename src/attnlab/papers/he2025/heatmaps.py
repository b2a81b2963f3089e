"""The circuits of trained layers as heatmaps: at the end of training, and on the way there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .dynamics import caption, heads_text

if TYPE_CHECKING:
    import xarray

    from ...circuits import Circuits
    from ...plotting.spec import Figure, Panel

_TIMES = (0.0, 0.02, 0.1, 1.0)  # shares of the training that figures of the evolution show


def circuits_at(
    dataset: xarray.Dataset,
    *,
    run: int | None = None,
    step: int = -1,
    normalization: Any = "softmax",
) -> Circuits:
    """The circuits of a run (default: the shown one) at the saved step of that index."""
    from ...circuits import Circuits

    run = int(dataset.attrs["shown"]) if run is None else run
    one = dataset.isel(run=run, step=step) if "step" in dataset.kq.dims else dataset.isel(run=run)
    dim = int(dataset.attrs["dim"])
    outputs = one.kq.shape[-1] - dim
    return Circuits(
        one.kq.values, one.ov.values, dim=dim, n_outputs=outputs, normalization=normalization
    )


def figure(dataset: xarray.Dataset) -> Figure:
    """Figures 1a and 2a: `KQ` of each head and `OV` of all, at the last saved step."""
    from ...circuits import diagnose
    from ...plotting.circuits import circuit_panels
    from ...plotting.spec import Figure

    count = dataset.sizes["head"]
    found = diagnose(circuits_at(dataset))
    panels = circuit_panels(found)
    rest = ", ".join(
        f"{name} {value:.3f}"
        for name, value in (
            ("off the diagonal of KQ", found.worst["off_diagonal"]),
            ("unevenness of its diagonal", found.worst["diagonal_spread"]),
            ("OV read from covariates", found.worst["ov_covariates"]),
        )
    )
    return Figure(
        title=f"Circuits of {heads_text(count)} after training",
        panels=panels,
        columns=len(panels) if len(panels) < 4 else 3,
        caption=(
            f"{caption(dataset)} Rows of KQ and columns of OV are the entries of a token (x, y). "
            f"Shares that do not fit the pattern, at the worst head that matters: {rest}."
        ),
        alt=f"Heatmaps of the circuits of {heads_text(count)}.",
    )


def figure_evolution(dataset: xarray.Dataset) -> Figure:
    """Figures 4 and 13: one row of circuits for each of a few saved steps, on common scales."""
    from ...plotting.spec import Figure

    steps = dataset.step.values
    places = sorted({int(np.argmin(np.abs(steps - share * steps[-1]))) for share in _TIMES})
    rows = [circuits_at(dataset, step=place) for place in places]
    names = [f"step {int(steps[place])}" for place in places]
    count = dataset.sizes["head"]
    return Figure(
        title=f"Circuits of {heads_text(count)} during training",
        panels=strips(rows, names),
        caption=f"{caption(dataset)} One row for each saved step, all on the same colours.",
        alt=f"Heatmaps of the circuits of {heads_text(count)} at several steps.",
    )


def strips(
    rows: Sequence[Circuits], names: Sequence[str], *, read_outs: bool = True
) -> list[Panel]:
    """Two panels for each of several circuits: `KQ` of all heads side by side, and `OV` of all (not
    without `read_outs`).

    Effective entries only; one scale of colours for all `KQ`, one for all `OV`.
    """
    from ...plotting.circuits import circuit_panels
    from ...plotting.spec import Axis, Heat, Panel

    kq_limit = max(float(np.abs(row.effective_kq).max()) for row in rows) or 1.0
    ov_limit = max(float(np.abs(row.effective_ov).max()) for row in rows) or 1.0
    panels = []
    for row, name in zip(rows, names):
        first, *_, ov = circuit_panels(row, kq_limit=kq_limit, ov_limit=ov_limit)
        size, width = row.dim + row.n_outputs, row.dim + 1
        wide = np.full((size, width * row.n_heads - 1), np.nan)
        for head, matrix in enumerate(row.effective_kq):
            wide[:, head * width : head * width + row.dim] = matrix
        middle = [head * width + (row.dim - 1) / 2 for head in range(row.n_heads)]
        heat = Heat(
            np.arange(wide.shape[1]), np.arange(size), wide, "logit", diverging=True,
            limits=(-kq_limit, kq_limit),
        )  # fmt: skip
        heads = Axis(
            "query entries of each head",
            limits=(-0.5, wide.shape[1] - 0.5),
            ticks=tuple((place, f"head {head}") for head, place in enumerate(middle)),
        )
        panels.append(Panel(f"{name}: KQ", heads, first.y, [heat]))
        if read_outs:
            panels.append(replace(ov, title=f"{name}: OV, read-out"))
    return panels
