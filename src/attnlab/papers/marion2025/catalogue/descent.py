"""Gradient descent from the manifold and from the spheres: the four figures of the paper."""

from __future__ import annotations

from ..._framework import Experiment

_CITES = ("absil2008",)
_MODULE = "attnlab.papers.marion2025.descent"
_TELLS = (
    "Excess risk over the Bayes risk of an oracle that knows the location, |κ| and |ν|, the paths "
    "in the (κ, ν) plane and the distance to M, with the median and the 10-90 % band over repeats."
)


def _experiment(
    name: str, title: str, summary: str, source: str, expected: str, settings: dict[str, object]
) -> Experiment:
    return Experiment(
        id=f"marion2025/{name}",
        title=title,
        summary=f"{summary} {_TELLS}",
        source=source,
        config=f"{_MODULE}:DescentConfig",
        run=f"{_MODULE}:run",
        figure=f"{_MODULE}:figure",
        # the whole length also in the quick preset, with fewer repeats: seconds either way
        presets={"quick": {**settings, "runs": 10}, "paper": {**settings, "runs": 30}},
        expected=expected,
        cites=_CITES,
    )


EXPERIMENTS = (
    _experiment(
        "gd-manifold",
        "Gradient descent started on the invariant manifold",
        "Started on M (theta = eta = rho = 0), the student learns both directions without help.",
        "experiments section: initialisation on the invariant manifold, λ = 0.1",
        "Every run stays on M exactly and ends at |ν| > 0.9999 with κν > 0 and |κ| ≈ 0.98, still "
        "creeping up at 0.011 per unit of time; excess risk 0.1137, the teacher's is 0.1135.",
        {"scale": 0.1, "step_size": 4e-3, "steps": 20_000, "start": "manifold"},
    ),
    _experiment(
        "gd-sphere-large-scale",
        "Gradient descent from the spheres at a large scale",
        "Started uniformly on the spheres with λ = 0.9, runs first come near the manifold M and "
        "learn ν, and then leave it: at this scale the teacher is a saddle.",
        "experiments section: general initialisation, large λ",
        "The median distance to M grows from 0.08 to 0.23 (step 3000), falls to 0.10 (step 6000) "
        "and grows past 1 by step 120 000; the risk falls below the teacher's 3.8194, to 3.809.",
        {"scale": 0.9, "step_size": 1e-3, "steps": 120_000, "start": "sphere"},
    ),
    _experiment(
        "gd-sphere-small-scale",
        "Gradient descent from the spheres at a small scale",
        "Started uniformly on the spheres with λ = 0.1, about half of the runs exchange the roles "
        "of the two vectors (k finds v*, v reads k*) and stay there.",
        "experiments section: general initialisation, small λ",
        "One half of the runs reaches the teacher or its mirror image (excess risk 0.1137), the "
        "other half the swapped minimum |η| = 1, |θ| = 0.630 with excess risk 0.1155.",
        {"scale": 0.1, "step_size": 4e-3, "steps": 20_000, "start": "sphere"},
    ),
    _experiment(
        "gd-sphere-schedule",
        "Gradient descent from the spheres with a decreasing scale",
        "Started uniformly on the spheres with λ decreasing as 1/(1 + 10⁻⁴ step), nearly all runs "
        "reach M while λ is large and the teacher once it is small.",
        "experiments section: general initialisation, decreasing λ",
        "96 % of the runs end at the teacher or its mirror image (excess risk 0.0750), the others "
        "at the swapped minimum, whose excess risk 0.0689 is lower at the final λ = 0.077.",
        {
            "scale": 1.0,
            "scale_decay": 1e-4,
            "step_size": 4e-3,
            "steps": 120_000,
            "start": "sphere",
        },
    ),
)
