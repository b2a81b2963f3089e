"""Layers of linear attention against as many steps of gradient descent: risks, and the best layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, field_validator

from ..._core.interrupt import RunInterrupted
from .._config import Config
from .trained import (
    LARGEST_COUNT,
    LARGEST_DIM,
    LARGEST_LENGTH,
    LARGEST_RUNS,
    Spectrum,
    of_dimension,
    rotated,
)

if TYPE_CHECKING:
    import xarray

    from ...tasks import InContextRegression

Data = Literal["isotropic", "anisotropic"]
PRIORS = ("Σ⁻¹/d", "I/d")


class DeepLinearConfig(Config):
    """Settings: the data, how deep, the searches over matrices, and the trained stacks."""

    dim: int = Field(5, ge=1, le=LARGEST_DIM, description="dimension d of the covariates")
    length: int = Field(20, ge=2, le=LARGEST_LENGTH, description="number of examples n in a prompt")
    noise_var: float = Field(1e-3, ge=0, le=1e6, description="variance σ² of the label noise")
    spectrum: Spectrum = Field(
        (1.0, 1.0, 0.5, 0.25, 0.1),
        validate_default=True,
        description="eigenvalues of the covariance Σ of anisotropic data, rotated at random",
    )
    layers: int = Field(4, ge=2, le=5, description="largest number of layers and of steps")
    lengths: tuple[int, ...] = Field(
        (6, 8, 12, 20, 40, 80), min_length=1, description="numbers of examples, for the second row"
    )
    length_layers: int = Field(3, ge=2, le=5, description="how many layers at these lengths")
    searched: int = Field(3, ge=2, le=5, description="layers up to which all matrices are searched")
    samples: int = Field(2000, ge=2, le=10**6, description="sets of examples in a search")
    test_samples: int = Field(
        40_000, ge=2, le=LARGEST_COUNT, description="fresh sets of examples for its risk"
    )
    repeats: int = Field(8, ge=2, le=LARGEST_RUNS, description="searches, each on its own sample")
    search_b: bool = Field(True, description="whether two layers with B are searched too")
    starts: int = Field(2, ge=0, le=LARGEST_RUNS, description="random starts of each search")
    trained_on: tuple[Data, ...] = Field(
        ("isotropic", "anisotropic"), description="data on which stacks are trained; may be empty"
    )
    trained_layers: tuple[int, ...] = Field(
        (1, 2, 3), min_length=1, description="numbers of layers of trained stacks"
    )
    steps: int = Field(20_000, ge=1, le=LARGEST_COUNT, description="steps of Adam")
    batch_size: int = Field(256, ge=1, le=LARGEST_COUNT, description="fresh prompts a step")
    learning_rate: float = Field(
        0.03, gt=0, le=10, description="learning rate of Adam; it falls to a hundredth"
    )
    init_scale: float = Field(
        0.3, gt=0, le=10, description="standard deviation of the initial weights"
    )
    runs: int = Field(5, ge=1, le=LARGEST_RUNS, description="random starts of the training")
    test_prompts: int = Field(
        50_000, ge=2, le=LARGEST_COUNT, description="prompts on which trained stacks are tested"
    )

    @field_validator("lengths")
    @classmethod
    def _counts(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not all(1 <= number <= LARGEST_LENGTH for number in value):
            raise ValueError(f"integers from 1 to {LARGEST_LENGTH}")
        return value

    @field_validator("trained_layers")
    @classmethod
    def _depths(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not all(1 <= number <= 5 for number in value) or len(set(value)) < len(value):
            raise ValueError("different integers from 1 to 5")
        return value

    _sizes = field_validator("spectrum")(of_dimension)


def run(config: DeepLinearConfig) -> xarray.Dataset:
    """Risks on `layers`: exact ones of steps of one size, of the best steps, and with `b`; sampled
    ones of descent without a preconditioner on anisotropic data, and of the matrices that searches
    find (`searched_layers`); the exact ones at other lengths; how far the matrices are from
    multiples of `Σ⁻¹`, by `prior`; and risks of trained stacks on `(data, trained_layers, run)`."""
    from .deep_stacks import trained_stacks

    data = _exact(config).assign(_plain(config)).assign(_searched(config))
    data = data.assign_coords(prior=list(PRIORS), searched_layers=np.arange(1, config.searched + 1))
    data.attrs |= _words(config)
    if not config.trained_on:
        return data
    try:
        return data.merge(trained_stacks(config))
    except RunInterrupted as interruption:
        if interruption.partial is not None:
            interruption.partial = data.merge(interruption.partial)
        raise


def task_of(config: DeepLinearConfig, data: str, prior: str = PRIORS[0]) -> InContextRegression:
    """The data; on isotropic ones both priors are `I/d`."""
    from ...tasks import InContextRegression

    d = config.dim
    covariance = rotated(config.spectrum, config.seed) if data == "anisotropic" else np.eye(d)
    covariance = (covariance + covariance.T) / 2
    W = np.linalg.inv(covariance) if prior == PRIORS[0] else np.eye(d)
    return InContextRegression(
        d, config.length, noise_std=math.sqrt(config.noise_var), covariance=covariance, prior=W / d
    )


def off_multiples(matrices: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Distances of `A` from multiples of `Σ⁻¹`, over its size, where covariates are isotropic."""
    values, vectors = np.linalg.eigh(sigma)
    root = (vectors * np.sqrt(values)) @ vectors.T
    A = root @ matrices @ root
    level = np.trace(A, axis1=-2, axis2=-1)[..., None, None] / len(sigma)
    off = A - level * np.eye(len(sigma))
    return np.asarray(np.linalg.norm(off, axis=(-2, -1)) / np.linalg.norm(A, axis=(-2, -1)))


