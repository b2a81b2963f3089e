"""Checks: measured against stated, with a status that follows from the numbers alone."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np

from .._core.errors import InvalidArgument, check_real
from . import tails
from .levels import CLAIM_LEVEL, CONFIDENCE_WIDTH

Status = Literal["pass", "fail", "undecided"]


@dataclass(frozen=True)
class Check:
    """One comparison. Made by the constructors below; its status is computed, never given.

    **Fields:** `measured` and `stated` (of the worst element where arrays were compared), `units`,
    `relation` between them (`=`, `<=`, `>=`, `~` for "distributed as", empty for a condition),
    `error` (standard error of `measured`, None if exact), `tolerance` (allowed distance, None if
    none was given), `size` (number of values compared), `p_value` (evidence against the statement,
    corrected for `size`; None for an exact check), `holds` (True: the numbers satisfy the statement
    and are precise enough to say so; False: an exact check is violated; None: undecided),
    `statistics` (further numbers by name) and `detail`.
    """

    name: str
    kind: Literal["agreement", "bound", "proportion", "distribution", "condition"]
    holds: bool | None
    measured: float | None = None
    stated: float | None = None
    relation: str = ""
    units: str = ""
    error: float | None = None
    tolerance: float | None = None
    size: int = 1
    p_value: float | None = None
    statistics: tuple[tuple[str, float], ...] = ()
    detail: str = ""

    @property
    def status(self) -> Status:
        """The status if this were the only test of its claim."""
        return self.status_at(CLAIM_LEVEL)

    def status_at(self, level: float) -> Status:
        """'fail' when violated, or p-value below `level`; 'pass' when shown to hold."""
        if self.p_value is not None and self.p_value < level:
            return "fail"
        if self.holds is None:
            return "undecided"
        return "pass" if self.holds else "fail"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `from_dict` is the inverse."""
        return {**asdict(self), "statistics": dict(self.statistics)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Check:
        """The check of such a dict; unknown keys are ignored."""
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        return cls(**{**known, "statistics": tuple(data.get("statistics", {}).items())})

    @classmethod
    def agreement(
        cls,
        name: str,
        measured: Any,
        stated: Any,
        *,
        standard_error: Any = None,
        tolerance: float | None = None,
        relative_tolerance: float | None = None,
        scale: Any = None,
        resolution: float = 0.25,
        units: str = "",
        detail: str = "",
    ) -> Check:
        """`measured = stated`, of numbers or arrays that broadcast (all elements must agree).

        - Exact numbers: pass when `|measured − stated|` is at most `tolerance`, or
          `relative_tolerance · |stated|` (the larger if both are given).
        - With a `standard_error` of `measured`: fails when the distance is significant; passes
          otherwise, if two standard errors are at most `resolution · scale`, where `scale` is the
          size that matters (default `|stated|`; needed where `stated` is 0); else undecided.
        - With both: "equal up to the tolerance". Fails when significantly farther than the
          tolerance, passes when nearer by two standard errors, else undecided.

        Raises `InvalidArgument` for numbers that are not finite and when neither a standard error
        nor a tolerance is given.
        """
        matters = stated if scale is None else scale
        m, s, matters, errors = _arrays(
            name, measured=measured, stated=stated, scale=matters, standard_error=standard_error
        )
        se = None if standard_error is None else errors
        size = m.size
        allowed = _tolerance(name, tolerance, relative_tolerance, s)
        distance = np.abs(m - s)
        if se is None:
            if allowed is None:
                raise InvalidArgument(
                    f"standard_error of check {name!r}", None, "given, unless a tolerance is"
                )
            excess = distance - allowed
            worst, p_value = int(np.argmax(excess)), None
            holds: bool | None = bool(np.all(excess <= 0))
        elif allowed is None:
            z = tails.ratio(distance, se)
            worst = int(np.argmax(z))
            p_value = min(1.0, size * tails.two_sided(float(z[worst])))
            if np.any((matters == 0) & (se > 0)):
                raise InvalidArgument(
                    f"scale of check {name!r}", scale, "the size that matters, as stated is 0"
                )
            fine = np.all(CONFIDENCE_WIDTH * se <= resolution * np.abs(matters))
            holds = True if fine else None
        else:
            z = tails.ratio(distance - allowed, se)
            worst = int(np.argmax(z))
            # The largest p-value over all true distances within the tolerance: both tails count.
            far = tails.ratio(distance + allowed, se)[worst]
            tail = tails.one_sided(float(z[worst])) + tails.one_sided(float(far))
            p_value = min(1.0, size * tail)
            near = np.all(distance + CONFIDENCE_WIDTH * se <= allowed)
            holds = True if near else None
        return cls(
            name,
            "agreement",
            holds,
            measured=float(m[worst]),
            stated=float(s[worst]),
            relation="=",
            units=units,
            error=None if se is None else float(se[worst]),
            tolerance=None if allowed is None else float(allowed[worst]),
            size=size,
            p_value=p_value,
            detail=detail,
        )

    @classmethod
    def bound(
        cls,
        name: str,
        measured: Any,
        *,
        upper: Any = None,
        lower: Any = None,
        standard_error: Any = None,
        units: str = "",
        detail: str = "",
    ) -> Check:
        """`measured <= upper` or `measured >= lower` (give one), of numbers or arrays.

        With a `standard_error` of `measured` it fails when the violation is significant and passes
        when it holds by two standard errors; in between it is undecided. Raises `InvalidArgument`
        when both bounds or none are given, or a number is not finite.
        """
        if (upper is None) == (lower is None):
            raise InvalidArgument(
                f"bounds of check {name!r}", (lower, upper), "one of lower and upper"
            )
        sign = 1.0 if lower is None else -1.0
        limit = upper if lower is None else lower
        m, b, errors = _arrays(name, measured=measured, bound=limit, standard_error=standard_error)
        size = m.size
        excess = sign * (m - b)
        if standard_error is None:
            se, worst, p_value = None, int(np.argmax(excess)), None
            holds: bool | None = bool(np.all(excess <= 0))
        else:
            se = errors
            z = tails.ratio(excess, se)
            worst = int(np.argmax(z))
            p_value = min(1.0, size * tails.one_sided(float(z[worst])))
            holds = True if np.all(excess + CONFIDENCE_WIDTH * se <= 0) else None
        return cls(
            name,
            "bound",
            holds,
            measured=float(m[worst]),
            stated=float(b[worst]),
            relation="<=" if lower is None else ">=",
            units=units,
            error=None if se is None else float(se[worst]),
            size=size,
            p_value=p_value,
            detail=detail,
        )

    @classmethod
    def proportion(
        cls,
        name: str,
        successes: int,
        trials: int,
        *,
        lower: float | None = None,
        upper: float | None = None,
        detail: str = "",
    ) -> Check:
        """A probability, seen as `successes` of `trials` independent runs, against one bound.

        Exact binomial tails: fails when the count is improbable under the bound; passes when the
        one-sided 97.7 % Clopper-Pearson limit keeps the bound; else undecided ("too few runs").
        """
        if (upper is None) == (lower is None):
            raise InvalidArgument(
                f"bounds of check {name!r}", (lower, upper), "one of lower and upper"
            )
        bound = check_real(
            f"bound of check {name!r}", lower if upper is None else upper, low=0, high=1
        )
        n = int(check_real(f"trials of check {name!r}", trials, low=1))
        k = int(check_real(f"successes of check {name!r}", successes, low=0, high=n))
        if upper is None:
            p_value, limit = tails.binomial_low(k, n, bound), tails.proportion_low(k, n)
            holds = True if limit >= bound else None
        else:
            p_value = tails.binomial_low(n - k, n, 1 - bound)
            limit = 1 - tails.proportion_low(n - k, n)
            holds = True if limit <= bound else None
        return cls(
            name,
            "proportion",
            holds,
            measured=k / n,
            stated=bound,
            relation=">=" if upper is None else "<=",
            error=math.sqrt(max(k * (n - k), n - 1) / n**3) if n > 1 else 1.0,
            p_value=p_value,
            statistics=(("successes", float(k)), ("trials", float(n)), ("limit", float(limit))),
            detail=detail,
        )

    @classmethod
    def distribution(cls, name: str, zscores: Any, *, minimum: int = 30, detail: str = "") -> Check:
        """Independent `zscores` look standard normal: shape, mean, variance and largest value.

        Four tests (Kolmogorov-Smirnov; mean; variance; largest modulus), each on the z-scores of any
        shape, flattened; the p-value is four times the smallest. Undecided with fewer than
        `minimum` of them. `measured` is their mean square, `stated` is 1.
        """
        (z,) = _arrays(name, zscores=zscores)
        size = z.size
        tests = tails.normality(z)
        p_value = min(1.0, 4 * min(p for _, p in tests.values()))
        numbers = [(key, value) for key, (value, _) in tests.items()]
        numbers += [(f"p({key})", p) for key, (_, p) in tests.items()]
        return cls(
            name,
            "distribution",
            True if size >= minimum else None,
            measured=float(np.mean(z**2)),
            stated=1.0,
            relation="~",
            error=math.sqrt(2 / size),
            size=size,
            p_value=p_value,
            statistics=tuple((key, float(value)) for key, value in numbers),
            detail=detail or f"mean square of {size} z-scores against the standard normal law",
        )

    @classmethod
    def condition(cls, name: str, holds: bool | None, detail: str = "") -> Check:
        """A statement that is true or false as computed; None when the data do not tell."""
        if holds is not None and not isinstance(holds, bool | np.bool_):
            raise InvalidArgument(f"holds of check {name!r}", holds, "True, False or None")
        return cls(name, "condition", None if holds is None else bool(holds), detail=detail)


def _arrays(name: str, **values: Any) -> list[np.ndarray]:
    """The values, broadcast together and flattened, as float64; a missing error (None) reads 0."""
    arrays = []
    for key, value in values.items():
        array = np.asarray(0.0 if value is None else value, dtype=np.float64)
        if not np.all(np.isfinite(array)):
            raise InvalidArgument(f"{key} of check {name!r}", value, "finite")
        if key == "standard_error" and np.any(array < 0):
            raise InvalidArgument(f"{key} of check {name!r}", value, ">= 0")
        if array.size == 0:
            raise InvalidArgument(f"{key} of check {name!r}", value, "not empty")
        arrays.append(array)
    return [array.ravel() for array in np.broadcast_arrays(*arrays)]


def _tolerance(
    name: str, absolute: float | None, relative: float | None, stated: np.ndarray
) -> np.ndarray | None:
    if absolute is None and relative is None:
        return None
    a = 0.0 if absolute is None else check_real(f"tolerance of check {name!r}", absolute, low=0)
    r = 0.0 if relative is None else check_real(f"tolerance of check {name!r}", relative, low=0)
    return np.maximum(a, r * np.abs(stated))
