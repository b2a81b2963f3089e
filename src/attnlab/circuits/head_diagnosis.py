"""What the heads of any attention layer do, in numbers that need no task.

Source: elhage2021 (eigenvalues of `OV`), roy2007 (effective rank), Section 3 of he2025 (heads that
cancel); `docs/theory/head-circuits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from .._core.errors import InvalidArgument, check_integer, check_real
from .._core.progress import current_progress
from .circuits import Circuits
from .heads import HeadCircuits
from .spectra import Spectrum, cosines, gram, spectrum
from .zero_sum import ZeroSum, zero_sum_groups

if TYPE_CHECKING:
    import xarray

_LARGEST = 1e60
Deed = Literal["copying", "suppressing", "mixed", "dummy"]


class LayerDiagnosis(NamedTuple):
    """One layer: its number, the spectra of each head, cosines between heads, the zero-sum groups.

    `key_offset` is `|u^h| / |KQ^h|`, how much of a score does not depend on who asks.
    """

    layer: int
    kq: tuple[Spectrum, ...]
    ov: tuple[Spectrum, ...]
    kq_cosine: np.ndarray
    ov_cosine: np.ndarray
    key_offset: np.ndarray
    deeds: tuple[Deed, ...]
    zero_sum: tuple[ZeroSum, ...]


@dataclass(frozen=True, eq=False)
class HeadDiagnosis:
    """What `diagnose_heads` found; `print` shows a table, `to_dataset` gives all numbers by name.

    - `layers`: a `LayerDiagnosis` for each; `title`: what was looked at.
    """

    layers: tuple[LayerDiagnosis, ...]
    title: str = ""

    def to_dataset(self) -> xarray.Dataset:
        """All numbers on the dimensions `layer`, `head`, `rank`, ..."""
        from .head_table import as_dataset

        return as_dataset(self)

    def __str__(self) -> str:
        from .head_table import as_text

        return as_text(self)


def diagnose_heads(
    found: HeadCircuits | Circuits | Sequence[HeadCircuits],
    *,
    sign: float = 0.5,
    dummy: float = 0.1,
    zero_sum: float = 0.2,
    largest_group: int = 4,
) -> HeadDiagnosis:
    """Spectra of `KQ` and `OV`, what each head does, which are alike, and which cancel.

    **Arguments:** `found`: one layer, or several such as `load` gives for a model. Thresholds
    decide on words and groups only: a head is `"copying"` where the sign of its `OV` is at least
    `sign`, `"suppressing"` where it is at most `-sign`, `"dummy"` where its `|OV|` is below `dummy`
    of the layer's largest; a group of up to `largest_group` heads is reported where
    `|Σ OV| ≤ zero_sum · Σ |OV|`.

    Weights are taken as they are: no LayerNorm is folded in. No matrix of the size of `KQ` is made.
    Raises `InvalidArgument`.
    """
    thresholds = {"sign": sign, "dummy": dummy, "zero_sum": zero_sum}
    for name, value in thresholds.items():
        thresholds[name] = check_real(name, value, low=0.0, high=1.0)
    largest_group = check_integer("largest_group", largest_group, minimum=2, maximum=8)
    layers: Any = (found,) if isinstance(found, HeadCircuits | Circuits) else found
    allowed = "HeadCircuits, Circuits, or a sequence of HeadCircuits with at least one"
    if not isinstance(layers, Sequence) or not len(layers):
        raise InvalidArgument("found", found, allowed)
    progress = current_progress()
    progress.start("layers", len(layers))
    diagnosed = []
    try:
        for layer in layers:
            if not isinstance(layer, HeadCircuits | Circuits):
                raise InvalidArgument("found", found, allowed)
            diagnosed.append(_layer(layer, thresholds, largest_group))
            progress.advance(1)
    finally:
        progress.stop()
    shapes = {(len(x.kq), *(len(s[0].singular) for s in (x.kq, x.ov))) for x in diagnosed}
    if len(shapes) > 1:
        raise InvalidArgument(
            "found", found, "layers with as many heads of the same dimension each"
        )
    return HeadDiagnosis(tuple(diagnosed), getattr(found, "origin", "") or f"{len(layers)} layers")


def _layer(
    layer: HeadCircuits | Circuits, thresholds: dict[str, float], largest: int
) -> LayerDiagnosis:
    if isinstance(layer, Circuits):
        one = np.broadcast_to(np.eye(layer.kq.shape[-1]), layer.kq.shape)
        factors = (layer.kq, one), (layer.ov, one)
        offset, number = np.zeros(layer.n_heads), 0
    else:
        factors = (layer.left_kq, layer.right_kq), (layer.left_ov, layer.right_ov)
        offset, number = np.linalg.norm(layer.key_offset, axis=1), layer.layer
    largest_entry = max(float(np.abs(part).max()) for pair in factors for part in pair)
    if largest_entry > _LARGEST:
        told = f"weights up to {_LARGEST:g}, whose products can be squared"
        raise InvalidArgument("found", f"layer {number}, entries up to {largest_entry:g}", told)
    kq, ov = (tuple(spectrum(a, b) for a, b in zip(*pair)) for pair in factors)
    products = [gram(*pair) for pair in factors]
    sizes = np.array([s.norm for s in kq])
    return LayerDiagnosis(
        layer=number,
        kq=kq,
        ov=ov,
        kq_cosine=cosines(products[0]),
        ov_cosine=cosines(products[1]),
        key_offset=np.divide(offset, sizes, out=np.zeros(len(kq)), where=sizes > 0),
        deeds=_deeds(ov, thresholds),
        zero_sum=zero_sum_groups(
            products[1],
            threshold=thresholds["zero_sum"],
            dummy=thresholds["dummy"],
            largest=largest,
        ),
    )


def _deeds(ov: tuple[Spectrum, ...], thresholds: dict[str, float]) -> tuple[Deed, ...]:
    largest, sign = max(s.norm for s in ov), thresholds["sign"]

    def deed(s: Spectrum) -> Deed:
        if s.norm <= thresholds["dummy"] * largest:
            return "dummy"
        if s.sign >= sign:
            return "copying"
        return "suppressing" if s.sign <= -sign else "mixed"

    return tuple(deed(s) for s in ov)
