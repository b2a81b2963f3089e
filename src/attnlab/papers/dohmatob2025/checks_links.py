"""Checks for general links: is the teacher the best, is M invariant, is the teacher attracting?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...claims import Check, Outcome

_LINKS = ("linear", "quadratic", "tanh", "relu")


def link_risk(link: str, dim: int, length: int, beta: float) -> Any:
    """The exact risk of a student on a task with its own link."""
    from ...students import SoftmaxAttention
    from ...tasks import SingleLocation
    from ...theory import population_risk

    return population_risk(SingleLocation(dim, length, link=link), SoftmaxAttention(beta, link))


def realisable(preset: str, seed: int) -> Outcome:
    """The teacher against thousands of students (linear), and its slopes for the other links."""
    import jax

    from ...students import Overlaps
    from .exact import Sizes, risks_at

    runs = 20_000 if preset == "paper" else 4000
    key = jax.random.key(seed)
    far = np.asarray(Overlaps.on_sphere(key, 4, runs=runs // 2).stack())
    near = near_teacher(np.random.default_rng(seed), runs // 2, 0.3)
    others = Overlaps.unstack(np.concatenate([[[1.0, 1, 0, 0, 0]], far, near]))
    dim, length, spread = np.array(
        [(5, 1e2, 2), (20, 20, 2), (20, 1e2, 4), (50, 1e4, 4), (20, 1e8, 6), (100, 1e4, 6)]
    ).T
    values = risks_at(Sizes(dim, np.log(length) / dim, spread / np.sqrt(dim)), others)
    gap = (values[:, 1:] - values[:, :1]).min(axis=1)
    best, slopes, risks = {}, {}, {}
    for link in ("quadratic", "relu"):
        risk = link_risk(link, 20, 20, 1.0)
        step = 1e-3
        here = np.array([[1.0, 1, 0, 0, 0]])
        # k and v turned a little: along v*, along k*, and towards each other
        turns = _turned(np.array([0.0, step, -step, 0.3, -0.3]))
        found = np.asarray(risk(Overlaps.unstack(np.concatenate([here, turns.reshape(-1, 5)]))))
        base, moved = found[0], found[1:].reshape(turns.shape[:-1])
        slopes[link] = float(np.abs(moved[:, 1] - moved[:, 2]).max() / (2 * step))
        best[link], risks[link] = float(base - moved.min()), float(base)
    return Outcome(
        (
            Check.bound("linear link: smallest R - R(teacher) over students of six sizes", gap, lower=-1e-12),
            Check.bound("quadratic link: slope at the teacher", slopes["quadratic"], upper=1e-9),
            Check.bound("ReLU link, d = 20, L = 20, β = 1: slope at the teacher", slopes["relu"], upper=1e-9),
        ),
        corrected=(
            "With the linear link no student does better than (k*, v*), at any size that was tried; for odd and even links it is a "
            "stationary point, by the reflection of v and v*. For other links, such as ReLU, it is not even stationary at finite "
            "size: noise tokens add a mean that turning v against k reduces. It minimises the risk only in the limit, as 1 - p → 0."
        ),
        evidence=(
            Check.bound("linear link: smallest R - R(teacher), in units of R(teacher)", (gap / values[:, 0]).min(), lower=-1e-10),
            Check.bound("ReLU: slope at the teacher", slopes["relu"], lower=1e-3),
        ),
        notes=(
            f"{runs} students at each size, half of them uniform over overlaps, half near the teacher; sizes from d = 5, L = 100 "
            f"to d = 20, L = 1e8 (dark). ReLU: R(teacher) = {risks['relu']:.4f}, slope {slopes['relu']:.3f}."
        ),
    )  # fmt: skip


def near_teacher(random: np.random.Generator, runs: int, spread: float) -> np.ndarray:
    """Overlaps `(runs, 5)` of vectors at about the distance `spread` of the teacher's, in `R^4`."""
    from ...students import Overlaps

    axes = np.eye(2, 4)
    k, v = (axis + spread / 2 * random.standard_normal((runs, 4)) for axis in axes)
    k, v = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (k, v))
    return np.asarray(Overlaps.from_vectors(k, v, *axes).stack())


def _turned(angles: np.ndarray) -> np.ndarray:
    """The teacher with `k` turned towards `v*`, or `v` towards `k*`: `(2, angles, 5)`."""
    zero = np.zeros_like(angles)
    cos, sin = np.cos(angles), np.sin(angles)
    one = zero + 1
    # k = cos k* + sin v*: κ = cos, η = sin, ρ = sin; v alike
    first = np.stack([cos, one, zero, sin, sin], -1)
    second = np.stack([one, cos, sin, zero, sin], -1)
    return np.stack([first, second])


