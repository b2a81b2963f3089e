"""Limits that the configurations share: what is beyond them fails late, or never comes to an end."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field

T = TypeVar("T")

LARGEST_DIM = 10_000
LARGEST_LENGTH = 10**6
LARGEST_NOISE = 1e12  # variance
LARGEST_COUNT = 10**9  # of samples, steps, prompts
LARGEST_GRID = 100_000  # points of a curve
LARGEST_HEADS = 1024


def _distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    if len(set(values)) < len(values):
        raise ValueError("without repeats")  # they are coordinates of the results
    return values


Distinct = Annotated[tuple[T, ...], AfterValidator(_distinct)]
HeadCount = Annotated[int, Field(ge=1, le=LARGEST_HEADS)]
Length = Annotated[int, Field(ge=1, le=LARGEST_LENGTH)]
NoiseVar = Annotated[float, Field(gt=0, le=LARGEST_NOISE)]
