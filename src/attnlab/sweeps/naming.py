"""Names and texts that a dataset can carry, and a file of it can keep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .._core.errors import InvalidArgument

if TYPE_CHECKING:
    from .axes import Factor

TEXTS = ("title", "summary", "expected", "figure")  # of a sweep, for readers
# what `assemble` adds to the results
RESERVED = ("status", "failure", "failure_number", "failure_error")
# of attributes: by which files say how values are coded, and what files keep to themselves
_CODING = ("missing_value", "scale_factor", "add_offset", "dtype", "coordinates", "calendar")
_OF_HDF5 = ("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST")


def check_setting(name: str) -> None:
    """Raises `InvalidArgument` unless the name is a path of identifiers and positions."""
    parts = name.split(".")
    if not parts[0].isidentifier() or not all(p.isidentifier() or p.isdecimal() for p in parts):
        allowed = "a name as in Python, or a path of names and positions such as student.omega.0"
        raise InvalidArgument("setting", name, allowed)


def check_dim(name: str) -> None:
    """Raises `InvalidArgument` unless a dimension of a sweep may be called so."""
    if not name.isidentifier():
        raise InvalidArgument("dim", name, "a name as in Python")


def check_paths(swept: Sequence[str]) -> None:
    """Raises `InvalidArgument` where a setting that varies is a part of another one."""
    for name in swept:
        for whole in swept:
            if name.startswith(f"{whole}."):
                raise InvalidArgument("setting", name, f"no part of {whole}, which varies too")


def check_labels(factors: Sequence[Factor]) -> None:
    """Raises `InvalidArgument` where two things in the result would have one name."""
    dims = [factor.dim for factor in factors]
    labels = short([name for factor in factors for name in factor.names])
    homes = [(labels[name], factor.dim) for factor in factors for name in factor.names]
    names = [label for label, _ in homes]
    for name in (*dims, *names):
        if name in RESERVED:
            allowed = f"a name that the result does not use itself ({', '.join(RESERVED)})"
            raise InvalidArgument("setting", name, allowed)
    for name in dims:
        if dims.count(name) > 1:
            raise InvalidArgument("dim", name, "the name of one dimension only")
    for label, home in homes:
        if names.count(label) > 1 or (label in dims and label != home):
            allowed = f"another name: the dimensions are {', '.join(dims)}"
            raise InvalidArgument("setting", label, allowed)


def short(names: list[str]) -> dict[str, str]:
    """For each setting the last part of its path, or all of it where that is not unique."""
    last = [name.rpartition(".")[2] for name in names]
    unique = [text if last.count(text) == 1 and not text.isdecimal() else "" for text in last]
    return {n: u or n.replace(".", "_") for n, u in zip(names, unique, strict=True)}


def check_result(name: object) -> str:
    """The name of a result or of its dimension; raises `InvalidArgument` for what no file holds."""
    good = isinstance(name, str) and name.isprintable() and "/" not in name
    if not good or name in ("", ".", "..") or str(name).startswith("_nc"):
        raise InvalidArgument("result", name, "a name of printable characters other than /")
    return str(name)


def is_attribute(name: object, value: object) -> bool:
    """Whether a result may keep this attribute: one that files do not read or write themselves."""
    if not isinstance(name, str) or not name or not is_plain_text(name) or name.startswith("_"):
        return False
    if name in _CODING or name in _OF_HDF5:
        return False
    dated = name == "units" and " since " in str(value)  # would be read as dates
    if isinstance(value, int) and not fits(value):
        return False
    return isinstance(value, str | bool | int | float) and not dated


def fits(number: int) -> bool:
    """Whether a signed integer of 64 bits holds the number."""
    return -(2**63) <= number < 2**63


def is_plain_text(text: str) -> bool:
    """Whether a file can hold the text: no NUL, and nothing that UTF-8 does not know."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def plain_text(text: str) -> str:
    """The text with escapes for what no file can hold."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def unused(name: str, taken: Iterable[str]) -> str:
    """The name, with `result_` before it as often as needed to be no other one."""
    while name in taken:
        name = f"result_{name}"
    return name