def manifold_invariant(preset: str, seed: int) -> Outcome:
    """The reflection that keeps M, link by link, and the slopes off M where it is missing."""
    import jax

    from ...students import Overlaps
    from ...students.overlaps import NAMES

    key = jax.random.key(seed)
    runs = 400 if preset == "paper" else 40
    general = np.asarray(Overlaps.on_sphere(key, 6, runs=runs).stack())
    on_m = np.asarray(Overlaps.on_manifold(key, 8, runs=runs).stack())
    step = 1e-4
    pushes = step * np.concatenate([np.eye(5)[2:], -np.eye(5)[2:]])
    around = (0.9 * on_m[:, None] + pushes).reshape(-1, 5)
    mirror = general * np.array([1, 1, -1, -1, -1])
    lopsided, sideways = {}, {}
    for link in _LINKS:
        risk = link_risk(link, 20, 20, 1.0)
        found = np.asarray(risk(Overlaps.unstack(np.concatenate([general, mirror, around]))))
        lopsided[link] = float(np.abs(found[:runs] - found[runs : 2 * runs]).max())
        near = found[2 * runs :].reshape(runs, 2, 3)
        sideways[link] = np.abs(near[:, 0] - near[:, 1]).max(axis=0) / (2 * step)
    even = {link: float(sideways[link].max()) for link in _LINKS}
    relu = dict(zip(NAMES[2:], sideways["relu"], strict=True))
    checks = [
        Check.bound(f"largest slope off M, {link} link", even[link], upper=1e-8) for link in _LINKS
    ]
    return Outcome(
        tuple(checks),
        corrected=(
            "M is invariant for links that are odd or even: reflecting v and v* together turns (θ, η, ρ) into -(θ, η, ρ) and "
            "leaves the risk, so its slopes in these three vanish on M. For other links, such as ReLU, they do not, and "
            "descent leaves M at once; the share 1-p of attention that is on noise tokens sets how fast."
        ),
        evidence=(
            Check.bound("largest slope off M, odd and even links", [even[link] for link in _LINKS[:3]], upper=1e-8),
            Check.bound("largest change of the risk under the reflection", [lopsided[link] for link in _LINKS[:3]], upper=1e-10),
            Check.bound("the same for ReLU", lopsided["relu"], lower=0.01),
            Check.bound("largest slope off M for ReLU", even["relu"], lower=0.01),
        ),
        notes=(
            f"Exact risk, d = 20, L = 20, β = 1; {runs} points of M and as many off it. ReLU's largest slopes on M are "
            f"{relu['theta']:.3f} in θ, {relu['eta']:.3f} in η and {relu['rho']:.3f} in ρ. 'Line 882 in the proof' that gives T₃ = 0 can "
            "hold for links of one parity only."
        ),
    )  # fmt: skip


def local_convergence(preset: str, seed: int) -> Outcome:
    """The Hessian at the teacher for each link, and descents from around it."""
    from ... import dynamics
    from ...students import Overlaps

    dim, length, beta = 20, 20, 1.0
    lowest, slope, shares = {}, {}, {}
    links = ("linear", "quadratic", "tanh", "erf") if preset == "paper" else ("quadratic", "tanh")
    for link in links:
        risk = link_risk(link, dim, length, beta)
        lowest[link], slope[link] = teacher_hessian(risk)
    starts = near_teacher(np.random.default_rng(seed), 16, 0.3)
    run = dynamics.projected_gradient_descent(
        link_risk("quadratic", dim, length, beta),
        Overlaps.unstack(starts),
        step_size=0.02,
        steps=2000,
        save_every=2000,
    )
    last = np.asarray(dynamics.dataset.overlaps_of(run, step=-1).stack())
    left = np.abs(last - [1, 1, 0, 0, 0]).max(axis=1)
    shares["quadratic"] = left
    listed = ", ".join(f"{value:.3f} ({link})" for link, value in lowest.items())
    return Outcome(
        (
            Check.bound("smallest Hessian eigenvalue at the teacher", list(lowest.values()), lower=1e-3),
            Check.bound("slope at the teacher", list(slope.values()), upper=1e-7),
            Check.bound("quadratic link: distance of 16 descents from the teacher at their end", left.max(), upper=1e-6),
        ),
        notes=(
            f"Exact risk, d = {dim}, L = {length}, β = {beta:g}: smallest eigenvalues {listed}. A stationary point with a positive "
            "Hessian attracts all starts near it. The ball may be small, and none exists where the link has no "
            "parity: see open-relu-link. The source's assumption of bounded σ' leaves out the quadratic link, which converges too."
        ),
    )  # fmt: skip