def exact_risks(config: DeepLinearConfig, length: int, layers: int) -> tuple[float, float, float]:
    """For `w ~ N(0, Σ⁻¹/d)`, the same for all `Σ`: the best of `layers` steps of one size with the
    preconditioner `Σ`, of different sizes, and with `b`."""
    from ...estimators import gradient_descent_risk, optimal_deep_linear, optimal_step
    from ...tasks import InContextRegression

    noise = math.sqrt(config.noise_var)
    task = InContextRegression(config.dim, length, noise_std=noise)
    step = optimal_step(task, steps=layers)
    common = float(gradient_descent_risk(task, step=step, steps=layers))
    plain, moved = (
        optimal_deep_linear(
            config.dim, length, layers, with_b=with_b, noise_std=noise,
            prior_variance=1 / config.dim, starts=4,
        ).risk.value
        for with_b in (False, True)
    )  # fmt: skip
    return common, plain, moved


def _exact(config: DeepLinearConfig) -> xarray.Dataset:
    import xarray

    from ...estimators import bayes_risk
    from ...tasks import InContextRegression

    counts = np.arange(1, config.layers + 1)
    by_layers = np.array([exact_risks(config, config.length, n) for n in counts.tolist()])
    by_length = np.array([exact_risks(config, n, config.length_layers) for n in config.lengths])
    noise = math.sqrt(config.noise_var)
    floors = [
        float(bayes_risk(InContextRegression(config.dim, n, noise_std=noise)))
        for n in (config.length, *config.lengths)
    ]
    names = ("common", "best", "moved")
    texts = ("steps of one size", "best steps", "best layers with b")
    variables: dict[str, Any] = {}
    for place, (name, text) in enumerate(zip(names, texts, strict=True)):
        label = {"long_name": f"exact risk of {text}"}
        variables[name] = "layers", by_layers[:, place], label
        variables[f"{name}_by_length"] = "length", by_length[:, place], label
    variables["bayes"] = (), floors[0], {"long_name": "Bayes risk"}
    variables["bayes_by_length"] = "length", floors[1:], {"long_name": "Bayes risk"}
    return xarray.Dataset(variables, {"layers": counts, "length": list(config.lengths)})


def _plain(config: DeepLinearConfig) -> dict[str, Any]:
    """Gradient descent without a preconditioner on anisotropic data."""
    import jax

    from ...estimators import optimal_deep_linear_sampled

    task = task_of(config, "anisotropic")
    variables: dict[str, Any] = {}
    for name, shared in (("plain_common", True), ("plain_best", False)):
        found = optimal_deep_linear_sampled(
            task.covariance_matrix, config.length, config.layers, prior=task.prior_matrix,
            noise_std=task.noise_std, with_b=False, structure="steps", shared=shared, starts=0,
            key=jax.random.key(config.seed), samples=config.samples,
            test_samples=config.test_samples,
        )  # fmt: skip
        text = "steps of one size" if shared else "best steps"
        label = {"long_name": f"risk of {text} without preconditioner, anisotropic data"}
        variables[name] = "layers", [one.risk.value for one in found], label
        variables[f"{name}_error"] = "layers", [one.risk.error for one in found]
    return variables


def _searched(config: DeepLinearConfig) -> dict[str, Any]:
    """All matrices: risks for both priors, distances of the deepest `A_l` from multiples of `Σ⁻¹`,
    means over repeated searches with standard errors; and two layers with `B`."""
    import jax

    from ...estimators import optimal_deep_linear_sampled

    def search(prior: str, layers: int, with_b: bool, key: Any) -> Any:
        task = task_of(config, "anisotropic", prior)
        return optimal_deep_linear_sampled(
            task.covariance_matrix, config.length, layers, prior=task.prior_matrix,
            noise_std=task.noise_std, with_b=with_b, key=key, samples=config.samples,
            test_samples=config.test_samples, starts=0 if with_b else config.starts,
        )  # fmt: skip

    sigma = task_of(config, "anisotropic").covariance_matrix
    keys = jax.random.split(jax.random.key(config.seed + 1), config.repeats)
    risks, off = [], []
    for prior in PRIORS:
        found = [search(prior, config.searched, False, key) for key in keys]
        risks.append([[one.risk.value for one in each] for each in found])
        off.append([off_multiples(each[-1].a, sigma) for each in found])
    variables: dict[str, Any] = {}
    if config.search_b:
        moved = search(PRIORS[0], 2, True, keys[0])[-1].risk
        label = {"long_name": "risk of two layers of matrices with B"}
        variables = {"matrices_b": ((), moved.value, label), "matrices_b_error": ((), moved.error)}
    matrices, distances = np.swapaxes(risks, 1, 2), np.swapaxes(off, 1, 2)
    root = math.sqrt(config.repeats)
    axes = ("prior", "searched_layers")
    return variables | {
        "matrices": (axes, matrices.mean(-1), {"long_name": "risk of the best matrices found"}),
        "matrices_error": (axes, matrices.std(-1, ddof=1) / root),
        "off": (axes, distances.mean(-1), {"long_name": "distance of A_l from cΣ⁻¹"}),
        "off_error": (axes, distances.std(-1, ddof=1) / root),
    }


def _words(config: DeepLinearConfig) -> dict[str, Any]:
    """What captions need."""
    return {
        "setting": f"d = {config.dim}, n = {config.length}, σ² = {config.noise_var:g}",
        "spectrum": ", ".join(f"{value:g}" for value in config.spectrum),
        "search": f"{config.repeats} searches, each on {config.samples} sets of examples",
        "course": (
            f"Adam, {config.steps} steps of {config.batch_size} prompts, learning rate "
            f"{config.learning_rate:g} falling to a hundredth, gradients clipped"
        ),
        "length_layers": config.length_layers,
    }
