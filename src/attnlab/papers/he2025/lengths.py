"""Losses of trained layers against the length of the test prompt, beside classical estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from ..._core.interrupt import RunInterrupted
from .fields import LARGEST_COUNT, Distinct, HeadCount, Length
from .training import TrainedConfig, TrainingConfig, course, setting, shown_run, task_of, trained

if TYPE_CHECKING:
    import xarray

    from ...plotting.spec import Figure, Line, Mark
    from ...students import KernelHeads

TICKS = tuple((value, f"{value:g}") for value in (0.1, 0.2, 0.3, 0.5, 1.0))  # of log axes of risks
LOSS = "mean squared error on sampled prompts, label noise included"
ESTIMATORS = {
    "gd": "gradient descent",
    "debiased_gd": "debiased gradient descent",
    "ridge": "ridge (Bayes)",
    "ols": "least squares",
}


class LengthsConfig(TrainingConfig):
    """Settings of an evaluation on prompts of several lengths."""

    lengths: Distinct[Length] = Field(
        (10, 15, 20, 25, 30, 40, 50, 60, 80, 100), min_length=1, description="test lengths"
    )
    samples: int = Field(
        100_000, ge=1, le=LARGEST_COUNT, description="test prompts, in batches of 500"
    )


class HeadsByLengthConfig(LengthsConfig):
    """Settings of the comparison of numbers of heads."""

    heads: Distinct[HeadCount] = Field((1, 2, 4, 8), min_length=1, description="numbers of heads H")


def run(config: HeadsByLengthConfig) -> xarray.Dataset:
    """`loss` and `loss_error` on `(n_heads, length)`, sampled, of the shown run of each training;
    `exact`, of its heads reduced to (ω, μ); the estimators' exact risks on `length`."""
    from ...theory import population_risk
    from .by_length import layers_of

    rows: list[tuple[Any, Any, Any]] = []
    beside = estimator_risks(config.training(), config.lengths)

    def together() -> xarray.Dataset:
        table = np.reshape(rows, (len(rows), 3, len(config.lengths)))
        return beside.assign_coords(n_heads=list(config.heads[: len(rows)])).assign(
            loss=(("n_heads", "length"), table[:, 0], {"long_name": LOSS}),
            loss_error=(("n_heads", "length"), table[:, 1], {"long_name": "standard error"}),
            exact=(("n_heads", "length"), table[:, 2], {"long_name": "exact risk of its (ω, μ)"}),
        )

    for count in config.heads:
        own = config.training(n_heads=count)
        try:
            circuits = circuits_of(own)
        except RunInterrupted as interruption:
            interruption.partial = together()
            raise
        layers = layers_of([circuits], own.dim, heads=max(config.heads))
        loss, error = sampled(layers, config, own)
        heads = reduced(circuits, own.dim, heads=max(config.heads))
        exact = [float(population_risk(task_of(own, n), heads).value) for n in config.lengths]
        rows.append((loss[0], error[0], exact))
    return together()


def reduced(circuits: tuple[np.ndarray, np.ndarray], dim: int, *, heads: int) -> KernelHeads:
    """The heads as (ω, μ), filled up with heads of `ω = μ = 0` that predict nothing."""
    from ...circuits import Circuits, reduce
    from ...students import KernelHeads

    own = reduce(Circuits(*circuits, dim=dim))
    fill = (0, heads - own.n_heads)
    return KernelHeads(np.pad(np.asarray(own.omega), fill), np.pad(np.asarray(own.mu), fill))


