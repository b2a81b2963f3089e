"""Checks of the claims on prompts: parameters, multi-index form, several informative tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

from ...claims import Check, Outcome

_STD = 0.5**0.5
_SIGNAL = 0.5**0.5


def parameters_vs_mlp(preset: str, seed: int) -> Outcome:
    """Parameters against L, what ignoring a token costs, and (paper) training side by side."""
    import jax
    import jax.numpy as jnp

    from ...students import AttentionHeads, FlattenedMLP, PointwiseAttention, parameter_count
    from ...tasks import SingleLocation

    key = jax.random.key(seed)
    dim, width, lengths = 20, 8, np.array([5, 10, 20, 40, 80])
    layer = AttentionHeads(PointwiseAttention("erf", 0.3), dim, key=key)
    shapes = {layer(jnp.zeros((3, int(n), dim))).shape for n in lengths[::4]}
    perceptrons = [parameter_count(FlattenedMLP(dim, int(n), width, key=key)) for n in lengths]
    slopes = np.diff(perceptrons) / np.diff(lengths)
    length, samples = 10, 200_000 if preset == "paper" else 20_000
    prompts = SingleLocation(8, length).sample(key, samples)
    # told everything but what happens at place 0
    loss = np.where(np.asarray(prompts.location) == 0, np.asarray(prompts.y, float) ** 2, 0.0)
    checks = [
        Check.condition(
            f"one attention layer of {parameter_count(layer)} parameters serves L = 5 to 80",
            shapes == {(3,)} and parameter_count(layer) == 2 * dim,
        ),
        Check.bound(
            "parameters that a dense network adds per token, over d (width 8)",
            float(slopes.min()) / dim,
            lower=1.0,
        ),
        Check.agreement(
            "risk of the best predictor that ignores one of L = 10 places",
            float(loss.mean()),
            _STD**2 / length,
            standard_error=float(loss.std(ddof=1) / np.sqrt(samples)),
            detail="γ²/L > 0: no place may be ignored, so every block of d inputs needs weights",
        ),
    ]
    notes = "A dense first layer of any width w has w·d·L weights; attention here has 2d in all."
    if preset == "paper":
        extra, told = _train_both(seed)
        checks.append(extra)
        notes += told
    return Outcome(tuple(checks), notes=notes)


def _train_both(seed: int) -> tuple[Check, str]:
    """A softmax head and a perceptron on the same number of prompts."""
    import jax
    import optax

    from ...dynamics import train
    from ...students import AttentionHeads, FlattenedMLP, SoftmaxAttention
    from ...tasks import SingleLocation

    task = SingleLocation(40, 10)
    how: dict[str, Any] = {
        "steps": 2000, "batch_size": 64, "runs": 8, "save_every": 2000, "key": jax.random.key(seed),
    }  # fmt: skip

    def head(key: Any) -> Any:
        return AttentionHeads(SoftmaxAttention(0.5), 40, key=key)

    def perceptron(key: Any) -> Any:
        return FlattenedMLP(40, 10, 256, key=key)

    risks = []
    for make, rate in ((head, 5e-3), (perceptron, 2e-3)):
        history = train(make, task, optimizer=optax.adam(rate), **how).history
        values = history.risk.values[:, -1]
        risks.append((values.mean(), values.std(ddof=1) / np.sqrt(len(values))))
    (attention, a_error), (dense, d_error) = risks
    ratio = dense / attention
    error = ratio * np.hypot(a_error / attention, d_error / dense)
    check = Check.bound(
        "risk of the dense network over that of attention after the same prompts",
        float(ratio), lower=2.0, standard_error=float(error),
    )  # fmt: skip
    told = (
        f" After 128 000 fresh prompts (d = 40, L = 10): attention {attention:.3g} ± {a_error:.1g}, "
        f"a dense network of width 256 (103 000 parameters) {dense:.3g} ± {d_error:.1g}."
    )
    return check, told


def multi_index(preset: str, seed: int) -> Outcome:
    """The law of a token; what the printed indices determine of Y, and what 2L indices do."""
    import jax

    from ...tasks import SingleLocation

    n, length = (200_000 if preset == "paper" else 24_000), 5
    key = jax.random.key(seed)
    dim = 10
    sample = SingleLocation(dim, length).sample(key, n)
    X, y = np.asarray(sample.X, float), np.asarray(sample.y, float)
    shift = _SIGNAL * np.sqrt(dim)
    tokens = X[:, 0]  # one place: independent from prompt to prompt
    laws = [
        Check.distribution(
            f"x·{name} of one token follows the mixture",
            norm.ppf(np.clip(_mixture(tokens @ u, mean, length), 1e-15, 1 - 1e-15)),
        )
        for name, u, mean in (
            ("k*", np.eye(dim)[0], shift),
            ("v*", np.eye(dim)[1], 0.0),
            ("(k* + e)/√2, e ⊥ k*", (np.eye(dim)[0] + np.eye(dim)[5]) / np.sqrt(2), shift / np.sqrt(2)),
        )
    ]  # fmt: skip
    sums = X.sum(axis=1)[:, :2]  # ((k*, …, k*), (v*, …, v*)) applied to the stacked prompt
    slope = _STD**2 / (_STD**2 + length - 1)
    left = (y - slope * sums[:, 1]) ** 2
    known = _STD**2 * (1 - slope)
    fitted = _polynomial_risk(sums, y)
    missed = float(np.mean(np.argmax(X[..., 0], -1) != np.asarray(sample.location)))
    wrong, bound = _wrong_place(dim, length)
    wide = SingleLocation(100, length).sample(jax.random.fold_in(key, 1), 4000)
    read = (_argmax_read(np.asarray(wide.X, float)) - np.asarray(wide.y, float)) ** 2
    norms = _gain_of_norms(X, y, shift)
    return Outcome(
        (
            *laws,
            Check.agreement(
                "risk of the best function of the two printed indices",
                float(left.mean()),
                0.0,
                standard_error=_error(left),
                scale=_STD**2,
                detail="E Y² = γ² = 0.5; Y would be a function of them if this were 0",
            ),
        ),
        corrected=(
            "The law of one token is the mixture as stated, with weights 1 - 1/L and 1/L. Two "
            "stacked vectors (k*, …, k*), (v*, …, v*) are not enough: they see the tokens' sums only, "
            "and the best function of them is linear, with risk γ²(1 - γ²/(γ² + L - 1)). With 2L "
            "indices, x_ℓ·k* and x_ℓ·v* for every place ℓ, Y is read off at argmax_ℓ x_ℓ·k*, wrong "
            "with probability at most (L - 1)Φ(-c√d/√(1 + γ²)): a multi-index model up to an error "
            "that is exponentially small in d. At finite d the best prediction also uses |x_ℓ|², "
            "unless γ = 1."
        ),
        evidence=(
            Check.agreement(
                "two printed indices: risk against γ²(1 - γ²/(γ² + L - 1))",
                float(left.mean()), known, standard_error=_error(left),
            ),
            Check.bound(
                "the same by polynomial regression of degree 5",
                fitted[0], lower=known - 0.02, standard_error=fitted[1],
            ),
            Check.agreement(
                f"2L indices, d = {dim}: probability of the wrong place",
                missed,
                wrong,
                standard_error=float(np.sqrt(wrong * (1 - wrong) / n)),
            ),
            Check.bound("its exact value against the bound", wrong, upper=bound),
            Check.bound(
                "2L indices, d = 100: risk of reading at the argmax",
                float(read.mean()), upper=1e-3,
            ),
            Check.bound(
                "risk that |x_ℓ|² saves beyond the 2L indices, d = 10",
                norms[0], lower=0.0, standard_error=norms[1],
            ),
        ),
        notes=f"{n} prompts, L = {length}; laws and norms at d = {dim}.",
    )  # fmt: skip


def _wrong_place(dim: int, length: int) -> tuple[float, float]:
    """Probability that an uninformative token has the largest `x·k*`, and its union bound."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    right = norm.cdf(_SIGNAL * np.sqrt(dim) + _STD * nodes) ** (length - 1)
    exact = 1 - float(weights @ right / weights.sum())
    return exact, float((length - 1) * norm.cdf(-_SIGNAL * np.sqrt(dim / (1 + _STD**2))))


