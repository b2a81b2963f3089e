"""Exact and mean-field risks at many sizes in one program.

A risk depends on a task's size through `β√d`, `c√d`, `γ` and `log L`, all of them numbers that a
compiled program takes as arguments; only the number of quadrature nodes is fixed. So one risk whose
nodes resolve the largest of several sizes serves all of them, and the experiments of this paper,
which go from d = 10 to d = 1000, compile once. `tests/papers` compares with risks that are built
one by one.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ...students import Overlaps

Theory = Literal["exact", "mean field", "refined"]
_CHUNK = 16  # sizes at a time, always as many, so that their number does not recompile
LARGEST_LOG_LENGTH = 600.0
LARGEST_BETA = 2.5  # of maps and searches
LARGEST_SPREAD = 99.0  # of the logits, β√d, that the exact risk takes


class Sizes(NamedTuple):
    """Tasks with `c² = 1 - γ²`, `log L = αd`, and a student's `β`; numbers or arrays that broadcast.

    **Fields:** `dim` (d), `alpha` (α), `beta` (β), `token_std` (γ).
    """

    dim: Any
    alpha: Any
    beta: Any
    token_std: Any = math.sqrt(0.5)

    @property
    def signal(self) -> Any:
        """`c = √(1 - γ²)`."""
        return np.sqrt(1 - np.asarray(self.token_std) ** 2)

    @property
    def shape(self) -> tuple[int, ...]:
        """The common shape."""
        return np.broadcast_shapes(*(np.shape(part) for part in self))

    def rows(self) -> np.ndarray:
        """One row `(d, α, β, γ)` for each size."""
        parts = np.broadcast_arrays(*(np.asarray(part, np.float64) for part in self))
        return np.stack([part.ravel() for part in parts], axis=-1)


def oracle_family(dim: float) -> Sizes:
    """The extreme sizes of the oracle's maps and searches at `d`; up to d = 100 always the same."""
    dim = max(dim, 100.0)
    reach = min(LARGEST_BETA, LARGEST_SPREAD / math.sqrt(dim))
    # the least β leaves the informative logit wide enough for the lattice
    extremes = [
        (size, alpha, beta, std)
        for size in (10.0, dim)
        for alpha in (0.04, 0.6)
        for beta in (0.76 / math.sqrt(size), reach)
        for std in (0.3, 0.98)
    ]
    return Sizes(*np.array(extremes).T)


def check_longest(alpha: float, dim: float) -> None:
    """Raises `ValueError`, for a configuration, where `log L = αd` exceeds what is exact."""
    if alpha * dim > LARGEST_LOG_LENGTH:
        most = LARGEST_LOG_LENGTH / dim
        raise ValueError(f"with alpha at most {most:.4g}, so that log L <= 600 at d = {dim:g}")


def resolving_risk(rows: np.ndarray, theory: Theory, link: str) -> Any:
    """A risk whose nodes are enough for all rows: that of a size as large as the largest of each."""
    from ...students import SoftmaxAttention
    from ...tasks import SingleLocation
    from ...theory import mean_field_risk, population_risk

    dim, alpha, beta, std = rows.T
    spread = beta * np.sqrt(dim)
    scales = np.array([np.min(spread), np.max(spread)]) / 2
    shift = float(np.max(np.sqrt(dim * (1 - std**2))))
    largest = float(np.max(alpha * dim))
    task = SingleLocation(
        4, log_length=largest, signal=shift / 2, token_std=float(np.max(std)), link=link
    )
    student = SoftmaxAttention(float(scales[1]), link)
    if theory != "exact":
        return mean_field_risk(task, student, refined=theory == "refined").resolving(scales)
    from ...theory.softmax_engine.bulk import plan

    risk: Any = population_risk(task, student).resolving(scales)
    size = score_range(np, rows.T)
    plans = tuple(
        plan(
            size,
            depth=own.depth,
            shared=own.scores is None,
            informative=own.informative,
            step=own.step,
        )
        for own in risk.plans
    )
    return dataclasses.replace(risk, prepared=None, plans=plans)


def score_range(xp: Any, columns: Any) -> Any:
    """The engine's `Range` of `d`, `α`, `β` and `γ`, numbers or arrays of `xp` (numpy or jax.numpy)."""
    from ...theory.softmax_engine.bulk import Range

    dim, alpha, beta, std = columns
    spread = beta * xp.sqrt(dim)
    others = alpha * dim + xp.log(-xp.expm1(-alpha * dim))
    return Range(spread, others, spread * xp.sqrt(dim * (1 - std**2)), spread * std)


