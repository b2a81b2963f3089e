"""Stochastic gradient descent with fresh batches, as an exact Markov chain on the overlaps.

A batch gradient is a combination of tokens, `g_k = Σ c_i x_i`, `g_v = Σ e_i x_i`, whose weights
depend on the tokens' projections on `k*, v*, k, v` alone. Outside this span the tokens are
independent Gaussians, so the outer parts of `(g_k, g_v)` are jointly Gaussian given the weights
and reach the next overlaps only through their 2×2 Gram matrix, a Wishart matrix with `d - 4`
degrees of freedom. One step samples that matrix and never a `d`-dimensional vector; the law of the
trajectory is exactly that of training in `R^d`. Source: Section 5.2 of marion2025 for the
algorithm; `docs/theory/stochastic-overlaps` for the reduction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from .._core.errors import InvalidArgument, check_integer
from .._core.keys import check_key
from .._core.precision import float64, to_float64
from ..students import Overlaps
from ..tasks import Link, SingleLocation
from ..tasks.single_location import check_single_location, sampleable_length
from ..theory import SingleLocationRisk, population_risk
from ..theory.setting import Setting
from .arguments import Student, check_pace, check_start
from .dataset import risk_note, risk_shot, step_dataset
from .loop import Schedule, ScheduledLoop, run_loop

if TYPE_CHECKING:
    import xarray

_LARGEST_BATCH = 2**24


class Frame(eqx.Module):
    """The student's vectors in an orthonormal frame `k*, v*, f3, f4`, where `f3` is the direction
    of the rest of `k` and `f4` of the rest of `v`: `k = (kappa, eta, k3, 0)`,
    `v = (theta, nu, v3, v4)`."""

    k: Float[Array, "*runs 4"]
    v: Float[Array, "*runs 4"]

    def overlaps(self) -> Float[Array, "*runs 5"]:
        rho = jnp.sum(self.k * self.v, axis=-1)
        parts = (self.k[..., 0], self.v[..., 1], self.v[..., 0], self.k[..., 1], rho)
        return jnp.stack(parts, axis=-1)


def reframe(k: Float[Array, " n"], v: Float[Array, " n"]) -> Frame:
    """The frame coordinates of vectors given in any orthonormal basis that begins with `k*, v*`."""
    k_rest, v_rest = k[2:], v[2:]
    k3 = jnp.sqrt(jnp.sum(k_rest**2))
    # a k within the plane of k*, v* leaves f3 to v: in three dimensions there is no f4
    along = jnp.where(k3 > 0, k_rest, v_rest)
    size = jnp.sqrt(jnp.sum(along**2))
    unit = along / jnp.where(size > 0, size, 1.0)
    v3 = unit @ v_rest
    v4 = jnp.sqrt(jnp.sum((v_rest - v3 * unit) ** 2))
    return Frame(jnp.stack([k[0], k[1], k3, 0 * k3]), jnp.stack([v[0], v[1], v3, v4]))


class _FreshBatches(ScheduledLoop):
    risk: SingleLocationRisk
    setting: Setting
    step_size: Float[Array, " runs"]
    keys: PRNGKeyArray
    student: Student
    link: Link = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    length: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)

    def step(self, carry: Frame, i: Any) -> Frame:
        scale = self.scale_at(i)
        return jax.vmap(lambda frame, key, size: self._step(frame, key, size, i, scale))(
            carry, self.keys, self.step_size
        )

    def snapshot(self, carry: Frame, i: Any) -> dict[str, Any]:
        state, scale = carry.overlaps(), self.scale_at(i)
        return risk_shot(self.risk, state, scale)

    def _step(self, frame: Frame, key: PRNGKeyArray, size: Any, i: Any, scale: Any) -> Frame:
        token_key, noise_key, outer_key = jax.random.split(jax.random.fold_in(key, i), 3)
        near = min(self.dim, 4)
        shape = (self.batch_size, self.length, near)
        z = jax.random.normal(token_key, shape, jnp.float32).astype(jnp.float64)
        # tokens are exchangeable: the informative one may as well come first
        std = jnp.ones(self.length).at[0].set(self.setting.token_std)
        X = (z * std[:, None]).at[:, 0, 0].add(self.setting.shift)
        noise = jax.random.normal(noise_key, (self.batch_size,), jnp.float32).astype(jnp.float64)
        y = self.link(X[:, 0, 1]) + self.setting.noise_std * noise

        def loss(scores: Any, values: Any) -> Any:
            prediction = self.student.predict_from_projections(scores, values, scale, dim=self.dim)
            return jnp.mean((prediction - y) ** 2)

        k, v = frame.k[:near], frame.v[:near]
        c, e = jax.grad(loss, argnums=(0, 1))(X @ k, X @ v)
        g_k, g_v = jnp.einsum("bl,bld->d", c, X), jnp.einsum("bl,bld->d", e, X)
        outer_k, outer_v = self._outside(outer_key, c * std, e * std)
        pad = jnp.zeros(4 - near)
        moved = [
            jnp.concatenate([unit - size * (g - (g @ unit) * unit), pad, -size * outer])
            for unit, g, outer in ((k, g_k, outer_k), (v, g_v, outer_v))
        ]
        return reframe(*(part / jnp.sqrt(jnp.sum(part**2)) for part in moved))

    def _outside(self, key: PRNGKeyArray, c: Any, e: Any) -> tuple[Any, Any]:
        """The batch gradients outside the span, in two directions that carry all of them."""
        rest = self.dim - 4
        if rest <= 0:
            return jnp.zeros(2), jnp.zeros(2)
        normal_key, first_key, second_key = jax.random.split(key, 3)
        cross = jax.random.normal(normal_key, (), jnp.float32).astype(jnp.float64)
        first = jnp.sqrt(_chi_squared(first_key, rest))
        second = jnp.sqrt(_chi_squared(second_key, rest - 1))
        cc, ce, ee = jnp.sum(c**2), jnp.sum(c * e), jnp.sum(e**2)
        l11 = jnp.sqrt(cc)
        l21 = ce / jnp.where(l11 > 0, l11, 1.0)
        l22 = jnp.sqrt(jnp.maximum(ee - l21**2, 0.0))
        along_k = jnp.stack([l11 * first, jnp.zeros(())])
        return along_k, jnp.stack([l21 * first + l22 * cross, l22 * second])


def _chi_squared(key: PRNGKeyArray, degrees: int) -> Any:
    """A chi-squared draw: twice a sum of exponentials for the even part, a squared normal for the
    odd one. Cheaper than rejection sampling up to hundreds of degrees of freedom."""
    if degrees > 512:
        return jax.random.chisquare(key, degrees, dtype=jnp.float64)
    even_key, odd_key = jax.random.split(key)
    total = jnp.zeros(())
    if degrees >= 2:
        draws = jax.random.exponential(even_key, (degrees // 2,), jnp.float32)
        total = total + 2 * jnp.sum(draws.astype(jnp.float64))
    if degrees % 2:
        total = total + jax.random.normal(odd_key, (), jnp.float32).astype(jnp.float64) ** 2
    return total


def stochastic_gradient_descent(
    task: SingleLocation,
    student: Student,
    overlaps: Overlaps,
    *,
    step_size: Float[ArrayLike, "*#runs"],
    steps: int,
    batch_size: int,
    key: PRNGKeyArray,
    save_every: int = 1,
    scale_schedule: Schedule | None = None,
) -> xarray.Dataset:
    """Projected SGD with a fresh batch of prompts at every step, exact in law for every `d`.

    **Arguments:** as in `projected_gradient_descent`; `student` a `PointwiseAttention` or a
    `SoftmaxAttention`; `batch_size` prompts a step; run `i` uses
    `fold_in(key, i)`, so more runs never change earlier ones. `risk` in the returned dataset is
    the exact population risk at the saved state, not a batch loss.

    Raises `InvalidArgument` for a length that cannot be sampled or overlaps that do not fit in
    `R^d`; `RunInterrupted` on Ctrl-C.
    """
    length = sampleable_length(check_single_location(task))
    start = check_start(overlaps)
    pace = check_pace(step_size, steps, save_every, scale_schedule, runs=len(start))
    batch_size = check_integer("batch_size", batch_size, minimum=1)
    check_key(key)
    if batch_size * length * len(start) > _LARGEST_BATCH:
        allowed = f"at most {_LARGEST_BATCH // (length * len(start))} for these runs and length"
        raise InvalidArgument("batch_size", batch_size, allowed)
    k, v = Overlaps.unstack(start).to_vectors(min(task.dim, 4))
    risk = population_risk(task, student)
    with float64():
        exact, sizes, setting = to_float64((pace.resolved(risk), pace.sizes, Setting.of(task)))
        k, v = (_padded(part) for part in (k, v))
        loop = _FreshBatches(
            schedule=scale_schedule,
            risk=exact,
            setting=setting,
            step_size=jnp.broadcast_to(sizes, (len(start),)),
            keys=jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(len(start))),
            student=to_float64(student),
            link=task.link,
            dim=task.dim,
            length=length,
            batch_size=batch_size,
        )
        carry = jax.vmap(reframe)(k, v)
    return run_loop(
        loop,
        carry,
        steps=pace.steps,
        save_every=pace.save_every,
        label="stochastic gradient descent",
        finish=lambda at, shots: step_dataset(at, shots, risk.method),
        note=risk_note,
    )


def _padded(vectors: Any) -> Any:
    """The first four coordinates, which hold everything, with zeros where `d < 4`."""
    four = np.zeros((vectors.shape[0], 4))
    width = min(4, vectors.shape[1])
    four[:, :width] = np.asarray(vectors)[:, :width]
    return to_float64(four)
