"""All stationary points of a risk on the spheres, with their Hessian signature in `R^d`.

Source: Theorem 4 of marion2025 (saddles and minimisers on M); `docs/theory/stationary-points`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._core.errors import check_flag, check_integer, check_real
from .._core.keys import check_key
from .._core.precision import float64, to_float64
from ..students import Overlaps
from ..students.overlaps import NAMES
from ..theory import SingleLocationRisk
from .arguments import check_risk
from .dataset import overlaps_of
from .landscape import in_blocks, pictures, riemannian_gradient, symmetry_modes
from .projected import projected_gradient_descent

if TYPE_CHECKING:
    import xarray

_NEWTON_STEPS = 60
_DESCENT_STEPS = 5000


def stationary_points(
    risk: SingleLocationRisk,
    dim: int,
    *,
    key: PRNGKeyArray,
    starts: int = 256,
    descents: int = 64,
    on_manifold: bool = False,
    tolerance: float = 1e-9,
) -> xarray.Dataset:
    """Finds where the Riemannian gradient vanishes, by Levenberg-Marquardt from many starts.

    **Arguments:** `dim` is that of the task (it sets how often an eigenvalue is repeated);
    `starts` random starts, uniform on spheres of dimension `min(dim, 4)` so that all overlaps are
    covered evenly; `descents`, how many of them are also followed downhill before the search, which
    finds minima whose own basin in the search is small; `on_manifold` starts on M only (M is
    invariant under the search and the descent). Kept are points whose gradient norm is below `tolerance` times the risk's scale.

    **Returns:** a dataset on `point`, sorted by risk: the overlaps, `risk`, `gradient_norm`,
    `newton_step` (how far Newton's method would still move: on the plateaus of softmax attention
    gradients are below any tolerance at points that are not stationary), `n_negative`, `n_zero`, `n_positive` eigenvalues of the Hessian on the spheres of `R^dim`,
    `n_symmetry` (zero modes forced by rotations about `k*`, `v*`), `kind` (`"minimum"`,
    `"saddle"`, `"maximum"`, or `"degenerate"` when the second order does not decide), extreme
    eigenvalues, and `hits`, the number of starts that ended there.

    The list is complete only in so far as the starts cover the basins of the search. Raises
    `InvalidArgument` before any compute.
    """
    check_risk(risk)
    check_key(key)
    dim = check_integer("dim", dim, minimum=2)
    starts = check_integer("starts", starts, minimum=1)
    descents = check_integer("descents", descents, minimum=0, maximum=starts)
    check_real("tolerance", tolerance, low=0.0, low_open=True)
    check_flag("on_manifold", on_manifold)
    near = min(dim, 4)
    draw = Overlaps.on_manifold if on_manifold else Overlaps.on_sphere
    first = np.stack(draw(key, near, runs=starts).to_vectors(near), axis=1)
    if on_manifold and near == 4:  # `on_manifold` in four dimensions has no freedom left for nu
        first = manifold_pairs(key, starts)
    symmetric = corners(near)
    with float64():
        exact = to_float64(risk)
        downhill = _descended(risk, symmetric, first[:descents])
        found, norms = in_blocks(_search, exact, np.concatenate([first, symmetric, downhill]))
        # the mirror images of a point are stationary too, for students and links with parity; the
        # gradient decides, and images that no start has found count no hits
        mirrored = np.concatenate([found, *(image(found) for image in _MIRRORS)])
        norms = np.concatenate([norms, *in_blocks(_norms, exact, mirrored[len(found) :])])
    good = norms < tolerance * max(1.0, abs(risk.teacher))
    hit = np.arange(len(mirrored)) < starts
    kept, hits = _distinct(mirrored[good], hit[good])
    return classify(risk, kept, dim, hits)


def _descended(risk: SingleLocationRisk, symmetric: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Where `first` ends after a descent whose step is set by the steepest corner."""
    if not len(first):
        return first
    inner = pictures(risk, symmetric).near
    near = first.shape[2]
    axes = np.eye(2, near)
    start = Overlaps.from_vectors(first[:, 0], first[:, 1], axes[0], axes[1])
    step = 1 / max(float(np.abs(inner).max()), 1e-12)
    run = projected_gradient_descent(
        risk, start, step_size=step, steps=_DESCENT_STEPS, save_every=_DESCENT_STEPS
    )
    good = run.status.values == "ok"
    ends = Overlaps.unstack(overlaps_of(run, step=-1).stack()[good])
    return np.stack(ends.to_vectors(near), axis=1)


def corners(near: int) -> np.ndarray:
    """Starts with `k` and `v` along coordinate axes, `±k*` and `±v*` among them: symmetric points,
    often stationary, whose basins random starts may miss."""
    axes = np.concatenate([np.eye(near), -np.eye(near)])
    return np.array([(k, v) for k in axes for v in axes])


def _flip_both(pairs: np.ndarray) -> np.ndarray:
    return -pairs


def _flip_value_axis(pairs: np.ndarray) -> np.ndarray:
    out = pairs.copy()
    out[..., 1] *= -1
    out[:, 1] *= -1
    return out


_MIRRORS = (_flip_both, _flip_value_axis, lambda pairs: _flip_both(_flip_value_axis(pairs)))