def at_size(risk: Any, row: Any) -> Any:
    """`resolving_risk`'s risk at the size `row = (d, α, β, γ)`; traceable."""
    import jax.numpy as jnp

    from ...theory.setting import Setting

    dim, alpha, beta, std = (row[i] for i in range(4))
    shift = jnp.sqrt(dim * (1 - std**2))
    others = score_range(jnp, row).log_others
    changes: dict[str, Any] = {"setting": Setting(shift, std, jnp.exp(others), 0.0 * shift)}
    if hasattr(risk, "log_others"):
        changes |= {"log_others": others, "root_dim": jnp.sqrt(dim), "prepared": None}
    else:
        changes |= {"log_length": alpha * dim, "dim": dim}
    return dataclasses.replace(risk, scale=beta, **changes)


def risks_at(
    sizes: Sizes,
    overlaps: Overlaps,
    theory: Theory = "exact",
    link: str = "linear",
    *,
    family: Sizes | None = None,
) -> np.ndarray:
    """The risk of every size at every one of the overlaps: `(*sizes, *overlaps)`.

    Prompts of less than two tokens give NaN. Calls with one `family`, sizes that are as large as
    all of theirs, share a program.
    """
    state = np.asarray(overlaps.stack()).reshape(-1, 5)
    rows = sizes.rows()
    states = np.broadcast_to(state, (len(rows), *state.shape))
    return over_sizes("value_of", rows, states, theory, link, family).reshape(
        *sizes.shape, *overlaps.shape
    )


def risks_each(
    sizes: Sizes,
    overlaps: Overlaps,
    theory: Theory = "exact",
    link: str = "linear",
    *,
    family: Sizes | None = None,
) -> np.ndarray:
    """The risk of every size at overlaps of its own: both broadcast."""
    shape = np.broadcast_shapes(sizes.shape, overlaps.shape)
    states = np.broadcast_to(overlaps.stack(), (*shape, 5)).reshape(-1, 1, 5)
    rows = Sizes(*(np.broadcast_to(part, shape) for part in sizes)).rows()
    return over_sizes("value_of", rows, states, theory, link, family).reshape(shape)


def over_sizes(
    function: str,
    rows: np.ndarray,
    states: np.ndarray,
    theory: Theory = "exact",
    link: str = "linear",
    family: Sizes | None = None,
) -> Any:
    """A method of the risk, `value_of` or another of stacked overlaps, at `(size, run, 5)` states:
    arrays of shape `(size, run)`."""
    import jax

    from ..._core.precision import float64, to_float64

    largest = rows if family is None else np.concatenate([rows, family.rows()])
    risk, found = resolving_risk(largest, theory, link), []
    runs = states.shape[1]
    # few shapes: a power of two of runs, and always as many sizes
    states = states[:, np.minimum(np.arange(1 << (runs - 1).bit_length()), runs - 1)]
    with float64():
        for start in range(0, len(rows), _CHUNK):
            index = np.minimum(np.arange(start, start + _CHUNK), len(rows) - 1)
            part = _program()(to_float64(risk), function, *to_float64((rows[index], states[index])))
            kept = min(_CHUNK, len(rows) - start)
            found.append(jax.tree.map(lambda leaf: np.asarray(leaf)[:kept, :runs], part))  # noqa: B023
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *found)


_COMPILED: dict[str, Any] = {}


def _program() -> Any:
    """Made on first use: this module is light at import."""
    if not _COMPILED:
        import equinox as eqx
        import jax

        @eqx.filter_jit
        def program(risk: Any, function: str, rows: Any, states: Any) -> Any:
            def one(pair: Any) -> Any:
                sized = at_size(risk, pair[0])
                return getattr(sized, function)(pair[1], sized.scale)

            return jax.lax.map(one, (rows, states))

        _COMPILED["program"] = program
    return _COMPILED["program"]


def oracle_mass(sizes: Sizes, *, family: Sizes | None = None) -> tuple[np.ndarray, np.ndarray]:
    """`E p` and the risk of the oracle for the linear link, each of the sizes' shape.

    On M the risk is `γ² E[p² - 2νp + 1] + E Σ p²` over the bulk, so that `E p` is half of what
    `ν = 1` gains over `ν = 0`, in units of `γ²`: good to rounding, not to relative digits.
    """
    from ...students import Overlaps

    risks = risks_at(sizes, Overlaps(np.ones(2), np.array([0.0, 1.0])), family=family)
    gain = risks[..., 0] - risks[..., 1]
    return gain / (2 * np.asarray(sizes.token_std) ** 2), risks[..., 1]