def teacher_hessian(risk: Any, step: float = 2e-3) -> tuple[float, float]:
    """The smallest eigenvalue of the Riemannian Hessian at the teacher, and the norm of the gradient
    there, from values: six directions in `R^4` hold all of both (further ones repeat the last two)."""
    from ...students import Overlaps

    axes = np.eye(2, 4)
    directions = []
    for part, own in ((0, 0), (1, 1)):
        for other in range(4):
            if other != own:
                direction = np.zeros((2, 4))
                direction[part, other] = 1.0
                directions.append(direction)
    count = len(directions)
    moves = [np.zeros((2, 4))]
    for i in range(count):
        moves += [step * sign * directions[i] for sign in (1, -1)]
        for j in range(i):
            moves += [step * sign * (directions[i] + directions[j]) for sign in (1, -1)]
    # along great circles to the order that matters: normalised chords bend alike
    pairs = axes + np.array(moves)
    pairs /= np.linalg.norm(pairs, axis=-1, keepdims=True)
    values = np.asarray(risk(Overlaps.from_vectors(pairs[:, 0], pairs[:, 1], *axes)))
    base, both = values[0], values[1:].reshape(-1, 2)
    gradient, curved, at = np.zeros(count), np.zeros((count, count)), 0
    for i in range(count):
        gradient[i] = (both[at, 0] - both[at, 1]) / (2 * step)
        curved[i, i] = (both[at].sum() - 2 * base) / step**2
        at += 1
        for j in range(i):
            curved[i, j] = (both[at].sum() - 2 * base) / step**2 - curved[i, i] - curved[j, j]
            curved[i, j] = curved[j, i] = curved[i, j] / 2
            at += 1
    return float(np.linalg.eigvalsh(curved)[0]), float(np.linalg.norm(gradient))


def open_relu_link(preset: str, seed: int) -> Outcome:
    """Where descents from the teacher go with ReLU, and how that shrinks as attention sharpens."""
    from ... import dynamics
    from ...students import Overlaps

    settings = [(10, 10, 1.0), (20, 10, 1.0), (40, 10, 1.0)]
    if preset == "paper":
        settings += [(80, 10, 1.0), (20, 100, 1.0), (20, 1000, 1.0)]
    slopes, drift, gain = [], [], []
    for dim, length, beta in settings:
        slopes.append(teacher_hessian(link_risk("relu", dim, length, beta))[1])
    dim, length, beta = settings[0]
    risk = link_risk("relu", dim, length, beta)
    run = dynamics.projected_gradient_descent(
        risk, Overlaps(np.ones(1), np.ones(1)), step_size=0.05, steps=400, save_every=200
    )
    state = np.asarray(dynamics.dataset.overlaps_of(run, step=-1).stack())[0]
    drift.append(float(np.abs(state - [1, 1, 0, 0, 0]).max()))
    gain.append(float(run.risk.values[0, 0] - run.risk.values[0, -1]))
    moved = float(np.abs(run.risk.values[0, -1] - run.risk.values[0, -2]))
    rate = np.polyfit([d for d, n, b in settings[:3]], np.log(slopes[:3]), 1)[0]
    listed = ", ".join(f"{s:.2g} (d = {d}, L = {n})" for s, (d, n, _) in zip(slopes, settings))
    return Outcome(
        (
            Check.bound("slope at the teacher, ReLU", slopes[0], lower=1e-3),
            Check.bound("distance that a descent from the teacher moves away, d = 10", drift[0], lower=0.01),
            Check.bound("what its last half still gains", moved, upper=1e-5),
            Check.bound("slope at the teacher from d = 10 to 40: falls", np.diff(slopes[:3]), upper=0.0),
        ),
        answer=(
            f"The teacher is not stationary at finite size: slope {listed}, falling as e^({rate:.3f} d) with "
            f"L = 10, β = 1. A descent from it settles at κ = {state[0]:.3f}, ν = {state[1]:.3f}, θ = {state[2]:.3f}, η = {state[3]:.3f}, "
            f"ρ = {state[4]:.3f} for d = 10 and gains {gain[0]:.2e} of {float(run.risk.values[0, 0]):.4f} (exact risks)."
        ),
        notes=(
            "Two things fail for ReLU: the assumption σ ∈ C² of the descent argument, which the risk itself mends by Gaussian "
            "smoothing except where two of x·k, x·v, x·v* coincide (the teacher is such a point); and parity, "
            "so that M is not invariant. The minimum moves off the teacher by as much as attention still gives to noise tokens."
        ),
    )  # fmt: skip
