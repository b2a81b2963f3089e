"""Landscapes, minimisers, small heads, norms and ratios of he2025 at small sizes."""

import math

import numpy as np
import pytest

from attnlab._core.interrupt import RunInterrupted
from attnlab.papers import find_experiment
from attnlab.papers.he2025 import least_risk, one_head, small_heads, theory_setting
from attnlab.papers.he2025.exact_heads import heads_quadratic
from attnlab.plotting.prepare import prepare
from attnlab.tasks import InContextRegression


def compute(name, **changes):
    experiment = find_experiment(f"he2025/{name}")
    dataset = experiment.compute(experiment.configure("quick", changes))
    assert len(prepare(experiment.plot(dataset)).panels) == 4
    return dataset


def sampled_prompts(rng, dim, length, noise, count):
    X = rng.standard_normal((count, length, dim))
    xq = rng.standard_normal((count, dim))
    beta = rng.standard_normal((count, dim)) / math.sqrt(dim)
    y = np.einsum("nld,nd->nl", X, beta) + math.sqrt(noise) * rng.standard_normal((count, length))
    yq = np.sum(beta * xq, -1) + math.sqrt(noise) * rng.standard_normal(count)
    return X, y, xq, yq


def predicted(X, y, xq, omega, mu):
    scores = np.einsum("nld,nd->nl", X, xq)
    total = 0.0
    for w, m in zip(omega, mu, strict=True):
        p = np.exp(w * scores - (w * scores).max(-1, keepdims=True))
        total = total + m * np.sum(p * y, -1) / p.sum(-1)
    return total


def test_both_landscapes_and_their_valleys():
    ds = compute("fig5", points=14, end_time=100.0)
    omega, mu = ds.omega.values, ds.mu.values
    assert omega[0] == pytest.approx(0.8 / 28)
    # the formula of the approximate loss, and exact losses against sampled prompts
    w, m = omega[None], mu[:, None]
    rest = 1 - 2 * w * m
    formula = 0.1 + rest**2 + 2 * 1.1 / 40 * m**2 * (np.exp(5 * w**2) - np.exp(-5 * w**2))
    np.testing.assert_allclose(ds.approximate.values, formula, rtol=1e-12)
    X, y, xq, yq = sampled_prompts(np.random.default_rng(0), 5, 40, 0.1, 20_000)
    for i, j in ((7, 2), (3, 5), (1, 12)):
        pair, out = (omega[j], -omega[j]), (mu[i], -mu[i])
        errors = (predicted(X, y, xq, pair, out) - yq) ** 2
        z = (errors.mean() - float(ds.exact[i, j])) / (errors.std() / math.sqrt(len(errors)))
        assert abs(z) < 4
    for which in ("exact", "approximate"):
        floor = ds[f"{which}_valley"].values
        assert (ds[which].values >= floor - 1e-12).all()
        nearest = mu[np.argmin(ds[which].values, axis=0)]
        inside = ds[f"{which}_valley_mu"].values < mu[-1]
        assert np.abs(nearest - ds[f"{which}_valley_mu"].values)[inside].max() <= mu[1] - mu[0]
    # the gap of the valleys at small ω is η*/L, and it changes sign
    gap = ds.exact_valley.values - ds.approximate_valley.values
    assert gap[0] == pytest.approx((1 / (1 + 1.1 * 5 / 40)) / 40, rel=0.01)
    assert gap[-1] < -0.1
    assert ds.attrs["exact_best_omega"] == pytest.approx(0.0712, abs=1e-4)
    assert ds.attrs["exact_best"] < 0.242857  # of the best debiased gradient step
    ends = ds.exact_path.values[:, -1]
    assert ends[1] == pytest.approx(np.interp(ends[0], omega, ds.exact_valley_mu.values), rel=0.05)


def test_norms_of_attention_spread_or_concentrate():
    ds = compute("fig19", lengths=(40, 160, 640), samples=3000, bins=30)
    z = (ds.sampled_mean - ds["mean"]) / ds.sampled_mean_error
    assert np.abs(z.values).max() < 4
    width = float(ds.bin[1] - ds.bin[0])
    np.testing.assert_allclose(ds.density.sum("bin").values * width, 1.0)
    by_regime = {
        r: ds["mean"].values[ds.regime.values == r] for r in ("fixed", "proportional", "scaled")
    }
    assert (np.diff(by_regime["fixed"]) < 0).all()
    assert (np.diff(by_regime["scaled"]) < 0).all()
    assert by_regime["proportional"] == pytest.approx([0.0731, 0.1291, 0.3534], rel=1e-3)
    # L E|p|² tends to (1 - 2ω²)^(-d/2)
    many = one_head.one_head(InContextRegression(5, 10**7), [0.3]).norm[0]
    assert many * 1e7 == pytest.approx((1 - 2 * 0.3**2) ** -2.5, rel=1e-4)


def test_single_integrals_agree_with_the_pairs_of_heads():
    task = InContextRegression(4, 12, noise_std=0.5)
    omega = np.array([-0.4, 0.1, 0.9])
    one, pairs = one_head.one_head(task, omega), heads_quadratic(task, omega)
    np.testing.assert_allclose(one.norm, np.diag(pairs.overlap), rtol=1e-9)
    np.testing.assert_allclose(one.cross, pairs.cross, rtol=1e-9)
    np.testing.assert_allclose(one.square, np.diag(pairs.matrix(0.25)), rtol=1e-9)


