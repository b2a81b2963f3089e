"""The diagnosis of heads as a text table, and as a labelled dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .table import aligned

if TYPE_CHECKING:
    import xarray

    from .head_diagnosis import HeadDiagnosis, LayerDiagnosis

_MOST_GROUPS = 5  # of each layer in the text; the dataset has all
_NUMBERS = (
    "norm",
    "trace",
    "symmetric",
    "sign",
    "effective_rank",
    "stable_rank",
    "diagonal",
    "identity",
)
_LONG_NAMES = {
    "norm": "Frobenius norm",
    "trace": "trace",
    "symmetric": "share of the symmetric part in the squared norm",
    "sign": "sum of the eigenvalues over the sum of their moduli",
    "effective_rank": "exponential of the entropy of the singular values",
    "stable_rank": "squared norm over the largest squared singular value",
    "diagonal": "norm of the diagonal over the norm",
    "identity": "cosine with the identity",
    "singular_values": "singular values",
    "eigenvalues_real": "real parts of the eigenvalues",
    "eigenvalues_imaginary": "imaginary parts of the eigenvalues",
    "cosine": "cosine between heads",
}


def as_text(diagnosis: HeadDiagnosis) -> str:
    """A table of the heads of every layer, and the groups that cancel; heads count from 0."""
    head = ["layer", "head", "does", "|OV|", "sign OV", "rank OV", "|KQ|", "sign KQ", "rank KQ"]
    head += ["sym. KQ", "diag. KQ", "offset", "most alike (OV)"]
    rows = [head]
    for layer in diagnosis.layers:
        rows += _rows(layer)
    lines = [diagnosis.title, "", *aligned(rows), "", *_groups(diagnosis)]
    return "\n".join(lines)


def _rows(layer: LayerDiagnosis) -> list[list[str]]:
    rows = []
    for h, (kq, ov) in enumerate(zip(layer.kq, layer.ov)):
        row = [str(layer.layer), str(h), layer.deeds[h]]
        row += [f"{ov.norm:.3g}", f"{ov.sign:+.2f}", f"{ov.effective_rank:.1f}"]
        row += [f"{kq.norm:.3g}", f"{kq.sign:+.2f}", f"{kq.effective_rank:.1f}"]
        row += [f"{kq.symmetric:.2f}", f"{kq.diagonal:.2f}", f"{layer.key_offset[h]:.2f}"]
        others = np.delete(np.arange(len(layer.ov)), h)
        if len(others):
            near = others[np.argmax(np.abs(layer.ov_cosine[h, others]))]
            row.append(f"head {near} ({layer.ov_cosine[h, near]:+.2f})")
        else:
            row.append("")
        rows.append(row)
    return rows


def _groups(diagnosis: HeadDiagnosis) -> list[str]:
    lines = []
    for layer in diagnosis.layers:
        for group in layer.zero_sum[:_MOST_GROUPS]:
            heads = ", ".join(map(str, group.heads))
            lines.append(f"layer {layer.layer}: heads {heads} cancel, to {group.value:.3f}")
        if len(layer.zero_sum) > _MOST_GROUPS:
            lines.append(f"layer {layer.layer}: {len(layer.zero_sum) - _MOST_GROUPS} more groups")
    return lines or ["no group of heads cancels"]


def as_dataset(diagnosis: HeadDiagnosis) -> xarray.Dataset:
    """All numbers on named dimensions; `kq_` and `ov_` before the fields of `Spectrum`."""
    import xarray

    layers = diagnosis.layers
    data: dict[str, Any] = {
        "does": (("layer", "head"), np.array([x.deeds for x in layers], object))
    }
    for circuit in ("kq", "ov"):
        spectra = [getattr(layer, circuit) for layer in layers]
        for name in _NUMBERS:
            values = [[getattr(s, name) for s in heads] for heads in spectra]
            data[f"{circuit}_{name}"] = (("layer", "head"), np.array(values))
        rank = (("layer", "head", f"{circuit}_rank"),)
        eigenvalues = np.array([[s.eigenvalues for s in heads] for heads in spectra])
        singular = np.array([[s.singular for s in heads] for heads in spectra])
        data[f"{circuit}_singular_values"] = (*rank, singular)
        data[f"{circuit}_eigenvalues_real"] = (*rank, eigenvalues.real)
        data[f"{circuit}_eigenvalues_imaginary"] = (*rank, eigenvalues.imag)
        cosine = np.array([getattr(layer, f"{circuit}_cosine") for layer in layers])
        data[f"{circuit}_cosine"] = (("layer", "head", "other_head"), cosine)
    data["key_offset"] = (("layer", "head"), np.array([x.key_offset for x in layers]))
    groups = [(x.layer, group) for x in layers for group in x.zero_sum]
    member = np.zeros((len(groups), len(layers[0].kq)), bool)
    for row, (_, group) in zip(member, groups):
        row[list(group.heads)] = True
    data["group_member"] = (("group", "head"), member)
    data["group_layer"] = ("group", np.array([layer for layer, _ in groups], int))
    data["group_zero_sum"] = ("group", np.array([group.value for _, group in groups], float))
    heads = np.arange(len(layers[0].kq))
    coords = {"layer": [x.layer for x in layers], "head": heads, "other_head": heads}
    dataset = xarray.Dataset(data, coords)
    for circuit in ("kq", "ov"):
        for name, text in _LONG_NAMES.items():
            dataset[f"{circuit}_{name}"].attrs["long_name"] = f"{circuit.upper()}: {text}"
    dataset["key_offset"].attrs["long_name"] = "norm of the key offset over that of KQ"
    dataset["group_zero_sum"].attrs["long_name"] = "norm of the sum of OV over the sum of norms"
    return dataset.assign_attrs(title=diagnosis.title)
