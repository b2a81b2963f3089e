"""Verdicts as JSON and as labelled arrays."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core.errors import InvalidArgument
from .._core.files import replacing
from .._version import __version__
from .check import Check
from .claim import Claim, Verdict
from .levels import family_level

if TYPE_CHECKING:
    import xarray

FORMAT = 1
_TEXT: tuple[type, ...] = (str,)
_NUMBER: tuple[type, ...] = (int, float)
_NOTHING = type(None)
# what each entry may be, so that a damaged file is told from a sound one when it is read
_VERDICT_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("corrected", "answer", "settle", "missing", "failed"), (str, _NOTHING)),
    **dict.fromkeys(("notes", "details", "preset"), _TEXT),
    "seconds": _NUMBER,
    "seed": (int,),
}
_CHECK_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("name", "kind", "relation", "units", "detail"), _TEXT),
    **dict.fromkeys(("measured", "stated", "error", "tolerance", "p_value"), (*_NUMBER, _NOTHING)),
    "holds": (bool, _NOTHING),
    "size": (int,),
    "statistics": (dict,),
}


def verdict_to_dict(verdict: Verdict) -> dict[str, Any]:
    """JSON-ready. `verdict`, `status` and `as_expected` are written for readers of the file; reading
    it back computes them again from the checks."""
    claim = verdict.claim
    check = claim.check
    return {
        "id": verdict.id,
        "verdict": verdict.verdict,
        "as_expected": verdict.as_expected,
        "claim": {
            "id": claim.id,
            "paper": claim.paper,
            "title": claim.title,
            "statement": claim.statement,
            "source": claim.source,
            "explanation": claim.explanation,
            "check": check if isinstance(check, str) else _reference(check),
            "expected": claim.expected,
        },
        "checks": [{**c.to_dict(), "status": verdict.status(c)} for c in verdict.checks],
        "corrected": verdict.corrected,
        "evidence": [{**c.to_dict(), "status": verdict.status(c)} for c in verdict.evidence],
        "answer": verdict.answer,
        "settle": verdict.settle,
        "notes": verdict.notes,
        "missing": verdict.missing,
        "failed": verdict.failed,
        "details": verdict.details,
        "level": verdict.level,
        "seconds": verdict.seconds,
        "preset": verdict.preset,
        "seed": verdict.seed,
    }


def verdict_from_dict(data: dict[str, Any]) -> Verdict:
    """Inverse of `verdict_to_dict`. Raises `InvalidArgument` when the dict is incomplete, or when an
    entry is of another type."""
    try:
        _check_kinds(data, _VERDICT_KINDS)
        for check in (*data["checks"], *data["evidence"]):
            _check_kinds(check, _CHECK_KINDS)
            _check_kinds(check["statistics"], dict.fromkeys(check["statistics"], _NUMBER))
        return Verdict(
            Claim(**data["claim"]),
            checks=tuple(Check.from_dict(c) for c in data["checks"]),
            evidence=tuple(Check.from_dict(c) for c in data["evidence"]),
            missing=data.get("missing"),
            **{
                name: data[name]
                for name in (
                    "corrected",
                    "answer",
                    "settle",
                    "notes",
                    "failed",
                    "details",
                    "seconds",
                    "preset",
                    "seed",
                )
            },
        )
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        told = f"{type(error).__name__}: {error}"
        raise InvalidArgument("verdict", data, f"as attnlab writes it ({told})") from error


def _check_kinds(data: Any, kinds: Mapping[str, tuple[type, ...]]) -> None:
    if not isinstance(data, dict):
        raise TypeError(f"{type(data).__name__} instead of a mapping")
    for name, allowed in kinds.items():
        if name not in data:
            continue  # of an older version, or told by whoever needs it
        value = data[name]
        right = isinstance(value, allowed) and (bool in allowed or not isinstance(value, bool))
        if not right or (isinstance(value, float) and not math.isfinite(value)):
            raise TypeError(f"no file that attnlab wrote has {name} = {value!r}"[:100])


def save_verdicts(
    verdicts: Sequence[Verdict], path: str | Path, *, provenance: dict[str, Any] | None = None
) -> Path:
    """Writes `verdicts.json`, all of it or nothing: a reader never sees a half-written file."""
    document = {
        "format": FORMAT,
        "attnlab": __version__,
        "family_wise_level": family_level(len(verdicts)),
        "provenance": provenance or {},
        "verdicts": [verdict_to_dict(verdict) for verdict in verdicts],
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    return Path(path)


def load_verdicts(path: str | Path) -> list[Verdict]:
    """The verdicts of a file that `save_verdicts` wrote; each is computed anew from its checks.

    Raises `InvalidArgument` when the file is damaged or of another format.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        entries = document["verdicts"] if document["format"] == FORMAT else None
    except (ValueError, KeyError, TypeError, RecursionError):
        entries = None
    except OSError as error:
        allowed = f"a file that can be read ({error.strerror or error})"
        raise InvalidArgument("path", str(path), allowed) from None
    if not isinstance(entries, list):
        raise InvalidArgument("path", str(path), f"a verdicts file of format {FORMAT}")
    return [verdict_from_dict(entry) for entry in entries]


def verdicts_to_dataset(verdicts: Sequence[Verdict]) -> xarray.Dataset:
    """Verdicts as labelled arrays, for tables: `ds.drop_dims("check").to_dataframe()` has a row for
    each claim, `ds.drop_dims("claim").to_dataframe()` one for each check.

    Dimension `claim` (coordinate: `paper/id`) with `verdict`, `expected`, `as_expected`, `seconds`,
    `corrected`, `answer`; dimension `check` with `check_claim` (whose check it is), `check_name`,
    `status`, `measured`, `stated`, `error`, `p_value`, `units`. Missing numbers are NaN, missing
    texts empty.
    """
    import numpy as np
    import xarray as xr

    def text(values: Any) -> np.ndarray:
        return np.array([value or "" for value in values], dtype=np.str_)

    def number(values: Any) -> np.ndarray:
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    rows = [(verdict, check) for verdict in verdicts for check in verdict.checks]
    claim, check = "claim", "check"
    return xr.Dataset(
        {
            "title": (claim, text(v.claim.title for v in verdicts)),
            "verdict": (claim, text(v.verdict for v in verdicts)),
            "expected": (claim, text(v.claim.expected for v in verdicts)),
            "as_expected": (claim, np.array([v.as_expected for v in verdicts], dtype=bool)),
            "corrected": (claim, text(v.corrected for v in verdicts)),
            "answer": (claim, text(v.answer for v in verdicts)),
            "seconds": (claim, number(v.seconds for v in verdicts)),
            "check_claim": (check, text(v.id for v, _ in rows)),
            "check_name": (check, text(c.name for _, c in rows)),
            "status": (check, text(v.status(c) for v, c in rows)),
            "measured": (check, number(c.measured for _, c in rows)),
            "stated": (check, number(c.stated for _, c in rows)),
            "error": (check, number(c.error for _, c in rows)),
            "p_value": (check, number(c.p_value for _, c in rows)),
            "units": (check, text(c.units for _, c in rows)),
        },
        coords={claim: text(v.id for v in verdicts)},
    )


def _reference(function: Any) -> str:
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"{getattr(function, '__module__', '?')}:{name}"
