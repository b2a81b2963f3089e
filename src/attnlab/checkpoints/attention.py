"""The weights of one attention layer, head by head, whatever the file's convention."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .._core.errors import InvalidArgument
from .layout import Convention, Layout
from .weights import Weights


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """A layer's weights on tokens as columns: `q = query z + query_bias`, and so on, for each head.

    Keys and values of grouped heads are repeated, one for each head. Biases that the file does not
    have are None. `scale` is the factor of the logits.
    """

    query: Float[np.ndarray, "heads head_dim width"]
    key: Float[np.ndarray, "heads head_dim width"]
    value: Float[np.ndarray, "heads value_dim width"]
    output: Float[np.ndarray, "heads width value_dim"]
    query_bias: Float[np.ndarray, "heads head_dim"] | None
    key_bias: Float[np.ndarray, "heads head_dim"] | None
    value_bias: Float[np.ndarray, "heads value_dim"] | None
    output_bias: Float[np.ndarray, " width"] | None
    scale: float


class _Sizes(NamedTuple):
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int


def read_attention(weights: Weights, layout: Layout, layer: int) -> AttentionWeights:
    """The attention of one layer; raises `InvalidArgument` where shapes do not fit together."""
    if layer not in layout.layers:
        raise InvalidArgument("layer", layer, f"one of the file's, {_ranges(layout.layers)}")
    layout = _fused_convention(weights, layout, layer)
    arrays, biases = _separate(weights, layout, layer)
    if _is_row(weights, arrays, layout, layer):
        arrays = {name: np.swapaxes(array, -1, -2) for name, array in arrays.items()}
    sizes = _sizes(weights, arrays, layout, layer)
    H, G = sizes.heads, sizes.kv_heads
    shaped = {
        "query": arrays["query"].reshape(H, sizes.head_dim, sizes.width),
        "key": arrays["key"].reshape(G, sizes.head_dim, sizes.width),
        "value": arrays["value"].reshape(G, sizes.value_dim, sizes.width),
    }
    output = arrays["output"]
    if output.ndim == 2:
        output = output.reshape(sizes.width, H, sizes.value_dim).transpose(1, 0, 2)
    wanted: dict[str, tuple[int, ...]] = {
        "query": (H, sizes.head_dim),
        "key": (G, sizes.head_dim),
        "value": (G, sizes.value_dim),
        "output": (sizes.width,),
    }
    told: dict[str, Any] = {}
    for name, shape in wanted.items():
        bias = biases.get(name)
        if bias is not None and bias.size != math.prod(shape):
            raise _unfit(weights, layer, f"the bias of {name} has shape {bias.shape}")
        told[name] = None if bias is None else bias.reshape(shape)
    group = H // G
    if group > 1:
        for name in ("key", "value"):
            shaped[name] = np.repeat(shaped[name], group, axis=0)
            bias = told[name]
            told[name] = None if bias is None else np.repeat(bias, group, axis=0)
    scale = layout.scale if layout.scale is not None else sizes.head_dim**-0.5
    return AttentionWeights(
        **shaped,
        output=output,
        **{f"{name}_bias": bias for name, bias in told.items()},
        scale=scale / (layer + 1) if layout.by_layer else scale,
    )


def convention_of(weights: Weights, layout: Layout) -> Convention:
    """`"row"` or `"column"`: the layout's, or what the shapes tell. Raises `InvalidArgument`."""
    layout = _fused_convention(weights, layout, layout.layers[0])
    first = layout.layers[0]
    arrays, _ = _separate(weights, layout, first)
    return "row" if _is_row(weights, arrays, layout, first) else "column"


