"""Exact attention at many sizes `(d, α, β, γ)` of the task in one program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .exact import Sizes, score_range

if TYPE_CHECKING:
    from ...theory import AttentionMasses


def attention_at(sizes: Sizes, kappa: Any = 1.0, *, family: Sizes | None = None) -> AttentionMasses:
    """`theory.attention_masses` at all sizes, for students that look along `κ`; both broadcast."""
    from ...theory import attention_masses

    shape = np.broadcast_shapes(sizes.shape, np.shape(kappa))
    own = score_range(np, Sizes(*(np.broadcast_to(part, shape) for part in sizes)).rows().T)
    reach = None if family is None else score_range(np, family.rows().T)
    mean = own.center * np.broadcast_to(kappa, shape).ravel()
    # the lattice holds students that look along any κ
    reach = own if reach is None else type(own)(*(np.append(f, o) for f, o in zip(reach, own)))
    found = attention_masses(own.spread, own.log_others, mean, own.wide, family=reach)
    return type(found)(*(part.reshape(shape) for part in found))
