"""The risk of the erf student with linear links to 40 digits, written from the definition.

Nothing of attnlab's formulas is imported here. The Gaussian average of erf² comes from the
tetrachoric series of Owen's T function (a different representation from the library's), and
`by_integration` evaluates the definition itself, so that the oracle is checked as well.
"""

from __future__ import annotations

from typing import NamedTuple

import mpmath as mp

DIGITS = 40


class Case(NamedTuple):
    """One task, student and set of overlaps, in exact numbers (floats are exact)."""

    dim: int
    length: int
    signal: float
    token_std: float
    noise_std: float
    scale: float
    kappa: float
    nu: float
    theta: float
    eta: float
    rho: float


def owens_t(h: mp.mpf, a: mp.mpf) -> mp.mpf:
    """`T(h, a)` for `h >= 0`, `0 <= a <= 1`: an alternating series of incomplete gammas for small
    `h`, quadrature of the defining integral's core beyond."""
    x = h * h / 2
    if x > 20:
        reach = min(a, mp.mpf(15) / h)
        core = mp.quad(lambda u: mp.exp(-x * u * u) / (1 + u * u), [0, reach], maxdegree=5)
        return mp.exp(-x) * core / (2 * mp.pi)
    with mp.extradps(15):  # the terms are of order one, the sum may be e^-20
        term, partial, power, total, j = mp.exp(-x), mp.exp(-x), a, mp.atan(a), 0
        while True:
            piece = power * (1 - partial) / (2 * j + 1)
            total += -piece if j % 2 == 0 else piece
            if abs(piece) < mp.eps:
                return total / (2 * mp.pi)
            j += 1
            term *= x / j
            partial += term
            power *= a * a


def token_averages(case: Case, mean: mp.mpf, std: mp.mpf) -> tuple[mp.mpf, ...]:
    """`E a, E a z, E a z², 1 - E a², E a² z, E a² (z² - 1)` for `a = erf(λ(mean + std z))`.

    With `h = √2 t/√(1+2g²)` and `φ` the standard normal density, `erf(t + g z)` is `1 - 2 P(N > b)`
    for an independent normal: all of these are moments of a Gaussian cut by half planes.
    """
    t, g = case.scale * mean, case.scale * std
    spread, wide = 1 + 2 * g * g, 1 + 4 * g * g
    h = mp.sqrt(2) * t / mp.sqrt(spread)
    phi = mp.npdf(h)
    lean = mp.sqrt(2) * g / mp.sqrt(spread)  # correlation of z with the cutting normal
    first = mp.erf(h / mp.sqrt(2))
    first_z = 2 * lean * phi
    first_zz = first - 2 * lean**2 * h * phi
    inner = h / mp.sqrt(wide)
    odd, bump = mp.erf(inner / mp.sqrt(2)), mp.npdf(inner)
    miss = 8 * owens_t(abs(h), 1 / mp.sqrt(wide))
    second_z = 4 * lean * phi * odd
    second_zz = 4 * lean**2 * phi * (2 * bump / mp.sqrt(wide) - h * odd)
    return first, first_z, first_zz, miss, second_z, second_zz


def risk(case: Case) -> mp.mpf:
    """`E (T(X) - y)²` as mean square plus bulk terms, conditioning the values on the scores."""
    # a nearly perfect student's risk is a difference of tails exp(-h²/2): digits to resolve those
    t = case.scale * case.signal * case.dim**0.5 * case.kappa
    tail = t * t / (1 + 2 * (case.scale * case.token_std) ** 2)
    with mp.workdps(DIGITS + min(int(tail / 2.3), 320)):
        case = Case(*(mp.mpf(x) for x in case))
        s = case.token_std
        m = case.signal * mp.sqrt(case.dim) * case.theta
        averages = token_averages(case, case.signal * mp.sqrt(case.dim) * case.kappa, s)
        a, a_z, a_zz, miss, aa_z, aa_zz = averages
        # given the score's z: w ~ N(m + s ρ z, s²(1-ρ²)), u ~ N(s η z, ·), Cov = s²(ν - ρ η)
        square = (m * m + s * s) * (1 - miss) + 2 * m * s * case.rho * aa_z
        square += (s * case.rho) ** 2 * aa_zz
        shared = s * s * (case.nu - case.rho * case.eta) * a
        shared += m * s * case.eta * a_z + s * s * case.rho * case.eta * a_zz
        bias = m * a + s * case.rho * a_z
        _, b_z, _, bulk_miss, _, bb_zz = token_averages(case, mp.mpf(0), mp.mpf(1))
        bulk_mean = case.rho * b_z
        bulk_square = 1 - bulk_miss + case.rho**2 * bb_zz
        n = case.length - 1
        total = square - 2 * shared + s * s + n * bulk_square + n * (n - 1) * bulk_mean**2
        return total + 2 * n * bias * bulk_mean + case.noise_std**2


def by_integration(case: Case) -> mp.mpf:
    """The same by adaptive integration of the definition over the score; the polynomial factors
    are averaged by their conditional moments."""
    with mp.workdps(30):
        case = Case(*(mp.mpf(x) for x in case))
        s, lam = case.token_std, case.scale
        shift = case.signal * mp.sqrt(case.dim)

        def average(f, mean, std):
            step = -mean / std  # where the activation turns
            width = 1 / (lam * std)
            inner = [step + c * width for c in (-6, -2, -0.5, 0, 0.5, 2, 6)]
            edges = [-14, -8, -4, -2, 0, 2, 4, 8, 14] + [e for e in inner if -14 < e < 14]
            weighted = lambda z: mp.npdf(z) * f(z, mp.erf(lam * (mean + std * z)))  # noqa: E731
            return mp.quad(weighted, sorted(set(edges)), maxdegree=7)

        def informative(z, a):
            w, u = shift * case.theta + s * case.rho * z, s * case.eta * z
            ww, uu = w * w + s * s * (1 - case.rho**2), u * u + s * s * (1 - case.eta**2)
            return a * a * ww - 2 * a * (w * u + s * s * (case.nu - case.rho * case.eta)) + uu

        mean = shift * case.kappa
        bias = average(lambda z, a: a * (shift * case.theta + s * case.rho * z), mean, s)
        bulk_mean = average(lambda z, a: a * case.rho * z, mp.mpf(0), mp.mpf(1))
        bulk_square = average(
            lambda z, a: a * a * (case.rho**2 * z * z + 1 - case.rho**2), mp.mpf(0), mp.mpf(1)
        )
        n = case.length - 1
        total = average(informative, mean, s) + n * (bulk_square - bulk_mean**2)
        return total + (n * bulk_mean) ** 2 + 2 * n * bias * bulk_mean + case.noise_std**2
