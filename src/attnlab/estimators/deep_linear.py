"""Exact risk of several layers of linear attention in context, from the Wishart spectrum.

With isotropic covariates and layers that are multiples of the identity, everything a layer does is
a function of `S = XᵀX/n`. The covariates become `X c_l(S)`, the labels `r_l(XXᵀ/n) y`, and the
prediction is `x_qᵀ g_L(S) Xᵀy/n`, by a recursion in each eigenvalue `s`:

    g_{l+1} = g_l + a_l c_l² r_l,   r_{l+1} = r_l (1 - a_l c_l² s),   c_{l+1} = c_l (1 - a_l b_l c_l² s)

from `c = r = 1`, `g = 0`, so that the risk `σ² + E tr[ω r_L² + σ² s g_L²/n]` is the average of a
linear statistic of a Wishart matrix. Source: ahn2023; `docs/theory/deep-linear-attention`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, Float

from .._core.errors import InvalidArgument, check_integer, check_real
from ..theory.wishart import MeanSpectrum, mean_spectrum
from .estimator_risk import EstimatorRisk

_LARGEST_DEGREE = 150  # of the residual's polynomial: its square's average then is a float


def deep_linear_risk(
    dim: int,
    length: int,
    a: Float[ArrayLike, " layers"],
    b: Float[ArrayLike, " layers"] | None = None,
    *,
    noise_std: float = 0.0,
    prior_variance: float = 1.0,
) -> EstimatorRisk:
    """The risk of layers of linear attention that read `length` examples of `dim` covariates.

    Layer `l` adds `P_l Z M (Zᵀ Q_l Z)/n` to all tokens `z = (x, y)`, with `P_l = diag(b_l I, 1)`,
    `Q_l = -diag(a_l I, 0)` and keys among the examples only; the prediction is minus the label
    entry of the query `(x_q, 0)`. Without `b` each layer is a step `a_l` of gradient descent on
    `Σ (w·x_i - y_i)²/2n` from 0; with it ("GD++") layers change the covariates too. The last `b`
    has no effect. The data: `x ~ N(0, I)`, `w ~ N(0, ωI)` with `ω = prior_variance`,
    `y = w·x + noise_std ε`; equally `x ~ N(0, Σ)`, `w ~ N(0, ωΣ⁻¹)` and layers `A_l = a_l Σ⁻¹`,
    `B_l = b_l I`.

    By quadrature, label noise included. Raises `InvalidArgument` for arrays that are not one
    finite number for each layer, bad sizes, more layers than 150 (5 with a non-zero `b`), and
    layers so large that the risk is none. Source: ahn2023; `docs/theory/deep-linear-attention`.
    """
    steps = check_layers("a", a)
    moves = np.zeros_like(steps) if b is None else check_layers("b", b)
    if len(moves) != len(steps):
        raise InvalidArgument("b", b, f"{len(steps)} numbers, one for each of a")
    check_degree("b" if moves[:-1].any() else "a", len(steps), bool(moves[:-1].any()))
    setting = check_setting(dim, length, noise_std, prior_variance)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        risk = _risk(setting, steps, moves)
    if not (math.isfinite(risk.value) and math.isfinite(risk.error)):
        raise InvalidArgument("a", a, "such that the risk does not exceed floating point")
    return risk


Setting = tuple[int, int, float, float]  # d, n, σ², ω


def check_setting(dim: Any, length: Any, noise_std: Any, prior_variance: Any) -> Setting:
    """The four numbers of the data, `noise_std` squared; raises `InvalidArgument`."""
    dim = check_integer("dim", dim, minimum=1)
    length = check_integer("length", length, minimum=1)
    noise = check_real("noise_std", noise_std, low=0.0, high=1e100) ** 2
    prior = check_real("prior_variance", prior_variance, low=0.0, low_open=True)
    return dim, length, noise, prior


def check_layers(name: str, values: Any, *, matrices: bool = False) -> np.ndarray:
    """One finite number, or square matrix, for each layer, as float64; raises `InvalidArgument`."""
    allowed = "a non-empty sequence of finite numbers, one for each layer"
    if matrices:
        allowed = "finite numbers of shape (layers, d, d), at least one layer"
    try:
        array = np.asarray(values)
        real = array.dtype.kind in "iuf"
        array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(name, values, allowed) from None
    shaped = array.ndim == 3 and array.shape[1] == array.shape[2] if matrices else array.ndim == 1
    if not (real and shaped and array.size > 0 and np.all(np.isfinite(array))):
        raise InvalidArgument(name, values, allowed)
    return array


def check_degree(name: str, layers: int, with_b: bool) -> None:
    """Raises `InvalidArgument` for more layers than the quadrature can average."""
    most = 5 if with_b else _LARGEST_DEGREE
    if layers > most:
        allowed = f"of at most {most} layers: the residual's degree must not exceed "
        raise InvalidArgument(name, layers, f"{allowed}{_LARGEST_DEGREE}")


def residual(a: np.ndarray, b: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`(r_L, g_L)` at the eigenvalues `s` of `XᵀX/n`."""
    c, r, g = np.ones_like(s), np.ones_like(s), np.zeros_like(s)
    for step, move in zip(a, b, strict=True):
        weight = step * c**2
        c, r, g = c * (1 - weight * move * s), r * (1 - weight * s), g + weight * r
    return r, g


