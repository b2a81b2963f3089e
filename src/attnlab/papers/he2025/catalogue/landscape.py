"""Exact and approximate losses of kernel heads without training: landscapes, minimisers, limits."""

from __future__ import annotations

from ..._framework import Experiment

_ROOT = "attnlab.papers.he2025"

EXPERIMENTS = (
    Experiment(
        id="he2025/fig5",
        title="Loss landscape of two heads: exact against approximate",
        summary=(
            "Over ω and μ of two opposite heads: where the approximate loss is close to the exact "
            "one, and the river valley along which both fall while ω shrinks and μ grows."
        ),
        source="Figure 5; Section 4.1",
        config=f"{_ROOT}.landscape:LandscapeConfig",
        run=f"{_ROOT}.landscape:run",
        figure=f"{_ROOT}.landscape:figure",
        presets={"quick": {"points": 64}, "paper": {}},
        expected=(
            "Along the valley the exact loss is 0.022 (η*/L) above the approximate one while ω is "
            "small, and below it beyond ω = 0.57; the approximate one explodes where ω and μ are "
            "both large (by 60 at ω = 0.8, μ = 6). Its infimum 0.2209 is at ω → 0, the exact "
            "minimum 0.2428 at ω = 0.071, μ = 6.18."
        ),
    ),
    Experiment(
        id="he2025/fig19",
        title="The distribution of |p|² as the length grows",
        summary=(
            "With d fixed, attention spreads over all examples; with d growing like L and ω fixed a "
            "few examples take all; with ω² ∝ log(L)/d it spreads again."
        ),
        source="Figure 19; Appendix C.4",
        config=f"{_ROOT}.attention_norm:NormConfig",
        run=f"{_ROOT}.attention_norm:run",
        figure=f"{_ROOT}.attention_norm:figure",
        presets={"quick": {"samples": 4000, "bins": 40}, "paper": {}},
        expected=(
            "Exact E|p|² at L = 40, 160, 640, 2560: 0.073, 0.023, 0.0068, 0.0019 (d = 5, ω = 0.5); "
            "0.074, 0.129, 0.353, 0.614 (d = L/8, ω = 0.5); 0.058, 0.021, 0.0077, 0.0027 "
            "(d = L/8, ω² = log(L)/4d)."
        ),
    ),
    Experiment(
        id="he2025/true-minimiser",
        title="The size of two heads that the exact loss prefers",
        summary=(
            "The approximate loss is least as ω → 0. The exact one is least at a finite ω that falls "
            "with L like 1/√L, in a valley so flat that it hardly matters."
        ),
        source="Theorem 4.2 (ii) and Section 4.2 on the learned scale γ; beyond the paper",
        config=f"{_ROOT}.true_minimiser:MinimiserConfig",
        run=f"{_ROOT}.true_minimiser:run",
        figure=f"{_ROOT}.true_minimiser:figure",
        presets={"quick": {"lengths": (10, 40, 160), "dims": (2, 10), "points": 61}, "paper": {}},
        expected=(
            "Best γ at d = 5: 0.363, 0.0712, 0.0322 at L = 10, 40, 160; at L = 40: 0.117 for d = 2, "
            "0.0435 for d = 10. At d = 5, L = 40 the trained γ = 0.13 costs 1.6e-4, γ → 0 costs "
            "3.3e-5, of a risk of 0.243."
        ),
    ),
    Experiment(
        id="he2025/single-head",
        title="One head: exact and approximate loss over ω",
        summary=(
            "The approximate loss puts the best ω at 1/√d whatever the length; in the exact one it "
            "falls with the length, and explains the trained value of 0.52."
        ),
        source="Section 4.3 and Figure 2a; the exact minimiser is beyond the paper",
        config=f"{_ROOT}.single_head:SingleHeadConfig",
        run=f"{_ROOT}.single_head:run",
        figure=f"{_ROOT}.single_head:figure",
        presets={
            "quick": {"lengths": (5, 10, 20, 40, 80, 160, 640), "points": 48},
            "paper": {},
        },
        expected=(
            "At d = 5 the exact minimiser is ω = 0.854, 0.518, 0.407 at L = 10, 40, 160 (1/√d is "
            "0.447) and tends to 0.352; at L = 40 its μ is 1.497 (approximate loss: 1.628) and its "
            "risk 0.404, against 0.243 with two heads. Trained in the paper: 0.52 and 1.42."
        ),
    ),
    Experiment(
        id="he2025/small-heads",
        title="Small heads and debiased gradient descent",
        summary=(
            "How far the predictions of two opposite heads are from one debiased gradient step: "
            "quadratic in their size γ, at every d and L as the leading term says."
        ),
        source="Theorem 4.2 (i); Appendix F.1",
        config=f"{_ROOT}.small_heads:SmallHeadsConfig",
        run=f"{_ROOT}.small_heads:run",
        figure=f"{_ROOT}.small_heads:figure",
        presets={"quick": {"samples": 20_000}, "paper": {}},
        expected=(
            "At d = 5, L = 40 the root mean square distance is 1.384 γ² times the step η: 0.0234 at "
            "γ = 0.13, less than the leading term by 3 % there and 20 % at γ = 0.3. "
            "For large d and L it grows like d^(3/2) and falls like L^(-1/2)."
        ),
    ),
    Experiment(
        id="he2025/bayes-ratio",
        title="Debiased gradient descent over Bayes' risk",
        summary=(
            "The ratio of risks in the proportional limit for several noises with the bound that "
            "the proof gives, and at finite sizes, exactly."
        ),
        source="Theorem 4.2 (iii); Appendix F.3",
        config=f"{_ROOT}.bayes_ratio:BayesRatioConfig",
        run=f"{_ROOT}.bayes_ratio:run",
        figure=f"{_ROOT}.bayes_ratio:figure",
        presets={"quick": {"dims": (2, 5, 20)}, "paper": {}},
        expected=(
            "The limit is largest at ξ = 0.41, 0.39, 0.23, 0.045 for σ² = 0.01, 0.1, 1, 10: 17.95, "
            "2.53, 1.079, 1.0014, where the bound is 30.3, 3.99, 1.32, 1.033. Finite sizes are above the limit by "
            "about 0.1/d to 0.8/d, relative."
        ),
    ),
)