def test_one_head_prefers_narrower_kernels_at_small_lengths():
    ds = compute("single-head", lengths=(10, 40, 160), points=12)
    assert ds.exact_omega.values == pytest.approx([0.854, 0.5179, 0.4065], abs=1e-3)
    assert ds.exact_mu.values == pytest.approx([0.779, 1.497, 2.241], abs=1e-3)
    np.testing.assert_allclose(ds.approximate_omega.values, 1 / math.sqrt(5))
    assert (ds.exact.values >= ds.exact_least.values[:, None]).all()
    assert (ds.approximate.values >= ds.approximate_least.values[:, None]).all()
    assert (ds.two_heads < ds.exact_least).all()
    best = least_risk.best_single(InContextRegression(5, 10**6)).omega
    assert best == pytest.approx(ds.attrs["omega_limit"], abs=2e-3)


def test_the_best_heads_have_a_finite_size():
    ds = compute("true-minimiser", lengths=(10, 40, 640), dims=(10,), points=21)
    assert ds.gamma_best.values[:2] == pytest.approx([0.363, 0.0712], abs=1e-3)
    assert float(ds.gamma_best[2] / ds.gamma_large_length[2]) == pytest.approx(1.007, abs=2e-3)
    assert float(ds.gamma_best[3]) == pytest.approx(0.0435, abs=1e-4)
    assert float(ds.excess_trained[1]) == pytest.approx(1.64e-4, rel=0.01)
    assert float(ds.excess_small[1]) == pytest.approx(3.30e-5, rel=0.01)
    # the polynomial around the minimum and the direct values are one curve with one minimum
    assert (ds.excess.values > 0).all()
    for excess, best in zip(ds.excess.values, ds.gamma_best.values, strict=True):
        assert (np.diff(excess)[ds.gamma.values[1:] < best] < 0).all()
        assert (np.diff(excess)[ds.gamma.values[:-1] > best] > 0).all()
    assert (np.diff(ds.approximate_excess.values, axis=1) > 0).all()


def test_small_heads_are_debiased_gradient_descent():
    ds = compute("small-heads", samples=20_000, gammas=(0.01, 0.3), dims=(5, 20), lengths=(10, 80))  # fmt: skip
    ratio = (ds.distance / ds.leading).values
    error = (ds.distance_error / ds.leading).values
    small = ds.gamma.values < 0.1
    assert np.abs((ratio - 1) / error)[small].max() < 4
    assert ratio[~small] == pytest.approx([0.79], abs=0.05)
    # the distance as averaged by formula, against predictions on whole prompts
    gamma, task = 0.2, InContextRegression(4, 15, noise_std=0.5)
    rng = np.random.default_rng(1)
    mean, wrong = small_heads.distance(task, gamma, 40_000, rng)
    X, y, xq, _ = sampled_prompts(rng, 4, 15, 0.25, 40_000)
    heads = predicted(X, y, xq, (gamma, -gamma), (0.5 / gamma, -0.5 / gamma))
    centred = X - X.mean(1, keepdims=True)
    step = np.einsum("nl,nld,nd->n", y, centred, xq) / 15
    square = (heads - step) ** 2
    spread = square.std() / math.sqrt(len(square))
    assert abs(square.mean() - mean) < 4 * math.hypot(spread, wrong)


def test_ratio_to_bayes_and_its_bound():
    ds = compute("bayes-ratio", noise_vars=(0.1, 1.0), dims=(5, 20), points=31)
    assert (ds.limit >= 1).all()
    assert (ds.limit <= ds.bound).all()
    at = int(np.argmin(np.abs(ds.noise_axis.values - 0.1)))
    expected = np.interp(math.log(0.1), np.log(ds.noise_axis.values), np.log(ds.largest.values))
    assert math.exp(expected) == pytest.approx(2.53, rel=0.02)
    assert 0.3 < float(ds.largest_at[at]) < 0.45
    # finite sizes are off by a number over d
    off = ds.dim * (ds.finite / ds.finite_limit - 1)
    assert off.values[:, 2] == pytest.approx([0.33, 0.33], abs=0.02)
    assert (off > 0).all()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("fig19", {"samples": 100, "lengths": (40, 80)}),
        ("single-head", {"points": 8}),
        ("true-minimiser", {"points": 7}),
        ("small-heads", {"samples": 100}),
        ("bayes-ratio", {"points": 5}),
    ],
)
def test_an_interrupted_sweep_keeps_what_it_has_and_can_be_drawn(name, changes, monkeypatch):
    class Impatient:
        left = 2

        def start(self, *_):
            pass

        def advance(self, *_):
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt

        stop = start

    monkeypatch.setattr(theory_setting, "current_progress", Impatient)
    experiment = find_experiment(f"he2025/{name}")
    with pytest.raises(RunInterrupted) as caught:
        experiment.compute(experiment.configure("quick", changes))
    partial = caught.value.partial
    assert 2 in partial.sizes.values()
    prepare(experiment.plot(partial))
