"""Stacks of merged attention from the files that the released code of ahn2023 saves.

Its parameter `allparam`, `(layers, heads, 2, d, d)`, holds the covariates' blocks of the value and the
key-query matrix; the rest of both is 0, but for a 1 in the label's corner of the value matrix. Tokens
are rows there and the logit of key `i` for query `j` is `z_jᵀ Q z_i`, so that its key-query matrix is
transposed here; weights are divided by the length, and the query's label is minus the prediction.
Source: ahn2023 and its released code, `docs/guides/reading-checkpoints`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core.errors import InvalidArgument
from ..checkpoints import Weights
from ..students import AttentionStack, MergedAttention
from .circuits import Circuits

NAME = "allparam"
_STEP = re.compile(r"(?P<run>hist_dict\[.*\])\[(?P<step>\d+)\]")


def find_parameter(weights: Weights, mapping: Any) -> str | None:
    """The name of the parameter in a file of this kind, None in others. Of a history of one run the
    last step; `mapping = {"allparam": name}` takes another. Raises `InvalidArgument`."""
    steps = {name: found for name in weights if (found := _STEP.fullmatch(name))}
    plain = [name for name in weights if name.rpartition(".")[2] == NAME]
    told = isinstance(mapping, Mapping) and NAME in mapping
    if told and len(mapping) == 1 and mapping[NAME] in (*plain, *steps):
        return str(mapping[NAME])
    if not told and (mapping is not None or not (plain or steps)):
        return None
    runs = {found["run"] for found in steps.values()}
    if not told and not plain and len(runs) == 1:
        return max(steps, key=lambda name: int(steps[name]["step"]))
    if not told and len(plain) == 1 and not steps:
        return plain[0]
    some = ", ".join([*plain, *steps][:4])
    allowed = f"{{'{NAME}': the name of one array}}, of {some} and so on" if some else "another"
    raise InvalidArgument("mapping", mapping, allowed)


def read_stack(
    weights: Weights, name: str, layer: int | None, normalization: str | None
) -> AttentionStack | Circuits:
    """All layers as a stack, or the circuits of one. Raises `InvalidArgument`."""
    others = [x for x in weights if x != name and _STEP.fullmatch(x) is None]
    others = [x for x in others if x.rpartition(".")[2] != NAME]
    if others:
        allowed = f"of {NAME} alone; {others[0]} beside it may change what a layer does"
        raise InvalidArgument("path", str(weights.path), allowed)
    shape = weights.shape(name)
    if len(shape) != 5 or shape[2] != 2 or shape[3] != shape[4] or 0 in shape:
        allowed = f"of parameters (layers, heads, 2, d, d); {name} has shape {shape}"
        raise InvalidArgument("path", str(weights.path), allowed)
    array = weights[name].astype(np.float64)
    P, Q = np.pad(array, [(0, 0)] * 3 + [(0, 1)] * 2).transpose(2, 0, 1, 3, 4)
    P[..., -1, -1] = 1.0
    Q = np.swapaxes(Q, -1, -2)
    how = {"n_outputs": 1, "normalization": "linear" if normalization is None else normalization}
    if layer is not None:
        if layer >= len(P):
            raise InvalidArgument("layer", layer, f"one of 0 to {len(P) - 1}")
        return Circuits(Q[layer], P[layer], dim=shape[-1], **how)  # type: ignore[arg-type]
    if shape[1] != 1:
        allowed = f"given for layers of {shape[1]} heads, which no MergedAttention has"
        raise InvalidArgument("layer", None, allowed)
    layers = [MergedAttention(p[0], q[0], **how) for p, q in zip(P, Q)]  # type: ignore[arg-type]
    return AttentionStack(layers, "context", sign=-1)
