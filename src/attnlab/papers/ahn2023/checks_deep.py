"""Check of layers of linear attention: steps of descent, stationary at `A_l ∝ Σ⁻¹`, and how good."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...claims import Check, Outcome
from ...tasks import InContextRegression
from .trained import rotated

DIM, LENGTH = 5, 20
SPECTRUM = (1.0, 1.0, 0.5, 0.25, 0.1)


def descent(X: np.ndarray, y: np.ndarray, xq: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The claimed predictions: `w <- w + A_lᵀ Xᵀ(y - Xw)/n` from 0, for each of the matrices."""
    w = np.zeros_like(xq)
    for A in a:
        misfit = y - np.einsum("bnd,bd->bn", X, w)
        w = w + np.einsum("bn,bnd,de->be", misfit, X, A) / X.shape[1]
    return np.sum(xq * w, -1)


def preconditioned(sigma: np.ndarray, numbers: Any) -> np.ndarray:
    """The claimed stationary `A_l`, one for each number."""
    return np.multiply.outer(np.asarray(numbers), np.linalg.inv(sigma))


def deep_linear(preset: str, seed: int) -> Outcome:
    """Prompts, gradients in all matrices, searches over them, and exact risks."""
    from ...estimators import optimal_deep_linear

    paper = preset == "paper"
    sigma = rotated(SPECTRUM, seed)
    sigma = (sigma + sigma.T) / 2
    task = InContextRegression(
        DIM, LENGTH, noise_std=0.0, covariance=sigma, prior=np.linalg.inv(sigma) / DIM
    )
    deepest = 4 if paper else 3
    plain, moved = (
        [
            optimal_deep_linear(DIM, LENGTH, layers, with_b=with_b, prior_variance=1 / DIM)
            for layers in range(1, deepest + 1)
        ]
        for with_b in (False, True)
    )
    common = np.array([_common_step_risk(layers) for layers in range(1, deepest + 1)])
    best, better = (np.array([one.risk.value for one in kind]) for kind in (plain, moved))
    loss, error = _losses(task, (plain[2], moved[1]), seed, 100_000 if paper else 8000)
    exact = np.array([best[2], better[1]])
    slopes = [
        _traceless_slopes(task, one, seed, 100_000 if paper else 6000)
        for one in (plain[2], moved[1])
    ]
    searches, samples, layers, starts = (12, 2000, 3, 4) if paper else (8, 500, 2, 2)
    found = _search(task, searches, samples, layers, starts, seed)
    gain = (found.gain - found.loss) / 2  # what fitting gains and loses is the same
    off, off_error = _spread(found.layers)
    words = {2: "two", 3: "three"}[layers]
    slope_names = ("three layers, B = 0", "two layers with B")
    return Outcome(
        (
            Check.bound("layers against steps of descent, random A_l: largest relative difference", _pointwise(seed), upper=1e-12),
            Check.agreement("prompts through the best layers (3, and 2 with b) against the exact risk", loss, exact, standard_error=error),
            Check.bound("derivative in (a_l, b_l) at the best layers", np.array([one.gradient_norm for one in (*plain, *moved)]), upper=1e-7),
            *(
                Check.agreement(f"derivatives in matrices that are no multiple, {name}", mean, 0.0, standard_error=se, scale=scale)
                for name, (mean, se, scale) in zip(slope_names, slopes, strict=True)
            ),
            Check.agreement(f"what matrices gain on multiples of Σ⁻¹ ({words} layers, share of the risk), fitting apart", gain.mean(), 0.0, standard_error=_error(gain), tolerance=1e-2),
            Check.bound("what they lose on fresh examples, share of the risk", found.loss.mean(), lower=0.0, standard_error=_error(found.loss)),
            Check.agreement("the matrices found, Σ^½ A_l Σ^½ off a multiple of I, over the multiple", off, 0.0, standard_error=off_error, scale=0.1),
            Check.bound("best steps over one step size, risks of 2 and more layers", best[1:] / common[1:], upper=0.9),
            Check.bound("with b over without, risks of 2 and more layers", better[1:] / best[1:], upper=0.9),
        ),
        notes=(
            f"d = {DIM}, n = {LENGTH}, no label noise, w ~ N(0, Σ⁻¹/d), Σ with eigenvalues {SPECTRUM} in a random basis, seed "
            f"{seed}. Risks of 1 to {deepest} layers: {_list(common)} (one step size), {_list(best)} (best steps), {_list(better)} "
            f"(with b). Full matrices for {words} layers without B, fitted to {samples} sets of examples ({searches} times, "
            f"{found.ends.shape[1]} starts each, which end within {found.range:.1%} of the lowest), gain "
            f"{found.gain.mean():.2%} on these and lose {found.loss.mean():.2%} on fresh ones, as fitting of no use does: half of the difference is "
            f"{gain.mean():.2%} ± {_error(gain):.2%}. They are {found.distance:.3f} of their size away from multiples of Σ⁻¹. The source proves that "
            "such layers are stationary, which symmetry explains; that they are best is what the searches suggest, for "
            "B = 0. From three layers with b on, the numbers are the best of several local minima."
        ),
    )  # fmt: skip


