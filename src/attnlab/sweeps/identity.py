"""What a function computes, as a digest: to notice that a directory was filled by another one.

Compared are the code of the function and everything it brings along: its defaults, what it closes
over, the arguments of a partial, the state of an object that is called, the function below a
decorator. What it calls by name is not, and neither is what cannot be pickled.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import pickle
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

_MOST = 10_000  # things that are looked at
_PLAIN = (bool, int, float, complex, str, bytes)


def identity_of(function: Any) -> str:
    """The digest, 16 hexadecimal digits: the same in every process."""
    return _digest(_Reader().parts(function))[:16]


def _digest(parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()


class _Reader:
    """Turns things into nested tuples of texts and digests, each thing once."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, Any]] = {}  # with the thing, so that its id stays its own

    def parts(self, value: Any) -> Any:
        if value is None or type(value) in _PLAIN:
            return type(value).__name__, repr(value)
        if id(value) in self._seen:
            return "again", self._seen[id(value)][0]
        if len(self._seen) >= _MOST:
            return "and more"
        self._seen[id(value)] = len(self._seen), value
        return self._inside(value)

    def _inside(self, value: Any) -> Any:
        below = self.parts
        if isinstance(value, types.CodeType):
            names = value.co_names, value.co_varnames, value.co_freevars
            return value.co_code, names, tuple(below(item) for item in value.co_consts)
        if isinstance(value, functools.partial):
            return "partial", below(value.func), below(value.args), below(value.keywords)
        if isinstance(value, types.MethodType):
            return "method", below(value.__func__), below(value.__self__)
        if isinstance(value, types.FunctionType):
            cells = tuple(self._cell(cell) for cell in value.__closure__ or ())
            defaults = below(value.__defaults__), below(value.__kwdefaults__)
            return "function", below(value.__code__), defaults, cells
        if isinstance(value, tuple | list):
            return type(value).__name__, tuple(below(item) for item in value)
        if isinstance(value, set | frozenset):
            # in no order, so that each is looked at on its own
            return type(value).__name__, tuple(sorted(_digest(_Reader().parts(x)) for x in value))
        if isinstance(value, Mapping):
            return "mapping", tuple((below(name), below(item)) for name, item in value.items())
        if isinstance(value, type):
            own = [v for v in vars(value).values() if isinstance(v, types.FunctionType)]
            return "class", _name(value), tuple(below(item) for item in own)
        return type(value).__qualname__, _name(value), self._wrapped(value), self._state(value)

    def _cell(self, cell: Any) -> Any:
        try:
            return self.parts(cell.cell_contents)
        except ValueError:  # not filled yet
            return "empty"

    def _wrapped(self, value: Any) -> Any:
        found = inspect.getattr_static(value, "__wrapped__", None)
        if found is None:
            return None
        return self.parts(getattr(value, "__wrapped__", None))  # of compiled functions

    def _state(self, value: Any) -> Any:
        state = getattr(value, "__dict__", None)
        whole = isinstance(value, np.ndarray | np.generic | np.ufunc | types.ModuleType)
        if state and not whole and not type(value).__module__.startswith("jaxlib"):
            inside = {name: item for name, item in state.items() if name != "__wrapped__"}
            return self.parts(type(value)), self.parts(inside)
        try:
            return hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()
        except Exception:
            return "not compared"


def _name(value: Any) -> str:
    names = (getattr(value, name, "") for name in ("__module__", "__qualname__", "__name__"))
    return ".".join(str(name) for name in names)
