"""Training a layer as in the paper: one configuration, one set of runs, computed once a process.

All figures of trained layers, and the claims about them, are made of what `trained` gives; those
that ask for the same settings in one process share one training.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from ..._core.interrupt import RunInterrupted
from .._config import Config
from .fields import (
    LARGEST_COUNT,
    LARGEST_DIM,
    LARGEST_GRID,
    LARGEST_HEADS,
    LARGEST_LENGTH,
    LARGEST_NOISE,
)

if TYPE_CHECKING:
    import xarray

    from ...dynamics import Run
    from ...students import Normalization
    from ...tasks import InContextRegression

Init = Literal["pytorch", "small-identity", "opposite-sign"]
_TAIL = 0.1  # of the training, for what is said of its end
_ACTIVATION = re.compile(r"(affine|squared-affine)-(\d+(?:\.\d+)?)")
_NAMED = ("softmax", "one-plus-tanh", "linear")
NORMALIZATIONS = (
    f"{', '.join(_NAMED)}, affine-C or squared-affine-C with a number C > 0 (f(x) = 1 + Cx, its "
    "square)"
)


class TrainingConfig(Config):
    """What all trainings have in common; the defaults are the sizes of the paper."""

    dim: int = Field(5, ge=2, le=LARGEST_DIM, description="dimension d of the covariates")
    length: int = Field(
        40, ge=2, le=LARGEST_LENGTH, description="number of examples L in a training prompt"
    )
    noise_var: float = Field(
        0.1, ge=0, le=LARGEST_NOISE, description="variance σ² of the label noise"
    )
    steps: int = Field(500_000, ge=1, le=LARGEST_COUNT, description="number of steps of Adam")
    batch_size: int = Field(256, ge=1, le=LARGEST_COUNT, description="fresh prompts a step")
    learning_rate: float = Field(1e-3, gt=0, description="learning rate of Adam, at the start")
    decay: Literal["constant", "cosine"] = Field(
        "constant", description="course of the learning rate; cosine ends at a hundredth"
    )
    clip: float | None = Field(
        None, gt=0, description="bound on the entries of a gradient; none in the paper"
    )
    init: Init = Field("pytorch", description="initial weights, as in MultiHeadAttention")
    init_scale: float = Field(0.01, gt=0, description="their scale, unless init is pytorch")
    runs: int = Field(4, ge=1, le=LARGEST_HEADS, description="random starts, trained side by side")
    saves: int = Field(200, ge=1, le=LARGEST_GRID, description="how often the circuits are saved")
    test_prompts: int = Field(
        2000, ge=2, le=LARGEST_COUNT, description="prompts for the risk at saved steps"
    )

    def training(self, **changes: Any) -> TrainedConfig:
        """The training with these settings, and `changes` such as `n_heads`."""
        shared = {name: getattr(self, name) for name in TrainingConfig.model_fields}
        own = {name: getattr(self, name) for name in _OWN if name in type(self).model_fields}
        return TrainedConfig.model_validate(shared | own | changes)


class TrainedConfig(TrainingConfig):
    """Settings of one training: `runs` layers of one shape on one task."""

    n_heads: int = Field(2, ge=1, le=LARGEST_HEADS, description="number of heads H")
    normalization: str = Field("softmax", description=f"of the scores: {NORMALIZATIONS}")
    rho: float = Field(
        0.0, gt=-1, lt=1, description="covariance Σ_ij = ρ^|i-j| of the covariates; 0 is isotropic"
    )
    supports: tuple[tuple[int, ...], ...] | None = Field(
        None, description="for each of several tasks its coordinates, counted from 0"
    )
    coefficients: Literal["shared", "independent"] = Field(
        "shared", description="one β for several tasks, or one for each"
    )

    @field_validator("normalization")
    @classmethod
    def _known(cls, value: str) -> str:
        found = _ACTIVATION.fullmatch(value)
        if value not in _NAMED and not (found and float(found[2]) > 0):
            raise ValueError(NORMALIZATIONS)
        return value

    @model_validator(mode="after")
    def _coordinates(self) -> TrainedConfig:
        for support in self.supports or ():
            inside = all(0 <= place < self.dim for place in support)
            if not support or not inside or len(set(support)) < len(support):
                raise ValueError(f"for each task different coordinates from 0 to {self.dim - 1}")
        return self


_OWN = [name for name in TrainedConfig.model_fields if name not in TrainingConfig.model_fields]


def task_of(config: TrainedConfig, length: int | None = None) -> InContextRegression:
    """The task of a training, or the same with another number of examples."""
    from ...tasks import InContextRegression
    from ...tasks.in_context import kac_murdock_szego

    return InContextRegression(
        config.dim,
        config.length if length is None else length,
        noise_std=float(np.sqrt(config.noise_var)),
        covariance=kac_murdock_szego(config.dim, config.rho) if config.rho else None,
        supports=config.supports,
        coefficients=config.coefficients,
    )


def normalization_of(name: str) -> Normalization:
    """The normalisation of that name, see `NORMALIZATIONS`."""
    from ...students import normalizations

    found = _ACTIVATION.fullmatch(name)
    if found is None:
        return normalizations.get_normalization(name)
    kind = normalizations.affine if found[1] == "affine" else normalizations.squared_affine
    return kind(float(found[2]))


def optimizer_of(config: TrainingConfig) -> Any:
    """Adam with the learning rate of the configuration, on clipped gradients if it says so."""
    import optax

    rate: Any = config.learning_rate
    if config.decay == "cosine":
        rate = optax.cosine_decay_schedule(rate, config.steps, 0.01)
    adam = optax.adam(rate)
    return adam if config.clip is None else optax.chain(optax.clip(config.clip), adam)


@lru_cache(maxsize=32)
def trained(config: TrainedConfig) -> Run:
    """The layers of all runs, and their history with the whole circuits `kq` and `ov`.

    Run `i` starts from `fold_in(key(seed), i)`. What is returned is shared: leave it as it is.
    Raises `RunInterrupted` with the history until then.
    """
    import jax

    from ...dynamics import train
    from ...dynamics.circuit_history import CircuitMeasure
    from ...students import MultiHeadAttention

    task = task_of(config)
    normalization = normalization_of(config.normalization)

    def layer(key: Any) -> MultiHeadAttention:
        return MultiHeadAttention(
            config.dim,
            config.n_heads,
            n_outputs=task.n_outputs,
            normalization=normalization,
            init=config.init,
            init_scale=config.init_scale,
            key=key,
        )

    return train(
        layer,
        task,
        optimizer=optimizer_of(config),
        steps=config.steps,
        batch_size=config.batch_size,
        key=jax.random.key(config.seed),
        runs=config.runs,
        save_every=max(1, config.steps // config.saves),
        measure=CircuitMeasure(matrices=True),
        test_prompts=config.test_prompts,
    )


@contextmanager
def partial_as(describe: Callable[[xarray.Dataset], xarray.Dataset]) -> Iterator[None]:
    """What an interruption inside of the block carries goes through `describe` too."""
    try:
        yield
    except RunInterrupted as interruption:
        if interruption.partial is not None:
            interruption.partial = describe(interruption.partial)
        raise


def balanced(mu: np.ndarray) -> np.ndarray:
    """Whether the read-outs `mu` `(..., head)` cancel: `|Σ μ| < Σ |μ| / 4`.

    That tells runs with positive and negative heads from those still stuck with heads of one sign,
    whose sum is that of one head.
    """
    return np.abs(mu.sum(-1)) < np.abs(mu).sum(-1) / 4


def shown_run(history: xarray.Dataset) -> int:
    """The run that figures show: the first that ended with positive and negative heads, in every
    task; if there is none, or one head only, the first that did not diverge."""
    mu = np.asarray(history.mu.isel(step=-1).values)
    good = np.asarray(history.status.values == "ok")
    if history.sizes["head"] > 1:
        cancels = balanced(mu if mu.ndim == 2 else np.swapaxes(mu, 1, 2))
        opposite = good & (cancels if mu.ndim == 2 else cancels.all(-1))
        good = opposite if opposite.any() else good
    return int(np.argmax(good))


def at_the_end(history: xarray.Dataset) -> xarray.Dataset:
    """Circuits and risk averaged over the last tenth of the saved steps."""
    from ...dynamics.circuit_history import tail_average

    return tail_average(history, _TAIL)


def setting(config: TrainedConfig) -> str:
    """The task in words, for captions."""
    return f"d = {config.dim}, L = {config.length}, σ² = {config.noise_var:g}"


def course(config: TrainingConfig) -> str:
    """The optimiser in words, for captions."""
    decay = " falling to a hundredth" if config.decay == "cosine" else ""
    clip = "" if config.clip is None else f", gradients clipped at {config.clip:g}"
    return (
        f"Adam, learning rate {config.learning_rate:g}{decay}{clip}, {config.batch_size} fresh "
        f"prompts a step, {config.steps} steps"
    )
