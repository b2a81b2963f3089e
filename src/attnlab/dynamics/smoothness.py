"""How curved a risk is along the steps of projected gradient descent: the constant of its lemma.

A step goes along a straight line that leaves the spheres, and back by normalisation. Along that
line the risk is `r(k, v) = R(k/|k|, v/|v|)`, and the line stays where `|k|, |v| >= 1`; there the
Hessian of `r`, of degree -1 in each of the two indices, is at most what it is on the spheres. So
one number bounds the second derivative along every step:

    Λ = sup over unit vectors (k, v) of |Hessian of r| .

Source: the descent lemma of dohmatob2025, whose `L_δ` is this; `docs/theory/descent-lemma`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PRNGKeyArray

from .._core.errors import InvalidArgument, check_flag, check_integer, check_real
from .._core.keys import check_key, key_words
from ..students import Overlaps
from ..theory import SingleLocationRisk
from .arguments import check_risk
from .landscape import pictures
from .stationary import corners, manifold_pairs

_KEPT = 8  # points around which a round looks


class Smoothness(NamedTuple):
    """Upper bounds, each the largest value that a search has found, times the margin.

    - `bound`: `Λ`, of the Hessian of `r`; steps below `2/Λ` descend;
    - `hessian`: the risk's smoothness on the spheres, a bound of its Riemannian Hessian;
    - `gradient`: of the norm of the Riemannian gradient;
    - `found`: the largest Hessian norm of `r` that was seen, without the margin;
    - `gain`: by which fraction the last round of the search has still raised it;
    - `overlaps`: where it was seen.
    """

    bound: float
    hessian: float
    gradient: float
    found: float
    gain: float
    overlaps: Overlaps


def smoothness(
    risk: SingleLocationRisk,
    dim: int,
    *,
    key: PRNGKeyArray,
    points: int = 256,
    rounds: int = 12,
    on_manifold: bool = False,
    margin: float = 1.05,
) -> Smoothness:
    """The constant of the descent lemma, as a supremum over all overlaps of `R^dim`.

    The Hessian's norm is evaluated in all of `R^dim` (four dimensions and one repeated block hold
    it) at `points` random points and at all symmetric ones; each further round looks around the
    best points so far, ever closer. A search, not a proof: `margin` multiplies what it finds, and
    `gain` says how much its last round has still added.

    **Arguments:** `risk`; `dim` of the task; `on_manifold` takes the supremum over M, and over
    directions in it: enough for descents that start on an M that the risk leaves invariant.

    Raises `InvalidArgument` before any compute, and for a risk that is not finite everywhere.
    """
    check_risk(risk)
    dim = check_integer("dim", dim, minimum=2)
    check_key(key)
    points = check_integer("points", points, minimum=_KEPT)
    rounds = check_integer("rounds", rounds, minimum=1)
    margin = check_real("margin", margin, low=1.0)
    if check_flag("on_manifold", on_manifold) and dim < 4:
        raise InvalidArgument("dim", dim, "at least 4 on M, to hold all of its overlaps")
    near = min(dim, 4)
    if on_manifold:
        tried = manifold_pairs(key, points)
    else:
        first = Overlaps.on_sphere(key, near, runs=points).to_vectors(near)
        tried = np.concatenate([np.stack(first, axis=1), corners(near)])
    best: Any = None
    history: list[float] = []
    for number in range(rounds):
        seen = pictures(risk, tried, on_manifold=on_manifold, further=dim > 4)
        sizes = np.stack([seen.retracted, seen.hessian, seen.gradient], axis=-1)
        if not np.isfinite(sizes).all():
            raise InvalidArgument("risk", risk.method, "twice differentiable everywhere")
        both = (tried, sizes) if best is None else _joined(best, (tried, sizes))
        # the best by each of the three norms go on
        chosen = np.unique(np.argsort(-both[1], axis=0)[:_KEPT])
        best = tuple(part[chosen] for part in both)
        history.append(float(best[1][:, 0].max()))
        random = np.random.default_rng([*key_words(key), number])
        tried = _around(best[0], 0.4 * 0.6**number, points, random, on_manifold)
    retracted, hessian, gradient = margin * best[1].max(axis=0)
    k, v = best[0][int(np.argmax(best[1][:, 0]))]
    axes = np.eye(2, near)
    gain = history[-1] / history[-2] - 1 if rounds > 1 and history[-2] > 0 else 0.0
    where = Overlaps.from_vectors(k, v, axes[0], axes[1])
    return Smoothness(float(retracted), float(hessian), float(gradient), history[-1], gain, where)


def _joined(one: Any, other: Any) -> Any:
    return tuple(np.concatenate(parts) for parts in zip(one, other, strict=True))


def _around(
    centres: np.ndarray, spread: float, points: int, random: np.random.Generator, on_manifold: bool
) -> np.ndarray:
    """Unit vectors near the given pairs, of M where `on_manifold`."""
    copies = -(-points // len(centres))
    near = np.repeat(centres, copies, axis=0)
    near = near + spread * random.standard_normal(near.shape)
    if on_manifold:
        near[:, 0, 1::2] = 0.0
        near[:, 1, 0::2] = 0.0
    return near / np.linalg.norm(near, axis=-1, keepdims=True)