def _mixture(x: np.ndarray, mean: float, length: int) -> np.ndarray:
    """The distribution function of a token's projection, `mean` that of the informative one."""
    return (1 - 1 / length) * norm.cdf(x) + norm.cdf((x - mean) / _STD) / length


def _error(losses: np.ndarray) -> float:
    return float(losses.std(ddof=1) / np.sqrt(len(losses)))


def _argmax_read(X: np.ndarray) -> np.ndarray:
    """`x_ℓ·v*` at the place with the largest `x_ℓ·k*`."""
    place = np.argmax(X[..., 0], axis=-1)
    return np.take_along_axis(X[..., 1], place[:, None], axis=-1)[:, 0]


def _polynomial_risk(indices: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Risk on the second half of a polynomial fitted to the first half, and its error."""
    a, b = (indices / indices.std(axis=0)).T
    features = np.stack([a**i * b**j for i in range(6) for j in range(6 - i)], axis=-1)
    half = len(y) // 2
    weights, *_ = np.linalg.lstsq(features[:half], y[:half], rcond=None)
    losses = (features[half:] @ weights - y[half:]) ** 2
    return float(losses.mean()), _error(losses)


def _gain_of_norms(X: np.ndarray, y: np.ndarray, shift: float) -> tuple[float, float]:
    """Risk of the best function of the 2L projections minus the Bayes risk, paired."""

    def predict(dims: int) -> np.ndarray:
        x = X[..., :dims]
        centred = x - shift * np.eye(dims)[0]
        evidence = 0.5 * (x**2).sum(-1) - 0.5 * (centred**2).sum(-1) / _STD**2
        weights = np.exp(evidence - evidence.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return (weights * x[..., 1]).sum(-1)

    gain = (predict(2) - y) ** 2 - (predict(X.shape[-1]) - y) ** 2
    return float(gain.mean()), _error(gain)


def several_tokens(preset: str, seed: int) -> Outcome:
    """One head on a shared direction by its exact risk; one and two heads on own directions."""
    import jax

    from ... import dynamics
    from ...students import Overlaps, PointwiseAttention
    from ...tasks import SeveralLocations
    from ...theory import population_risk
    from .several_tokens import CASES, SeveralTokensConfig, train_case

    paper = preset == "paper"
    task = SeveralLocations(400, 10, 2, aggregate="sum")
    risk = population_risk(task, PointwiseAttention("erf", 0.1))
    start = Overlaps.on_manifold(jax.random.key(seed), 400, runs=30 if paper else 10)
    shared = dynamics.projected_gradient_descent(
        risk, start, step_size=2e-2, steps=3000, save_every=3000
    )
    ends = np.stack([np.abs(shared[n].values[:, -1]) for n in ("kappa", "nu")])
    config = SeveralTokensConfig(
        seed=seed,
        **({"runs": 20} if paper else {
            "dim": 20, "length": 6, "steps": 720, "runs": 10, "learning_rate": 1e-2, "batch_size": 48,
        }),
    )  # fmt: skip
    one, many = (train_case(config, case) for case in CASES[1:])
    risks, covered = ([h[name].values[:, -1] for h in (one, many)] for name in ("risk", "coverage"))
    average = config.n_informative**-0.5
    apart = int((covered[1] > 0.95).sum())
    return Outcome(
        (
            Check.bound("shared direction, one head: smallest |κ|, |ν|", float(ends.min()), lower=0.95),
            Check.bound(
                "shared direction, one head: largest risk − that of (k*, v*)",
                float(shared.risk.values[:, -1].max()) - risk.teacher,
                upper=5e-3,
            ),
            Check.proportion(
                "own directions, s heads: runs in which each direction has its head",
                apart,
                config.runs,
                lower=0.5,
                detail="mean over j of max_h |cos(k_h, k*_j)| above 0.95",
            ),
            Check.agreement(
                "own directions, one head: mean |cos(k, k*_j)| (1/√s: the average direction)",
                float(covered[0].mean()),
                average,
                standard_error=_error(covered[0]),
                tolerance=0.05,
            ),
            Check.proportion(
                "own directions: runs in which s heads have less than half the risk of one head",
                int((risks[1] < 0.5 * np.median(risks[0])).sum()),
                config.runs,
                lower=0.5,
            ),
        ),
        notes=(
            f"Shared: s = 2 of L = 10, d = 400, sum, erf with λ = 0.1, exact risk ({risk.method}), "
            f"{shared.sizes['run']} starts on M. Own: softmax heads (β = {config.inverse_temperature:g}) "
            f"with free value lengths, mean of s = {config.n_informative}, d = {config.dim}, L = "
            f"{config.length}, Adam, {config.runs} runs; median risks one head "
            f"{np.median(risks[0]):.3g}, {config.n_informative} heads {np.median(risks[1]):.3g}."
        ),
    )  # fmt: skip
