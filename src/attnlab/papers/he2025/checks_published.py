"""Checks of printed averages: of the estimators in the notebooks, and of the data of Figure 5."""

from __future__ import annotations

import math

import numpy as np

from ...claims import Check, Outcome
from ...tasks import InContextRegression
from .checks_loss import approximation, single_minimiser
from .checks_risks import limit_bayes_risk, limit_descent_risk
from .exact_heads import heads_quadratic, opposite_heads
from .published import (
    Weights,
    constant_factor,
    constant_offset,
    descent,
    deviations,
    kernel_heads,
    published,
    ridge,
    squared_errors,
)

NOISE = 0.1
TRAINED = InContextRegression(5, 40)
_OMEGA, _MU = 0.13, 3.45  # of the heads in the notebook's loop
_STEP = 2 * _OMEGA * _MU


def exact_risks(task: InContextRegression) -> tuple[float, ...]:
    """The exact risks of the five columns of `estimators`, in their order."""
    from ... import estimators as est

    omega, mu = single_minimiser(TRAINED)
    table = heads_quadratic(task, [_OMEGA, -_OMEGA, omega])  # one call for both kinds of heads
    return (
        table.take([0, 1]).risk(np.array([_MU, -_MU]), NOISE),
        float(est.gradient_descent_risk(task, step=_STEP)),
        float(est.gradient_descent_risk(task, step=_STEP, debiased=True)),
        table.take([2]).risk(np.array([mu]), NOISE),
        float(est.bayes_risk(task)),
    )


def predictors() -> list[Weights]:
    """The same five, to sample the spread of their squared errors."""
    omega, mu = single_minimiser(TRAINED)
    return [
        kernel_heads([_OMEGA, -_OMEGA], [_MU, -_MU]),
        descent(_STEP),
        descent(_STEP, debiased=True),
        kernel_heads([omega], [mu]),
        ridge(TRAINED.dim * NOISE),
    ]


def proportional_risks() -> np.ndarray:
    """The exact risks at d = 20, L = 100, σ² = 3: of the step `η*`, and of ridge."""
    from ... import estimators as est

    task = _proportional()
    step = 1 / (1 + (1 + task.noise_std**2) * task.dim / task.length)
    return np.array(
        [float(est.gradient_descent_risk(task, step=step)), float(est.bayes_risk(task))]
    )


def _proportional() -> InContextRegression:
    setting = published()["proportional"]
    return InContextRegression(
        setting["dim"], setting["length"], noise_std=math.sqrt(setting["noise_variance"])
    )


def published_estimators(preset: str, seed: int) -> Outcome:
    """All columns of both versions against the exact risks, together and one by one."""
    table = published()["estimators"]
    prompts, lengths = table["prompts"], table["lengths"]
    rng = np.random.default_rng(seed)
    samples = 30_000 if preset == "paper" else 5_000
    tasks = [TRAINED.with_length(length) for length in lengths]
    exact = np.array([exact_risks(task) for task in tasks])
    spread = np.array([squared_errors(task, predictors(), rng, samples)[1] for task in tasks])
    covariance = spread / prompts
    error = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    printed = np.array(list(table["versions"].values()))
    whole = deviations(printed - exact, covariance)
    gap = (printed - exact)[..., 0] - (printed - exact)[..., 2]
    gap_error = np.sqrt(covariance[:, 0, 0] + covariance[:, 2, 2] - 2 * covariance[:, 0, 2])
    both, doubled = np.concatenate(printed), np.tile(exact, (len(printed), 1))
    errors = np.tile(error, (len(printed), 1))
    columns = range(len(table["columns"]))
    offsets = [constant_offset(both[:, k], doubled[:, k], errors[:, k]) for k in columns]
    factors = [constant_factor(both[:, k], doubled[:, k], errors[:, k]) for k in columns]
    more = published()["proportional"]
    task = _proportional()
    step = 1 / (1 + (1 + task.noise_std**2) * task.dim / task.length)
    pair = [descent(step), ridge(task.dim * task.noise_std**2)]
    shared = squared_errors(task, pair, rng, samples)[1] / more["prompts"]
    large = deviations(np.array(list(more["versions"].values())) - proportional_risks(), shared)
    limits = [more["limits"][name] for name in more["columns"]]
    ratio = more["dim"] / more["length"]
    formulas = [f(ratio, more["noise_variance"]) for f in (limit_descent_risk, limit_bayes_risk)]
    table_of = "; ".join(
        f"{name} {o.value:+.5f} ± {o.error:.5f}, {f.value:.4f} ± {f.error:.4f} "
        f"(χ² {o.before:.1f}, {o.after:.1f}, {f.after:.1f} of {o.freedom})"
        for name, o, f in zip(table["columns"], offsets, factors, strict=True)
    )
    return Outcome(
        (
            Check.distribution("190 averages minus exact risks, in independent standard errors", whole),
            Check.agreement("each average over its exact risk", printed / exact, 1.0, standard_error=error / exact),
            Check.agreement("constant offset of each column", np.array([o.value for o in offsets]), 0.0, standard_error=np.array([o.error for o in offsets]), scale=NOISE),
            Check.agreement("constant factor of each column", np.array([f.value for f in factors]), 1.0, standard_error=np.array([f.error for f in factors])),
            Check.agreement("heads minus debiased descent, minus its exact value", gap, 0.0, standard_error=gap_error, scale=NOISE),
            Check.agreement("d = 20, L = 100, σ² = 3: four averages, in independent standard errors", large, 0.0, standard_error=1.0, scale=10.0),
            Check.agreement("two printed limits, d/L = 0.2, σ² = 3", np.array(formulas), np.array(limits), tolerance=1e-14),
        ),
        notes=(
            f"Both versions of plots.ipynb ({', '.join(table['versions'])}) print {len(lengths)} lengths and five columns, averages over {prompts} "
            "prompts. The columns of a row share their prompts: errors are compared after the covariance of a row has been "
            f"divided out, and heads minus debiased descent is known {np.median(error[:, 0] / gap_error):.0f} times better than either. "
            f"Offset and factor of each column, with χ² as printed, after the offset, after the factor: {table_of}. None is needed: "
            "label noise is counted once. The single head keeps μ of L = 40 at every length. Exact at d = 20: "
            f"{proportional_risks()[0]:.4f} and {proportional_risks()[1]:.4f}. Covariances from {samples} sampled covariates, seed {seed}."
        ),
    )  # fmt: skip


