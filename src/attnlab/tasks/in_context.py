"""In-context linear regression: each prompt is a small data set, and a query to be predicted.

Source: Section 2 of he2025 (one task), Appendices B.3 (covariance) and B.4 (several tasks);
`docs/theory/in-context-regression`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._core.errors import InvalidArgument, check_choice, check_integer, check_real, is_traced
from .._core.keys import check_key
from .._core.normals import GENERATOR, standard_normals
from .single_location import check_sample_size

Supports = tuple[tuple[int, ...], ...]

_LARGEST_NOISE = 1e6
_LARGEST_ENTRY = 1e100  # of a covariance, whose powers theory needs
LARGEST_WRITTEN_SUM = 32  # terms of a sum that is written out, which XLA fuses with what follows


class ContextPrompts(NamedTuple):
    """A batch of data sets with a query each; `N` is absent for a single task without supports.

    - `X`: covariates as rows, `(batch, length, dim)`
    - `y`: responses, noise included, `(batch, length)` or `(batch, length, N)`
    - `xq`: query, `(batch, dim)`
    - `yq`: its response, noise included, `(batch,)` or `(batch, N)`: what is to be predicted
    - `beta`: the coefficients, `(batch, dim)`, or `(batch, N, dim)`, zero outside of the supports;
      no student sees them
    """

    X: Float[Array, "batch length dim"]
    y: Float[Array, "batch length *outputs"]
    xq: Float[Array, "batch dim"]
    yq: Float[Array, "batch ..."]
    beta: Float[Array, "batch *outputs dim"]

    @property
    def inputs(self) -> tuple[Array, ...]:
        """What a student is called on: `(X, y, xq)`."""
        return self.X, self.y, self.xq

    @property
    def target(self) -> Array:
        """What it has to predict: `yq`."""
        return self.yq

    def tokens(self) -> tuple[Array, Array]:
        """The prompts as tokens `z = (x, y)`: context `(batch, length, dim + N)`, and query
        `(batch, dim + N)` with zeros in place of its response."""
        return as_tokens(self.X, self.y, self.xq)


def as_tokens(
    X: Float[Array, "*batch length dim"],
    y: Float[Array, "*batch length *outputs"],
    xq: Float[Array, "*batch dim"],
) -> tuple[Array, Array]:
    """Context tokens `(x_ℓ, y_ℓ)` and the query token `(x_q, 0)` (eq. (2.1) of he2025)."""
    X, y, xq = jnp.asarray(X), jnp.asarray(y), jnp.asarray(xq)  # NumPy float64 included
    labels = y[..., None] if y.ndim == X.ndim - 1 else y
    query = jnp.zeros((*xq.shape[:-1], labels.shape[-1]), xq.dtype)
    return jnp.concatenate([X, labels], -1), jnp.concatenate([xq, query], -1)


class InContextRegression(eqx.Module):
    """Linear regression from the examples of the prompt.

        x_ℓ, x_q ~ N(0, Σ),   β ~ N(0, W),   y_ℓ = β·x_ℓ + σ ξ_ℓ,   predict y_q = β·x_q + σ ξ_q

    With `supports` there are `N` tasks on the same covariates; task `n` reads only the
    coordinates in `S_n`. The loss of several tasks is the sum of their squared errors; it includes
    the noise `σ²` of the query's response.

    **Arguments:**

    - `dim`: dimension `d` of the covariates, at least 1.
    - `length`: number of examples `L`, at least 1.
    - `noise_std`: `σ >= 0`, at most 1e6; default `√0.1`.
    - `covariance`: `Σ`, symmetric and positive definite, `(d, d)`, entries up to 1e100;
      default: the identity.
    - `prior`: the covariance `W` of the coefficients, as `covariance`; default: `I/d`, as he2025
      has it. ahn2023 has the identity. Theory that knows the default only refuses others.
    - `supports`: for each task its coordinates, counted from 0; not empty, without repeats.
    - `coefficients`: `"shared"`, one `β` for all tasks (Definition B.1 of he2025), or
      `"independent"`, a `β` for each. One task's law, hence the summed loss, is the same in both.

    Raises `InvalidArgument` for anything else.
    """

    generator: ClassVar[str] = GENERATOR  # of the prompts' numbers, for records

    dim: int = eqx.field(static=True)
    length: int = eqx.field(static=True)
    noise_std: float
    covariance: np.ndarray | None
    factor: np.ndarray | None
    prior: np.ndarray | None
    prior_factor: np.ndarray | None
    supports: Supports | None = eqx.field(static=True)
    coefficients: Literal["shared", "independent"] = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        length: int,
        *,
        noise_std: float = math.sqrt(0.1),
        covariance: Any = None,
        prior: Any = None,
        supports: Iterable[Iterable[int]] | None = None,
        coefficients: Literal["shared", "independent"] = "shared",
    ):
        self.dim = check_integer("dim", dim, minimum=1)
        self.length = check_integer("length", length, minimum=1)
        self.noise_std = check_real("noise_std", noise_std, low=0.0, high=_LARGEST_NOISE)
        self.covariance, self.factor = _covariance("covariance", covariance, self.dim)
        self.prior, self.prior_factor = _covariance("prior", prior, self.dim)
        self.supports = None if supports is None else _supports(supports, self.dim)
        check_choice("coefficients", coefficients, ("shared", "independent"))
        self.coefficients = coefficients

    @property
    def n_outputs(self) -> int:
        """Number of tasks `N`."""
        return 1 if self.supports is None else len(self.supports)

    @property
    def covariance_matrix(self) -> np.ndarray:
        """`Σ`, the identity included, `(d, d)`."""
        return np.eye(self.dim) if self.covariance is None else np.asarray(self.covariance)

    @property
    def prior_matrix(self) -> np.ndarray:
        """`W`, the covariance of the coefficients before supports cut them, `(d, d)`."""
        return np.eye(self.dim) / self.dim if self.prior is None else np.asarray(self.prior)

    @property
    def support_mask(self) -> np.ndarray:
        """1 where a task reads a coordinate, `(N, d)`; all 1 for a single task."""
        mask = np.zeros((self.n_outputs, self.dim))
        for row, support in zip(mask, self.supports or (range(self.dim),)):
            row[list(support)] = 1.0
        return mask

    def with_length(self, length: int) -> InContextRegression:
        """The same task with prompts of another length. Raises `InvalidArgument`."""
        other = copy.copy(self)
        # a static field, which `eqx.tree_at` does not reach; the constructor refuses traced leaves
        object.__setattr__(other, "length", check_integer("length", length, minimum=1))
        return other

    def sample(
        self,
        key: PRNGKeyArray,
        batch: int,
        *,
        length: int | None = None,
        dtype: Any = jnp.float32,
    ) -> ContextPrompts:
        """Draws `batch` independent prompts, of `length` examples instead of the task's if given.

        Random numbers are drawn in float32, by a generator of the library's own from the words of
        the key (`generator`), and then cast to `dtype`, so that the precision never changes the
        sample. Raises `InvalidArgument`, also for more than memory holds.
        """
        key, batch = check_key(key), check_integer("batch", batch, minimum=1)
        length = self.length if length is None else check_integer("length", length, minimum=1)
        d, n = self.dim, self.n_outputs
        check_sample_size(batch, length, d + n, dtype)
        # one draw for everything, prompts along the last axis: all sums below are then sums of
        # long rows, and what a student transposes back costs nothing
        own = n if self.coefficients == "independent" else 1
        sizes = (length * d, d, own * d, length * n, n)
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
        z = standard_normals(key, (sum(sizes), batch)).astype(dtype)
        x, xq, beta, noise, noise_q = jnp.split(z, ends)
        X = _correlated(self.factor, x.reshape(d, length, batch))
        xq = _correlated(self.factor, xq)
        beta = beta.reshape(own, d, batch)
        if self.prior_factor is None:
            beta = beta / math.sqrt(d)
        else:
            beta = jnp.moveaxis(_correlated(self.prior_factor, jnp.moveaxis(beta, 1, 0)), 0, 1)
        if self.supports is not None:
            beta = beta * jnp.asarray(self.support_mask, dtype)[:, :, None]
        y = _combined(beta, X) + self.noise_std * noise.reshape(n, length, batch)
        yq = _combined(beta, xq[:, None])[:, 0] + self.noise_std * noise_q
        y, yq, beta = y.astype(dtype).T, yq.astype(dtype).T, jnp.moveaxis(beta, -1, 0)
        if self.supports is None:
            y, yq, beta = y[..., 0], yq[..., 0], beta[:, 0]
        return ContextPrompts(X.T, y, xq.T, yq, beta)


def _correlated(factor: Any, z: Any) -> Any:
    """A factor of a covariance times the columns of `z`, along its first axis."""
    return z if factor is None else jnp.tensordot(jnp.asarray(factor, z.dtype), z, 1)


def _combined(beta: Any, X: Any) -> Any:
    """`Σ_i β_ni x_i`, `(n, length, batch)`, from `(n, d, batch)` and `(d, length, batch)`."""
    if X.shape[0] > LARGEST_WRITTEN_SUM:
        return jnp.einsum("nib,ilb->nlb", beta, X)
    return sum(beta[:, i, None] * X[i] for i in range(X.shape[0]))


def kac_murdock_szego(dim: int, rho: float = 0.5) -> Float[np.ndarray, "dim dim"]:
    """The covariance `Σ_ij = ρ^|i-j|`, whose inverse is tridiagonal (Appendix C.2 of he2025).

    Raises `InvalidArgument` for `dim < 1` or `ρ` outside of (-1, 1).
    """
    dim = check_integer("dim", dim, minimum=1)
    rho = check_real("rho", rho, low=-1.0, high=1.0, low_open=True, high_open=True)
    places = np.arange(dim)
    return rho ** np.abs(places[:, None] - places[None, :]).astype(np.float64)


def check_in_context(task: Any, *, any_prior: bool = False) -> InContextRegression:
    """`task` if it is an `InContextRegression`, with the default prior unless `any_prior`; raises
    `InvalidArgument`."""
    if not isinstance(task, InContextRegression):
        raise InvalidArgument("task", task, "an attnlab.InContextRegression")
    if task.prior is not None and not any_prior:
        raise InvalidArgument("prior", task.prior, "the default I/d (None) for this theory")
    return task


def _covariance(name: str, value: Any, dim: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The matrix and its Cholesky factor; None for the identity, which costs nothing."""
    if value is None:
        return None, None
    allowed = f"a real, symmetric, positive definite matrix of shape ({dim}, {dim})"
    if is_traced(value):
        raise InvalidArgument(name, value, allowed + ", known outside of jit")
    try:
        if np.asarray(value).dtype.kind in "bc":  # NumPy would drop imaginary parts
            raise TypeError
        matrix = np.array(value, np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(name, value, allowed) from None
    if matrix.shape != (dim, dim) or not np.isfinite(matrix).all():
        raise InvalidArgument(name, value, allowed)
    if np.abs(matrix).max() > _LARGEST_ENTRY:
        raise InvalidArgument(name, value, allowed + f", entries up to {_LARGEST_ENTRY:g}")
    if np.abs(matrix - matrix.T).max() > 1e-6 * np.abs(matrix).max():
        raise InvalidArgument(name, value, allowed + "; this one is not symmetric")
    matrix = (matrix + matrix.T) / 2
    least, largest = np.linalg.eigvalsh(matrix)[[0, -1]]
    if not least > 1e-12 * abs(largest):
        told = f"; its smallest eigenvalue is {least:.3g}, the largest {largest:.3g}"
        raise InvalidArgument(name, value, allowed + told)
    return matrix, np.linalg.cholesky(matrix)


def _supports(value: Any, dim: int) -> Supports:
    allowed = f"one non-empty set of coordinates from 0 to {dim - 1} for each task"
    try:
        given = [list(support) for support in value]
    except TypeError:
        raise InvalidArgument("supports", value, allowed) from None
    supports = []
    for support in given:
        try:
            places = [check_integer("supports", s, minimum=0, maximum=dim - 1) for s in support]
        except InvalidArgument:
            raise InvalidArgument("supports", value, allowed) from None
        if not places or len(set(places)) < len(places):
            raise InvalidArgument("supports", value, allowed + ", without repeats")
        supports.append(tuple(sorted(places)))
    if not supports:
        raise InvalidArgument("supports", value, allowed)
    return tuple(supports)
