"""The phase diagram of the oracle, and its best temperature."""

from __future__ import annotations

from ..._framework import Experiment

_ROOT = "attnlab.papers.dohmatob2025"

EXPERIMENTS = (
    Experiment(
        id="dohmatob2025/phase-diagram",
        title="Which prompts are learnable: exact attention against the boundary 1 − γ² = 2α",
        summary=(
            "Maps of the oracle's exact attention mass and risk over length and noise, and over "
            "length and temperature, with the contours of half the mass from d = 10 upwards."
        ),
        source="rebuttal, answer to reviewer CnGc (attention mass) and to t3fK (very long sequences)",
        config=f"{_ROOT}.phase_diagram:PhaseConfig",
        run=f"{_ROOT}.phase_diagram:run",
        figure=f"{_ROOT}.phase_diagram:figure",
        presets={
            "quick": {"dims": (10, 30, 100), "points": 12, "temperatures": 5},
            "paper": {"dims": (10, 30, 100, 300, 1000), "points": 60, "temperatures": 24},
        },
        expected=(
            "At γ² = 1/2 and β = 2.5 half of the attention is on the informative token up to α = 0.385, "
            "0.308, 0.273 for d = 10, 30, 100, where the limit is 0.25; at the best β the contours lie "
            "along 1 − γ² = 2α, right of it by 0.135, 0.058, 0.023. Risk/γ² is 0 on the left of it and 1 "
            "on the right, and more than 1 where the bulk condenses (2.26 at β = 2.5, α = 0.4)."
        ),
        cites=("derrida1981",),
    ),
    Experiment(
        id="dohmatob2025/optimal-temperature",
        title="The inverse temperature of the smallest oracle risk",
        summary=(
            "The β at which the oracle's exact risk is least, over α, d and γ, beside the critical "
            "one and beside the slope of a likelihood ratio."
        ),
        source="rebuttal, answer to reviewer CnGc (phase transition in β); extends it",
        config=f"{_ROOT}.optimal_temperature:TemperatureConfig",
        run=f"{_ROOT}.optimal_temperature:run",
        figure=f"{_ROOT}.optimal_temperature:figure",
        presets={"quick": {"dims": (20, 100), "points": 7}, "paper": {}},
        expected=(
            "For short prompts the best β is 2c/(1+γ²), 1.49, 0.94 and 0.50 for γ² = 0.2, 0.5, 0.8, far "
            "above β_c and almost independent of d; it falls to β_c near the end of the learnable range. "
            "At α = 0.04, d = 20, γ² = 0.5 the risk is 0.014 γ² there and 0.030 γ² at β_c."
        ),
    ),
)
