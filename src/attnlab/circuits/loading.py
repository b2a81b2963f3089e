"""Circuits from a file, and a layer of in-context regression into one.

Source: `docs/guides/reading-checkpoints`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import InvalidArgument, check_choice, check_integer
from .._core.files import replacing
from ..checkpoints import (
    Layout,
    Weights,
    check_neighbours,
    convention_of,
    read_attention,
    read_mapping,
    read_weights,
    recognise,
)
from ..students import AttentionStack, MultiHeadAttention
from ..students.normalizations import normalization_names
from .circuits import Circuits, extract
from .heads import HeadCircuits, ModelCircuits
from .merged_files import find_parameter, read_stack
from .rotary import turned_entries

_MARK, _FORMAT = "attnlab", 1


def load(
    path: str | os.PathLike[str],
    *,
    layer: int | None = None,
    mapping: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    convention: str | None = None,
    heads: int | None = None,
    dim: int | None = None,
    n_outputs: int = 1,
    normalization: str | None = None,
) -> Circuits | HeadCircuits | ModelCircuits | AttentionStack:
    """The circuits of the attention in a file of weights; nothing in the file is executed.

    Gives `Circuits` for a layer of in-context regression: what `save` wrote, or any layer with
    `dim` said. Gives `ModelCircuits` for a model, and of these the `HeadCircuits` of one `layer`.
    Gives an `AttentionStack` of `MergedAttention` for what the released code of ahn2023 saves, and of
    it the `Circuits` of one `layer`.

    **Arguments:**

    - `path`: see `checkpoints.read_weights`.
    - `layer`: its number in the file, from 0.
    - `mapping`: names for files of no known family, a dictionary or a TOML or JSON file; see
      `docs/guides/reading-checkpoints`.
    - `convention`: `"row"` (`z W`) or `"column"` (`W z`), where neither names nor shapes tell.
    - `heads`: how many, where the file does not tell.
    - `dim` of the covariates, `n_outputs`, `normalization`: say that the file holds a layer on
      tokens `(x, y)`.

    Raises `InvalidArgument`.
    """
    weights = read_weights(path)
    if layer is not None:
        layer = check_integer("layer", layer, minimum=0)
    if _MARK in weights.metadata:
        given = {"mapping": mapping, "convention": convention, "heads": heads, "dim": dim}
        for name, value in given.items():
            if value is not None:
                raise InvalidArgument(name, value, "absent: the file says it itself")
        return _own(weights, layer)
    parameter = find_parameter(weights, mapping)
    if parameter is not None:
        for name, value in (("convention", convention), ("heads", heads), ("dim", dim)):
            if value is not None:
                raise InvalidArgument(name, value, "absent: the parameter's shape tells it")
        return read_stack(weights, parameter, layer, normalization)
    in_context: dict[str, Any] = {}
    if mapping is None:
        layout = recognise(weights)
    else:
        layout, in_context = read_mapping(mapping, weights)
    if convention is not None:
        check_choice("convention", convention, ("row", "column"))
        if layout.convention not in (None, convention):
            told = f"{layout.convention!r}, as {layout.family} has it, or absent"
            raise InvalidArgument("convention", convention, told)
        layout = replace(layout, convention=convention)  # type: ignore[arg-type]
    if heads is not None:
        heads = check_integer("heads", heads, minimum=1)
        if layout.heads not in (None, heads):
            raise InvalidArgument("heads", heads, f"{layout.heads}, as told, or absent")
        layout = replace(layout, heads=heads)
    if dim is not None:
        in_context = {"n_outputs": n_outputs, **in_context, "dim": dim}
    if normalization is not None:
        in_context["normalization"] = normalization
    # a second look at the shapes is spared: layers of one model are written alike
    layout = replace(layout, convention=convention_of(weights, layout))
    if mapping is None:
        check_neighbours(weights, layout)
    if layer is not None and layer not in layout.layers:
        told = ", ".join(map(str, layout.layers))
        raise InvalidArgument("layer", layer, f"one of the file's layers: {told}")
    if in_context:
        return _regression(weights, layout, layer, in_context)
    model = ModelCircuits(
        weights.path,
        layout.family,
        str(layout.convention),
        layout.layers,
        lambda number: _heads(weights, layout, number),
    )
    return model if layer is None else _heads(weights, layout, layer)


def _heads(weights: Weights, layout: Layout, layer: int) -> HeadCircuits:
    read = read_attention(weights, layout, layer)
    check_neighbours(weights, layout)
    turned = turned_entries(read.query.shape[1], layout.rotary_share)
    if layout.rotary is not None and (turned % 2 or not turned):
        told = f"an even number of entries for rotary positions, not {turned}"
        raise InvalidArgument("path", str(weights.path), f"of heads with {told}")
    seen = layout.window_layers is None or layer in layout.window_layers
    return HeadCircuits(
        read,
        layer,
        causal=layout.causal,
        rotary=layout.rotary,
        rotary_pairs=layout.rotary_pairs,
        rotary_share=layout.rotary_share,
        window=layout.window if seen else None,
        beside=layout.beside or None,
        origin=f"{layout.family}, written {layout.convention}-wise: {weights.path}, layer {layer}",
    )


def _regression(
    weights: Weights, layout: Layout, layer: int | None, told: dict[str, Any]
) -> Circuits:
    """A layer on tokens `(x, y)`; its biases have to be 0, which the theory of such layers has."""
    if "dim" not in told:
        raise InvalidArgument("dim", None, "given with n_outputs or normalization")
    read = _heads(weights, layout, _one(layer, layout.layers))
    if read.rotary is not None or read.beside or read.window is not None:
        allowed = (
            "a layer whose scores know no positions, since one of in-context regression has none"
        )
        raise InvalidArgument("path", str(weights.path), allowed)
    if read.key_offset.any() or read.constant.any():
        allowed = "a layer without biases, since one of in-context regression has none"
        raise InvalidArgument("path", str(weights.path), allowed)
    return Circuits(read.kq, read.ov, **told)


def save(layer: Any, path: str | os.PathLike[str]) -> Path:
    """Writes a layer of in-context regression, or its circuits, for `load` to read again.

    **Arguments:** `layer`: what `extract` takes, but no `KernelHeads` with scalar `omega`; of an
    `AttentionStack` all layers. `path`: ends in `.npz` or `.safetensors`. The layer's weights are
    written where it has them, else `kq` and `ov`. Returns the path. Raises `InvalidArgument`, also
    for a normalisation without a registered name.
    """
    place = Path(path)
    if place.suffix not in (".npz", ".safetensors"):
        raise InvalidArgument("path", str(place), "a file that ends in .npz or .safetensors")
    parts = layer.layers if isinstance(layer, AttentionStack) else (layer,)
    arrays: dict[str, np.ndarray] = {}
    described = []
    for number, part in enumerate(parts):
        circuits = extract(part)  # which checks that it is one layer, of finite weights
        name = circuits.normalization.name
        if name not in normalization_names():
            known = ", ".join(normalization_names())
            raise InvalidArgument("layer", f"normalization {name}", f"of a known one: {known}")
        stem = f"layers.{number}."
        text: dict[str, Any] = {"dim": circuits.dim, "n_outputs": circuits.n_outputs}
        text["normalization"] = name
        if isinstance(part, MultiHeadAttention):
            text["logit_scale"] = float(part.logit_scale)
            names = ("W_Q", "W_K", "W_V", "W_O")
            arrays |= {stem + n: np.asarray(getattr(part, n)) for n in names}
        else:
            arrays |= {stem + "kq": circuits.kq, stem + "ov": circuits.ov}
        described.append(text)
    mark = json.dumps({"format": _FORMAT, "layers": described})
    with replacing(place) as temporary:
        if place.suffix == ".npz":
            with open(temporary, "wb") as file:
                np.savez(file, **{_MARK: np.array(mark)}, **arrays)  # type: ignore[arg-type]
        else:
            _save_safetensors(arrays, temporary, mark)
    return place


def _save_safetensors(arrays: dict[str, np.ndarray], path: Path, mark: str) -> None:
    try:
        from safetensors.numpy import save_file
    except ImportError:
        allowed = 'a .npz file, or safetensors installed by pip install "attnlab[probing]"'
        raise InvalidArgument("path", str(path), allowed) from None
    save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, path, {_MARK: mark})


def _own(weights: Weights, layer: int | None) -> Circuits:
    """What `save` wrote."""
    try:
        mark = json.loads(weights.metadata[_MARK])
        known, described = mark["format"], mark["layers"]
        told = [{k: d[k] for k in ("dim", "n_outputs", "normalization")} for d in described]
        scales = [float(d.get("logit_scale", 1.0)) for d in described]
        if known != _FORMAT or not told:
            raise ValueError(f"format {known}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        allowed = f"a file as circuits.save writes it ({error!r})"
        raise InvalidArgument("path", str(weights.path), allowed) from None
    number = _one(layer, tuple(range(len(told))))
    stem = f"layers.{number}."
    if stem + "kq" in weights:
        return Circuits(weights[stem + "kq"], weights[stem + "ov"], **told[number])
    layout = Layout(
        query=stem + "W_Q",
        key=stem + "W_K",
        value=stem + "W_V",
        output=stem + "W_O",
        convention="column",
        scale=scales[number],
        layers=(number,),
    )
    return _regression(weights, layout, number, told[number])


def _one(layer: int | None, layers: tuple[int, ...]) -> int:
    if layer is None and len(layers) > 1:
        raise InvalidArgument("layer", layer, f"one of {', '.join(map(str, layers))}")
    if layer is not None and layer not in layers:
        raise InvalidArgument("layer", layer, f"one of {', '.join(map(str, layers))}")
    return layers[0] if layer is None else layer
