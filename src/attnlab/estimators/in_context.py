"""The classical competitors of attention on in-context regression, as plain functions.

Each takes the examples and the query of one prompt, or of a batch of prompts along leading axes,
and predicts the response of the query:

    X (*batch, L, d),   y (*batch, L) or (*batch, L, N),   xq (*batch, d)
    ->  (*batch,) or (*batch, N)

They keep the dtype of their input and can be traced by JAX. All raise `InvalidArgument` for shapes
that do not fit together, no examples, or numbers that are not finite. `task.sample(...).inputs`
are such arguments. Source: Section 4.3 and Appendix F of he2025;
`docs/theory/in-context-estimators`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .._core.errors import InvalidArgument, check_integer, is_traced
from .prompt_arguments import Examples, check_examples, check_matrix, check_number, in_own_precision

Covariates = Float[ArrayLike, "*batch length dim"]
Responses = Float[ArrayLike, "..."]  # (*batch, L) or (*batch, L, N)
Queries = Float[ArrayLike, "*batch dim"]
Predictions = Float[Array, "..."]  # (*batch,) or (*batch, N)


def gradient_descent(X: Covariates, y: Responses, xq: Queries, *, step: Any) -> Predictions:
    """One step of gradient descent from 0: `(η/L) Σ_ℓ y_ℓ x_ℓ·x_q`.

    `step`: `η`, in units of the inverse covariance of the covariates.
    """
    return gradient_descent_steps(X, y, xq, step=step, steps=1)


def debiased_gradient_descent(
    X: Covariates, y: Responses, xq: Queries, *, step: Any
) -> Predictions:
    """One step on centred covariates: `(η/L) Σ_ℓ y_ℓ (x_ℓ - x̄)·x_q`, `x̄` the prompt's mean."""
    return gradient_descent_steps(X, y, xq, step=step, steps=1, debiased=True)


def preconditioned_gradient_descent(
    X: Covariates,
    y: Responses,
    xq: Queries,
    *,
    preconditioner: Float[ArrayLike, "dim dim"],
    step: Any = 1.0,
    debiased: bool = False,
) -> Predictions:
    """One preconditioned step: `(η/L) Σ_ℓ y_ℓ x_ℓᵀ Γ⁻¹ x_q`, or with `x_ℓ - x̄` if `debiased`.

    **Arguments:** `preconditioner`: `Γ`, invertible (`estimators.optimal_preconditioner` is the
    best one). Source: Appendix B.3 of he2025.
    """
    return gradient_descent_steps(
        X, y, xq, step=step, steps=1, debiased=debiased, preconditioner=preconditioner
    )


@in_own_precision
def gradient_descent_steps(
    X: Covariates,
    y: Responses,
    xq: Queries,
    *,
    step: Any,
    steps: int,
    debiased: bool = False,
    preconditioner: Float[ArrayLike, "dim dim"] | None = None,
) -> Predictions:
    """`steps` steps of gradient descent on `(1/2L) Σ_ℓ (β·x_ℓ - y_ℓ)²` from `β = 0`.

        β ← β + (η/L) Γ⁻ᵀ Xᵀ(y - Xβ),      prediction x_q·β

    **Arguments:** `step`: `η`; `steps`: at least 0; `debiased`: centres the covariates of the
    prompt first; `preconditioner`: `Γ`, by default the identity.
    """
    examples = check_examples(X, y, xq)
    step = check_number("step", step)
    steps = check_integer("steps", steps, minimum=0)
    covariates, labels = examples.X, examples.y
    *_, length, dim = covariates.shape
    if debiased:
        covariates = covariates - jnp.mean(covariates, -2, keepdims=True)
    metric = None
    if preconditioner is not None:
        metric = check_matrix("preconditioner", preconditioner, dim, covariates.dtype).T

    def descend(_: Any, beta: Any) -> Any:
        misfit = labels - jnp.einsum("...ld,...dn->...ln", covariates, beta, precision="highest")
        slope = jnp.einsum("...ld,...ln->...dn", covariates, misfit, precision="highest") / length
        return beta + jnp.asarray(step, beta.dtype) * _solved(metric, slope)

    beta = jnp.zeros((*covariates.shape[:-2], dim, labels.shape[-1]), covariates.dtype)
    # a single step needs no loop, which would cost a compilation
    beta = descend(0, beta) if steps == 1 else jax.lax.fori_loop(0, steps, descend, beta)
    return examples.answer(beta)


