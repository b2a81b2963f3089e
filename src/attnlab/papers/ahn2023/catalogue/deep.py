"""Several layers of linear attention."""

from __future__ import annotations

from ..._framework import Experiment

_ROOT = "attnlab.papers.ahn2023"

EXPERIMENTS = (
    Experiment(
        id="ahn2023/deep-linear",
        title="Layers of linear attention against steps of gradient descent",
        summary=(
            "Layers that leave the covariates alone are steps of preconditioned gradient descent, "
            "the best of them with the inverse covariance and a size of their own each. Layers that "
            "move the covariates too are far better, and training finds them."
        ),
        source="Theorems 3 and 4, and the experiments beside them",
        config=f"{_ROOT}.deep_linear:DeepLinearConfig",
        run=f"{_ROOT}.deep_linear:run",
        figure=f"{_ROOT}.deep_linear_figure:figure",
        presets={
            "quick": {
                "layers": 3,
                "lengths": (8, 20, 40, 80),
                "length_layers": 2,
                "searched": 2,
                "samples": 500,
                "search_b": False,
                "test_samples": 5000,
                "repeats": 3,
                "starts": 0,
                "trained_on": ("anisotropic",),
                "trained_layers": (2,),
                "steps": 700,
                "batch_size": 64,
                "runs": 3,
                "test_prompts": 10_000,
            },
            "paper": {},
        },
        expected=(
            "Risks of 1, 2, 3 layers at d = 5, n = 20, σ² = 0.001: 0.232, 0.101, 0.055 with one step "
            "size, 0.232, 0.073, 0.028 with the best, 0.232, 0.0128, 0.0016 with b (Bayes: 0.0014). "
            "Without the preconditioner 0.46, 0.29, 0.19. Matrices found are a few hundredths of "
            "their size away from multiples of Σ⁻¹, as far as sampling puts them. Quick training of "
            "two layers is not at its end: 0.05 to 0.12."
        ),
    ),
)
