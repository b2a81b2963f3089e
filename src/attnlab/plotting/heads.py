"""The diagnosis of heads as a figure: maps over layers and heads, and spectra within one layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .spec import Axis, Bars, Figure, Heat, Panel, Paths, Rule

if TYPE_CHECKING:
    from ..circuits import HeadDiagnosis, LayerDiagnosis
    from ..circuits.spectra import Spectrum

_MOST_TICKS = 16


def head_figure(found: HeadDiagnosis, *, title: str = "Heads") -> Figure:
    """What `circuits.diagnose_heads` found: one layer in detail, or several as maps.

    Several layers: the sign of `OV` and of `KQ`, their effective ranks, the symmetric share of
    `KQ`, and the most negative cosine of a head's `OV` with another's. One layer: the spectra of
    its heads, their signs, and the cosines between them.
    """
    if len(found.layers) > 1:
        panels, caption = _maps(found), "Each square is one head. "
    else:
        panels, caption = _layer(found.layers[0]), "Each curve is one head. "
    caption += (
        "Sign: the sum of the eigenvalues over the sum of their moduli; for OV, 1 copies and -1 "
        "suppresses. Effective rank: the exponential of the entropy of the singular values."
    )
    if len(found.layers) > 1:
        caption += " Balance: the squared norm of the symmetric part less that of the antisymmetric, as a share."
    heads, layers = len(found.layers[0].kq), len(found.layers)
    alt = f"Diagnosis of {heads} heads in {layers} layer{'s' if layers > 1 else ''}."
    return Figure(title, panels, columns=2, caption=caption, alt=alt)


def _maps(found: HeadDiagnosis) -> list[Panel]:
    layers = [layer.layer for layer in found.layers]
    heads = np.arange(len(found.layers[0].kq))
    x, y = _counted("head", heads), _counted("layer", np.arange(len(layers)), layers)

    def panel(title: str, values: Any, label: str, signed: bool = False) -> Panel:
        limits = (-1.0, 1.0) if signed else None
        rows = np.arange(len(layers))
        heat = Heat(heads, rows, np.array(values), label, diverging=signed, limits=limits)
        return Panel(title, x, y, [heat])

    def of(circuit: str, number: str) -> list[list[float]]:
        return [[getattr(s, number) for s in getattr(layer, circuit)] for layer in found.layers]

    return [
        panel("OV: copying or suppressing", of("ov", "sign"), "sign", signed=True),
        panel("KQ: sign of the eigenvalues", of("kq", "sign"), "sign", signed=True),
        panel("OV: effective rank", of("ov", "effective_rank"), "rank"),
        panel("KQ: effective rank", of("kq", "effective_rank"), "rank"),
        panel("KQ: symmetric or antisymmetric", _balance(of("kq", "symmetric")), "balance", True),
        panel("OV: most opposite other head", [_lowest(x) for x in found.layers], "cosine", True),
    ]


def _balance(symmetric: list[list[float]]) -> np.ndarray:
    """`(|S|² - |A|²) / |M|²`: 1 for symmetric, -1 for antisymmetric matrices."""
    return 2 * np.array(symmetric) - 1


def _lowest(layer: LayerDiagnosis) -> np.ndarray:
    others = layer.ov_cosine.copy()
    if len(others) == 1:
        return np.zeros(1)
    np.fill_diagonal(others, np.inf)
    return others.min(axis=1)


def _layer(layer: LayerDiagnosis) -> list[Panel]:
    heads = np.arange(len(layer.kq))
    names = [str(h) for h in heads]
    signs = [
        Bars(names, [s.sign for s in layer.ov], label="OV"),
        Bars(names, [s.sign for s in layer.kq], label="KQ"),
    ]
    ranks = [
        Bars(names, [s.effective_rank for s in layer.ov], label="OV"),
        Bars(names, [s.effective_rank for s in layer.kq], label="KQ"),
    ]
    axis = Axis("head")
    return [
        _singular("OV", layer.ov),
        _singular("KQ", layer.kq),
        Panel(
            "Sign of the eigenvalues", axis, Axis("sign", limits=(-1.05, 1.05)), [*signs, Rule(0.0)]
        ),
        Panel("Effective rank", axis, Axis("rank"), ranks),
        _cosines("OV of two heads", layer.ov_cosine),
        _cosines("KQ of two heads", layer.kq_cosine),
    ]


def _singular(name: str, spectra: tuple[Spectrum, ...]) -> Panel:
    paths = [(1 + np.arange(len(s.singular)), s.singular) for s in spectra]
    top = 1.05 * max(float(s.singular[0]) for s in spectra) or 1.0
    y = Axis("singular value", limits=(0.0, top))
    return Panel(f"Spectrum of {name}", Axis("place"), y, [Paths(paths, role=0)])


def _cosines(title: str, values: np.ndarray) -> Panel:
    heads = np.arange(len(values))
    heat = Heat(heads, heads, values, "cosine", diverging=True, limits=(-1.0, 1.0))
    x, y = _counted("head", heads), _counted("head", heads)
    return Panel(title, x, y, [heat])


def _counted(label: str, places: np.ndarray, names: Any = None) -> Axis:
    """An axis of whole numbers, the y axis of a map running up from 0."""
    names = places if names is None else names
    every = -(-len(places) // _MOST_TICKS)
    ticks = tuple((float(p), str(n)) for p, n in list(zip(places, names))[::every])
    return Axis(label, limits=(-0.5, len(places) - 0.5), ticks=ticks)