@in_own_precision
def ridge(X: Covariates, y: Responses, xq: Queries, *, penalty: Any) -> Predictions:
    """Ridge regression: `x_qᵀ (XᵀX + λI)⁻¹ Xᵀy`.

    `penalty`: `λ >= 0`; `dσ²` is Bayes' choice for an isotropic prior `β ~ N(0, I/d)`, and 0 is
    `ordinary_least_squares`. Solved by an orthogonal factorisation of `[X; √λ I]`, which squares
    no condition number.
    """
    examples = check_examples(X, y, xq)
    penalty = check_number("penalty", penalty, low=0.0)
    if not is_traced(penalty) and penalty == 0:
        return ordinary_least_squares(X, y, xq)
    dim, batch = examples.X.shape[-1], examples.X.shape[:-2]
    root = jnp.sqrt(jnp.asarray(penalty, examples.X.dtype))
    below = jnp.broadcast_to(root * jnp.eye(dim, dtype=examples.X.dtype), (*batch, dim, dim))
    basis, triangle = jnp.linalg.qr(jnp.concatenate([examples.X, below], -2))
    aligned = jnp.einsum(
        "...ld,...ln->...dn", basis[..., : examples.y.shape[-2], :], examples.y, precision="highest"
    )
    return examples.answer(jax.lax.linalg.triangular_solve(triangle, aligned, left_side=True))


@in_own_precision
def ordinary_least_squares(X: Covariates, y: Responses, xq: Queries) -> Predictions:
    """Least squares, of minimal norm where the examples leave `β` undetermined (`L < d`).

    By singular values; those below `max(L, d)` roundings of the largest count as 0.
    """
    examples = check_examples(X, y, xq)
    left, values, right = jnp.linalg.svd(examples.X, full_matrices=False)
    rounding = max(examples.X.shape[-2:]) * jnp.finfo(values.dtype).eps
    kept = values > rounding * values[..., :1]
    inverse = jnp.where(kept, 1 / jnp.where(kept, values, 1), 0)
    aligned = jnp.einsum("...lk,...ln->...kn", left, examples.y, precision="highest")
    beta = jnp.einsum("...kd,...k,...kn->...dn", right, inverse, aligned, precision="highest")
    return examples.answer(beta)


@in_own_precision
def kernel_regression(
    X: Covariates,
    y: Responses,
    xq: Queries,
    *,
    omega: Float[ArrayLike, "*heads"],
    mu: Float[ArrayLike, "*heads"],
) -> Predictions:
    """A sum of Nadaraya-Watson regressors with kernels `exp(ω_h x·x_q)`:
    `Σ_h μ_h Σ_ℓ softmax_ℓ(ω_h x_ℓ·x_q) y_ℓ`.

    `omega`, `mu`: one number each for one head, or `(H,)`. Source: eq. (3.2) of he2025.
    """
    examples = check_examples(X, y, xq)
    omega, mu = _heads("omega", omega, examples), _heads("mu", mu, examples)
    if omega.shape != mu.shape:
        raise InvalidArgument("mu", mu, f"of as many heads as omega, {omega.shape[0]}")
    products = jnp.einsum("...ld,...d->...l", examples.X, examples.xq, precision="highest")
    weights = jax.nn.softmax(omega[:, None] * products[..., None, :], axis=-1)
    return examples.shaped(
        jnp.einsum("h,...hl,...ln->...n", mu, weights, examples.y, precision="highest")
    )


def _heads(name: str, value: Any, examples: Examples) -> Array:
    allowed = "a finite number, or one for each head"
    try:
        array = jnp.atleast_1d(jnp.asarray(value, examples.X.dtype))
        good = array.ndim == 1 and array.size > 0
        good = good and (is_traced(value) or bool(np.isfinite(np.asarray(value)).all()))
    except (TypeError, ValueError):
        good = False
    if not good:
        raise InvalidArgument(name, value, allowed)
    return array


def _solved(metric: Any, slope: Any) -> Any:
    if metric is None:
        return slope
    inverse = jnp.linalg.inv(metric)
    return jnp.einsum("de,...en->...dn", inverse, slope, precision="highest")
