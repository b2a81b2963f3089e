"""The figure of `ahn2023/deep-linear`: risks against depth and length, and the best matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Axis, Figure, Mark, Panel

_TRAINED = 3  # roles: 0 one step size, 1 best steps, 2 with b
_DODGE = 0.12  # of points that would hide each other
_FLOOR = "Bayes"


def figure(dataset: xarray.Dataset) -> Figure:
    """Four panels: two kinds of data against depth, lengths, and distances from `cΣ⁻¹`."""
    from ...plotting.spec import Figure

    attrs = dataset.attrs
    trained = (
        f" Trained: stacks with all of P and Q free, hence with B, {attrs['course']}; one point "
        "for each start. Those above the lowest line are not at the end of their training; from "
        "three layers on, rare prompts that a test sample may miss can make up most of the mean."
        if "data" in dataset.dims
        else ""
    )
    return Figure(
        title="Layers of linear attention, and as many steps of gradient descent",
        panels=[_isotropic(dataset), _anisotropic(dataset), _lengths(dataset), _distances(dataset)],
        columns=2,
        caption=(
            f"{attrs['setting']}; Σ has the eigenvalues {attrs['spectrum']} in a random basis, and "
            "w ~ N(0, Σ⁻¹/d) unless said otherwise. Solid lines: exact risks, which are the same for "
            "isotropic data and, with the preconditioner Σ⁻¹, for any Σ. Dashed: without it, sampled. "
            f"Any matrices: {attrs['search']}; their risks on fresh ones.{trained}"
        ),
        alt=(
            "Risk on a logarithmic scale falls with the number of layers, fastest for layers that "
            "move the covariates; plain gradient descent is far above on anisotropic data."
        ),
    )


def _lines(dataset: xarray.Dataset, names: tuple[str, str, str]) -> list[Mark]:
    from ...plotting.spec import Line

    x = dataset.layers.values
    keys = ("common", "best", "moved")
    return [
        Line(x, dataset[key].values, name, role)
        for role, (key, name) in enumerate(zip(keys, names))
    ]


def _depth_panel(dataset: xarray.Dataset, title: str, marks: list[Mark]) -> Panel:
    from ...plotting.spec import Axis, Panel, Rule

    bayes = float(dataset.bayes)
    if bayes > 1e-12:
        marks.append(Rule(bayes, label=_FLOOR))
    counts = dataset.layers.values
    ticks = tuple((float(n), str(n)) for n in counts)
    limits = (0.7, float(counts[-1]) + 0.3)
    return Panel(title, Axis("layers, or steps", limits=limits, ticks=ticks), _risk_axis(), marks)


def _risk_axis() -> Axis:
    from ...plotting.spec import Axis

    return Axis("risk", log=True)


def _isotropic(dataset: xarray.Dataset) -> Panel:
    names = ("one step size", "best steps = best B = 0", "best layers with b (GD++)")
    marks = _lines(dataset, names)
    return _depth_panel(dataset, "Isotropic data", marks + _trained(dataset, "isotropic"))


def _anisotropic(dataset: xarray.Dataset) -> Panel:
    from ...plotting.spec import Line, Points

    x = dataset.layers.values
    marks: list[Mark] = []
    for role, (key, name) in enumerate(
        (("plain_common", "no preconditioner, one size"), ("plain_best", "no preconditioner, best"))
    ):
        marks.append(Line(x, dataset[key].values, name, role, dash=True))
    names = ("preconditioned, one size", "preconditioned, best", "with b (GD++)")
    marks += _lines(dataset, names)
    one = dataset.sel(prior=dataset.prior.values[0])
    at = one.searched_layers.values
    marks.append(
        Points(at, one.matrices.values, one.matrices_error.values, "any matrices, B = 0", 1)
    )
    if "matrices_b" in dataset:
        two, error = [float(dataset.matrices_b)], [float(dataset.matrices_b_error)]
        marks.append(Points([2], two, error, "any matrices A, B", 2))
    return _depth_panel(dataset, "Anisotropic data", marks + _trained(dataset, "anisotropic"))


def _trained(dataset: xarray.Dataset, kind: str) -> list[Mark]:
    from ...plotting.spec import Points

    if "data" not in dataset.dims or kind not in dataset.data.values:
        return []
    one = dataset.sel(data=kind)
    good = np.isfinite(one.trained.values)
    if not good.any():
        return []
    depth = np.broadcast_to(one.trained_layers.values[:, None] + _DODGE, good.shape)
    values, errors = one.trained.values[good], one.trained_error.values[good]
    return [Points(depth[good], values, errors, "trained P, Q", _TRAINED)]


def _lengths(dataset: xarray.Dataset) -> Panel:
    from ...plotting.spec import Axis, Line, Panel, Points

    n = dataset.length.values
    marks: list[Mark] = []
    names = ("one step size", "best steps = best B = 0", "best layers with b (GD++)")
    for role, (key, name) in enumerate(zip(("common", "best", "moved"), names)):
        y = dataset[f"{key}_by_length"].values
        marks += [Line(n, y, name, role), Points(n, y, None, None, role)]
    if float(dataset.bayes_by_length.max()) > 1e-12:
        marks.append(Line(n, dataset.bayes_by_length.values, _FLOOR, "reference", dash=True))
    ticks = tuple((float(k), str(k)) for k in n)
    title = f"{dataset.attrs['length_layers']} layers, preconditioner Σ⁻¹"
    return Panel(title, Axis("number of examples n", log=True, ticks=ticks), _risk_axis(), marks)


def _distances(dataset: xarray.Dataset) -> Panel:
    from ...plotting.spec import Axis, Panel, Points

    x = dataset.searched_layers.values
    marks: list[Mark] = []
    for place, prior in enumerate(map(str, dataset.prior.values)):
        one = dataset.sel(prior=prior)
        label = f"best matrices, w ~ N(0, {prior})"
        at = x + (2 * place - 1) * _DODGE / 2
        marks.append(Points(at, one.off.values, one.off_error.values, label, (1, 4)[place]))
    last, shown = int(x[-1]), [dataset.off.values.ravel()]
    if "data" in dataset.dims and "anisotropic" in dataset.data.values:
        deepest = int(np.argmax(dataset.trained_layers.values))
        own = dataset.trained_off.sel(data="anisotropic").isel(trained_layers=deepest).values
        good = np.isfinite(own)
        if good.any():
            last = max(last, own.shape[-1])
            shown.append(own[good])
            at = np.broadcast_to(np.arange(1, own.shape[-1] + 1) + 1.5 * _DODGE, own.shape)
            marks.append(Points(at[good], own[good], None, "trained P, Q", _TRAINED))
    ticks = tuple((float(k), str(k)) for k in range(1, last + 1))
    return Panel(
        "A of each layer, against Σ⁻¹",
        Axis("layer l", limits=(0.7, last + 0.3), ticks=ticks),
        Axis("distance over size, whitened", log=True, ticks=_ticks(np.concatenate(shown))),
        marks,
    )


def _ticks(values: np.ndarray) -> tuple[tuple[float, str], ...]:
    """1, 2 and 5 times the powers of ten around positive `values`."""
    places = np.outer(10.0 ** np.arange(-6, 1), [1.0, 2.0, 5.0]).ravel()
    around = (places > values.min() / 2.5) & (places < values.max() * 1.5)
    return tuple((float(place), f"{place:g}") for place in places[around])