def _risk(setting: Setting, a: np.ndarray, b: np.ndarray) -> EstimatorRisk:
    dim, length, noise, prior = setting

    def function(x: np.ndarray) -> np.ndarray:
        r, g = residual(a, b, x / length)
        return prior * r**2 + noise / length**2 * x * g**2

    spectrum = mean_spectrum(dim, length)
    value, error = spectrum.average(function)
    beyond, weights = tail_rule(spectrum, dim, length, layers_degree(b))
    tail = float(np.sum(weights * function(beyond)))
    return EstimatorRisk(value + noise, "quadrature", error + tail + 1e-15 * noise)


def layers_degree(b: np.ndarray) -> int:
    """The degree of `r_L`: `(3^L - 1)/2` if every layer moves the covariates."""
    degree = moved = 0
    for move in b:
        degree += 2 * moved + 1
        moved = 3 * moved + 1 if move else moved
    return degree


def tail_rule(
    spectrum: MeanSpectrum, dim: int, length: int, degree: int
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues beyond the last of `spectrum`, with weights that overstate their density.

    A polynomial of high degree can grow faster there than the density falls. With `n <= m` the two
    sizes, the density of the largest singular value `t` is `t^(m-n) e^{-t²/2} E Π(t² - s_i²)` over
    `n - 1` others, `s_i` below the edge `√m + √n` but for negligible probability.
    """
    small, large = sorted((dim, length))
    t = np.sqrt(spectrum.values)
    last, edge = t[-1], math.sqrt(small) + math.sqrt(large)

    def shape(t: np.ndarray) -> np.ndarray:
        power = (large - small) * np.log(t / last) - (t**2 - last**2) / 2
        others = np.log(t**2 - edge**2) - np.log(last**2 - edge**2)
        return np.exp(power + (small - 1) * others)

    # inside a panel a Gauss weight is about the distance of the nodes
    near = np.arange(len(t) - 12, len(t) - 4)
    density = spectrum.weights[near] / ((t[near + 1] - t[near - 1]) / 2)
    constant = float(np.max(density / shape(t[near])))
    # where t^(4 degree) times the shape is largest, and well beyond
    high = max(last, math.sqrt(4 * degree + 2 * large + edge**2)) + 9
    unit, weight = np.polynomial.legendre.leggauss(12)
    edges = np.linspace(last, high, 2 * math.ceil(high - last) + 1)
    half = np.diff(edges)[:, None] / 2
    nodes = (edges[:-1, None] + half * (unit + 1)).ravel()
    return nodes**2, max(constant, 0.0) * shape(nodes) * (half * weight).ravel()
