"""The check of training on n fixed prompts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...claims import Check, Outcome


def open_finite_sample(preset: str, seed: int) -> Outcome:
    """Test risks of descents on n prompts, against n/d and L."""
    from .finite_sample import FiniteSampleConfig, run

    runs = 40 if preset == "paper" else 12
    few, many = 3.0, 20.0
    dim = 16

    def trained(length: int, ratios: tuple[float, ...]) -> Any:
        config = FiniteSampleConfig(
            dim=dim,
            beta=1.0,
            lengths=(length,),
            ratios=ratios,
            runs=runs,
            steps=400,
            step_size=0.1,
            seed=seed,
        )
        return run(config).isel(length=0)

    short, long = trained(5, (few, many)), trained(20, (many,))
    over = short.risk.values[:, :, -1] - float(short.teacher_risk)
    beyond = long.risk.values[:, :, -1] - float(long.teacher_risk)
    learned = short.nu.values[:, :, -1] > 0.9
    middle, error = _median(over[1])
    later, wrong = _median(beyond[0])
    lucky = short.training_risk.values[:, :, -1]
    gap = np.median(short.risk.values[0, :, -1] / np.maximum(lucky[0], 1e-12))
    return Outcome(
        (
            Check.proportion(f"n = {few:g} d, L = 5: runs that find the values' direction", int(learned[0].sum()), runs, upper=0.9),
            Check.proportion(f"n = {many:g} d, L = 5: the same", int(learned[1].sum()), runs, lower=0.4),
            Check.bound(
                f"share of pairs of runs with more excess at n = {few:g} d than at {many:g} d",
                float(np.mean(over[0][:, None] > over[1][None])), lower=0.7,
            ),
        ),
        answer=(
            f"With d = {dim}, β = 1, starts on M with κ >= 0 and L = 5, the median excess test risk falls from {np.median(over[0]):.2g} "
            f"at n = {few:g} d, where the training risk is {gap:.0f} times below the test risk, to {middle:.3f} ± {error:.3f} at n = {many:g} d; "
            f"for L = 20 it is {later:.2g} ± {wrong:.1g} there: more tokens need more prompts, and runs that fail sit at risks "
            "near γ² + E Σq², attending to noise."
        ),
        notes=(
            f"{runs} runs, each with prompts of its own; full-batch projected gradient descent, 400 steps of 0.1; exact population risks. "
            f"Of the runs at n = {few:g} d, {int(learned[0].sum())} have ν > 0.9, at n = {many:g} d {int(learned[1].sum())}. The error of a "
            "median is that of the middle half of the runs."
        ),
    )  # fmt: skip


def _median(values: np.ndarray) -> tuple[float, float]:
    """A median and its standard error, from the interquartile range of a roughly normal sample."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return float(middle), float(1.253 * (high - low) / 1.349 / np.sqrt(len(values)))
