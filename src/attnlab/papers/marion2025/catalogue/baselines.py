"""The risk of the oracle attention as the dimension grows, and of predictors without attention."""

from __future__ import annotations

from ..._framework import Experiment

EXPERIMENTS = (
    Experiment(
        id="marion2025/oracle-risk",
        title="The oracle attention becomes Bayes optimal as d grows",
        summary=(
            "The excess risk of the parameters (k*, v*) against the dimension, with λ chosen best "
            "for each d and with powers of d: too fast a decrease of λ, or none, fails."
        ),
        source="risk section: Bayes optimality of the oracle predictor as d → ∞",
        config="attnlab.papers.marion2025.oracle:OracleConfig",
        run="attnlab.papers.marion2025.oracle:run",
        figure="attnlab.papers.marion2025.oracle:figure",
        presets={"quick": {"points": 13}, "paper": {"points": 49, "lengths": (2, 10, 100, 1000)}},
        expected=(
            "With the best λ the excess falls as (L-1) (2/π) log(d/(L-1))/(c² d) up to lower orders: "
            "at L = 10 the local exponent is -0.83 at d = 10⁴, -0.92 at 10⁷, and tends to -1; the "
            "excess is 0.068 at d = 400. λ = d^(-1/2) and a fixed λ leave a constant excess."
        ),
    ),
    Experiment(
        id="marion2025/linear-baseline",
        title="Linear predictors fail where attention succeeds",
        summary=(
            "The exact risk of the best affine function of the whole prompt, of predicting 0, and "
            "of the oracle attention with its best λ, against the length and the dimension."
        ),
        source="risk section: failure of linear predictors",
        config="attnlab.papers.marion2025.linear:LinearConfig",
        run="attnlab.papers.marion2025.linear:run",
        figure="attnlab.papers.marion2025.linear:figure",
        presets={"quick": {"points": 13}, "paper": {"points": 41}},
        expected=(
            "The best linear risk is γ² - γ⁴/(L-1+γ²) for every d: 0.333 at L = 2, 0.474 at L = 10, "
            "0.4975 at L = 100, where predicting 0 has 0.5. Attention with its "
            "best λ is below it for every d >= 3 and falls to 0 as d grows."
        ),
    ),
)