def _fused_convention(weights: Weights, layout: Layout, layer: int) -> Layout:
    """With three in one array the long side is the inner one, whatever follows later."""
    if layout.qkv is None or layout.convention is not None:
        return layout
    fused, output = (
        weights.shape(name.replace("{layer}", str(layer))) for name in (layout.qkv, layout.output)
    )
    if len(fused) != 2 or len(output) != 2:
        raise _unfit(weights, layer, f"qkv has shape {fused}, the output {output}")
    fits = []
    # (inner, width) of the fused array, and the inner side of the output
    for name, (inner, width), sides in (
        ("column", fused, output),
        ("row", fused[::-1], output[::-1]),
    ):
        if width == sides[0] and sides[1] < inner <= 3 * sides[1]:
            fits.append(name)
    if len(fits) != 1:
        told = f"the shapes {fused} and {output} do not tell which"
        raise InvalidArgument("convention", None, f"'row' (z W) or 'column' (W z); {told}")
    return replace(layout, convention=fits[0])  # type: ignore[arg-type]


def _separate(
    weights: Weights, layout: Layout, layer: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Arrays and biases by what they are for; three in one are split."""
    parts = ("query", "key", "value", "output")
    arrays = {p: _array(weights, n, layer) for p in parts if (n := getattr(layout, p))}
    biases = {}
    for part in (*parts, "qkv"):
        template = getattr(layout, f"{part}_bias")
        if template is None:
            continue
        if template.replace("{layer}", str(layer)).replace("{head}", "0") in weights:
            biases[part] = _array(weights, template, layer)
        elif layout.family == "mapping":
            _array(weights, template, layer)  # which says that it is missing
    if layout.qkv is not None:
        fused = _array(weights, layout.qkv, layer)
        if fused.ndim != 2:
            raise _unfit(weights, layer, f"qkv has shape {fused.shape}")
        axis = 1 if layout.convention == "row" else 0
        pieces = _split(weights, layout, layer, fused, axis)
        arrays |= dict(zip(("query", "key", "value"), pieces))
        if "qkv" in biases:
            if biases["qkv"].shape != (fused.shape[axis],):
                raise _unfit(weights, layer, f"the bias of qkv has shape {biases['qkv'].shape}")
            pieces = _split(weights, layout, layer, biases.pop("qkv"), 0)
            biases |= dict(zip(("query", "key", "value"), pieces))
    shapes = {name: array.shape for name, array in arrays.items()}
    if any(len(shape) not in (2, 3) or 0 in shape for shape in shapes.values()):
        raise _unfit(weights, layer, f"the shapes are {shapes}")
    return arrays, biases


def _split(
    weights: Weights, layout: Layout, layer: int, fused: np.ndarray, axis: int
) -> list[np.ndarray]:
    """Queries, keys and values out of one array, whatever stands next to what."""
    heads, groups = layout.heads, layout.kv_heads or layout.heads
    by_head = layout.order == "heads"
    if by_head and heads is None:
        allowed = "given, since qkv goes head by head"
        raise InvalidArgument("heads", None, allowed)
    if heads is None or groups is None or groups == heads:
        heads, groups = (heads, heads) if by_head and heads is not None else (1, 1)
    length, rest = divmod(fused.shape[axis], heads + 2 * groups)
    if rest or not length or heads % groups:
        raise _unfit(weights, layer, f"qkv has shape {fused.shape}")
    if not by_head:
        return np.split(fused, np.array([heads, heads + groups]) * length, axis=axis)
    grouped = np.moveaxis(fused, axis, 0).reshape(groups, -1, length, *np.delete(fused.shape, axis))
    parts = grouped[:, :-2], grouped[:, -2], grouped[:, -1]
    flat = [part.reshape(-1, *np.delete(fused.shape, axis)) for part in parts]
    return [np.moveaxis(part, 0, axis) for part in flat]


def _array(weights: Weights, template: str, layer: int) -> np.ndarray:
    name = template.replace("{layer}", str(layer))
    if "{head}" not in name:
        array = weights[name]
    else:
        count = 0
        while name.replace("{head}", str(count)) in weights:
            count += 1
        heads = [weights[name.replace("{head}", str(h))] for h in range(max(count, 1))]
        shapes = {head.shape for head in heads}
        if len(shapes) > 1:
            raise _unfit(weights, layer, f"the shapes of {name} differ between heads")
        array = np.stack(heads)
    if array.dtype.kind != "f":
        raise _unfit(weights, layer, f"{name} holds {array.dtype}, no real numbers")
    return array


def _is_row(weights: Weights, arrays: dict[str, np.ndarray], layout: Layout, layer: int) -> bool:
    """The convention, from the shapes if nobody says: both ends of a layer are as wide as a token."""
    if layout.convention is not None:
        return layout.convention == "row"
    fits = [name for name in ("column", "row") if _consistent(arrays, name == "row")]
    query = arrays["query"].shape
    if len(fits) == 2 and len(query) == 3 and query[1] != query[2]:
        # a head is narrower than the token
        return query[1] > query[2]
    if len(fits) == 1:
        return fits[0] == "row"
    shapes = {name: array.shape for name, array in arrays.items()}
    if not fits:
        raise _unfit(weights, layer, f"the shapes are {shapes}, in neither convention")
    allowed = f"'row' (z W) or 'column' (W z); the shapes {shapes} do not tell which"
    raise InvalidArgument("convention", None, allowed)


def _consistent(arrays: dict[str, np.ndarray], rows: bool) -> bool:
    shapes = {
        name: (a.shape[:-2] + a.shape[-2:][::-1]) if rows else a.shape for name, a in arrays.items()
    }
    widths = {shapes[name][-1] for name in ("query", "key", "value")}
    inner = shapes["query"][-2], shapes["value"][-2], shapes["output"][-1]
    grouped = all(inner[0] % shapes[name][-2] == 0 for name in ("key", "value") if shapes[name][-2])
    return widths == {shapes["output"][-2]} and grouped and inner[2] % inner[1] == 0


def _sizes(weights: Weights, arrays: dict[str, np.ndarray], layout: Layout, layer: int) -> _Sizes:
    shapes = {name: array.shape for name, array in arrays.items()}
    unfit = _unfit(weights, layer, f"the shapes (out, in) are {shapes}")
    width = shapes["query"][-1]
    if any(shapes[n][-1] != width for n in ("key", "value")) or shapes["output"][-2] != width:
        raise unfit
    heads, groups = layout.heads, layout.kv_heads
    query, key, value, output = (shapes[n] for n in ("query", "key", "value", "output"))
    if len(query) == 3:
        heads = query[0] if heads is None else heads
        if heads != query[0]:
            raise InvalidArgument("heads", heads, f"{query[0]}, as {weights.path} says, or absent")
    if heads is None and layout.head_dim is not None and query[0] % layout.head_dim == 0:
        heads = query[0] // layout.head_dim
    if heads is None:
        raise InvalidArgument(
            "heads", None, f"given, since {weights.path} does not tell how many there are"
        )
    head_dim, rest = divmod(math.prod(query[:-1]), heads)
    if rest or not head_dim or (layout.head_dim or head_dim) != head_dim:
        raise InvalidArgument("heads", heads, f"a number that fits weights of shape {query}")
    found, rest = divmod(math.prod(key[:-1]), head_dim)
    if rest or not found or (groups or found) != found or heads % found:
        raise unfit
    value_dim, rest = divmod(math.prod(value[:-1]), found)
    inner = math.prod(output) // width
    if rest or not value_dim or inner != heads * value_dim or math.prod(output) % width:
        raise unfit
    if any(len(s) == 3 and s[0] != n for s, n in ((query, heads), (key, found), (value, found))):
        raise unfit
    if len(output) == 3 and output[0] != heads:
        raise unfit
    return _Sizes(width, heads, found, head_dim, value_dim)


def _unfit(weights: Weights, layer: int, told: str) -> InvalidArgument:
    allowed = f"of weights that fit together; in layer {layer} {told}"
    return InvalidArgument("path", str(weights.path), allowed)


def _ranges(layers: tuple[int, ...]) -> str:
    whole = layers == tuple(range(layers[0], layers[-1] + 1))
    return f"{layers[0]} to {layers[-1]}" if whole else ", ".join(map(str, layers))
