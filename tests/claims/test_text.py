"""Numbers are written as precisely as they are known."""

import pytest

from attnlab.claims import Check
from attnlab.claims.text import check_text, number, p_text


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (None, None, "–"),
        (0.0, None, "0"),
        (2.0, None, "2"),
        (0.123456, None, "0.1235"),
        (1.5e-7, None, "1.5·10⁻⁷"),
        (9.999e-5, None, "1·10⁻⁴"),
        (0.123456, 0.0021, "0.1235 ± 0.0021"),
        (12.3456, 3.0, "12.3 ± 3.0"),
        (-1.5, 25.0, "-2 ± 25"),
        (2.5e-7, 1e-8, "(2.50 ± 0.10)·10⁻⁷"),
        (1.0, 0.0, "1"),
    ],
)
def test_number(value, error, text):
    assert number(value, error) == text


def test_check_text():
    assert check_text(Check.bound("gap", 0.25, upper=0.5)) == "gap: 0.25, stated ≤ 0.5"
    assert check_text(Check.condition("odd", False, "at x = 3")) == "odd: no (at x = 3)"
    many = check_text(Check.agreement("a", [1.0, 2.0], [1.0, 2.5], standard_error=0.1))
    assert many == "a: 2.00 ± 0.10, stated = 2.5 [worst of 2], p = 1.1·10⁻⁶"


def test_p_text():
    assert p_text(0.0) == "< 10⁻¹⁵"
    assert p_text(0.1234) == "0.12"
