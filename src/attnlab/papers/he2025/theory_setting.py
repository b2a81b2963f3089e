"""What the experiments on exact and approximate risks share: the task, and sweeps over settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ..._core.interrupt import RunInterrupted
from ..._core.progress import current_progress
from .._config import Config
from .fields import LARGEST_DIM, LARGEST_LENGTH, LARGEST_NOISE

if TYPE_CHECKING:
    import xarray

    from ...tasks import InContextRegression


class NoiseConfig(Config):
    """The noise of the labels."""

    noise_var: float = Field(
        0.1, gt=0, le=LARGEST_NOISE, description="variance σ² of the label noise"
    )

    def task(self, dim: int, length: int) -> InContextRegression:
        """In-context regression of this size."""
        from ...tasks import InContextRegression

        return InContextRegression(dim, length, noise_std=math.sqrt(self.noise_var))


class SizeConfig(NoiseConfig):
    """One task; by default that of the paper's figures."""

    dim: int = Field(5, ge=1, le=LARGEST_DIM, description="dimension d of the covariates")
    length: int = Field(40, ge=3, le=LARGEST_LENGTH, description="number of examples L")

    def own_task(self) -> InContextRegression:
        """The task of this configuration."""
        return self.task(self.dim, self.length)


def in_words(attrs: Any) -> str:
    """The task in words, for captions, from a dataset's attributes."""
    parts = (("d", "dim"), ("L", "length"), ("σ²", "noise_var"))
    return ", ".join(f"{sign} = {attrs[name]:g}" for sign, name in parts if name in attrs)


def named(values: Any, most: int = 6) -> tuple[tuple[float, str], ...]:
    """Ticks of a logarithmic axis at up to `most` of these `values`, in plain numbers."""
    chosen = sorted({float(value) for value in values})
    if len(chosen) > most:
        chosen = [chosen[round(k * (len(chosen) - 1) / (most - 1))] for k in range(most)]
    return tuple((value, f"{value:g}") for value in chosen)


def swept(
    label: str,
    settings: Iterable[Any],
    compute: Callable[[Any], Any],
    together: Callable[[list[Any]], xarray.Dataset],
) -> xarray.Dataset:
    """`together` of what `compute` gives for each of `settings`, with progress.

    When interrupted it raises `RunInterrupted` with what there is by then.
    """
    settings, found, progress = list(settings), [], current_progress()
    progress.start(label, len(settings))
    try:
        for setting in settings:
            found.append(compute(setting))
            progress.advance()
    except KeyboardInterrupt as interruption:
        raise RunInterrupted(together(found) if found else None) from interruption
    finally:
        progress.stop()
    return together(found)
