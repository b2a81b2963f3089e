"""The mean-field risk of softmax attention: the random-energy limit, and its finite-size version.

`mean_field_risk(task, student)` is what dohmatob2025 states, completed: attention is the sigmoid
of the mean logit, the bulk is a random energy model in one of its two phases. `refined=True` keeps
`d` finite: it averages over the informative token's logit and over the bulk's `log Z`, in closed
form. Source: Proposition 1 and Corollary 1 of dohmatob2025; `docs/theory/mean-field`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from .._core.errors import InvalidArgument, is_traced
from .._core.precision import float64, to_float64
from ..students import Overlaps, SoftmaxAttention
from ..tasks import SingleLocation
from ..tasks.single_location import check_single_location
from . import gaussian_links as links
from .agreement import disagreement
from .informative_token import Reader
from .mean_field_terms import Sizes, Terms, leading_terms, refined_terms
from .random_energy import bulk_free_energy
from .random_energy_levels import node_count
from .risk import SingleLocationRisk
from .setting import Components, Setting
from .square_integrable import check_square_integrable

_FEWEST = math.log(2.0) * (1 - 1e-9)
_LARGEST_LOG_LENGTH = 600.0
_BATCH_VALUES = 2**22  # float64 values held at once by a batch
_QUADRATURE = 1e-8
_CUT = 1e-12  # what lies beyond the ends of the nodes
_FEW = 2e-4  # relative error of the refined law for a bulk of one token
_FAR = 3.0  # widths of a transition beyond which its smoothing does not matter at leading order
_ENOUGH = math.log(8.0)  # tokens below which the refined law is off by more than a percent


class Applicability(NamedTuple):
    """Where the overlaps lie in the phase diagram; arrays of their shape.

    - `retrieval`: whether `cκ > ψ(β)`, that is whether attention finds the informative token
    - `condensed`: whether `β >= β_c`, few tokens of the bulk carrying its weight
    - `retrieval_distance`: `|cκ - ψ| √d/γ`, from the line `p = 1/2` in standard deviations of the
      informative token's logit
    - `condensation_distance`: `|β - β_c| √d`, from the condensation line in units of its width
    - `applies`: at leading order, both distances exceed 3; for the refined risk, at least 8 tokens
    """

    retrieval: Bool[np.ndarray, "*runs"]
    condensed: Bool[np.ndarray, "*runs"]
    retrieval_distance: Float[np.ndarray, "*runs"]
    condensation_distance: Float[np.ndarray, "*runs"]
    applies: Bool[np.ndarray, "*runs"]


class MeanFieldRisk(SingleLocationRisk):
    """The mean-field risk as a function of overlaps, like an exact one.

    `risk.error(overlaps)` estimates its distance from the exact risk: at leading order that to the
    refined one, and for that the size of the last term kept. `risk.applies(overlaps)` says where
    it is meant to hold.
    """

    method: ClassVar[str] = "mean field"
    setting: Setting
    log_length: Any
    dim: float
    scale: Any
    reader: Reader = eqx.field(static=True)
    refined: bool = eqx.field(static=True)
    nodes: int = eqx.field(static=True)

    def components_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Components:
        """The split risk at stacked overlaps. Pure, float64, called inside `float64()`."""
        return self._mapped(state, scale, self._terms).components

    def error_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Float[Array, "*runs"]:
        """The estimated distance from the exact risk, under the same conditions."""
        return self._mapped(state, scale, self._distance)

    def with_scale(self, scale: Any) -> Self:
        """The same risk for another, checked inverse temperature."""
        return dataclasses.replace(self, scale=scale, nodes=self._nodes_for(scale))

    def resolving(self, scales: Float[ArrayLike, " scales"]) -> Self:
        """The risk with nodes for all of these inverse temperatures."""
        return dataclasses.replace(self, nodes=max(self.nodes, self._nodes_for(scales)))

    def applies(self, overlaps: Overlaps) -> Applicability:
        """Where the overlaps lie in the phase diagram, and whether this risk is meant to hold
        there. Raises `InvalidArgument` when `overlaps` are not concrete `Overlaps`."""
        if not isinstance(overlaps, Overlaps) or is_traced(overlaps.kappa):
            raise InvalidArgument("overlaps", overlaps, "a concrete attnlab.Overlaps")
        root = math.sqrt(self.dim)
        beta, alpha = np.asarray(self.scale), float(self.log_length) / self.dim
        with float64():
            psi = np.asarray(bulk_free_energy(*to_float64((beta, alpha))))
        gap = float(self.setting.shift) / root * np.asarray(overlaps.kappa) - psi
        far = np.abs(gap) * root / float(self.setting.token_std)
        critical = math.sqrt(2 * alpha)
        beta = np.broadcast_to(beta, gap.shape)
        cold = np.abs(beta - critical) * root
        holds = (far > _FAR) & (cold > _FAR)
        if self.refined:
            holds = np.full(gap.shape, float(self.log_length) >= _ENOUGH)
        return Applicability(gap > 0, beta >= critical, far, cold, holds)

    def _nodes_for(self, scale: Any) -> int:
        if is_traced(scale, self.log_length):
            return 1024
        spread = np.asarray(scale, np.float64) * math.sqrt(self.dim)
        # also for the scales nearby that a call may pass
        around = np.concatenate([np.ravel(spread) * factor for factor in (0.5, 1.0, 2.0)])
        return node_count(around, float(self.log_length))

    def _terms(self, row: Any, sizes: Sizes) -> Terms:
        if not self.refined:
            return leading_terms(self.reader, row, self.setting, sizes)
        return refined_terms(self.reader, row, self.setting, sizes, nodes=self.nodes)

    def _distance(self, row: Any, sizes: Sizes) -> Any:
        def refined(beyond: Any) -> Terms:
            return refined_terms(
                self.reader, row, self.setting, sizes, nodes=self.nodes, beyond=beyond
            )

        terms = jax.vmap(refined)(jnp.array([1.0, 0.0]))
        value_parts = [part[0] for part in terms.components]
        value = sum(value_parts, start=jnp.zeros(()))
        # component by component: where parts of the last term cancel, the distance does not
        distance = disagreement(value_parts, [part[1] for part in terms.components])
        slack, pair_slack = 2 * terms.slack[0], 2 * terms.pair_slack[0]
        size = sum(map(jnp.abs, value_parts))
        few = jnp.exp(-2 * jnp.minimum(sizes.log_others, 300.0))
        distance += (_QUADRATURE + _FEW * few) * size
        distance += _CUT * self.setting.token_std**2
        distance += slack * (2 * jnp.sqrt(jnp.maximum(value, 0.0)) + slack) + pair_slack
        if not self.refined:
            plain = leading_terms(self.reader, row, self.setting, sizes)
            distance += jnp.abs(value - sum(plain.components))
        return distance

    def _mapped(self, state: Any, scale: Any, function: Any) -> Any:
        shape = state.shape[:-1]
        beta = jnp.broadcast_to(self.scale if scale is None else scale, shape).reshape(-1)
        rest = self.log_length + jnp.log(-jnp.expm1(-jnp.asarray(self.log_length)))

        def each(row: Any, beta: Any) -> Any:
            return function(row, Sizes(self.dim, self.log_length, rest, beta))

        arguments = state.reshape(-1, 5), beta
        size = max(1, _BATCH_VALUES // values_per_run(self))
        if size >= beta.shape[0]:
            out = jax.vmap(each)(*arguments)
        else:
            out = jax.lax.map(lambda pair: each(*pair), arguments, batch_size=size)
        return jax.tree.map(lambda part: part.reshape(shape), out)


def values_per_run(risk: MeanFieldRisk) -> int:
    """Float64 values that one run of the refined risk holds at a time, to size batches."""
    reader = risk.reader
    bends = 2 * (len(reader.student.kinks) + len(reader.task.kinks))
    scores = 257 if not bends else 120 * (1 + bends)
    return scores * (4 * risk.nodes + (1 if reader.polynomial else 2000 if bends else 100))


def mean_field_risk(
    task: SingleLocation, student: SoftmaxAttention, *, refined: bool = False
) -> MeanFieldRisk:
    """The risk of softmax attention in the limit `d → ∞` at fixed `α = log L / d`.

    **Arguments:** `refined` keeps `d` finite: attention is averaged over the informative token's
    logit, of standard deviation `βγ√d`, and over the fluctuations of the bulk's `log Z`, and `√d`
    times the free energy is that of `L - 1` levels, smooth across the condensation.

    Any links; every overlap. The error is an estimate of the distance from the exact risk.

    Raises `InvalidArgument` unless `task` is a `SingleLocation` of at least two tokens with
    `log L <= 600`, `student` is a `SoftmaxAttention`, and both links have a finite second moment.
    """
    check_single_location(task)
    if not isinstance(student, SoftmaxAttention):
        raise InvalidArgument("student", student, "an attnlab.SoftmaxAttention")
    if not isinstance(refined, bool):
        raise InvalidArgument("refined", refined, "True or False")
    log_length = task.log_length
    if not is_traced(log_length) and not _FEWEST <= log_length <= _LARGEST_LOG_LENGTH:
        allowed = f"between log 2 and {_LARGEST_LOG_LENGTH:g}: a limit of many tokens"
        raise InvalidArgument("log_length", log_length, allowed)
    std = 10.0 if is_traced(task.token_std) else max(1.0, task.token_std)
    for link in (student.link, task.link):
        check_square_integrable(link, std)
    bare = MeanFieldRisk(
        setting=Setting.of(task),
        log_length=log_length,
        dim=float(task.dim),
        scale=student.inverse_temperature,
        reader=_reader(task, student, std),
        refined=refined,
        nodes=128,
    )
    return bare.with_scale(student.inverse_temperature)


def _reader(task: SingleLocation, student: SoftmaxAttention, std: float) -> Reader:
    width = min(student.link.width, task.link.width)
    rounded = 2.0 ** math.ceil(math.log2(std))  # nearby settings share a compilation
    return Reader(
        student.link,
        task.link,
        links.uniform_spacing(width, rounded),
        links.uniform_spacing(student.link.width, 1.0),
    )
