"""The training of the quick presets: what shows the patterns within seconds on two cores."""

from __future__ import annotations

from typing import Any

# A learning rate ten times the paper's that falls by a cosine reaches the opposite heads within a
# few thousand steps; |ω| then still falls slowly, as it does for 500 000 steps in the paper.
QUICK: dict[str, Any] = {
    "steps": 4000,
    "batch_size": 64,
    "learning_rate": 1e-2,
    "decay": "cosine",
    "runs": 4,
    "saves": 50,
    "test_prompts": 1000,
}
