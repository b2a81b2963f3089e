"""Training all of `P` and `Q` on fresh prompts: one configuration, one set of runs, once a process.

All figures of trained layers, and the claims about them, are made of what `trained` gives; those
that ask for the same settings in one process share one training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from ..._core.interrupt import RunInterrupted
from .._config import Config

if TYPE_CHECKING:
    import xarray

    from ...dynamics import Run
    from ...students import Normalization
    from ...tasks import InContextRegression

LARGEST_DIM = 200
LARGEST_LENGTH = 10**5
LARGEST_COUNT = 10**8
LARGEST_RUNS = 256
ACTIVATIONS = ("linear", "relu", "softmax", "tanh", "exp", "gelu")
NAMES = (
    "softmax, exp or a registered activation (linear, relu, tanh, gelu, erf, ...), with -sum behind "
    "it where weights are not divided by the length"
)


def known(names: tuple[str, ...]) -> tuple[str, ...]:
    """`names`, if each is one of `NAMES` and none occurs twice. Raises `ValueError`."""
    from ...students.activations import activation_names

    single = {name.removesuffix("-sum") for name in names} - {"exp", *activation_names()}
    if not single <= {"softmax"} or "softmax-sum" in names or len(set(names)) < len(names):
        raise ValueError(f"different names, each {NAMES}")
    return names


def normalization_of(name: str) -> Normalization:
    """The normalisation of such a name."""
    from ...students import elementwise, get_normalization

    if name == "softmax":
        return get_normalization(name)
    return elementwise(name.removesuffix("-sum"), over_length=not name.endswith("-sum"))


def _positive(spectrum: tuple[float, ...]) -> tuple[float, ...]:
    if not all(1e-6 <= number <= 1e6 for number in spectrum):
        raise ValueError("numbers from 1e-6 to 1e6")
    return spectrum


Spectrum = Annotated[tuple[float, ...], Field(min_length=1), AfterValidator(_positive)]


def of_dimension(spectrum: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
    """`spectrum`, if it has as many eigenvalues as the field `dim` says. Raises `ValueError`."""
    dim = info.data.get("dim", len(spectrum))
    if len(spectrum) != dim:
        raise ValueError(f"as many eigenvalues as dim = {dim}")
    return spectrum


class TrainingConfig(Config):
    """What all trainings have in common: the data of Theorem 1, and Adam."""

    dim: int = Field(5, ge=1, le=LARGEST_DIM, description="dimension d of the covariates")
    length: int = Field(20, ge=1, le=LARGEST_LENGTH, description="number of examples n in a prompt")
    noise_var: float = Field(0.0, ge=0, le=1e6, description="variance σ² of the label noise")
    steps: int = Field(20_000, ge=1, le=LARGEST_COUNT, description="number of steps of Adam")
    batch_size: int = Field(512, ge=1, le=LARGEST_COUNT, description="fresh prompts a step")
    learning_rate: float = Field(
        0.01,
        gt=0,
        le=10,
        description="learning rate of Adam at the start; it falls to a thousandth",
    )
    init_scale: float = Field(
        0.3, gt=0, le=10, description="standard deviation of the initial weights"
    )
    runs: int = Field(8, ge=1, le=LARGEST_RUNS, description="random starts, trained side by side")

    def training(self, **changes: Any) -> TrainedConfig:
        """The training with these settings, and `changes` such as `normalization`."""
        shared = {name: getattr(self, name) for name in TrainingConfig.model_fields}
        return TrainedConfig.model_validate(shared | changes)


class TrainedConfig(TrainingConfig):
    """Settings of one training: `runs` layers of one activation on one task."""

    normalization: str = Field("linear", description=f"of the scores: {NAMES}")
    spectrum: Spectrum | None = Field(
        None, description="eigenvalues of the covariates' covariance, rotated at random; else 1"
    )

    @field_validator("normalization")
    @classmethod
    def _known(cls, value: str) -> str:
        return known((value,))[0]


def task_of(
    config: TrainingConfig, spectrum: tuple[float, ...] | None = None
) -> InContextRegression:
    """In-context regression with `w ~ N(0, I)`, `x ~ N(0, U diag(spectrum) Uᵀ)`, `U` of the seed."""
    from ...tasks import InContextRegression

    spectrum = getattr(config, "spectrum", None) if spectrum is None else spectrum
    return InContextRegression(
        config.dim,
        config.length,
        noise_std=float(np.sqrt(config.noise_var)),
        covariance=None if spectrum is None else rotated(spectrum, config.seed),
        prior=np.eye(config.dim),
    )


def rotated(spectrum: tuple[float, ...], seed: int) -> np.ndarray:
    """`U diag(spectrum) Uᵀ` with a random rotation `U`."""
    from scipy.stats import ortho_group

    size = len(spectrum)
    U = ortho_group.rvs(size, random_state=seed) if size > 1 else np.eye(1)
    return np.asarray((U * np.asarray(spectrum)) @ U.T)


@lru_cache(maxsize=16)
def optimizer_of(rate: float, steps: int, *, last: float, clip: float) -> Any:
    """Adam whose learning rate falls to the share `last`, on gradients clipped at the norm `clip`:
    losses have heavy tails, and one prompt must not throw a layer far away.

    One object for equal settings, so that programs are compiled once.
    """
    import optax

    schedule = optax.cosine_decay_schedule(rate, steps, last)
    return optax.chain(optax.clip_by_global_norm(clip), optax.adam(schedule))


@lru_cache(maxsize=64)
def trained(config: TrainedConfig) -> Run:
    """The layers of all runs and their history; leave what is returned as it is.

    Run `i` starts from `fold_in(key(seed), i)`. Raises `RunInterrupted` with the history until
    then.
    """
    import jax

    from ...dynamics import train
    from ...students import MergedAttention

    def layer(key: Any) -> MergedAttention:
        return MergedAttention.random(
            config.dim,
            normalization=normalization_of(config.normalization),
            scale=config.init_scale,
            key=key,
        )

    return train(
        layer,
        task_of(config),
        optimizer=optimizer_of(config.learning_rate, config.steps, last=1e-3, clip=10.0),
        steps=config.steps,
        batch_size=config.batch_size,
        key=jax.random.key(config.seed),
        runs=config.runs,
        save_every=max(1, config.steps // 20),
    )


def one_by_one(
    names: Sequence[str],
    describe: Callable[[str], dict[str, Any]],
    together: Callable[[list[dict[str, Any]]], xarray.Dataset],
) -> xarray.Dataset:
    """`together` of what `describe` says of each activation; an interruption carries those so far."""
    rows: list[dict[str, Any]] = []
    try:
        for name in names:
            rows.append(describe(name))
    except KeyboardInterrupt:
        raise RunInterrupted(together(rows) if rows else None) from None
    return together(rows)


def mean_and_error(values: Any) -> tuple[float, float]:
    """The mean over runs (first axis) and its standard error; 0 for one run."""
    values = np.asarray(values, np.float64)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(values.mean()), float(error)


def course(config: TrainingConfig) -> str:
    """Data and optimiser in words, for captions."""
    noise = f", σ² = {config.noise_var:g}" if config.noise_var else ", no label noise"
    return (
        f"d = {config.dim}, n = {config.length}{noise}, w ~ N(0, I). Adam, learning rate "
        f"{config.learning_rate:g} falling to a thousandth, {config.batch_size} fresh prompts a "
        f"step, {config.steps} steps, {config.runs} random starts."
    )