def left_out() -> float:
    """What the printed landscape lacks: the noise of the target."""
    return NOISE


def landscape() -> tuple[np.ndarray, np.ndarray]:
    """The exact loss and `L̃` of the grid of `landscape`, each `(omega, mu)`."""
    omega, mu = landscape_axes()
    found = opposite_heads(TRAINED, omega[1:])
    eta = 2 * omega[1:, None] * mu
    nothing = np.full((1, mu.size), 1 + NOISE)  # ω = 0: the two heads cancel
    rows = 1 + NOISE - 2 * eta * found.cross[:, None] + eta**2 * found.square[:, None]
    signs = np.array([1.0, -1.0])
    forms = [approximation(TRAINED, w * signs) for w in omega]
    near = np.array([[form.risk(m * signs, NOISE) for m in mu] for form in forms])
    return np.concatenate([nothing, rows]), near


def landscape_axes() -> tuple[np.ndarray, np.ndarray]:
    """`ω` and `μ` of the grid."""
    return np.linspace(0, 0.2, 20), np.linspace(0, 6, 20)


def published_landscape(preset: str, seed: int) -> Outcome:
    """Both columns against the exact loss and `L̃`, as printed and with the target's noise added."""
    table = published()["landscape"]
    printed, printed_near = np.array(table["loss"]), np.array(table["approximate"])
    exact, near = landscape()
    rng = np.random.default_rng(seed)
    error = landscape_spread(rng, 30_000 if preset == "paper" else 8_000)
    error /= math.sqrt(table["prompts"])
    flat = (printed.ravel(), exact.ravel(), error.ravel())
    offset, factor = constant_offset(*flat), constant_factor(*flat)
    zscores = (printed + left_out() - exact) / error
    return Outcome(
        (
            Check.agreement("approximate loss minus eq. (4.1), 400 pairs", printed_near - near, 0.0, tolerance=1e-9),
            Check.agreement("sampled loss minus the exact loss, 400 pairs", printed - exact, 0.0, standard_error=error, scale=NOISE),
        ),
        corrected=(
            "Both columns are the losses without the noise of the target: L̃ - σ² and L - σ², 0.1 lower at every pair, with the noise "
            "of the examples counted. Their difference, panel (a), and the place of the valley are those of eq. (4.1)."
        ),
        evidence=(
            Check.agreement("approximate loss plus σ², minus eq. (4.1)", printed_near + left_out() - near, 0.0, tolerance=1e-13),
            Check.distribution("sampled loss plus σ², minus the exact loss, in standard errors", zscores),
            Check.agreement("constant offset of the sampled losses", offset.value, -left_out(), standard_error=offset.error),
        ),
        notes=(
            f"plots.ipynb, first version, σ² = 0.1, {table['prompts']} prompts for each of 400 pairs (ω, -ω), (μ, -μ). The offset of the sampled losses "
            f"is {offset.value:.5f} ± {offset.error:.5f}: {abs(offset.value) / offset.error:.0f} standard errors from 0, "
            f"{abs(offset.value + NOISE) / offset.error:.1f} from -σ². χ² of 400: {offset.before:.0f} as printed, {offset.after:.0f} after the offset; "
            f"{factor.after:.0f} after the best factor, {factor.value:.4f}, which explains nothing. Lowest printed approximate loss "
            f"{printed_near.min():.4f}; eq. (4.1) there {near.min():.4f}. The code stored in the notebook adds the noise to both: these "
            f"outputs are of an earlier state of it. Whether Figure 5b was drawn from them, the text at hand does not tell. Seed {seed}."
        ),
    )  # fmt: skip


def landscape_spread(rng: np.random.Generator, prompts: int) -> np.ndarray:
    """The standard deviation of one squared error at each pair of the grid, target without noise."""
    omega, mu = landscape_axes()
    d = TRAINED.dim
    X = rng.standard_normal((prompts, TRAINED.length, d))
    query = rng.standard_normal((prompts, d))
    rows = []
    for w in omega:
        p = kernel_heads([w, -w], [1.0, -1.0])(X, query)
        slope = np.einsum("nld,nl->nd", X, p)
        linear = np.einsum("nd,nd->n", query, slope) / d
        square = np.sum(slope**2, 1) / d + NOISE * np.sum(p**2, 1)
        # the variance of the error is quadratic in μ
        v = np.sum(query**2, 1)[:, None] / d - 2 * linear[:, None] * mu + square[:, None] * mu**2
        rows.append(np.sqrt(3 * np.mean(v**2, 0) - np.mean(v, 0) ** 2))
    return np.array(rows)
