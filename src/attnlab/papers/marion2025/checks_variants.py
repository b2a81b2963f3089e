"""Checks of the claims on variants: sampled batches, other activations, softmax, a fuller layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...claims import Check, Outcome

_LEARNED = ("teacher", "mirrored teacher")


def sgd(preset: str, seed: int) -> Outcome:
    """Ends of stochastic runs beside those of the population descent; their distance on the way."""
    from .sgd import StochasticConfig
    from .sgd import run as run_sgd

    paper = preset == "paper"
    settings: dict[str, Any] = {"runs": 30} if paper else {
        "runs": 20, "steps": 20_000, "step_size": 2e-3, "scale_decay": 1e-3, "batch_size": 10,
    }  # fmt: skip
    config = StochasticConfig(seed=seed, **settings)
    noisy = run_sgd(config)
    task, student, risk, plan = _sgd_setting(config)
    exact = _population_run(noisy, risk, config.step_size, config.steps, plan)
    ends = [np.stack([np.abs(d[n].values[:, -1]) for n in ("kappa", "nu")]) for d in (noisy, exact)]
    reached = int(np.isin(noisy.kind.values, _LEARNED).sum())
    ratio, error = _noise_ratio(noisy, task, student, risk, config, plan, seed)
    teacher = float(noisy.teacher_excess.values[-1])
    excess = noisy.excess_risk.values[:, -1]
    return Outcome(
        (
            Check.proportion(
                "runs that end at the teacher or its mirror image",
                reached,
                config.runs,
                lower=0.8 if paper else 0.5,
                detail="end: |ν| > 0.95, within 0.05 of M, κν > 0",
            ),
            Check.bound(
                "median |κ|, |ν| at the end, population descent minus SGD",
                np.median(ends[1] - ends[0], axis=1),
                upper=0.02,
            ),
            Check.bound("median excess risk over the teacher's", float(np.median(excess)) - teacher, upper=0.02),
            Check.agreement(
                "distance to the population path: at step s over that at s/4, same time",
                ratio,
                2.0,
                standard_error=error,
                resolution=0.4,
                detail="gradient noise of size √s: in the limit s → 0 the paths are one",
            ),
        ),
        notes=(
            f"{config.runs} runs from uniform starts, d = {config.dim}, L = {config.length}, batch "
            f"{config.batch_size}, ε = {config.noise_std:g}, step {config.step_size:g}, "
            f"{config.steps} steps, λ = {config.scale:g}/(1 + {config.scale_decay:g}·step). Where λ "
            "is large the noise of single batches keeps κ behind the population descent; it catches "
            "up as λ falls."
        ),
    )  # fmt: skip


def _sgd_setting(config: Any) -> tuple[Any, Any, Any, Any]:
    from ...students import PointwiseAttention
    from ...tasks import SingleLocation
    from ...theory import population_risk
    from .descent import schedule

    task = SingleLocation(
        config.dim, config.length, token_std=config.token_std, noise_std=config.noise_std
    )
    student = PointwiseAttention("erf", config.scale)
    plan = schedule(config.scale, config.scale_decay)
    return task, student, population_risk(task, student), plan


def _population_run(noisy: Any, risk: Any, size: float, steps: int, plan: Any) -> Any:
    """The population descent from the same starts."""
    from ... import dynamics
    from ...dynamics.dataset import overlaps_of

    return dynamics.projected_gradient_descent(
        risk,
        overlaps_of(noisy, step=0),
        step_size=size,
        steps=steps,
        save_every=max(1, steps),
        scale_schedule=plan,
    )


def _noise_ratio(
    noisy: Any, task: Any, student: Any, risk: Any, config: Any, plan: Any, seed: int
) -> tuple[float, float]:
    """RMS distance of stochastic from population overlaps at one time, for step sizes s and s/4:
    their ratio and its standard error."""
    import jax

    from ... import dynamics
    from ...dynamics.dataset import overlaps_of

    squares = []
    for number, (size, steps) in enumerate(((1e-4, 100), (2.5e-5, 400))):
        sampled = dynamics.stochastic_gradient_descent(
            task,
            student,
            overlaps_of(noisy, step=0),
            step_size=size,
            steps=steps,
            batch_size=config.batch_size,
            key=jax.random.fold_in(jax.random.key(seed), 1000 + number),
            save_every=steps,
            scale_schedule=plan,
        )
        exact = _population_run(noisy, risk, size, steps, plan)
        gap = np.stack([sampled[n].values[:, -1] - exact[n].values[:, -1] for n in _NAMES])
        squares.append(np.sum(gap**2, axis=0))
    relative = [np.var(s, ddof=1) / len(s) / s.mean() ** 2 for s in squares]
    ratio = float(np.sqrt(squares[0].mean() / squares[1].mean()))
    return ratio, float(0.5 * ratio * np.sqrt(sum(relative)))


_NAMES = ("kappa", "nu", "theta", "eta", "rho")


def activation_not_special(preset: str, seed: int) -> Outcome:
    """Descents on M with other activations; one exceeds 1."""
    from .activations import BOUNDED_BY_ONE, ActivationsConfig
    from .activations import run as run_activations

    paper = preset == "paper"
    names = (
        ("erf", "tanh", "sigmoid-centred", "softsign", "half erf", "2 erf")
        if paper
        else ("tanh", "2 erf")
    )
    settings: dict[str, Any] = {"runs": 30 if paper else 8, "steps": 3000, "step_size": 4e-2}
    out = run_activations(ActivationsConfig(seed=seed, activations=names, **settings))
    looks = {n: np.abs(out.kappa.sel(activation=n).values[:, -1]) for n in names}
    reads = {n: np.abs(out.nu.sel(activation=n).values[:, -1]) for n in names}
    gaps = {
        n: out.risk.sel(activation=n).values[:, -1] - float(out.teacher.sel(activation=n))
        for n in names
    }
    tame = [n for n in names if n in BOUNDED_BY_ONE]

    def checks(chosen: list[str]) -> list[Check]:
        return [
            check
            for n in chosen
            for check in (
                Check.bound(f"{n}: smallest |κ| at the end", float(looks[n].min()), lower=0.95),
                Check.bound(f"{n}: smallest |ν| at the end", float(reads[n].min()), lower=0.99),
            )
        ]

    return Outcome(
        tuple(checks(list(names))),
        corrected=(
            "The behaviour is similar for odd, bounded, increasing activations whose values stay "
            "within [-1, 1], the weight that the informative token should get. One that rises above "
            "1 at scores of use (2 erf; arctan, up to π/2, at larger λ) also learns v*, but stops "
            "short of k*, where its mean on the informative token is about 1, and there its risk is "
            "below that of (k*, v*)."
        ),
        evidence=(
            *checks(tame),
            *(
                Check.bound(f"{n}: |risk at the end − teacher's|", float(np.abs(gaps[n]).max()), upper=2e-3)
                for n in tame
            ),
            Check.bound("2 erf: largest risk at the end − teacher's", float(gaps["2 erf"].max()), upper=-0.1),
            Check.bound("2 erf: smallest |ν| at the end", float(reads["2 erf"].min()), lower=0.99),
        ),
        notes=(
            f"{out.sizes['run']} starts on M, d = 400, L = 10, λ = 0.1, exact risks by quadrature, "
            "3000 steps of 0.04."
        ),
    )  # fmt: skip


def softmax_variant(preset: str, seed: int) -> Outcome:
    """A softmax head trained on fresh prompts."""
    from .full_layer import FullLayerConfig, train_variant

    paper = preset == "paper"
    config = FullLayerConfig(
        seed=seed,
        **(_PAPER_LAYER if paper else _QUICK_LAYER),
    )
    history = train_variant(config, "two vectors")
    return Outcome(
        (
            _share(history, lower=0.75 if paper else 0.5),
            *_alignment(history),
            _small_risk(history, 0.2),
        ),
        notes=(
            f"{config.runs} runs of Adam ({config.learning_rate:g}) from uniform starts, d = "
            f"{config.dim}, L = {config.length}, β = 0.5, batches of {config.batch_size} fresh "
            f"prompts, {config.steps} steps."
        ),
    )  # fmt: skip


def full_layer(preset: str, seed: int) -> Outcome:
    """The fuller layer with skip connection, normalisation and all four matrices."""
    from .full_layer import FullLayerConfig, train_variant

    paper = preset == "paper"
    # fewer steps are enough here, and training that is cut short is told from one that is not
    config = FullLayerConfig(
        seed=seed, **(_PAPER_LAYER if paper else {**_QUICK_LAYER, "steps": 200})
    )
    variants = ["with skip and RMS norm"]
    if paper:
        variants += ["four matrices", "with skip", "with skip and layer norm"]
    checks: list[Check] = []
    stuck = []
    for variant in variants:
        history = train_variant(config, variant)
        prefix = f"{variant}: " if paper else ""
        checks += [_share(history, 0.5, prefix), *_alignment(history, prefix)]
        checks.append(_small_risk(history, 0.2, prefix))
        count = int((~_learned(history)).sum())
        stuck.append(f"{variant} {count} of {config.runs}")
    return Outcome(
        tuple(checks),
        notes=(
            f"{config.runs} runs of Adam ({config.learning_rate:g}), d = {config.dim}, L = "
            f"{config.length}, batches of {config.batch_size} fresh prompts, {config.steps} steps. "
            "Alignments and risk are those of the runs that learn; not learning, or not yet: "
            + "; ".join(stuck)
            + "."
        ),
    )


# that of the experiment full-layer, whose training this is
_QUICK_LAYER: dict[str, Any] = {
    "dim": 20, "length": 6, "batch_size": 32, "learning_rate": 1e-2, "runs": 16, "steps": 600,
}  # fmt: skip
_PAPER_LAYER: dict[str, Any] = {"dim": 40, "length": 10, "runs": 24, "steps": 2500}
_ZERO_RISK = 0.5  # γ²: what predicting 0 costs


def _learned(history: Any) -> np.ndarray:
    """Runs whose risk has fallen below a fifth of that of predicting 0."""
    return history.risk.values[:, -1] < 0.2 * _ZERO_RISK


def _share(history: Any, lower: float, prefix: str = "") -> Check:
    learned = _learned(history)
    return Check.proportion(
        f"{prefix}runs that learn", int(learned.sum()), len(learned), lower=lower,
        detail="risk below a fifth of that of predicting 0",
    )  # fmt: skip


def _alignment(history: Any, prefix: str = "") -> list[Check]:
    """Mean cosines over the runs that learn; none of them would be a failure of its own."""
    learned = _learned(history)
    rows = learned if learned.any() else np.ones_like(learned)
    checks = []
    for name, label in (("key_alignment", "|cos| with k*"), ("value_alignment", "|cos| with v*")):
        values = history[name].values[rows, -1]
        error = float(values.std() / np.sqrt(max(len(values) - 1, 1)))
        checks.append(
            Check.bound(
                f"{prefix}mean {label}", float(values.mean()), lower=0.9, standard_error=error
            )
        )
    return checks


def _small_risk(history: Any, fraction: float, prefix: str = "") -> Check:
    learned = _learned(history)
    rows = learned if learned.any() else np.ones_like(learned)
    risks = history.risk.values[rows, -1]
    error = float(np.sqrt(np.mean(history.risk_error.values[rows, -1] ** 2) / len(risks)))
    return Check.bound(
        f"{prefix}mean risk / risk of predicting 0",
        float(risks.mean()) / _ZERO_RISK,
        upper=fraction,
        standard_error=error / _ZERO_RISK,
    )
