"""The exact population risk of softmax attention on single-location regression, at any size.

    f(X) = Σ p_ℓ σ(x_ℓ·v),    p = softmax(β √d x_ℓ·k)

All tokens are coupled through the normaliser; given the informative token's score the softmax
engine undoes it by one integral, and the outer average over the score brings the overlaps in.
Source: Proposition 1 and Corollary 1 of dohmatob2025 (their limit d → ∞);
`docs/theory/softmax-attention`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .._core.errors import InvalidArgument, is_traced
from .._core.precision import float64, to_float64, to_numpy
from ..students import Overlaps, SoftmaxAttention
from ..tasks import SingleLocation
from .agreement import disagreement
from .gaussian_links import uniform_spacing
from .gaussian_nodes import density
from .informative_token import Reader, reading_error, score_bends
from .risk import SingleLocationRisk, positive
from .setting import Components, Setting
from .softmax_assembly import SCORES, assembled, score_nodes
from .softmax_engine.bulk import LEAST_SPREAD, Plan, Range, plan
from .softmax_engine.lattice import STEP
from .softmax_moments import Tables, Window, from_tables, from_window, tables, window
from .square_integrable import check_square_integrable

if TYPE_CHECKING:
    import xarray

_LARGEST_LOG_LENGTH = 600.0  # e^600 and its square root times small numbers stay within float64
_LARGEST_SPREAD = 100.0  # β√d; beyond, attention is an argmax to all digits that matter
_FARTHEST = 2e4  # informative scores up to which a lattice holds them all
_NO_BULK = Plan(0, 0, 0.0, None, False, 0, 0.0)  # of a prompt of one token
_WIDER = (1.0, 1.15, 1.19)  # steps of the lattice and of two coarser ones, for the error
_BATCH_VALUES = (
    2**20
)  # float64 values that a batch holds at once; its derivative holds many times more
_ALMOST = 1 - 1e-15
_KINKED = 1e-6  # relative accuracy of averages of two links where kinks meet
_DEEP, _SHALLOW = 350.0, 45.0


class SoftmaxRisk(SingleLocationRisk):
    """A risk by quadrature on the softmax engine; its error is estimated from two coarser
    lattices."""

    method: ClassVar[str] = "quadrature"
    setting: Setting
    log_others: Any  # log(L - 1)
    root_dim: float  # √d
    scale: Any
    prepared: Any  # tables of the own scale, None where it is traced or one per run
    plans: tuple[Plan, ...] = eqx.field(static=True)  # the fine rule, and two coarser ones
    readers: tuple[Reader, ...] = eqx.field(static=True)
    tabulated: bool = eqx.field(static=True)

    def components_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Components:
        return self._mapped(state, scale)[0]

    def error_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Float[Array, "*runs"]:
        fine, size = self._mapped(state, scale)
        others = [self._mapped(state, scale, rule)[0] for rule in (1, 2)]
        floor = _KINKED if self.readers[0].kinked else 256 * jnp.finfo(jnp.float64).eps
        return disagreement(fine, *others) + floor * size

    def with_scale(self, scale: Any) -> SoftmaxRisk:
        if self.plans[0].window == 0 or is_traced(scale):
            return dataclasses.replace(self, scale=scale, prepared=None)
        own = np.asarray(scale, np.float64)
        return _built(self, own, own)

    def resolving(self, scales: Float[ArrayLike, " scales"]) -> SoftmaxRisk:
        if self.plans[0].window == 0 or is_traced(self.scale):
            return self
        return _built(self, np.asarray(self.scale), np.append(scales, self.scale))

    def attention(self, overlaps: Overlaps) -> xarray.Dataset:
        """Where the attention goes, exactly: a dataset over the batch axes of `overlaps`.

        **Variables:** with `p` the weight on the informative token and `q_ℓ` the weights within
        the bulk, renormalised to 1:

        - `mass`, `mass_missing`: `E p`, `E (1-p)`, right when exponentially small (to `e^-300`);
          `mass_square`, `mass_missing_square`, `mass_variance`
        - `participation`: `E Σ q_ℓ²`; `bulk_mean`, `bulk_variance`: of `Σ q_ℓ σ(x_ℓ·v)`
        - `log_partition`: `E log Z` of the bulk
        - `logit`, `density`, `distribution` on `point`: the law of `log(p/(1-p))`, absolute error
          about 1e-10 (NaN where `γβ√d < 0.3`, too narrow to be resolved)

        Raises `InvalidArgument` for a prompt of one token or a batch of temperatures. Source:
        Section 4 of dohmatob2025 (the limit); `docs/theory/attention-mass`.
        """
        from .attention_law import attention

        return attention(self, overlaps)

    def _apply(self, function: str, overlaps: Overlaps, scale: Any) -> Any:
        risk = self
        if is_traced(*jax.tree.leaves(self.prepared)):
            # tables that passed through a caller's transformation may have lost their precision
            risk = dataclasses.replace(self, prepared=None)
        if scale is not None and not is_traced(scale):
            risk = risk.resolving(positive("scale", scale))
        return SingleLocationRisk._apply(risk, function, overlaps, scale)

    def _size(self, scale: Any) -> Range:
        center = jnp.abs(scale * self.root_dim * self.setting.shift)
        wide = scale * self.root_dim * self.setting.token_std
        return Range(scale * self.root_dim, self.log_others, center, wide)

    def _prepare(self, scale: Any, rule: int = 0) -> Tables | Window:
        build = tables if self.tabulated else window
        return build(self.plans[rule], self._size(scale))

    def _mapped(self, state: Any, scale: Any, rule: int = 0) -> tuple[Components, Any]:
        shape = state.shape[:-1]
        # overlaps beyond 1 by rounding have no Gaussian law; the derivative is that of the identity
        most = np.ones(5)
        if self.readers[0].bent:  # a kink seen without any blur has no derivative
            most[3:] = _ALMOST
        state = state - jax.lax.stop_gradient(state - jnp.clip(state, -most, most))
        rows = state.reshape(-1, 5)
        own = scale is None
        scale = jnp.asarray(self.scale if own else scale)
        if self.plans[0].window == 0:
            out = jax.vmap(lambda row: self._alone(row, rule))(rows)
        elif scale.ndim == 0:
            made = self.prepared if own and rule == 0 else None
            made = self._prepare(scale, rule) if made is None else made
            out = self._in_batches(lambda row: self._one(row, scale, made, rule), rows)
        else:
            scales = jnp.broadcast_to(scale, shape).ravel()

            def each(row: Any, scale: Any) -> Any:
                return self._one(row, scale, self._prepare(scale, rule), rule)

            out = self._in_batches(each, rows, scales)
        return jax.tree.map(lambda part: part.reshape(shape), out)

    def _in_batches(self, function: Any, *arguments: Any) -> Any:
        runs = arguments[0].shape[0]
        size = max(1, min(runs, _BATCH_VALUES // values_per_run(self)))
        if size == runs:
            return jax.vmap(function)(*arguments)
        # a reverse pass runs each batch again: it must not keep what all of them have held
        again = jax.checkpoint(lambda row: function(*row))
        return jax.lax.map(again, arguments, batch_size=size)

    def _alone(self, row: Any, rule: int) -> tuple[Components, Any]:
        """A prompt of one token: all the weight is on it."""
        error, size = reading_error(self.readers[rule], row, self.setting)
        zero = jnp.zeros_like(error)
        return Components(error, zero, zero, zero, self.setting.noise_std**2 + zero), size

    def _one(
        self, row: Any, scale: Any, made: Tables | Window, rule: int
    ) -> tuple[Components, Any]:
        reader, fixed, size = self.readers[rule], self.plans[rule], self._size(scale)
        mean = scale * self.root_dim * self.setting.shift * row[0]
        if isinstance(made, Tables):
            z = (made.scores - mean) / size.wide
            weights = density(z) * fixed.step / size.wide
            given = from_tables(made, reader.student, row[4])
        else:
            kinks = tuple(
                (mean + size.wide * place - made.center) / made.width
                for place in score_bends(reader, row, self.setting)
            )
            z, weights = score_nodes(mean, size.wide, made, kinks, rule)
            given = from_window(made, fixed, size, reader, row[4], mean + size.wide * z)
        weights = weights * made.good
        return assembled(reader, row, self.setting, given, z, weights)


def values_per_run(risk: SoftmaxRisk) -> int:
    """Float64 values that one run holds at a time, to size batches."""
    fixed, reader = risk.plans[0], risk.readers[0]
    if risk.tabulated:
        return 16 * fixed.nodes
    bends = 2 * (len(reader.student.kinks) + len(reader.task.kinks))
    scores = SCORES if not bends else 160 * (1 + bends)
    held = scores * (fixed.window + (1 if reader.polynomial else 2000 if bends else 100))
    if reader.student.kinks:
        spread = fixed.panels if fixed.scores else 0
        held += fixed.window * 16 * (spread + (7 + 9 * len(reader.student.kinks)))
    return held + 8 * fixed.nodes


def softmax_risk(task: SingleLocation, student: SoftmaxAttention) -> SoftmaxRisk:
    """The exact risk of `student` on `task`. Raises `InvalidArgument` for sizes beyond the engine:
    `log_length > 600`, `β√d > 100`."""
    if not is_traced(task.log_length) and task.log_length > _LARGEST_LOG_LENGTH:
        allowed = f"at most {_LARGEST_LOG_LENGTH:g} for softmax attention"
        raise InvalidArgument("log_length", task.log_length, allowed)
    root = math.sqrt(task.dim)
    beta = student.inverse_temperature
    if not is_traced(beta) and beta * root > _LARGEST_SPREAD:
        allowed = f"at most {_LARGEST_SPREAD:g}/√d = {_LARGEST_SPREAD / root:.4g}"
        raise InvalidArgument("inverse_temperature", beta, allowed)
    _check_links(task, student)
    scale = beta if is_traced(beta) else np.float64(beta)
    others: Any
    if is_traced(task.log_length):
        others = task.log_length + jnp.log(-jnp.expm1(-task.log_length))
    elif task.log_length == 0:
        others = -math.inf
    else:
        others = task.log_length + math.log(-math.expm1(-task.log_length))
    bare = SoftmaxRisk(
        setting=Setting.of(task),
        log_others=others,
        root_dim=root,
        scale=scale,
        prepared=None,
        plans=(_NO_BULK,) * 3,
        readers=_readers(task, student),
        tabulated=False,
    )
    if not is_traced(others) and others == -math.inf:
        return bare
    return _built(bare, scale, scale)


def _check_links(task: SingleLocation, student: SoftmaxAttention) -> None:
    std = 1.0 if is_traced(task.token_std) else float(task.token_std)
    check_square_integrable(student.link, max(1.0, std))
    check_square_integrable(task.link, std)


def _readers(task: SingleLocation, student: SoftmaxAttention) -> tuple[Reader, ...]:
    width = min(student.link.width, task.link.width)
    std = 10.0 if is_traced(task.token_std) else task.token_std
    rounded = 1.0
    while rounded < std:
        rounded *= 2
    return tuple(
        Reader(
            student.link,
            task.link,
            uniform_spacing(width, rounded, rule=rule),
            uniform_spacing(student.link.width, 1.0, rule=rule),
        )
        for rule in range(3)
    )


def _built(bare: SoftmaxRisk, scale: Any, scales: Any) -> SoftmaxRisk:
    """The same risk with a plan that resolves all of `scales`, and tables for `scale`."""
    traced = is_traced(*jax.tree.leaves((bare.setting, bare.log_others, scale)))
    spread = np.asarray(_LARGEST_SPREAD / 2 if is_traced(scales) else scales * bare.root_dim)
    others = 300.0 if is_traced(bare.log_others) else float(bare.log_others)
    shift, std = (
        default if is_traced(value) else float(value)
        for value, default in ((bare.setting.shift, 2 * bare.root_dim), (bare.setting.token_std, 1))
    )
    if np.max(spread) > _LARGEST_SPREAD * (1 + 1e-9):
        allowed = f"at most {_LARGEST_SPREAD:g}/√d = {_LARGEST_SPREAD / bare.root_dim:.4g}"
        raise InvalidArgument("scale", np.max(scales), allowed)
    size = Range(spread, others, spread * shift, spread * std)
    shared = bool(np.min(spread) >= LEAST_SPREAD)
    if not shared and np.max(spread) > 10 * LEAST_SPREAD:
        allowed = (
            f"all at least {LEAST_SPREAD / bare.root_dim:.4g} or all at most "
            f"{10 * LEAST_SPREAD / bare.root_dim:.4g} in one run"
        )
        raise InvalidArgument("scale", (float(np.min(scales)), float(np.max(scales))), allowed)
    reader = bare.readers[0]
    tabulated = shared and reader.polynomial and bool(np.min(spread) * std >= LEAST_SPREAD)
    tabulated &= bool(np.max(size.center + 9 * size.wide) <= _FARTHEST)
    # only polynomials keep the digits of a risk that is exponentially small
    depth = _DEEP if reader.polynomial else _SHALLOW
    plans = tuple(
        plan(size, depth=depth, shared=shared, informative=tabulated, step=STEP * wider)
        for wider in _WIDER
    )
    risk = dataclasses.replace(bare, scale=scale, prepared=None, plans=plans, tabulated=tabulated)
    if traced or np.ndim(scale):
        return risk
    with float64():
        made = to_numpy(_prepared(*to_float64((risk, scale))))
    return dataclasses.replace(risk, prepared=made)


@eqx.filter_jit
def _prepared(risk: SoftmaxRisk, scale: Any) -> Tables | Window:
    return risk._prepare(scale)
