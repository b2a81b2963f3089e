"""Where Adam stops in the valley: the noise of its batches pushes `γ` outwards.

Adam with rate `a` moves a weight with gradient noise `√v` like stochastic gradient descent with
the rate `a/√v`: across a direction of curvature `h` it keeps the variance `s² = a√v/(2h)`. The
curvatures of the weights of `KQ` are proportional to `μ² = (η/2γ)²`, so that their fluctuations
push along the valley with the force `-½ Σ s² ∂h/∂γ = (a/2γ) Σ √v`, which meets that of the risk at

    γ R'(γ) = (a/2) Σ √v(γ),

the sum over all entries of both matrices `KQ`, `√v` the standard deviation of a batch's gradient.
Nothing is fitted: `R` is exact, and `v` an average over single prompts divided by the batch.
Source: `docs/theory/two-head-flow`.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...tasks import InContextRegression
from .exact_heads import opposite_heads

_RANGE = (0.04, 0.7)
_NODES = 12


class NoisyValley(NamedTuple):
    """Along `γ²`: the least exact risk, and `γ Σ √v` of single prompts (polynomials)."""

    risk: np.polynomial.Chebyshev
    noise: np.polynomial.Chebyshev

    def resting_gamma(self, learning_rate: float, batch_size: int) -> float:
        """Where the two forces balance; NaN if not between 0.04 and 0.7."""
        u = np.linspace(_RANGE[0] ** 2, _RANGE[1] ** 2, 20_001)
        force = 2 * u * self.risk.deriv()(u)  # γ dR/dγ
        push = learning_rate / 2 * self.noise(u) / np.sqrt(u * batch_size)
        above = np.flatnonzero(force > push)
        return math.sqrt(u[above[0]]) if len(above) and above[0] else math.nan

    def excess(self, gamma: float, learning_rate: float, batch_size: int) -> float:
        """What the fluctuations themselves add to the risk: `Σ h s²/2 = (a/4) Σ √v`."""
        return float(learning_rate / 4 * self.noise(gamma**2) / gamma / math.sqrt(batch_size))


@functools.cache
def noisy_valley(task: InContextRegression, samples: int, seed: int) -> NoisyValley:
    """Risk and gradient noise at the best `μ`, for matrices `KQ = ±γI`."""
    x = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
    u = _RANGE[0] ** 2 + (_RANGE[1] ** 2 - _RANGE[0] ** 2) * (x + 1) / 2
    gamma = np.sqrt(u)
    risk, eta = opposite_heads(task, gamma).least(task.noise_std**2)
    # sampled: nearly constant times 1/γ, so that many prompts at few places serve best
    few = [0, 2, 5, 8, 11]
    noise = gamma[few] * _gradient_noise(task, gamma[few], eta[few], samples, seed)
    domain = [_RANGE[0] ** 2, _RANGE[1] ** 2]
    return NoisyValley(
        np.polynomial.Chebyshev.fit(u, risk, _NODES - 1, domain),
        np.polynomial.Chebyshev.fit(u[few], noise, 3, domain),
    )


def _gradient_noise(
    task: InContextRegression, gamma: np.ndarray, eta: np.ndarray, samples: int, seed: int
) -> np.ndarray:
    """`Σ √v` over the entries of both matrices, for batches of one prompt."""
    import jax
    import jax.numpy as jnp

    from ...students import KernelHeads

    def loss(omega: Any, mu: Any, prompt: Any) -> Any:
        return (KernelHeads(omega, mu)(*prompt.inputs) - prompt.target) ** 2

    @jax.jit
    def noise(g: Any, step: Any) -> Any:
        prompts = task.sample(jax.random.key(seed), samples)
        sign = jnp.array([1.0, -1.0])
        omega, mu = g * sign[:, None, None] * jnp.eye(task.dim), step / (2 * g) * sign
        slopes = jax.vmap(jax.grad(loss), (None, None, 0))(omega, mu, prompts)
        return jnp.sum(jnp.std(slopes, axis=0))

    pairs = zip(gamma, eta, strict=True)
    return np.array([float(noise(np.float32(g), np.float32(e))) for g, e in pairs])


def trained_gamma(
    task: InContextRegression,
    learning_rate: float,
    batch_size: int,
    steps: int,
    runs: int,
    seed: int,
) -> np.ndarray:
    """`γ` of every run, averaged over the second half of a training by Adam, `(runs,)`.

    Heads have whole matrices `KQ`; they start on the manifold, at `γ` from 0.2 to 0.5.
    """
    import jax
    import jax.numpy as jnp
    import optax

    from ...dynamics import train
    from ...students import KernelHeads

    eye, sign = jnp.eye(task.dim), jnp.array([1.0, -1.0])

    def start(key: Any) -> KernelHeads:
        gamma = jax.random.uniform(key, minval=0.2, maxval=0.5)
        return KernelHeads(gamma * sign[:, None, None] * eye, 0.44 / gamma * sign)

    run = train(
        start, task, optimizer=optax.adam(learning_rate), steps=steps, batch_size=batch_size,
        key=jax.random.key(seed), save_every=max(1, steps // 100), runs=runs, test_prompts=100,
    )  # fmt: skip
    omega = np.asarray(run.history.omega.values)  # (run, step, head, row, column)
    half = omega[:, omega.shape[1] // 2 :]
    size = np.trace(half, axis1=-2, axis2=-1) / task.dim
    return np.abs(size).mean((1, 2))