def _common_step_risk(layers: int) -> float:
    """The exact risk of `layers` steps of the best common size."""
    from ...estimators import gradient_descent_risk, optimal_step

    task = InContextRegression(DIM, LENGTH, noise_std=0.0)
    step = optimal_step(task, steps=layers)
    return float(gradient_descent_risk(task, step=step, steps=layers))


def _stack(a: np.ndarray, b: np.ndarray | None = None) -> Any:
    """The layers as attention on tokens."""
    from ...students import AttentionStack, MergedAttention

    b = np.zeros_like(a) if b is None else b
    return AttentionStack(
        [MergedAttention.sparse(-A.T, B=B) for A, B in zip(a, b, strict=True)], "context", sign=-1
    )


@lru_cache(maxsize=1)
def _predictor() -> Any:
    import equinox as eqx

    return eqx.filter_jit(lambda stack, *prompt: stack(*prompt))


@lru_cache(maxsize=1)
def _slopes() -> Any:
    """The gradient of the risk given each `S`, compiled."""
    import jax
    import jax.numpy as jnp

    from ...estimators.deep_linear_whitened import risks_given

    def risk(at: Any, one: Any, prior: Any) -> Any:
        return risks_given(at, one[None], prior, jnp.zeros(()))[0]

    return jax.jit(jax.vmap(jax.grad(risk), (None, 0, None)))


def _pointwise(seed: int) -> np.ndarray:
    """Relative differences of a stack's predictions from descent, and from the library's."""
    from ..._core.precision import float64
    from ...estimators import gradient_descent_steps

    rng = np.random.default_rng(seed)
    layers, count, length = 4, 16, 7
    X, xq = rng.normal(size=(count, length, DIM)), rng.normal(size=(count, DIM))
    y = rng.normal(size=(count, length))
    a = rng.normal(size=(layers, DIM, DIM)) / 2
    shared = np.broadcast_to(a[:1], a.shape)
    with float64():
        predicted, same = (np.asarray(_predictor()(_stack(A), X, y, xq)) for A in (a, shared))
        metric = np.linalg.inv(a[0])
        library = gradient_descent_steps(X, y, xq, step=1.0, steps=layers, preconditioner=metric)
    pairs = (predicted, descent(X, y, xq, a)), (same, np.asarray(library))
    return np.array([np.max(np.abs(one - two)) / np.max(np.abs(two)) for one, two in pairs])


