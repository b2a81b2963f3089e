"""Checks of the convergence argument: retraction, descent lemma, and the step to convergence."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...claims import Check, Outcome


def _table(dim: int, length: int, beta: float) -> Any:
    from ...students import SoftmaxAttention
    from ...tasks import SingleLocation
    from ...theory import population_risk
    from .tabulated import tabulated

    return tabulated(population_risk(SingleLocation(dim, length), SoftmaxAttention(beta)))


def longest(shift: np.ndarray) -> np.ndarray:
    """The stated bound on `|ũ|`, from `s|a|`."""
    return 1 + shift**2 / 2


def turned(shift: np.ndarray) -> np.ndarray:
    """The distance `|u⁺ - u|`: that of the ends of a turn by `arctan(s|a|)`."""
    return 2 * np.sin(np.arctan(shift) / 2)


def retraction_bound(preset: str, seed: int) -> Outcome:
    """Both printed bounds, and the sharper one, over random steps in `R^d` and in the limit."""
    rng = np.random.default_rng(seed)
    runs, dim = (100_000 if preset == "paper" else 10_000), 8
    u = rng.standard_normal((runs, dim))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    a = rng.standard_normal((runs, dim))
    a -= np.sum(a * u, axis=1, keepdims=True) * u
    a *= (10 ** rng.uniform(-4, 3, runs) / np.linalg.norm(a, axis=1))[:, None]
    size = np.linalg.norm(a, axis=1)
    s = 10 ** rng.uniform(-4, 1, runs)
    raw = u - s[:, None] * a
    norm = np.linalg.norm(raw, axis=1)
    move = np.linalg.norm(raw / norm[:, None] - u, axis=1)
    shift = s * size
    rounding = 4 * np.finfo(float).eps
    small = shift <= 1
    far = np.abs(move - turned(shift)) / move
    return Outcome(
        (
            Check.bound("smallest |ũ|", norm.min(), lower=1 - rounding),
            Check.bound("largest |ũ| / (1 + s²|a|²/2)", (norm / longest(shift)).max(), upper=1 + rounding),
            Check.bound("largest |u⁺ - u| / (s|a|) where s|a| <= 1", (move / shift)[small & (shift > 1e-3)].max(), upper=1.5),
            Check.bound("the same for every s|a|: no condition and no factor 3/2", (move / shift)[shift > 1e-3].max(), upper=1 + 1e-9),
            Check.agreement("|u⁺ - u| against 2 sin(½ arctan s|a|)", far[shift > 1e-3].max(), 0.0, tolerance=1e-9),
        ),
        notes=(
            f"{runs} random unit vectors and tangents in R^{dim}, s|a| from 1e-8 to 1e4. True as printed, with room: "
            "|u⁺ - u| <= s|a| holds for every step, since ũ is the hypotenuse over u and u turns by arctan(s|a|). "
            "(The second line of the printed chain has |u - s a|/|ũ| with the bracket misplaced; the result stands.)"
        ),
    )  # fmt: skip


def descent_lemma(preset: str, seed: int) -> Outcome:
    """Every step of descents on the exact risk, against the printed inequalities and ours."""
    import jax

    from ... import dynamics
    from ...students import Overlaps

    dim, length, beta = 12, 16, 1.0
    risk, key = _table(dim, length, beta), jax.random.key(seed)
    constants = dynamics.smoothness(risk, dim, key=key, points=128, rounds=8)
    runs = 400 if preset == "paper" else 40
    bound = constants.bound
    fractions = np.repeat([0.05, 0.5, 1.0, 1.9], runs // 4)  # of 1/Λ; the second is 1/(2Λ)
    seen = dynamics.descent_check(
        risk,
        Overlaps.on_sphere(key, dim, runs=len(fractions)),
        constants,
        step_size=fractions / bound,
        steps=600,
        save_every=10,
    )
    clear = seen.resolved.values
    allowed = clear & (fractions <= 0.5)[:, None]

    def share(name: str, among: np.ndarray) -> float:
        return float(seen[name].values[among].mean())

    steep = seen.needed.values[clear].max()
    room = seen.ratio.values[allowed].max()
    return Outcome(
        (
            Check.bound(
                f"share of steps s <= 1/(2Λ) with R - R⁺ >= (sΛ/4)|g|², Λ = {bound:.3g}",
                share("printed", allowed), lower=1.0,
            ),
            Check.bound(
                "share with the line before it, R - R⁺ >= (11/16)sΛ|g|²", share("printed_middle", allowed), lower=1.0,
            ),
        ),
        corrected=(
            "For twice differentiable R, Λ = sup of the Hessian's norm of r(u, v) = R(u/|u|, v/|v|) on the spheres, and "
            "every s > 0: R_{k+1} <= R_k - s(1 - sΛ/2)|g_k|². So every step s < 2/Λ descends, and for "
            "s <= 1/(2Λ) the source's derivation gives R_{k+1} <= R_k - (11/16) s |g_k|², a pure number "
            "where it prints one times L_δ. No bound M_δ on the gradient is needed."
        ),
        evidence=(
            Check.bound("share of steps, s = 0.05/Λ to 1.9/Λ, with R - R⁺ >= s(1 - sΛ/2)|g|²", share("holds", clear), lower=1.0),
            Check.bound("share of steps s <= 1/(2Λ) with R - R⁺ >= (11/16)s|g|²", share("half", allowed), lower=1.0),
            Check.bound("largest smoothness that a step shows, over Λ", steep / bound, upper=1.0),
            Check.bound("largest (R - R⁺)/(s|g|²), which the printed line wants above Λ/4", room, upper=1.25),
        ),
        notes=(
            f"Exact risk, linear link, d = {dim}, L = {length}, β = {beta:g}; {len(fractions)} starts, {int(clear.sum())} steps that "
            f"rounding does not blur. Λ = {bound:.4g}, sup |g| = {constants.gradient:.3g}. The flawed step is "
            "s - (5/8)s²L_δ >= (11/16)sL_δ: what follows from s <= 1/(2L_δ) is >= (11/16)s. The lemma then prints the step "
            "bound M_δ where its proof has 1/M_δ. Its units are off too: the inequality cannot hold for a risk in "
            "other units. It is true for Λ <= 3, such as on M for small settings. R_min = 0 is not needed: bounded below is enough."
        ),
    )  # fmt: skip


def cauchy_argument(preset: str, seed: int) -> Outcome:
    """A descent with all that the argument uses and no limit; and descents on the exact risk."""
    import jax

    from ... import dynamics
    from ...students import Overlaps

    last = 10_000_000 if preset == "paper" else 100_000
    winding = dynamics.winding_descent(steps=last, save_every=last // 1000)
    late = winding.sel(step=slice(last // 10, last))
    moved = float(late.longitude[-1] - late.longitude[0])
    falling = bool(np.all(np.diff(winding.risk.values) <= 0))
    squares = float(winding.path_squares[-1] - late.path_squares[0])

    dim = 12
    risk, key = _table(dim, 16, 1.0), jax.random.key(seed)
    start = Overlaps.on_sphere(key, dim, runs=32)
    constants = dynamics.smoothness(risk, dim, key=key, points=128, rounds=8)
    steps = 6000
    seen = dynamics.descent_check(
        risk, start, constants, step_size=0.5 / constants.bound, steps=steps, save_every=20
    )
    length = seen.path_length.values
    rest = length[:, -1:] - length[:, -101:-100]
    home = np.abs(seen.kappa.values[:, -1] - 1) < 1e-3
    return Outcome(
        (
            Check.bound(
                "distance that a descent with g → 0 and Σ|steps|² < ∞ still moves in its last nine tenths: Cauchy has 0",
                moved, upper=0.01,
                detail=f"radians of longitude from step {last // 10:g} to {last:g}",
            ),
        ),
        corrected=(
            "Steps that tend to 0, or whose squares add up, make no Cauchy sequence: the angles 1 + 1/2 + ... + 1/n go round "
            "the circle for ever, and so does a descent on a smooth function. The iterates do converge, along a path of "
            "finite length, where the risk is real-analytic (linear and other polynomial links; erf and tanh away from "
            "|ρ|, |ν|, |η| = 1), by Łojasiewicz's inequality and the descent lemma with s < 2/Λ."
        ),
        evidence=(
            Check.condition("its risk falls at every saved step", falling),
            Check.bound("sum of its squared steps over the same stretch", squares, upper=0.01),
            Check.agreement("radians moved, against log 10", moved, np.log(10), relative_tolerance=0.05),
            Check.bound("longest path of 32 descents on the exact risk", length[:, -1].max(), upper=10.0),
            Check.bound("what their last 2000 of 6000 steps add, for those at the teacher", rest[home].max(), upper=1e-4),
            Check.bound("descents that arrive there", int(home.sum()), lower=16),
        ),
        notes=(
            f"The counterexample is e^(-1/z)(1 - 0.8 (y cos 1/z - x sin 1/z)) on the sphere, s = 0.2: smooth, not analytic. "
            f"Exact risk: linear link, d = {dim}, L = 16, β = 1, s = 1/(2Λ). Also missing in the source: g_k → 0 as k → ∞ "
            "(printed k → 0). The limit is a stationary point, which need not be the teacher: see any-initialisation."
        ),
    )  # fmt: skip
