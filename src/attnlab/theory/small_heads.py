"""Two opposite heads of small `γ` next to debiased gradient descent: the first correction in `γ²`.

With `ω = (γ, -γ)`, `μ = (η/2γ)(1, -1)` and the scores `s_ℓ = x_ℓ·x_q`, centred as `c_ℓ = s_ℓ - s̄`,

    ŷ = (η/L) Σ_ℓ y_ℓ ( c_ℓ + (γ²/6) (c_ℓ³ - 3 v c_ℓ - m_3) + O(γ⁴) ),   v, m_3 moments of the c_ℓ.

The first term is debiased gradient descent; averages of the second are moments of Gaussian samples,
known exactly at every `(d, L)`. Source: Theorem 4.2 (i) of he2025; `docs/theory/small-heads`.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import ArrayLike, Float

from .._core.errors import InvalidArgument, check_real
from ..tasks import InContextRegression
from .approximate_minimiser import optimal_effective_step
from .heads_risk import check_isotropic


def small_heads_distance(
    task: InContextRegression, gamma: Float[ArrayLike, "*batch"], *, step: float | None = None
) -> Float[np.ndarray, "*batch"]:
    """The leading term of `E(ŷ_heads - ŷ_GD)²` as `γ -> 0`, of the order `η²γ⁴ d³/L`.

    **Arguments:** `gamma`: any shape; `step`: `η`, default the best one,
    `theory.optimal_effective_step`.

    The next term is smaller by about `γ² d`. Raises `InvalidArgument` for numbers that are not
    finite. Source: Theorem 4.2 (i) of he2025; `docs/theory/small-heads`.
    """
    eta = _step(task, step)
    try:
        scale = np.asarray(gamma, np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("gamma", gamma, "finite numbers") from None
    if not np.isfinite(scale).all():
        raise InvalidArgument("gamma", gamma, "finite numbers")
    d, L, noise = task.dim, task.length, task.noise_std**2
    square = 6 * (L - 1) * (L * L - 6 * L + 18) / L**4
    aligned = (L - 1) * (24 * L * (L - 2) * (L - 3) + 36 * (L + 3) * (L + 5)) / (L**4 * (L + 1))
    factor = d * (d + 2) * (d + 4) * (((d - 1) / d + noise) * square + aligned / d) / 36
    return eta**2 * scale**4 * factor


def small_heads_risk_slope(task: InContextRegression, *, step: float | None = None) -> float:
    """The derivative of the exact risk of the two heads in `γ²`, at `γ = 0` and fixed `η`:

        -2η (d+2) (L-1)/L² · ( η (L+d+2+dσ²)/L - 1 )

    At the best step `η*` it is `-4η*(d+2)(L-1)/(L²(L+d+dσ²)) < 0`: the risk is smallest at some
    `γ > 0`, and debiased gradient descent is not quite the best that two heads do.

    Source: `docs/theory/small-heads`; compare Theorem 4.2 (ii) of he2025, where the approximate
    loss puts the minimum at `γ -> 0`.
    """
    eta = _step(task, step)
    d, L, noise = task.dim, task.length, task.noise_std**2
    return -2 * eta * (d + 2) * (L - 1) / L**2 * (eta * (L + d + 2 + d * noise) / L - 1)


def _step(task: InContextRegression, step: float | None) -> float:
    check_isotropic(task)
    return optimal_effective_step(task) if step is None else check_real("step", step)
