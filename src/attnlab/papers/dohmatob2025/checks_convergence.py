"""Checks of where descents end for the linear link: on M, and from anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...claims import Check, Outcome
from .exact import Sizes
from .manifold import ManifoldFunctions, edges, manifold_functions

# learnable and dark, condensed and not, noisy and nearly noiseless informative tokens: d, L, β√d, γ
_SETTINGS = np.array(
    [
        (10, 4, 2, 0.5**0.5),
        (20, 20, 2, 0.5**0.5),
        (20, 100, 4, 0.5**0.5),
        (50, 100, 3, 0.5**0.5),
        (100, 1e4, 6, 0.5**0.5),
        (30, 1e8, 12, 0.5**0.5),
        (20, 1e12, 6, 0.5**0.5),
        (50, 100, 8, 0.4),
        (50, 100, 8, 0.2),
        (100, 1e6, 10, 0.3),
    ]
)
_ROUNDING = 1e-9  # of slopes of an exact risk of order 1


def _crossings(slopes: np.ndarray) -> int:
    """Changes of sign, among slopes that are more than rounding."""
    return int(np.sum(np.diff(np.sign(slopes[np.abs(slopes) > _ROUNDING])) != 0))


def _sizes() -> Sizes:
    dim, length, spread, std = _SETTINGS.T
    return Sizes(dim, np.log(length) / dim, spread / np.sqrt(dim), std)


def _climb(sizes: Sizes, kappa: np.ndarray) -> float:
    """The most by which the mean-field risk rises from ν = -1 to 1, or along κ on ν = 1."""
    upper, lower = edges(sizes, kappa, "mean field")
    return float(max((upper - lower).max(), np.diff(upper, axis=1).max()))


def stationary_points(preset: str, seed: int) -> Outcome:
    """Slopes of the exact risk along the edges of M: which corners, and what is between them."""
    kappa = np.linspace(-1, 1, 801 if preset == "paper" else 201)
    sizes = _sizes()
    exact = manifold_functions(sizes, kappa)
    climb = _climb(sizes, kappa)
    inside = slice(1, -1)
    lower = exact.lower_slope[:, inside]
    extra = np.array([_crossings(row) for row in lower])
    turned = lower.min(axis=1) < -1e-6
    noise = exact.share / exact.token_variance
    found = [
        f"κ₀ = {kappa[inside][np.argmax(row > _ROUNDING)]:.2f} (d = {d:.0f}, L = {n:g}, β√d = {x:g}, γ = {g:g})"
        for row, (d, n, x, g), more in zip(lower, _SETTINGS, extra, strict=True)
        if more
    ]
    return Outcome(
        (
            Check.bound("largest R_ν / γ² on M: no rest at |ν| < 1", exact.rise.max(), upper=_ROUNDING),
            Check.bound("largest R_κ on ν = 1 between the corners", exact.upper_slope[:, inside].max(), upper=_ROUNDING),
            Check.agreement("stationary points on ν = -1 between the corners, exact risk", extra, 0, tolerance=0),
            Check.bound("smallest R_κ on ν = -1, so that (1, -1) is the maximum", lower.min(), lower=-_ROUNDING),
        ),
        corrected=(
            "On M with the linear link R = γ²(1 - 2ν E p + E p²) + E Σ_bulk p² + ε², so R_ν = -2γ² E p < 0 and stationary points "
            "have ν = ±1. On ν = 1 they are the corners: (1, 1), the only minimiser, and the saddle (-1, 1). On "
            "ν = -1 the picture of the four corners, (1, -1) a maximum and (-1, -1) a saddle, holds while the participation Σq² "
            "of the bulk stays below γ². For nearly noiseless tokens in the condensed phase a saddle appears between them, "
            "or the two corners change types: silencing the bulk's noise is then worth more than the wrong sign costs."
        ),
        evidence=(
            Check.bound("smallest R_κ on ν = -1 where E Σq² <= γ² at κ = -1", lower[noise <= 1].min(), lower=-_ROUNDING),
            Check.condition("R_κ < 0 somewhere on ν = -1 wherever E Σq² > 4γ²", bool(turned[noise > 4].all())),
            Check.bound("number of points between the corners, at most one", extra.max(), upper=1),
            Check.bound("largest rise of the mean field along ν, and along κ on ν = 1", climb, upper=_ROUNDING),
        ),
        notes=(
            f"Exact risk at {len(_SETTINGS)} settings (d = 10 to 100, L = 4 to 1e12), {len(kappa)} values of κ. Between the corners: "
            f"{'; '.join(found)}. Mean field without the bulk's variance, as printed, has the corners alone. That "
            "(1-κ²)R_κ = 0 = (1-ν²)R_ν characterises stationary points is right. The origin, a saddle of pointwise attention, is no "
            "stationary point of softmax attention."
        ),
    )  # fmt: skip


def global_convergence(preset: str, seed: int) -> Outcome:
    """Monotone slopes on M at many settings, descents, and how long they take."""
    import jax

    from ... import dynamics
    from ...students import Overlaps
    from .manifold import escape_times
    from .tabulated import tables

    kappa = np.linspace(-1, 1, 201)
    lengths = np.array([10.0, 1e2, 1e3, 1e4, 1e5, 1e6])
    longer = np.stack(np.broadcast_arrays(30, lengths, 4, 0.5**0.5), axis=1)
    dim, length, spread, std = np.concatenate([_SETTINGS, longer]).T
    sizes = Sizes(dim, np.log(length) / dim, spread / np.sqrt(dim), std)
    exact = manifold_functions(sizes, kappa)
    climb = _climb(sizes, kappa)
    inside = slice(1, -1)
    runs = 2000 if preset == "paper" else 300
    (risk,) = tables(Sizes(20, np.log(20) / 20, 2 / np.sqrt(20)))
    start = np.asarray(Overlaps.on_manifold(jax.random.key(seed), 20, runs=runs).stack())
    even = np.pad(np.random.default_rng(seed).uniform(-1, 1, (runs, 2)), ((0, 0), (0, 3)))
    run = dynamics.projected_gradient_descent(
        risk,
        Overlaps.unstack(np.concatenate([start, even])),
        step_size=0.2,
        steps=20_000,
        save_every=20_000,
    )
    home = (run.kappa.values[:, -1] > 0.99) & (run.nu.values[:, -1] > 0.99)
    times = escape_times(ManifoldFunctions(*(part[len(_SETTINGS) :] for part in exact)), kappa)
    slope = np.polyfit(np.log(lengths[1:]), np.log(times[1:]), 1)[0]
    return Outcome(
        (
            Check.bound("largest R_ν / γ² on M: ν rises everywhere", exact.rise.max(), upper=_ROUNDING),
            Check.bound("largest R_κ on ν = 1", exact.upper_slope[:, inside].max(), upper=_ROUNDING),
            Check.bound("largest rise of the mean field along ν, and along κ on ν = 1", climb, upper=_ROUNDING),
            Check.proportion("descents from M at the teacher after time 4000", int(home.sum()), len(home), lower=0.93),
        ),
        notes=(
            "True at every finite size, by two signs: R_ν = -2γ² E p < 0, and on ν = 1, where R = γ² E(1-p)² + E Σ_bulk p², "
            "R_κ < 0, because a higher informative score lowers both terms; what is left out is ν = -1 and κ = -1. The source's "
            f"route through its Cauchy argument does not prove it. {len(sizes.dim)} settings, learnable and dark; {len(home)} descents "
            "at d = 20, L = 20, β√d = 2, half of them from even starts on (-1, 1)²: those not yet there began near κ = -1. "
            f"But it may take for ever: from κ = ν = 0 at d = 30, β√d = 4 the time to ν = 1/2 is {times[0]:.2f} at L = 10, "
            f"{times[3]:.3g} at 1e4 and {times[-1]:.2g} at 1e6, growing as L^{slope:.2f} or so, since the rate is 2γ² E p: exponential in d for "
            "L = e^(αd), also where the teacher is learnable, as every random start is dark (cκ < ψ). In the limit "
            "d → ∞ itself that whole region is stationary."
        ),
    )  # fmt: skip


def any_initialisation(preset: str, seed: int) -> Outcome:
    """Descents from uniform starts on the spheres at several sizes: attractors and plateaus."""
    from .global_convergence import named, survey

    runs = 400 if preset == "paper" else 128
    settings = [(20, 20, 2.0), (20, 100, 1.5), (5, 100, 1.5), (20, 10_000, 4.0)]
    if preset == "paper":
        settings += [(20, 100, 4.0), (50, 100, 2.0), (100, 100, 1.5), (5, 100, 4.0)]
    rows: Any = survey(settings, runs=runs, steps=20_000, seed=seed, manifold=False)
    share = {s: named(row) for s, row in zip(settings, rows)}
    learned, mixed, dark = (share[settings[i]] for i in (0, 2, 3))
    swapped = mixed["swapped"]
    gain = rows[2]["swapped_excess"]
    text = "; ".join(
        f"d = {d}, L = {n}, β√d = {x:g}: teacher {share[d, n, x]['teacher'] / runs:.2f}, swapped "
        f"{share[d, n, x]['swapped'] / runs:.2f}, neither yet {share[d, n, x]['on the way'] / runs:.2f}"
        for d, n, x in settings
    )
    return Outcome(
        (
            Check.proportion("uniform starts that reach the teacher, d = 5, L = 100, β√d = 1.5", mixed["teacher"], runs, lower=0.95),
            Check.proportion("the same, d = 20, L = 10⁴, β√d = 4", dark["teacher"], runs, lower=0.95),
        ),
        corrected=(
            "From M every start but a null set reaches the teacher, in a time that grows like a power of L. From general starts "
            "it depends on β, d and L: there may be a second pair of minima with κ > 0 > ν and |η|, |θ| near 1, in which the "
            "vectors have swapped roles, and for long prompts runs rest on a plateau where attention has lost the informative token."
        ),
        evidence=(
            Check.proportion("d = 20, L = 20, β√d = 2: starts that reach the teacher", learned["teacher"], runs, lower=0.9),
            Check.proportion("d = 5, L = 100: starts that end at swapped minima", swapped, runs, lower=0.15),
            Check.bound("their exact risk minus the teacher's", gain, lower=0.01),
            Check.proportion("d = 20, L = 10⁴: still on the way after 20 000 steps", dark["on the way"], runs, lower=0.5),
            Check.agreement("negative Hessian eigenvalues at the attractors", [n for row in rows for n in row["negative"]], 0, tolerance=0),
        ),
        answer=f"Shares after 20 000 steps of 1/Λ, {runs} uniform starts each (standard error at most {0.5 / np.sqrt(runs):.3f}): {text}.",
        notes=(
            "Each attractor is a stationary point that Newton's method finds beside the ends, a minimum by its Hessian in R^d. "
            f"At d = 5, L = 100, β√d = 1.5 the swapped minima lie at κ = {rows[2]['swapped_at'][0]:.3f}, ν = {rows[2]['swapped_at'][1]:.3f}, "
            f"|θ| = {abs(rows[2]['swapped_at'][2]):.3f}, |η| = {abs(rows[2]['swapped_at'][3]):.3f}, {gain:.4f} above the teacher's risk."
        ),
    )  # fmt: skip
