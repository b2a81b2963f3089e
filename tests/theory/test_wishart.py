"""The mean Wishart spectrum against exact moments, known densities and sampling."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

import attnlab as al
from attnlab.theory import mean_spectrum

SIZES = [(1, 1), (1, 7), (2, 2), (5, 5), (5, 10), (5, 39), (6, 40), (7, 5), (3, 1), (50, 51)]
SIZES += [(100, 100), (5, 5000), (20, 10**6), (201, 300)]


@pytest.mark.parametrize(("d", "m"), SIZES)
def test_moments(d, m):
    spectrum = mean_spectrum(d, m)
    exact = [d, d * m, d * m * (m + d + 1)]
    exact.append(d * m * (m * m + d * d + 3 * m * d + 3 * m + 3 * d + 4))
    for power, moment in enumerate(exact):
        value, error = spectrum.average(lambda x, k=power: np.asarray(x) ** k)
        assert value == pytest.approx(moment, rel=3e-14 + 1e-15 * math.sqrt(m))
        assert abs(value - moment) <= error
    if m > d + 1:
        value, error = spectrum.average(lambda x: 1 / x)
        assert abs(value - d / (m - d - 1)) <= error < 1e-10 * value


@pytest.mark.parametrize("penalty", [1e-6, 0.05, 2.0, 1e4])
@pytest.mark.parametrize("m", [1, 2, 9])
def test_one_dimension_is_a_chi_square(m, penalty):
    value, error = mean_spectrum(1, m).average(lambda x: 1 / (x + penalty))
    with mp.workdps(30):
        lam = mp.mpf(penalty)  # E 1/(x+λ) = ½ e^{λ/2} E_{m/2}(λ/2)
        exact = float(mp.exp(lam / 2) * mp.expint(mp.mpf(m) / 2, lam / 2) / 2)
    assert abs(value - exact) <= max(error, 1e-15)
    assert error < 1e-11 * value


def test_two_dimensions_by_direct_integration():
    """d = 2, m = 3: the joint density of the eigenvalues is `e^{-(x+y)/2} |x - y|/8`, `x < y`."""
    penalty = 0.3

    def integrand(x, y):
        return math.exp(-(x + y) / 2) * abs(x - y) * (1 / (x + penalty) + 1 / (y + penalty))

    def mass(x, y):
        return math.exp(-(x + y) / 2) * abs(x - y)

    total, norm = (
        integrate.dblquad(f, 0, 80, 0, lambda y: y, epsabs=1e-10)[0] for f in (integrand, mass)
    )
    value, _ = mean_spectrum(2, 3).average(lambda x: 1 / (x + penalty))
    assert value == pytest.approx(total / norm, rel=1e-7)


@pytest.mark.parametrize(("d", "m"), [(3, 3), (4, 4), (6, 4), (5, 12)])
def test_against_sampled_matrices(d, m):
    X = np.random.default_rng(d + m).normal(size=(40_000, m, d))
    eigenvalues = np.linalg.eigvalsh(np.swapaxes(X, 1, 2) @ X)
    statistic = np.sum(1 / (np.abs(eigenvalues) + 0.5), -1)
    value, _ = mean_spectrum(d, m).average(lambda x: 1 / (x + 0.5))
    z = (statistic.mean() - value) / stats.sem(statistic)
    assert abs(z) < 4


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((0, 3), "dim"), ((2, -1), "freedom"), ((2000, 3000), "dim"), ((2, 10**10), "freedom")],
)
def test_bad_sizes_are_told(arguments, name):
    with pytest.raises(al.InvalidArgument) as caught:
        mean_spectrum(*arguments)
    assert caught.value.name == name


def test_no_examples_leave_only_zeros():
    assert mean_spectrum(4, 0).average(lambda x: x + 2.0)[0] == 8.0
