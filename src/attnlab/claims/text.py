"""Checks in words and numbers, the same on the terminal and in the report."""

from __future__ import annotations

import math

from .check import Check

_RELATION = {"=": "=", "<=": "≤", ">=": "≥", "~": "~"}


def number(value: float | None, error: float | None = None) -> str:
    """A number as precise as its standard error allows (two digits of it), else to four digits.

    `number(0.123456, 0.0021)` is `0.1235 ± 0.0021`; `number(None)` is `–`.
    """
    if value is None:
        return "–"
    if error is None or not error > 0:
        return _plain(value)
    if abs(value) >= 1e5 or (0 < abs(value) < 1e-4 and error < 1e-4):
        exponent = math.floor(math.log10(max(abs(value), error)))
        unit = 10.0**exponent
        return f"({number(value / unit, error / unit)})·10{_superscript(exponent)}"
    decimals = max(0, min(12, 1 - math.floor(math.log10(error))))
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def _plain(value: float) -> str:
    if value == 0:
        return "0"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    exponent = math.floor(math.log10(abs(value)))
    mantissa = f"{value / 10.0**exponent:.3g}"
    if mantissa in ("10", "-10"):
        mantissa, exponent = mantissa[:-1], exponent + 1
    return f"{mantissa}·10{_superscript(exponent)}"


def _superscript(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def measured_text(check: Check) -> str:
    """The measured value with its error and units; for a condition, whether it holds."""
    if check.kind == "condition":
        return {True: "yes", False: "no", None: "undecided"}[check.holds]
    return f"{number(check.measured, check.error)} {check.units}".rstrip()


def stated_text(check: Check) -> str:
    """The stated value with its relation, e.g. `≤ 0.3` or `= 2 (± 0.01)`."""
    if check.kind == "condition":
        return "yes"
    text = f"{_RELATION[check.relation]} {number(check.stated)}"
    if check.kind == "distribution":
        text = "= 1, law N(0, 1)"
    if check.tolerance:
        text += f" (± {number(check.tolerance)})"
    return text


def check_text(check: Check) -> str:
    """One line: name, measured, stated, p-value."""
    if check.kind == "condition":
        text = f"{check.name}: {measured_text(check)}"
        return f"{text} ({check.detail})" if check.detail else text
    text = f"{check.name}: {measured_text(check)}, stated {stated_text(check)}"
    if check.size > 1:
        text += f" [{'n' if check.kind == 'distribution' else 'worst of'} {check.size}]"
    if check.p_value is not None:
        text += f", p = {p_text(check.p_value)}"
    return text


def p_text(p_value: float) -> str:
    """A p-value to two digits."""
    if p_value < 1e-15:
        return "< 10⁻¹⁵"
    return f"{p_value:.2g}" if p_value >= 1e-3 else _plain(float(f"{p_value:.2g}"))