def classify(
    risk: SingleLocationRisk, pairs: np.ndarray, dim: int, hits: np.ndarray | None = None
) -> xarray.Dataset:
    """The dataset of `stationary_points` for given vectors `(points, 2, min(dim, 4))`."""
    import xarray

    near = min(dim, 4)
    pairs = np.asarray(pairs, np.float64).reshape(-1, 2, near)
    seen = pictures(risk, pairs)
    rows = [_signature(*row, dim, near) for row in zip(pairs, seen.near, seen.far, strict=True)]
    order = np.argsort(seen.value, kind="stable")
    k, v = pairs[:, 0], pairs[:, 1]
    columns: dict[str, Any] = dict(
        zip(NAMES, (k[:, 0], v[:, 1], v[:, 0], k[:, 1], np.sum(k * v, -1)), strict=True)
    )
    columns |= {"risk": seen.value, "gradient_norm": seen.gradient, "newton_step": seen.newton}
    columns |= {name: np.array([row[name] for row in rows]) for name in _SIGNATURE}
    columns["hits"] = np.zeros(len(pairs), int) if hits is None else hits
    data = {name: ("point", column[order]) for name, column in columns.items()}
    return xarray.Dataset(data, attrs={"dim": dim, "method": risk.method})


_SIGNATURE = (
    "n_negative",
    "n_zero",
    "n_positive",
    "n_symmetry",
    "smallest_eigenvalue",
    "smallest_nonzero_eigenvalue",
    "largest_eigenvalue",
    "kind",
)


def _signature(
    pair: np.ndarray, inner: np.ndarray, outer: np.ndarray, dim: int, near: int
) -> dict[str, Any]:
    eigenvalues = np.concatenate([inner, np.tile(outer, max(dim - near, 0))])
    floor = 1e-7 * max(np.abs(eigenvalues).max(), 1e-12)
    negative = int(np.sum(eigenvalues < -floor))
    positive = int(np.sum(eigenvalues > floor))
    zero = len(eigenvalues) - negative - positive
    forced = symmetry_modes(pair, dim)
    if negative and positive:
        kind = "saddle"
    elif zero > forced:
        kind = "degenerate"
    else:
        kind = "maximum" if negative else "minimum"
    moving = eigenvalues[np.abs(eigenvalues) > floor]
    return {
        "n_negative": negative,
        "n_zero": zero,
        "n_positive": positive,
        "n_symmetry": forced,
        "smallest_eigenvalue": eigenvalues.min(),
        "smallest_nonzero_eigenvalue": moving.min() if len(moving) else 0.0,
        "largest_eigenvalue": eigenvalues.max(),
        "kind": kind,
    }


@eqx.filter_jit
def _search(risk: SingleLocationRisk, pairs: Any) -> tuple[Any, Any]:
    """Levenberg-Marquardt from each of `pairs` `(points, 2, near)`: where it ends, and the norm of
    the Riemannian gradient there."""
    import optimistix

    solver: Any = optimistix.LevenbergMarquardt(rtol=1e-12, atol=1e-13)

    def residual(pair: Any, exact: Any) -> Any:
        # the constraint |k| = |v| = 1 joins the equations: stationary points sit on the spheres
        unit = pair / jnp.linalg.norm(pair, axis=-1, keepdims=True)
        off = jnp.sum(pair**2, axis=-1) - 1
        return jnp.concatenate([riemannian_gradient(exact, unit).ravel(), off])

    def one(pair: Any) -> Any:
        result: Any = optimistix.least_squares(
            residual, solver, pair, args=risk, max_steps=_NEWTON_STEPS, throw=False
        )
        unit = result.value / jnp.linalg.norm(result.value, axis=-1, keepdims=True)
        return unit, jnp.linalg.norm(riemannian_gradient(risk, unit))

    return jax.vmap(one)(pairs)


@eqx.filter_jit
def _norms(risk: SingleLocationRisk, pairs: Any) -> Any:
    return (jax.vmap(lambda pair: jnp.linalg.norm(riemannian_gradient(risk, pair)))(pairs),)


def manifold_pairs(key: PRNGKeyArray, starts: int) -> np.ndarray:
    """Vectors `(starts, 2, 4)` of M whose `kappa` and `nu` are spread evenly over [-1, 1]²."""
    with float64():
        square = np.asarray(jax.random.uniform(key, (starts, 2), jnp.float64, -1.0, 1.0))
    return np.stack(Overlaps(square[:, 0], square[:, 1]).to_vectors(4), axis=1)


def _distinct(
    pairs: np.ndarray, counted: np.ndarray, tolerance: float = 1e-4
) -> tuple[np.ndarray, np.ndarray]:
    """Points with different overlaps, and how many of the `counted` given ones fell on each."""
    kept: list[np.ndarray] = []
    marks: list[np.ndarray] = []
    hits: list[int] = []
    for pair, weight in zip(pairs, counted.astype(int), strict=True):
        k, v = pair
        mark = np.array([k[0], v[1], v[0], k[1], k @ v])
        distances = [np.abs(mark - other).max() for other in marks]
        if distances and min(distances) < tolerance:
            hits[int(np.argmin(distances))] += weight
        else:
            kept.append(pair)
            marks.append(mark)
            hits.append(weight)
    shape = (len(kept), *pairs.shape[1:])
    return np.array(kept).reshape(shape), np.array(hits, int)
