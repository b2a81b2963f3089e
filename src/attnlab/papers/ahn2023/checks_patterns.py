"""Checks of the claims on patterns: trained activations, `P` and `Q` together, other activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...claims import Check, Outcome
from .activations import ActivationsConfig, least
from .activations import task_of as isotropic
from .checks_minimiser import below_pattern, training_of
from .joint import ON_PATTERN, ends, least_curvature, share_of, task_at
from .trained import mean_and_error, normalization_of, trained

_SMALL = 0.05  # share of the norm outside of the pattern
_OTHERS = ("tanh", "gelu", "exp")
_NONLINEAR = ("relu", "tanh", "gelu", "exp", "softmax")


def sparsity_nonlinear(preset: str, seed: int) -> Outcome:
    """Shares outside of the pattern at the end of training, for five activations."""
    from ...circuits import block_pattern

    checks, told = [], []
    for name in _NONLINEAR:
        pattern = block_pattern(trained(training_of(preset, seed, name)).layer)
        for text, values in (
            ("share outside of the pattern", pattern.off_pattern),
            ("distance of A from a multiple of I, over its size", pattern.off_identity),
        ):
            mean, error = mean_and_error(values)
            checks.append(Check.bound(
                f"{name}: {text}, mean over the starts", mean, upper=_SMALL, standard_error=error
            ))  # fmt: skip
        scale, error = mean_and_error(pattern.scale)
        told.append(f"{name} {scale:.3f} ± {error:.3f}")
    config = training_of(preset, seed, "relu")
    return Outcome(
        tuple(checks),
        notes=(
            f"d = {config.dim}, n = {config.length}, isotropic data without noise, weights divided "
            f"by n, {config.runs} random starts, for which both numbers are near 0.9; "
            f"{config.steps} steps. Mean diagonal of v A: {', '.join(told)}. For gelu a small A with "
            "a large v is best, so that v A still grows."
        ),
    )


def open_joint(preset: str, seed: int) -> Outcome:
    """Minima of the exact ReLU risk over all of `P` and `Q`."""
    from ... import population_risk
    from ...circuits import block_pattern
    from ...theory import optimal_attention

    starts = 48 if preset == "quick" else 1000
    rng = np.random.default_rng(seed)
    checks = [below_pattern(rng, "relu", 150)]
    shares: dict[float, Any] = {}
    excess = None
    for ratio in (1.0, 4.0):
        task = task_at(5, 20, 0.0, ratio)
        risk = population_risk(task, optimal_attention(task, normalization="relu-sum"))
        found = ends(risk, starts, seed, 3000)
        off = np.array([float(block_pattern(layer).off_pattern) for layer in found.layers])
        label = "Σ = I" if ratio == 1 else f"Σ = diag({ratio:g}, 1, 1, 1, 1)"
        checks.append(Check.agreement(
            f"{label}: least end of {starts} descents over P and Q, against the risk of A*",
            float(np.min(found.value)), float(risk.value), relative_tolerance=1e-8,
        ))  # fmt: skip
        checks.append(Check.bound(
            f"{label}: its share outside of the pattern",
            float(off[np.argmin(found.value)]), upper=ON_PATTERN,
        ))  # fmt: skip
        shares[ratio] = share_of(off <= ON_PATTERN)
        if ratio == 1:
            reached = int((off <= ON_PATTERN).sum())
            checks.append(Check.proportion(
                f"{label}: descents that end in the pattern", reached, starts, lower=0.85
            ))  # fmt: skip
        else:
            away = np.flatnonzero(found.converged & (off > ON_PATTERN))
            checks.append(Check.condition(
                f"{label}: another minimum is found", True if len(away) else None
            ))  # fmt: skip
            if not len(away):
                continue
            trap = found.layers[away[np.argmin(found.value[away])]]
            excess = float(risk(trap) / risk.value)
            checks.append(Check.bound(
                f"{label}: least curvature at the best end off the pattern (scale left out)",
                least_curvature(risk, trap), lower=1e-3,
            ))  # fmt: skip
    if excess is None:
        return Outcome(tuple(checks), settle="more starts", notes="No other minimum was found.")
    share, error = shares[4.0]
    return Outcome(
        tuple(checks),
        answer=(
            "The global minimum over all of P and Q has the sparse pattern, v A = A*, for every Σ, W, "
            "n and noise (proved: given v A + b uᵀ, u = b = 0 is best). For Σ = I all of "
            f"{starts} descents reach it; with one eigenvalue 4 (d = 5, n = 20) {share:.2f} ± "
            f"{error:.2f} of them do, the others end in a strict local minimum of {excess:.2f} times "
            "the risk, in which the direction of that eigenvalue is read by P and weighted by "
            "responses."
        ),
        notes="The proof is on the page unnormalised-attention. The experiment joint-pq shows both minima.",
    )  # fmt: skip


def open_activations(preset: str, seed: int) -> Outcome:
    """Descents over `A` for other activations, and their best `c`, with `v` fixed and free."""
    from ... import InContextRegression

    rng = np.random.default_rng(seed)
    names = (
        ("tanh", "gelu", "exp") if preset == "quick" else ("tanh", "erf", "gelu", "softsign", "exp")
    )
    # descents over matrices of activations without a closed form cost seconds each
    searched = ("tanh", "exp") if preset == "quick" else names
    small = InContextRegression(3, 10, noise_std=0.0, prior=np.eye(3))
    checks = []
    for name in searched:
        found = _descents(small, name, rng)
        scale = np.trace(found, axis1=1, axis2=2)[:, None, None] / 3
        spread = np.linalg.norm(found - scale * np.eye(3), axis=(1, 2)) / np.linalg.norm(
            found, axis=(1, 2)
        )
        checks.append(Check.bound(
            f"{name}: distance of A from a multiple of I at the ends of descents, d = 3, n = 10",
            spread, upper=1e-4,
        ))  # fmt: skip
        checks.append(Check.bound(
            f"{name}: spread of that multiple over the starts, relative",
            float(np.ptp(scale) / abs(scale.mean())), upper=1e-4,
        ))  # fmt: skip
    config = ActivationsConfig.model_validate({})
    task = isotropic(config)
    n, d = config.length, config.dim
    linear = (d + 1) * d / (n + d + 1)  # d (1 - n/(n+d+1))
    fixed = {name: least(task, name, free_value=False) for name in (*names, "relu")}
    free = {name: least(task, name, free_value=True) for name in names}
    inside = np.isfinite([c for c, _ in (*fixed.values(), free["tanh"])])
    checks.append(Check.condition(
        "the c of the least risk is inside of those computed", True if inside.all() else None,
    ))  # fmt: skip
    checks.append(Check.agreement(
        "relu: c by quadrature over a refined grid, against 2n/(n+2d+3)",
        fixed["relu"][0], 2 * n / (n + 2 * d + 3), relative_tolerance=1e-3,
    ))  # fmt: skip
    checks.append(Check.bound(
        "tanh with its best v: least risk over that of linear attention",
        free["tanh"][1] / linear, upper=0.99,
    ))  # fmt: skip
    listed = ", ".join(f"{name} {fixed[name][0]:.3f} (risk {fixed[name][1]:.3f})" for name in fixed)
    return Outcome(
        tuple(checks),
        answer=(
            f"On isotropic data {', '.join(searched[:-1])} and {searched[-1]} keep A = cI: descents over A "
            f"from random starts end there. With v = 1, d = {d}, n = {n}, weights divided by n, c is "
            f"{listed}. With a free v, tanh has a risk of {free['tanh'][1]:.4f} at c = "
            f"{free['tanh'][0]:.3f}, below the {linear:.4f} of linear attention; for gelu linear "
            "attention is the limit as c falls to 0."
        ),
        notes=(
            "Exact risks by quadrature (errors below 1e-9), c to four digits. For increasing g the "
            "minimiser is symmetric and positive (page unnormalised-attention); that its eigenvalues "
            "agree is computed here, not proved."
        ),
    )


def _descents(task: Any, name: str, rng: np.random.Generator) -> np.ndarray:
    """Ends of descents over `A` from three random starts, small enough for the risk to be finite."""
    from ... import population_risk
    from ...students import MergedAttention
    from ...theory import minimise_attention

    size = 0.1 if name == "exp" else 0.5
    layers = [
        MergedAttention.sparse(
            size * rng.normal(size=(task.dim, task.dim)) / task.dim,
            normalization=normalization_of(name),
        )
        for _ in range(3)
    ]
    ends = minimise_attention(population_risk(task, layers[0]), layers)
    return np.stack([np.asarray(layer.A) for layer in ends.layers])