def _losses(
    task: InContextRegression, optima: tuple[Any, ...], seed: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean squared errors of stacks on prompts, with standard errors."""
    import jax

    prompts = task.sample(jax.random.key(seed), count)
    eye = np.eye(DIM)
    stacks = [
        _stack(preconditioned(task.covariance_matrix, found.a), np.multiply.outer(found.b, eye))
        for found in optima
    ]
    run = _predictor()
    predicted = np.array([np.asarray(run(stack, *prompts.inputs), np.float64) for stack in stacks])
    losses = (predicted - np.asarray(prompts.target)) ** 2
    return losses.mean(1), losses.std(1, ddof=1) / math.sqrt(count)


def _traceless_slopes(
    task: InContextRegression, found: Any, seed: int, count: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """The risk's gradient in all matrices less its multiples of the identity, in coordinates in
    which covariates are isotropic; and the slope along those where all numbers are 10 % larger."""
    import jax
    import jax.numpy as jnp

    from ..._core.precision import float64
    from ...estimators.deep_linear_whitened import Whitened

    view = Whitened(task)
    S = view.draw(jax.random.key(seed + 2), count)
    a = preconditioned(task.covariance_matrix, found.a)
    b = np.multiply.outer(found.b, np.eye(DIM))
    layers = view.whiten(a, b)[: 1 + bool(found.b.any())]

    with float64():
        data = jnp.asarray(S), jnp.asarray(view.prior)
        here, beside = (
            np.asarray(_slopes()(jnp.asarray(factor * layers), *data)) for factor in (1.0, 1.1)
        )
    trace = np.trace(here, axis1=-2, axis2=-1)[..., None, None] / DIM
    off = here - trace * np.eye(DIM)
    scale = np.abs(np.trace(beside.mean(0), axis1=-2, axis2=-1)).max() / DIM
    error = off.std(0, ddof=1) / math.sqrt(count)
    # the last B has no effect
    return off.mean(0)[error > 0], error[error > 0], float(scale)


class _Searches(NamedTuple):
    """Searches over full matrices and over multiples of `Σ⁻¹`, each pair on one sample."""

    gain: np.ndarray  # of matrices on the sample, share of the risk
    loss: np.ndarray  # on a fresh one
    layers: np.ndarray  # Σ^½ A_l Σ^½, (searches, layers, d, d)
    ends: np.ndarray  # risks on the sample at which the starts ended, (searches, starts)

    @property
    def distance(self) -> float:
        """Root mean square distance from multiples of the identity, over the size."""
        off, _ = _off_multiple(self.layers)
        return float(np.sqrt(np.mean(np.sum(off**2, (2, 3)) / DIM)))

    @property
    def range(self) -> float:
        """The largest distance of an end from the lowest of its search, over that."""
        return float(np.nanmax(np.nanmax(self.ends, 1) / np.nanmin(self.ends, 1)) - 1)


def _search(
    task: InContextRegression, count: int, samples: int, layers: int, starts: int, seed: int
) -> _Searches:
    import jax

    from ...estimators import optimal_deep_linear_sampled
    from ...estimators.deep_linear_whitened import Whitened

    view, rows = Whitened(task), []
    for key in jax.random.split(jax.random.key(seed), count):
        full, scalars = (
            optimal_deep_linear_sampled(
                task.covariance_matrix, LENGTH, layers, prior=task.prior_matrix, with_b=False,
                structure=structure, key=key, samples=samples, test_samples=10_000,
                starts=starts if structure == "full" else 0,
            )[-1]
            for structure in ("full", "preconditioned")
        )  # fmt: skip
        gain = 1 - full.training_risk.value / scalars.training_risk.value
        loss = full.risk.value / scalars.risk.value - 1
        a = view.whiten(full.a, full.b)[0]
        # without b the order of steps has no effect
        order = np.argsort(-np.trace(a, axis1=1, axis2=2))
        rows.append((gain, loss, a[order], full.start_risks))
    return _Searches(*(np.array(column) for column in zip(*rows, strict=True)))


def _off_multiple(layers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is left beside the multiple of the identity, over the multiple; and the multiple."""
    level = np.trace(layers, axis1=-2, axis2=-1)[..., None, None] / DIM
    return layers / level - np.eye(DIM), level


def _spread(layers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of that over searches, and its standard error, of which all entries of a layer off
    the diagonal have the same, and all on it, by symmetry."""
    off, _ = _off_multiple(layers)
    variance = off.var(0, ddof=1)
    diagonal = np.eye(DIM, dtype=bool)
    error = np.where(
        diagonal,
        variance[:, diagonal].mean(1)[:, None, None],
        variance[:, ~diagonal].mean(1)[:, None, None],
    )
    return off.mean(0), np.sqrt(error / len(layers))


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def _list(values: np.ndarray) -> str:
    return ", ".join(f"{value:.3g}" for value in values)
