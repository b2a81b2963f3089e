"""Checks of printed losses of trained layers: at other lengths, and while training."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Chebyshev

from ...claims import Check, Outcome
from .checks_published import NOISE, TRAINED
from .exact_heads import opposite_heads, single_heads
from .published import (
    constant_factor,
    constant_offset,
    kernel_heads,
    printed_unit,
    published,
    squared_errors,
)

_NODES = 8
_LAST, _FIRST = "87ed34f", "d511666"  # the versions of plots.ipynb
_SETTLED = 2  # printed losses of a run that come before 100 000 steps


class Column(NamedTuple):
    """The exact risk of heads `(ω, μ)`, one or two opposite ones, as a function of both, at every
    length: polynomials in `ω` for its two coefficients, `1 + σ² - 2μ linear + μ² square`."""

    linear: list[Chebyshev]
    square: list[Chebyshev]

    def risk(self, omega: Any, mu: Any) -> np.ndarray:
        """`(lengths, ...)`."""
        pairs = zip(self.linear, self.square, strict=True)
        return np.array([1 + NOISE - 2 * mu * c(omega) + mu**2 * q(omega) for c, q in pairs])

    def best_mu(self, omega: float, printed: np.ndarray, error: np.ndarray) -> tuple[float, float]:
        """The `μ` at which the risks come nearest to `printed`, and its standard error."""
        from scipy.optimize import least_squares

        def rest(mu: np.ndarray) -> np.ndarray:
            return np.asarray((printed - self.risk(omega, mu[0])) / error)

        found = least_squares(rest, [1.5])
        return float(found.x[0]), float(1 / np.linalg.norm(np.asarray(found.jac)))


def column(lengths: list[int], heads: str) -> Column:
    """The exact risks of layers with that many heads: two opposite ones stand for all but 1."""
    low, high = (0.35, 0.65) if heads == "1" else (0.06, 0.22)
    omega = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
    linear, square = [], []
    for length in lengths:
        task = TRAINED.with_length(length)
        if heads == "1":
            c, overlap, signal = single_heads(task, omega)
            q = signal + (1 + NOISE) * overlap
        else:
            found = opposite_heads(task, omega)
            c, q = 2 * omega * found.cross, (2 * omega) ** 2 * found.square
        fits = [Chebyshev.fit(omega, y, _NODES - 1, [low, high]) for y in (c, q)]
        linear.append(fits[0])
        square.append(fits[1])
    return Column(linear, square)


def added(version: str) -> float:
    """What a version of the notebook adds to the loss: the noise of the target once more, or 0."""
    return NOISE if version == _LAST else 0.0


def quoted(heads: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """The weights `(ω, μ)` in the text, and half a unit of their last digits."""
    names = (
        ("one_head_omega", "one_head_mu") if heads == "1" else ("two_heads_omega", "two_heads_mu")
    )
    texts = [published()["text"][name]["printed"] for name in names]
    # 3.50 stands for 3.5 in the appendix and 3.45 in the notebook: one digit less than printed
    texts = [text.rstrip("0") for text in texts]
    return (float(texts[0]), float(texts[1])), (
        printed_unit(texts[0]) / 2,
        printed_unit(texts[1]) / 2,
    )


def outside(printed: np.ndarray, table: Column, heads: str) -> np.ndarray:
    """How far `printed` is from the risks of all weights that round to the quoted ones."""
    (omega, mu), (half_omega, half_mu) = quoted(heads)
    w, m = np.meshgrid(
        omega + half_omega * np.linspace(-1, 1, 9), mu + half_mu * np.linspace(-1, 1, 9)
    )
    risks = table.risk(w, m).reshape(printed.size, -1)
    return np.asarray(printed - np.clip(printed, risks.min(1), risks.max(1)))


def published_heads(preset: str, seed: int) -> Outcome:
    """Printed losses at 19 lengths against the quoted weights; then what is constant in the rest."""
    table = published()["trained"]
    lengths = table["lengths"]
    rng = np.random.default_rng(seed)
    samples = 30_000 if preset == "paper" else 5_000
    columns = {heads: column(lengths, heads) for heads in ("1", "2")}
    spread = {heads: _spread(lengths, heads, rng, samples) for heads in columns}
    off, errors, zscores, lone, words = [], [], [], [], []
    offsets: dict[str, list[tuple[float, float]]] = {version: [] for version in (_LAST, _FIRST)}
    for version, losses in table["versions"].items():
        for heads, values in losses.items():
            kind = "1" if heads == "1" else "2"
            printed = np.array(values)
            error = spread[kind] / math.sqrt(table["prompts"][heads])
            fit = _free_fit(printed, columns[kind], kind, error)
            offsets[version].append((fit.offset, fit.error))
            zscores.append(fit.rest)
            if version == _LAST:
                off.append(outside(printed, columns[kind], kind))
                errors.append(error)
            (omega, mu), _ = quoted(kind)
            at = columns[kind].risk(omega, mu)
            fixed, factor = constant_offset(printed, at, error), constant_factor(printed, at, error)
            words.append(
                f"{version}, H = {heads}: {fixed.before:.0f}, {fixed.after:.0f}, {factor.after:.0f}, "
                f"{np.sum(fit.rest**2):.0f} with offset {fit.offset:+.4f} ± {fit.error:.4f}"
            )
            if kind == "1":
                lone.append(columns[kind].best_mu(omega, printed - added(version), error))
    log, log_error, exact = training_log(spread)
    mu, mu_error = np.array(lone).T
    last_value, last_error = np.array(offsets[_LAST]).T
    first_value, first_error = np.array(offsets[_FIRST]).T
    stated_mu = quoted("1")[0][1]
    return Outcome(
        (
            Check.agreement("last version: losses minus the nearest risk of weights that round to the quoted ones", np.array(off), 0.0, standard_error=np.array(errors), scale=NOISE),
        ),
        corrected=(
            "The losses in the last version are those of equation (2.3) plus σ² = 0.1: the noise of the target, which the sampled error "
            "holds already, is added to it. Less 0.1 they are exact risks of one and of two opposite heads, as those of the first version are as printed; that of one head with |μ| = 1.48 in place of 1.42."
        ),
        evidence=(
            Check.agreement("last version, offset with free weights, H = 1, 2, 4, 8", last_value, added(_LAST), standard_error=last_error, scale=NOISE),
            Check.agreement("first version, offset with free weights, H = 1, 2, 4, 8", first_value, added(_FIRST), standard_error=first_error, scale=NOISE),
            Check.distribution("152 losses minus offset and exact risk, in standard errors", np.concatenate(zscores)),
            Check.agreement("L = 40, while training: mean loss after 10⁵ steps and more, H = 1, 2, 4, 8", log, exact, standard_error=log_error),
            Check.bound("|μ| that the losses of one head give, ω = 0.52, minus the quoted 1.42", mu - stated_mu, lower=0.005, standard_error=mu_error),
        ),
        notes=(
            f"χ² of 19 lengths at the quoted weights as printed, after the best offset, after the best factor, and with free weights and offset: "
            f"{'; '.join(words)}. A factor explains no column of the last version. Less 0.1, layers of two heads and more lie on the curves of the estimators, as the text says. The logs of training have no offset: "
            f"{', '.join(f'{v:.3f} ± {e:.3f}' for v, e in zip(log, log_error, strict=True))} against {exact[0]:.4f} and {exact[1]:.4f}. "
            f"Nothing that was tried explains |μ| = 1.42 for one head: its losses give {mu[0]:.3f} ± {mu_error[0]:.3f} (last) and {mu[1]:.3f} ± {mu_error[1]:.3f} "
            "(first version), and the exact loss is least at 1.497, ω = 0.518. The loss at the quoted weights is "
            "0.4 % above the least, so that predictions hardly differ. Which version Figure 3a shows, "
            f"the text at hand does not tell. Spreads from {samples} sampled covariates, seed {seed}."
        ),
    )  # fmt: skip


class FreeFit(NamedTuple):
    """The offset of a column when the weights are free, its error, and what is left in standard
    errors, reduced to as many independent numbers as degrees of freedom."""

    offset: float
    error: float
    rest: np.ndarray


def _free_fit(printed: np.ndarray, table: Column, heads: str, error: np.ndarray) -> FreeFit:
    from scipy.optimize import least_squares

    def rest(x: np.ndarray) -> np.ndarray:
        # the loss fixes the step 2ωμ well and ω hardly: fitted in these coordinates
        mu = x[1] if heads == "1" else x[1] / (2 * x[0])
        return np.asarray((printed - table.risk(x[0], mu) - x[2]) / error)

    start, low, high = (
        ([0.5, 1.5, 0.05], [0.36, 0.5, -1], [0.64, 3, 1])
        if heads == "1"
        else ([0.13, 0.9, 0.05], [0.061, 0.3, -1], [0.219, 2, 1])
    )
    found = least_squares(rest, start, bounds=(low, high), x_scale=[0.1, 0.1, 0.1])
    slopes = np.asarray(found.jac, np.float64)
    # an orthogonal basis of what the three parameters cannot move
    basis = np.linalg.svd(slopes, full_matrices=True)[0][:, 3:]
    error_of = math.sqrt(np.linalg.inv(slopes.T @ slopes)[2, 2])
    return FreeFit(float(found.x[2]), error_of, basis.T @ np.asarray(found.fun))


def _spread(lengths: list[int], heads: str, rng: Any, samples: int) -> np.ndarray:
    (omega, mu), _ = quoted(heads)
    signs = [1.0] if heads == "1" else [1.0, -1.0]
    predictor = kernel_heads([omega * s for s in signs], [mu * s for s in signs])
    tasks = [TRAINED.with_length(length) for length in lengths]
    found = [squared_errors(task, [predictor], rng, samples)[1][0, 0] for task in tasks]
    return np.sqrt(found)


def training_log(spread: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean printed losses of each layer once it is trained, their errors, and the least risks."""
    from .least_risk import best_opposite, best_single

    table = published()["training_log"]
    at = published()["trained"]["lengths"].index(table["length"])
    means, errors, exact = [], [], []
    least = {"1": best_single(TRAINED).risk, "2": best_opposite(TRAINED).risk}
    for heads, losses in table["losses"].items():
        late = np.array(losses)[_SETTLED:]
        kind = "1" if heads == "1" else "2"
        means.append(late.mean())
        errors.append(spread[kind][at] / math.sqrt(late.size * table["prompts"]))
        exact.append(least[kind])
    return np.array(means), np.array(errors), np.array(exact)
