"""A diagnosis as a small text table, and as a labelled dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .multi_task import MODES

if TYPE_CHECKING:
    import xarray

    from .diagnosis import Diagnosis

_LONG_NAMES = {
    "omega": "mean diagonal of KQ",
    "mu": "read-out of a head",
    "effective_step": "first-order coefficient of a gradient step",
    "zero_sum": "sum of mu over the sum of |mu|",
    "distance": "root mean square difference in prediction",
    "distance_error": "standard error of the distance",
    "reduction_distance": "root mean square difference between the layer and its reduction",
    "leak": "steps outside of a task's support over those inside",
    "cross": "steps on the labels of other tasks over those on the own",
}


def as_text(diagnosis: Diagnosis) -> str:
    """A table of the heads, then the layer, its tasks, and the nearest estimators.

    Heads, outputs and coordinates are counted from 0, as in the arrays.
    """
    d = diagnosis
    n, heads = d.circuits.n_outputs, d.circuits.n_heads
    lines = [
        f"{heads} head{'s' if heads > 1 else ''}, dim {d.circuits.dim}, {n} output"
        f"{'s' if n > 1 else ''}, {d.circuits.normalization.name}",
        "",
        *_heads(d),
        "",
        *_layer(d),
    ]
    if d.tasks is not None:
        lines += ["", *_tasks(d)]
    if d.comparison is not None:
        lines += ["", *_distances(d)]
    return "\n".join(lines)


def _heads(d: Diagnosis) -> list[str]:
    n = d.circuits.n_outputs
    mu_names = ["mu"] if n == 1 else [f"mu_{i}" for i in range(n)]
    head = ["head", "role", "omega", *mu_names, "off-diagonal", "spread", "label rows", "OV rest"]
    rows = [head]
    rest = np.hypot(d.patterns.ov_covariates, d.patterns.ov_mixing)
    for h in range(d.circuits.n_heads):
        shares = (
            d.patterns.off_diagonal[h],
            d.patterns.diagonal_spread[h],
            d.patterns.label_rows[h],
            rest[h],
        )
        numbers = [f"{x:.4g}" for x in (d.omega[h], *d.circuits.mu[h])]
        rows.append([str(h), d.role[h], *numbers, *(f"{x:.2g}" for x in shares)])
    return aligned(rows)


def _layer(d: Diagnosis) -> list[str]:
    layer = d.layer
    rows = [
        ["effective step", _several(layer.effective_step)],
        ["zero sum", _several(layer.zero_sum)],
        ["sign matching", f"{layer.sign_matching:.3g}"],
        ["spread of |omega|", f"{layer.omega_spread:.2g}"],
    ]
    rows += [
        [
            f"distance from {r.name}",
            f"heads {_several(r.distance)}; layer {_several(r.layer_distance)}",
        ]
        for r in d.references
    ]
    return aligned(rows)


def _tasks(d: Diagnosis) -> list[str]:
    assert d.tasks is not None
    t = d.tasks
    rows = [
        ["mode", (f"{t.mode}: " if t.mode in ("I", "II", "III", "IV") else "") + MODES[t.mode]],
        ["step on the support", _several(t.inside)],
        ["its spread", _several(t.inside_spread)],
        ["leak outside", _several(t.leak)],
        ["on other labels", _several(t.cross)],
    ]
    for h, (looks, roles) in enumerate(zip(t.support, d.roles.by_task)):
        places = " ".join(map(str, np.flatnonzero(looks))) or "nothing"
        rows.append([f"head {h}", f"{', '.join(roles)}; looks at {places}"])
    return aligned(rows)


def _distances(d: Diagnosis) -> list[str]:
    assert d.comparison is not None
    c = d.comparison
    rows = [["distance in prediction", "value", "error", ""]]
    for row in c.estimators:
        fit = ", ".join(f"{name} {value:.4g}" for name, value in row.fit.items())
        rows.append([row.name, f"{row.value:.4g}", f"{row.error:.1g}", fit])
    for row in c.reductions:
        rows.append([f"own {row.name} reduction", f"{row.value:.4g}", f"{row.error:.1g}", ""])
    rows.append(["(size of the predictions)", f"{c.size:.4g}", "", ""])
    return aligned(rows)


def _several(values: np.ndarray) -> str:
    return " ".join(f"{x:.3g}" for x in np.atleast_1d(values))


def aligned(rows: list[list[str]]) -> list[str]:
    """The rows as lines with columns of equal width."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    ]


def as_dataset(diagnosis: Diagnosis) -> xarray.Dataset:
    """All numbers of a diagnosis on named dimensions."""
    import xarray

    d = diagnosis
    c = d.circuits
    data: dict[str, Any] = {
        "kq": (("head", "key_entry", "query_entry"), c.kq),
        "ov": (("head", "out_entry", "in_entry"), c.ov),
        "omega": ("head", d.omega),
        "omega_diagonal": (("head", "coordinate"), c.omega_diagonal),
        "mu": (("head", "output"), c.mu),
        "role": ("head", np.array(d.role, dtype=object)),
        "task_role": (("head", "output"), np.array(d.roles.by_task, dtype=object)),
        "active": ("head", d.active),
        **{name: ("head", values) for name, values in d.patterns._asdict().items()},
        "sign_matching": ((), d.layer.sign_matching),
        "zero_sum": ("output", d.layer.zero_sum),
        "omega_spread": ((), d.layer.omega_spread),
        "averaging": ("output", d.layer.averaging),
        "effective_matrix": (("output", "coordinate", "coordinate_q"), d.layer.effective_matrix),
        "effective_step": ("output", d.layer.effective_step),
        "reference_cosine": (("reference", "head"), np.stack([r.cosine for r in d.references])),
        "reference_distance": (("reference", "head"), np.stack([r.distance for r in d.references])),
        "layer_cosine": (("reference", "output"), np.stack([r.layer_cosine for r in d.references])),
        "layer_distance": (
            ("reference", "output"),
            np.stack([r.layer_distance for r in d.references]),
        ),
    }
    coords: dict[str, Any] = {
        "head": np.arange(c.n_heads),
        "output": np.arange(c.n_outputs),
        "coordinate": np.arange(c.dim),
        "reference": [r.name for r in d.references],
    }
    if d.tasks is not None:
        t = d.tasks
        data |= {
            "mode": ((), t.mode),
            "step": (("output", "coordinate"), t.step),
            "inside_step": ("output", t.inside),
            "inside_spread": ("output", t.inside_spread),
            "leak": ("output", t.leak),
            "label_step": (("output", "label", "coordinate"), t.label_step),
            "cross": ("output", t.cross),
            "group": ("coordinate", t.groups),
            "group_spread": ("head", t.group_spread),
            "parallel": ((), t.parallel),
            "looks_at": (("head", "coordinate"), t.support),
        }
    if d.comparison is not None:
        rows, own = d.comparison.estimators, d.comparison.reductions
        data |= {
            "prediction_size": ((), d.comparison.size),
            "distance": ("estimator", [row.value for row in rows]),
            "distance_error": ("estimator", [row.error for row in rows]),
            "step_fit": ("estimator", [row.fit.get("step", np.nan) for row in rows]),
            "reduction_distance": ("form", [row.value for row in own]),
            "reduction_error": ("form", [row.error for row in own]),
        }
        coords |= {"estimator": [row.name for row in rows], "form": [row.name for row in own]}
    dataset = xarray.Dataset(data, coords)
    for name, text in _LONG_NAMES.items():
        if name in dataset:
            dataset[name].attrs["long_name"] = text
    return dataset.assign_attrs(normalization=c.normalization.name)