def sampled(
    layers: Any, config: LengthsConfig, training: TrainedConfig, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """`losses_by_length` on prompts that are the same in all figures."""
    import jax

    from .by_length import losses_by_length

    key = jax.random.fold_in(jax.random.key(config.seed), 2**31)  # none that a training uses
    return losses_by_length(
        layers, task_of(training), config.lengths, key=key, samples=config.samples, **options
    )


def circuits_of(config: TrainedConfig) -> tuple[np.ndarray, np.ndarray]:
    """`kq` and `ov` of the shown run at its last step."""
    history = trained(config).history
    last = history.isel(run=shown_run(history), step=-1)
    return np.asarray(last.kq.values, np.float64), np.asarray(last.ov.values, np.float64)


def estimator_risks(config: TrainedConfig, lengths: tuple[int, ...]) -> xarray.Dataset:
    """Exact risks on `length`. The two steps of gradient descent have the step that is best at the
    length of training, as a trained layer has its own, at all lengths."""
    import xarray

    from ... import estimators

    trained_on = task_of(config)
    steps = [estimators.optimal_step(trained_on, debiased=debiased) for debiased in (False, True)]
    rows: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    for length in lengths:
        task = trained_on.with_length(length)
        for name, step in zip(("gd", "debiased_gd"), steps):
            risk = estimators.gradient_descent_risk(task, step=step, debiased=name == "debiased_gd")
            rows[name].append(float(risk))
        rows["ridge"].append(float(estimators.ridge_risk(task)))
        rows["ols"].append(float(estimators.ordinary_least_squares_risk(task)))
    return xarray.Dataset(
        {name: ("length", rows[name], {"long_name": f"risk of {told}"})
         for name, told in ESTIMATORS.items()},
        coords={"length": list(lengths)},
        attrs={
            "setting": setting(config), "course": course(config), "noise_var": config.noise_var,
            "trained_length": config.length, "step": steps[0], "debiased_step": steps[1],
        },
    )  # fmt: skip


def figure_heads(dataset: xarray.Dataset) -> Figure:
    """Figure 3a: numbers of heads against each other."""
    from ...plotting.spec import Line

    marks: list[Mark] = []
    for role, count in enumerate(dataset.n_heads.values):
        exact = dataset.exact.sel(n_heads=count).values
        marks += [Line(dataset.length.values, exact, role=role), _points(dataset, count, role)]
    return _figure(
        dataset,
        "Loss against test length: numbers of heads",
        marks,
        "points: trained layers; lines: exact risk of their (ω, μ)",
        "Risk against test length for several numbers of heads.",
    )


def figure_estimators(dataset: xarray.Dataset) -> Figure:
    """Figure 3b: the same layers beside classical estimators."""
    marks: list[Mark] = [*estimator_lines(dataset)]
    marks += [_points(dataset, count, role) for role, count in enumerate(dataset.n_heads.values)]
    return _figure(
        dataset,
        "Loss against test length: heads beside estimators",
        marks,
        "points: trained layers; lines: exact risks of the estimators",
        "Risk against test length for one and two heads and for classical estimators.",
    )


def _points(dataset: xarray.Dataset, count: int, role: int) -> Mark:
    from ...plotting.spec import Points

    one = dataset.sel(n_heads=count)
    label = f"H = {count}"
    return Points(dataset.length.values, one.loss.values, one.loss_error.values, label, role)


def _figure(dataset: xarray.Dataset, title: str, marks: list[Mark], note: str, alt: str) -> Figure:
    from ...plotting.spec import Axis, Figure, Panel

    axis = Axis("risk", log=True, limits=(0.08, 1.2), ticks=TICKS)
    at = Axis("length of the test prompt")
    panel = Panel("", at, axis, [*marks, noise_rule(dataset)], note=note)
    return Figure(title=title, panels=[panel], columns=1, caption=length_caption(dataset), alt=alt)


def estimator_lines(dataset: xarray.Dataset) -> list[Line]:
    """The exact risks of the estimators as lines."""
    from ...plotting.spec import Line

    length = dataset.length.values
    return [
        Line(length, dataset[name].values, label=told, role=role, dash=name == "gd")
        for role, (name, told) in enumerate(ESTIMATORS.items(), start=2)
    ]


def noise_rule(dataset: xarray.Dataset) -> Any:
    """The noise of the label to be predicted, which no predictor gets below."""
    from ...plotting.spec import Rule

    return Rule(float(dataset.attrs["noise_var"]), label="label noise σ²")


def length_caption(dataset: xarray.Dataset) -> str:
    """Training, steps and prompts in words."""
    attrs = dataset.attrs
    return (
        f"{attrs['setting']}. {attrs['course']}. Points: sampled losses with standard errors, the "
        "same prompts for all layers and, cut short, for all lengths. Estimators: exact risks; "
        f"gradient descent with the steps {attrs['step']:.3f} and (debiased) "
        f"{attrs['debiased_step']:.3f} that are best at L = {attrs['trained_length']}."
    )
