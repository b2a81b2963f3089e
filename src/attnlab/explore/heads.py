"""In-context regression: the exact risk of two opposite heads over their scales, and its valley."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.errors import InvalidArgument, check_integer, check_real
from .view import View, number

if TYPE_CHECKING:
    from ..tasks import InContextRegression

_CELLS = 60
_LEAST = 1e-3  # of ω: below, the difference of two risks has no digits left
_LARGEST = 0.3  # of ω: the map reaches twice as far, where larger scores would take minutes
_TOGETHER = 8  # risks computed at once


def heads_view(task: InContextRegression, *, omega: float = 0.13, mu: float = 3.4) -> View:
    """The risk of the heads `(ω, -ω)`, `(μ, -μ)` around this point, and how it compares.

    **Arguments:** an isotropic `task` of two tokens or more; `omega` in [0.001, 0.3], `mu` > 0.

    Raises `InvalidArgument`. Source: Section 4 of he2025; `docs/theory/in-context-loss`.
    """
    from ..estimators import bayes_risk, gradient_descent_risk, optimal_step
    from ..students import KernelHeads
    from ..tasks import InContextRegression
    from ..theory import approximate_risk, population_risk

    if not isinstance(task, InContextRegression) or task.covariance is not None:
        raise InvalidArgument("task", task, "an isotropic InContextRegression")
    if task.supports is not None:
        raise InvalidArgument("task", task, "one of a single task")
    check_integer("length", task.length, minimum=2)
    omega = check_real("omega", omega, low=_LEAST, high=_LARGEST)
    mu = check_real("mu", mu, low=0.0, low_open=True, high=1e6)
    cells = (np.arange(_CELLS) + 0.5) / _CELLS
    across, up = 2 * omega * cells, 2 * mu * cells
    noise = float(task.noise_std) ** 2
    cross, square = _quadratic(task, np.append(across, omega))
    least, best_mu = 1 + noise - cross**2 / square, cross / square
    surface = 1 + noise - 2 * up[:, None] * cross[:-1] + up[:, None] ** 2 * square[:-1]
    heads = KernelHeads(np.array([omega, -omega]), np.array([mu, -mu]))
    risk = population_risk(task, heads)
    best = optimal_step(task, debiased=True)
    one = gradient_descent_risk(task, step=best, debiased=True)
    rows = (
        ("risk R(ω, μ)", number(float(risk.value)), f"{risk.method}, ± {float(risk.error):.1e}"),
        (
            "approximate loss",
            number(float(approximate_risk(task, heads).value)),
            "Theorem 4.2 of he2025",
        ),
        ("least risk at this ω", number(float(least[-1])), "over μ, exact"),
        ("one debiased gradient step", number(float(one.value)), f"η = {best:.4g}, {one.method}"),
        ("Bayes risk", number(float(bayes_risk(task).value)), "ridge regression, exact"),
        ("prediction 0", number(1 + noise), "closed form"),
    )
    return View(
        _figure((across, up), surface, (least[:-1], best_mu[:-1]), float(one.value), (omega, mu)),
        rows,
    )


def _quadratic(task: InContextRegression, omega: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`b` and `c` of `R = 1 + σ² - 2bμ + cμ²` at each `ω`, from the exact risks at `μ = ±1`."""
    import jax.numpy as jnp

    from .._core.precision import float64
    from ..students import KernelHeads
    from ..theory import population_risk

    # one resolution for the whole map: that of the largest scores, which need the finest
    top = KernelHeads(float(omega.max()) * np.array([1.0, -1.0]), np.array([1.0, -1.0]))
    with float64():
        risk = population_risk(task, top)
        signs = jnp.asarray(np.repeat([1.0, -1.0], omega.size))
        both = jnp.asarray(np.tile(omega, 2))
        values = np.asarray(_program()(risk, both, signs)).reshape(2, -1)
    cross = (values[1] - values[0]) / 4
    return cross, (values[0] + values[1]) / 2 - (1 + float(task.noise_std) ** 2)


@functools.cache
def _program() -> Any:
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    @eqx.filter_jit
    def risks(risk: Any, omega: Any, mu: Any) -> Any:
        def one(pair: Any) -> Any:
            return risk.value_of(*(jnp.stack([number, -number]) for number in pair))

        return jax.lax.map(one, (omega, mu), batch_size=_TOGETHER)

    return risks


def _figure(
    axes: tuple[np.ndarray, np.ndarray],
    surface: np.ndarray,
    valley: tuple[np.ndarray, np.ndarray],
    one_step: float,
    point: tuple[float, float],
) -> Any:
    from ..plotting.spec import Axis, Figure, Heat, Line, Mark, Panel, Points, Rule

    (across, up), (least, best) = axes, valley
    inside = np.where(best <= up[-1], best, np.nan)
    omega, mu = Axis("ω", limits=(0.0, 2 * point[0])), Axis("μ", limits=(0.0, 2 * point[1]))
    plane: list[Mark] = [
        Heat(across, up, surface, "risk R", limits=(float(surface.min()), _ceiling(surface))),
        Line(across, inside, "best μ at this ω", "theory"),
        Points([point[0]], [point[1]], label="the point of the table", role=1),
    ]
    cut: list[Mark] = [
        Line(across, least, "along the valley", "theory"),
        Rule(one_step, label="one debiased gradient step"),
    ]
    return Figure(
        "Exact risk of two opposite heads",
        [Panel("", omega, mu, plane), Panel("", omega, Axis("least risk over μ"), cut)],
        columns=2,
        caption="The risk of the heads (ω, -ω), (μ, -μ); the black line is its valley.",
        alt="A map of the risk over ω and μ with its valley, and the risk along the valley.",
    )


def _ceiling(surface: np.ndarray) -> float:
    """The top of the colours: what predicting 0 costs is on the lower edge of the map."""
    return max(float(surface[0].max()), float(surface.min()) * 1.05)
