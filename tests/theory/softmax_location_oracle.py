"""The risk of softmax attention on single-location prompts by plain quadrature in NumPy.

Nothing of attnlab's is imported. `Tables` integrates over `log t`, the bulk token's score and the
informative token's score with explicit matrices of logarithms on grids much finer than needed
(`softmax_location_tokens` does without any Laplace transform, for few tokens). Overlaps may be
complex, so that derivatives come from a complex step and not from anybody's formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special


class Case(NamedTuple):
    """A task, a student and one set of overlaps. Links are names in `LINKS`."""

    dim: int
    log_length: float
    signal: float
    token_std: float
    noise_std: float
    beta: float
    student: str
    task: str
    kappa: Any
    nu: Any
    theta: Any
    eta: Any
    rho: Any

    @property
    def slope(self) -> float:
        return self.beta * math.sqrt(self.dim)

    @property
    def shift(self) -> float:
        return self.signal * math.sqrt(self.dim)


class Curve(NamedTuple):
    """A link: its function, where it kinks or jumps, and how far its singularities are."""

    function: Callable[[Any], Any]
    kinks: tuple[float, ...] = ()
    width: float = np.inf


def relu(x: Any) -> Any:
    return np.where(np.real(x) > 0, x, 0)


LINKS = {
    "linear": Curve(lambda x: x),
    "quadratic": Curve(lambda x: x * x),
    "tanh": Curve(np.tanh, width=np.pi / 2),
    "erf": Curve(special.erf, width=1.5),
    "relu": Curve(relu, kinks=(0.0,)),
    "bent": Curve(lambda x: np.where(np.real(x) > 0.7, 2 * x - 0.7, x), kinks=(0.7,)),
    "step": Curve(lambda x: np.where(np.real(x) > 0.4, 1.0, -0.5) + 0 * x, kinks=(0.4,)),
}
POLYNOMIALS = {"linear": (0.0, 1.0, 0.0), "quadratic": (0.0, 0.0, 1.0)}

_X, _W = np.polynomial.legendre.leggauss(16)


def panels(low: float, high: float, step: float, centres: Any = ()) -> tuple[Any, Any]:
    """A composite Gauss rule on panels of at most `step`, ever smaller ones around each of
    `centres = ((place, width), ...)`, where the integrand may turn within `width`."""
    edges = [np.linspace(low, high, 2 + int((high - low) / step))]
    for place, width in centres:
        reach = [0.0]
        size = max(width, 1e-9)
        while reach[-1] < 2 * step:
            reach.append(reach[-1] + size)
            size *= 1.0 if reach[-1] < 8 * width else 1.6
        edges.append(np.concatenate([place + np.array(reach), place - np.array(reach)]))
    cuts = np.unique(np.clip(np.concatenate(edges), low, high))
    half = np.diff(cuts)[:, None] / 2
    middle = (cuts[1:] + cuts[:-1])[:, None] / 2
    return (middle + half * _X).ravel(), (half * _W).ravel()


def normal_rule(mean: Any, std: Any, curve: Curve, reach: float = 9.5) -> tuple[Any, Any]:
    """`ξ, weights` with `E F(mean + std ξ) = Σ weights F(mean + std ξ)` for an `F` like `curve`;
    a new last axis."""
    mean = np.asarray(mean)
    size = abs(std)
    count = 2 + int(reach * max(1.0, 3 * size / max(curve.width, 1e-300)) / 3)
    with np.errstate(divide="ignore", invalid="ignore"):
        cuts = [np.nan_to_num((kink - np.real(mean)) / size) for kink in curve.kinks]
    edges = [np.full(mean.shape, -reach), *cuts, np.full(mean.shape, reach)]
    edges = np.clip(np.sort(np.stack(edges, -1), axis=-1), -reach, reach)
    part = np.linspace(0, 1, count + 1)
    left = edges[..., :-1, None] + np.diff(edges)[..., None] * part[:-1]
    half = np.diff(edges)[..., None] / (2 * count)
    nodes = (left + half)[..., None] + half[..., None] * _X
    weights = np.broadcast_to(half[..., None] * _W, nodes.shape)
    weights = weights * np.exp(-(nodes**2) / 2) / math.sqrt(2 * math.pi)
    flat = (*mean.shape, -1)
    return nodes.reshape(flat), weights.reshape(flat)


def averages(mean: Any, std: Any, curve: Curve, powers: Any = (1, 2)) -> list[Any]:
    """`E σ(mean + std ξ)^k` for each power."""
    if std == 0:
        return [curve.function(np.asarray(mean)) ** power for power in powers]
    nodes, weights = normal_rule(mean, std, curve)
    values = curve.function(np.asarray(mean)[..., None] + std * nodes)
    return [np.sum(weights * values**power, axis=-1) for power in powers]


class Informative(NamedTuple):
    """Averages over the informative token given its score: `E (σ-y)²`, `E (σ-y)`, `E (σ-y) y`,
    `E y`, `E y²`, with `σ = σ(x·v)` and `y` the label without noise."""

    square: Any
    error: Any
    product: Any
    label: Any
    label_square: Any


def informative(case: Case, z: Any) -> Informative:
    """At scores `shift κ + γ z`, by nested rules for `w` given `z` and `u` given `z` and `w`."""
    student, task = LINKS[case.student], LINKS[case.task]
    g, rho, eta, nu = case.token_std, case.rho, case.eta, case.nu
    w_std = g * np.sqrt(_positive(1 - rho**2))
    u_std = g * np.sqrt(_positive(1 - eta**2))
    joint = nu - rho * eta
    # cosine of the angle between what is left of v and v* once the score is known
    lean = joint / np.sqrt(_positive(1 - rho**2) * _positive(1 - eta**2) + 1e-300)
    if np.real(1 - rho**2) < 1e-13 or np.real(1 - eta**2) < 1e-13:
        lean = 0.0
    rest = u_std * np.sqrt(_positive(1 - lean**2))
    turn = abs(rest) / max(abs(u_std * lean), 1e-300)  # of a kinked label's average, in units of ξ
    width = _least(student, task)
    if task.kinks:
        width = min(width, 1.5 * abs(w_std) * max(turn, 0.1))
    sums = []
    for piece in np.array_split(z, 1 + z.size // 400):
        w_mean, u_mean = case.shift * case.theta + g * rho * piece, g * eta * piece
        if task.kinks and turn < 0.1 and abs(u_std) > 0:
            # u is nearly a function of w: split where that crosses the label's kinks as well
            along = (u_mean, u_std * lean, rest, task.kinks)
            xi, weight = _split_rule(w_mean, w_std, student.kinks, *along)
        else:
            xi, weight = normal_rule(w_mean, w_std, student._replace(width=width))
        value = student.function(w_mean[:, None] + w_std * xi)
        y, yy = averages(u_mean[:, None] + u_std * lean * xi, rest, task)
        total = lambda f, q=weight: np.sum(q * f, axis=-1)  # noqa: E731
        sums.append(
            Informative(
                total(value**2 - 2 * value * y + yy),
                total(value - y),
                total(value * y - yy),
                total(y),
                total(yy),
            )
        )
    return Informative(*(np.concatenate(parts) for parts in zip(*sums, strict=True)))


def _least(a: Curve, b: Curve) -> float:
    return min(a.width, b.width)


def _positive(x: Any) -> Any:
    return x if np.real(x) > 0 else x * 0


def _split_rule(
    w_mean: Any, w_std: Any, kinks: Any, u_mean: Any, slope: Any, rest: Any, cuts: Any
) -> tuple[Any, Any]:
    """`normal_rule` with panels that shrink towards where `u_mean + slope ξ` crosses `cuts`, to
    the width `rest / slope` within which the average over the rest of `u` turns."""
    width = abs(rest / slope) if slope else 0.0
    reach = [0.0]
    while width > 0 and reach[-1] < 3.0:
        reach.append(reach[-1] + width if reach[-1] < 8 * width else 1.6 * reach[-1])
    grid = np.broadcast_to(np.linspace(-9.5, 9.5, 9), (w_mean.size, 9))
    with np.errstate(divide="ignore", invalid="ignore"):
        places = [(kink - np.real(w_mean)) / abs(w_std) for kink in kinks]
        turns = [(cut - np.real(u_mean)) / np.real(slope) for cut in cuts]
    edges = [grid, *(np.nan_to_num(place)[:, None] for place in places)]
    for turn in turns:
        edges += [np.nan_to_num(turn)[:, None] + sign * np.array(reach) for sign in (1, -1)]
    edge = np.sort(np.clip(np.concatenate(edges, axis=1), -9.5, 9.5), axis=1)
    half = np.diff(edge)[..., None] / 2
    nodes = (edge[:, :-1, None] + half * (1 + _X)).reshape(w_mean.size, -1)
    weights = (half * _W).reshape(w_mean.size, -1)
    return nodes, weights * np.exp(-(nodes**2) / 2) / math.sqrt(2 * math.pi)


def log_sum(logs: Any, factors: Any = 1.0, axis: int = -1) -> tuple[Any, Any]:
    """`shift, S` with `Σ factors e^logs = S e^shift`; the shift is real."""
    shift = np.max(np.real(logs), axis=axis, keepdims=True)
    shift = np.where(np.isfinite(shift), shift, 0.0)
    return np.squeeze(shift, axis), np.sum(np.exp(logs - shift) * factors, axis=axis)


class Tables:
    """Everything about one case: see `risk`, `masses`, `bulk`."""

    def __init__(self, case: Case, step: float = 0.22):
        self.case, self.step = case, step
        b, g = case.slope, case.token_std
        self.log_others = _log_expm1(case.log_length)
        self.others = math.exp(self.log_others) if self.log_others < 700 else math.inf
        centre = np.real(b * case.shift * case.kappa)
        # log Z of the bulk, roughly: where the tilts of rare events end
        best = math.sqrt(2 * max(case.log_length, 0.0))
        self.level = b * best if b > best else case.log_length + b * b / 2
        gap = (self.level - centre) / (b * g)
        low = -13 - max(0.0, min(b * g, -gap))
        high = 13 + max(0.0, min(b * g, gap))
        width = _least(LINKS[case.student], LINKS[case.task])
        self.z, dz = panels(
            low, high, min(1.0, 3 / (b * g), 1.5 * width / g), self._turns(g, case.shift)
        )
        self.log_dz = np.log(dz) - self.z**2 / 2 - math.log(2 * math.pi) / 2
        self.score = b * (case.shift * case.kappa + g * self.z)
        self._bulk(width)

    def _turns(self, g: float, shift: float) -> list[tuple[float, float]]:
        """Where averages of kinked links turn quickly with the informative token's score."""
        case, out = self.case, []
        for name, mean, lean in (
            (case.student, shift * case.theta, np.real(case.rho)),
            (case.task, 0.0, np.real(case.eta)),
        ):
            for kink in LINKS[name].kinks:
                if abs(lean) > 0.3:
                    width = math.sqrt(max(1 - lean**2, 0.0)) / abs(lean)
                    out.append(((kink - np.real(mean)) / (g * lean), width))
        return out

    def _bulk(self, width: float) -> None:
        case, b = self.case, self.case.slope
        top = max(math.sqrt(2 * case.log_length), np.max(np.real(self.score)) / b, 0.0) + 10
        rho, curve = case.rho, LINKS[case.student]
        turns = []
        lean = np.real(rho)
        if abs(lean) > 0.3:
            spread = math.sqrt(max(1 - lean**2, 0.0)) / abs(lean)
            turns = [(kink / lean, spread) for kink in curve.kinks]
        s, ds = panels(-13.0, top, min(0.8, 2.5 / b, 1.5 * width), turns)
        self.g1, self.g2 = averages(rho * s, np.sqrt(_positive(1 - rho**2)), curve)
        logs = np.log(ds) - s**2 / 2 - math.log(2 * math.pi) / 2
        self.s, self.log_ds = s, logs
        high = max(b * top, self.level) + 45.0
        self.tau = np.arange(self._lowest(b, s, logs, high), high, self.step)
        size = max(1, int(2e6) // s.size)
        rows = [self._rows(tau[:, None], b * s, logs) for tau in _chunks(self.tau, size)]
        parts = [np.concatenate(column) for column in zip(*rows, strict=True)]
        self.log_b0, self.log_b1, self.log_b2, self.r11, self.r21, self.r22 = parts

    def _rows(self, tau: Any, bs: Any, logs: Any) -> tuple[Any, ...]:
        log_a = bs - tau
        a = np.exp(np.minimum(log_a, 300.0))
        shift, total = log_sum(logs - a)
        survival = shift + np.log(total)
        with np.errstate(divide="ignore"):
            miss_shift, miss = log_sum(logs + np.log(-np.expm1(-a)))
        missing = miss * np.exp(miss_shift)
        log_b0 = np.where(missing < 0.5, np.log1p(-np.minimum(missing, 0.5)), survival)
        # log N times log B0 without forming either where N is beyond floating point
        tiny = miss_shift + np.log(miss)
        power = np.where(tiny < -30, -np.exp(np.minimum(self.log_others + tiny, 300.0)), 0.0)
        if self.log_others < 700:
            power = np.where(tiny < -30, power, self.others * log_b0)
        else:
            power = np.where(tiny < -30, power, -np.inf)
        one = log_sum(logs + log_a - a)
        two = log_sum(logs + 2 * log_a - a)
        r11 = log_sum(logs + log_a - a, self.g1)[1] / one[1]
        r21 = log_sum(logs + 2 * log_a - a, self.g1)[1] / two[1]
        r22 = log_sum(logs + 2 * log_a - a, self.g2)[1] / two[1]
        log_one, log_two = one[0] + np.log(one[1]), two[0] + np.log(two[1])
        # B0^N comes with its remainders B0^-1 and B0^-2, which matter for few tokens
        return power, log_one - log_b0, log_two - log_b0, r11, r21, r22

    def _lowest(self, b: float, s: Any, logs: Any, high: float) -> float:
        """Where `B0^N` is e^-130 at most, by bisection."""
        low = b * s[0] - 10.0
        for _ in range(60):
            middle = (low + high) / 2
            if self._survival(middle, b * s, logs) < -130.0:
                low = middle
            else:
                high = middle
        return low

    def _survival(self, tau: float, bs: Any, logs: Any) -> float:
        a = np.exp(np.minimum(bs - tau, 300.0))
        shift, total = log_sum(logs - a)
        if shift + np.log(total) < -0.7:
            return min(self.others, 1e300) * float(shift + np.log(total))
        with np.errstate(divide="ignore"):
            shift, total = log_sum(logs + np.log(-np.expm1(-a)))
        return -math.exp(min(self.log_others + float(shift + np.log(total)), 300.0))

    # -- tables given the informative token's score -------------------------------------------
    def given_score(self, score: Any) -> dict[str, tuple[Any, Any]]:
        """`name -> (log shift, scaled value)`: `p`, `pp`, `pq`, `pS`, `q`, `qq`, `qS`, `SS` with
        `q = 1 - p` and `S = Σ_bulk p σ`."""
        n0 = self.log_others
        with np.errstate(divide="ignore", invalid="ignore"):
            n1 = n0 + (np.log1p(-math.exp(-n0)) if n0 > 1e-9 else -np.inf)  # log(N - 1)
            first = n0 + self.log_b1 + self.log_b0
            twin = n0 + self.log_b2 + self.log_b0
            pair = n0 + n1 + 2 * self.log_b1 + self.log_b0
        peak = np.logaddexp(twin, pair)
        same, other = np.exp(twin - peak), np.exp(pair - peak)
        columns = {
            "qq": same + other,
            "qS": same * self.r21 + other * self.r11,
            "SS": same * self.r22 + other * self.r11**2,
        }
        found: dict[str, list[Any]] = {}
        for part in _chunks(score, max(1, int(1e6) // self.tau.size)):
            log_a = part[:, None] - self.tau
            small = np.minimum(np.real(log_a), 300.0) + 1j * np.imag(log_a)
            a = np.exp(small if np.iscomplexobj(score) else np.real(small))
            for name, logs, factor in (
                ("p", log_a - a + self.log_b0, 1.0),
                ("pp", 2 * log_a - a + self.log_b0, 1.0),
                ("pq", log_a - a + first, 1.0),
                ("pS", log_a - a + first, self.r11),
                ("q", first - a, 1.0),
                ("S", first - a, self.r11),
                *((key, peak - a, value) for key, value in columns.items()),
            ):
                found.setdefault(name, []).append(log_sum(logs, factor))
        joined = {k: [np.concatenate(x) for x in zip(*v, strict=True)] for k, v in found.items()}
        return {k: (shift, total * self.step) for k, (shift, total) in joined.items()}

    def masses(self) -> dict[str, float]:
        """`log E` of `p`, `q = 1 - p`, `pp`, `pq`, `qq`, any of them exponentially small."""
        tables = self.given_score(self.score)
        out = {}
        for name in ("p", "q", "pp", "pq", "qq"):
            shift, total = tables[name]
            top, value = log_sum(self.log_dz + shift, total)
            out[name] = float(np.real(top + np.log(value)))
        return out

    def bulk(self) -> dict[str, float]:
        """The bulk's own softmax `q`: `E Σ q²`, mean and second moment of `Σ q σ(w)`, `E log Z`."""
        n0 = self.log_others
        with np.errstate(divide="ignore"):
            n1 = n0 + (np.log1p(-math.exp(-n0)) if n0 > 1e-9 else -np.inf)
        twin = np.exp(n0 + self.log_b2 + self.log_b0) * self.step
        pair = np.exp(n0 + n1 + 2 * self.log_b1 + self.log_b0) * self.step
        first = np.exp(n0 + self.log_b1 + self.log_b0) * self.step
        # log Z plus a Gumbel variable has the distribution function B0^N
        centre = 0.5 * (self.tau[0] + self.tau[-1])
        reference = np.exp(-np.exp(np.minimum(centre - self.tau, 300.0)))
        gap = np.sum(reference - np.exp(self.log_b0)) * self.step
        return {
            "participation": float(twin.sum()),
            "mean": float(np.real(np.sum(first * self.r11))),
            "square": float(np.real(np.sum(twin * self.r22 + pair * self.r11**2))),
            "log_partition": float(centre + gap),
        }

    def laplace(self, x: float) -> float:
        """`E exp(-e^x (1-p)/p)`, which the law of the logit `log(p/(1-p))` alone decides."""
        b, out = self.case.slope, []
        for part in _chunks(np.real(self.score) - x, max(1, int(2e6) // self.s.size)):
            out.append(self._rows(part[:, None], b * self.s, self.log_ds)[0])
        return float(np.sum(np.exp(self.log_dz + np.concatenate(out))))

    def risk(self) -> Any:
        """The population risk: a sum of squares' averages without any difference of large terms."""
        case = self.case
        if case.log_length == 0:
            info = informative(case, self.z)
            return np.sum(np.exp(self.log_dz) * info.square) + case.noise_std**2
        tables = {k: v * np.exp(s) for k, (s, v) in self.given_score(self.score).items()}
        weight = np.exp(self.log_dz)
        keep = weight > 1e-22
        info = informative(case, self.z[keep])
        t = {k: v[keep] for k, v in tables.items()}
        total = t["pp"] * info.square + 2 * (t["pS"] * info.error - t["pq"] * info.product)
        total = total + t["SS"] - 2 * t["qS"] * info.label + t["qq"] * info.label_square
        return np.sum(weight[keep] * total) + case.noise_std**2


def _chunks(values: Any, size: int) -> list[Any]:
    return [values[i : i + size] for i in range(0, len(values), size)]


def _log_expm1(x: float) -> float:
    if x <= 0:
        return -np.inf
    return x + math.log(-math.expm1(-x))


def risk(case: Case, step: float = 0.22) -> Any:
    return Tables(case, step).risk()


def gradient(case: Case) -> np.ndarray:
    """Partial derivatives in the five overlaps by a complex step (no link may jump)."""
    h = 1e-20
    names = ("kappa", "nu", "theta", "eta", "rho")
    at = [case._replace(**{name: getattr(case, name) + 1j * h}) for name in names]
    return np.array([np.imag(risk(c)) / h for c in at])
